-- How many layers of a plan run at which bitwidth: "3 x 3-bit, 21 x 4-bit, 24 x 8-bit".

local function of_pipeline(pipeline)
  local counts, bitwidths = {}, {}
  for _, stage in ipairs(pipeline.stages) do
    for _, bitwidth in ipairs(stage.bitwidths) do
      if not counts[bitwidth] then
        counts[bitwidth] = 0
        bitwidths[#bitwidths + 1] = bitwidth
      end
      counts[bitwidth] = counts[bitwidth] + 1
    end
  end
  table.sort(bitwidths)
  local words = {}
  for i, bitwidth in ipairs(bitwidths) do words[i] = ("%d x %d-bit"):format(counts[bitwidth], bitwidth) end
  return table.concat(words, ", ")
end

--- The counts as text, lowest bitwidth first; of replicas, which each hold all layers, one text for all that are alike.
return function(plan)
  local seen, texts = {}, {}
  for _, pipeline in ipairs(plan.pipelines) do
    local text = of_pipeline(pipeline)
    if not seen[text] then seen[text], texts[#texts + 1] = true, text end
  end
  return table.concat(texts, "; ")
end
