--- The median of a list of numbers, in any order (the list stays as it is); nil of an empty one.
return function(values)
  if #values == 0 then return nil end
  local sorted = { unpack(values) }
  table.sort(sorted)
  local middle = math.floor((#sorted + 1) / 2)
  return #sorted % 2 == 1 and sorted[middle] or (sorted[middle] + sorted[middle + 1]) / 2
end
