-- sort_by_fields(list, fields, tolerance): sorts a list in place by its fields, the least first, of "-field" the most;
-- values that are equal but for rounding (1e-9, or the tolerance) tie, and the next field decides; last of all
-- `position`.

-- list[first..last] by the fields from `level` on.
local function sort(list, fields, tolerance, level, first, last)
  if first >= last or level > #fields then return end
  local field, sign, part = fields[level].name, fields[level].sign, {}
  for i = first, last do part[#part + 1] = list[i] end
  table.sort(part, function(a, b)
    if a[field] ~= b[field] then return sign * a[field] < sign * b[field] end
    return a.position < b.position
  end)
  for i, item in ipairs(part) do list[first + i - 1] = item end
  local function equal(a, b) return a == b or math.abs(a - b) <= tolerance * math.max(math.abs(a), math.abs(b)) end
  local start = first
  for i = first + 1, last + 1 do
    if i > last or not equal(list[i][field], list[i - 1][field]) then
      sort(list, fields, tolerance, level + 1, start, i - 1)
      start = i
    end
  end
end

return function(list, fields, tolerance)
  local levels = {}
  for i, field in ipairs(fields) do
    local falling = field:sub(1, 1) == "-"
    levels[i] = { name = falling and field:sub(2) or field, sign = falling and -1 or 1 }
  end
  levels[#levels + 1] = { name = "position", sign = 1 }
  sort(list, levels, tolerance or 1e-9, 1, 1, #list)
end
