-- How far two lists of numbers put things in the same order.

local M = {}

-- Ranks from 1; equal values share the mean of theirs.
local function ranks(values)
  local order, result = {}, {}
  for i in ipairs(values) do order[i] = i end
  table.sort(order, function(a, b)
    if values[a] ~= values[b] then return values[a] < values[b] end
    return a < b
  end)
  local first = 1
  while first <= #order do
    local last = first
    while last < #order and values[order[last + 1]] == values[order[first]] do last = last + 1 end
    for i = first, last do result[order[i]] = (first + last) / 2 end
    first = last + 1
  end
  return result
end

--- Spearman's rho: the correlation of the ranks. nil where one list says nothing: all equal, or fewer than two values.
function M.spearman(a, b)
  assert(#a == #b, "lists of the same length belong here")
  local ra, rb, mean = ranks(a), ranks(b), (#a + 1) / 2
  local ab, aa, bb = 0, 0, 0
  for i in ipairs(a) do
    local x, y = ra[i] - mean, rb[i] - mean
    ab, aa, bb = ab + x * y, aa + x * x, bb + y * y
  end
  return aa > 0 and bb > 0 and ab / math.sqrt(aa * bb) or nil
end

--- Kendall's tau-b: pairs in the same order less pairs in the opposite one, over pairs that are no ties. nil as above.
function M.kendall(a, b)
  assert(#a == #b, "lists of the same length belong here")
  local same, in_a, in_b = 0, 0, 0
  local function sign(x) return x > 0 and 1 or x < 0 and -1 or 0 end
  for i = 1, #a do
    for j = i + 1, #a do
      local x, y = sign(a[i] - a[j]), sign(b[i] - b[j])
      same, in_a, in_b = same + x * y, in_a + x * x, in_b + y * y
    end
  end
  return in_a > 0 and in_b > 0 and same / math.sqrt(in_a * in_b) or nil
end

return M
