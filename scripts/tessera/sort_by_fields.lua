-- sort_by_fields(list, fields): sorts a list in place by its fields, the least first; values that are equal but for
-- rounding (1e-9) tie, and the next field decides; last of all `position`.

local tolerance = 1e-9

local function equal(a, b) return a == b or math.abs(a - b) <= tolerance * math.max(math.abs(a), math.abs(b)) end

-- list[first..last] by the fields from `level` on.
local function sort(list, fields, level, first, last)
  if first >= last or level > #fields then return end
  local field, part = fields[level], {}
  for i = first, last do part[#part + 1] = list[i] end
  table.sort(part, function(a, b)
    if a[field] ~= b[field] then return a[field] < b[field] end
    return a.position < b.position
  end)
  for i, item in ipairs(part) do list[first + i - 1] = item end
  local start = first
  for i = first + 1, last + 1 do
    if i > last or not equal(list[i][field], list[i - 1][field]) then
      sort(list, fields, level + 1, start, i - 1)
      start = i
    end
  end
end

return function(list, fields)
  local levels = { unpack(fields) }
  levels[#levels + 1] = "position"
  sort(list, levels, 1, 1, #list)
end
