-- fleet:to_table(): what a fleet says, as plain data.

local objects = { solved = true, named = true, priced = true, options = true, cluster = true }

return function(fleet)
  local plain = {}
  for name, value in pairs(fleet) do
    if not objects[name] then plain[name] = value end
  end
  return plain
end
