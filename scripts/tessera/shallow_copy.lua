--- The same fields in another table.
return function(fields)
  local copy = {}
  for name, value in pairs(fields) do copy[name] = value end
  return copy
end
