--- The bitwidths of a pipeline, layer by layer.
return function(plan)
  local list = {}
  for _, stage in ipairs(plan.stages) do
    for _, bitwidth in ipairs(stage.bitwidths) do list[#list + 1] = bitwidth end
  end
  return list
end
