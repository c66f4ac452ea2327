--- The keys of these tables, sorted; one that several have comes as often.
return function(...)
  local keys = {}
  for _, map in ipairs { ... } do
    for key in pairs(map) do keys[#keys + 1] = key end
  end
  table.sort(keys)
  return keys
end
