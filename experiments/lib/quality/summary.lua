-- Means, spreads and bootstrap intervals of lists.

local M = {}

-- Numbers of a list: themselves, or their field `name`; values that are not there are left out.
local function values_of(list, name)
  local values = {}
  for _, item in ipairs(list) do
    local value = item
    if name then value = item[name] end
    if type(value) == "number" then values[#values + 1] = value end
  end
  return values
end

function M.mean(list, name)
  local sum, values = 0, values_of(list, name)
  for _, value in ipairs(values) do sum = sum + value end
  return #values > 0 and sum / #values or nil
end

--- Standard deviation of a sample; nil for fewer than two values.
function M.deviation(list, name)
  local values, squares = values_of(list, name), 0
  if #values < 2 then return nil end
  local mean = M.mean(values)
  for _, value in ipairs(values) do squares = squares + (value - mean) ^ 2 end
  return math.sqrt(squares / (#values - 1))
end

-- Park and Miller's generator: the same draws everywhere, whatever else draws.
local function generator(seed)
  local state = seed % 2147483646 + 1
  local function next_state()
    state = state * 16807 % 2147483647
    return state
  end
  for _ = 1, 10 do next_state() end -- the first ones of neighbouring seeds are alike
  return function(n) return 1 + math.floor((next_state() - 1) / 2147483646 * n) end
end

M.generator = generator

--- { value, low, high } of statistic(a, b, ...) over lists of the same length, with the 95 % interval of 1,000
--- resamples of their places (percentiles). nil where the statistic is.
function M.bootstrap(statistic, lists, seed)
  local value = statistic(unpack(lists))
  if not value then return nil end
  local draw, found = generator(seed), {}
  for _ = 1, 1000 do
    local resampled = {}
    for l = 1, #lists do resampled[l] = {} end
    for i = 1, #lists[1] do
      local from = draw(#lists[1])
      for l = 1, #lists do resampled[l][i] = lists[l][from] end
    end
    found[#found + 1] = statistic(unpack(resampled)) -- nil of a resample without spread adds nothing
  end
  table.sort(found)
  return { value = value, low = found[math.max(1, math.ceil(0.025 * #found))],
    high = found[math.max(1, math.ceil(0.975 * #found))] }
end

--- Coefficients of the least squares of y on columns x1, x2, ... with a constant first, and r2: { c0, c1, ..., r2 }.
--- nil where the columns depend on each other.
function M.regression(y, columns)
  local n, p = #y, #columns + 1
  local function x(i, k) return k == 1 and 1 or columns[k - 1][i] end
  local a = {}
  for r = 1, p do
    a[r] = {}
    for c = 1, p + 1 do
      local sum = 0
      for i = 1, n do sum = sum + x(i, r) * (c <= p and x(i, c) or y[i]) end
      a[r][c] = sum
    end
  end
  for k = 1, p do
    local pivot = k
    for r = k + 1, p do
      if math.abs(a[r][k]) > math.abs(a[pivot][k]) then pivot = r end
    end
    if math.abs(a[pivot][k]) < 1e-12 then return nil end
    a[k], a[pivot] = a[pivot], a[k]
    for r = 1, p do
      local factor = r ~= k and a[r][k] / a[k][k] or 0
      for c = k, p + 1 do a[r][c] = a[r][c] - factor * a[k][c] end
    end
  end
  local result, mean, left, all = {}, M.mean(y), 0, 0
  for k = 1, p do result[k] = a[k][p + 1] / a[k][k] end
  for i = 1, n do
    local predicted = 0
    for k = 1, p do predicted = predicted + result[k] * x(i, k) end
    left, all = left + (y[i] - predicted) ^ 2, all + (y[i] - mean) ^ 2
  end
  result.r2 = 1 - left / all
  return result
end

return M
