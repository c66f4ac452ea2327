-- Column names say their unit by a suffix: what it is, in which unit it reads well, and which way is better.

local escape = require "tessera.desk.escape"

local M = {}

local gib = 2 ^ 30
-- Suffix, the longer before the shorter; which way is better; and units from large to small: name, the smallest value
-- it is used for, and what one of it is worth where that differs.
local suffixes = {
  { "_bytes_per_s", "higher", { { "GB/s", 1e9 }, { "MB/s", 1e6 }, { "B/s", 1 } } },
  { "_flop_per_s", "higher", { { "Tflop/s", 1e12 }, { "Gflop/s", 1e9 }, { "flop/s", 1 } } },
  { "_usd_per_h", "lower", { { "USD/h", 1 } } },
  { "_tok_s", "higher", { { "tok/s", 1 } } },
  { "_per_s", "higher", { { "1/s", 1 } } },
  { "_bytes", "lower", { { "GiB", gib }, { "MiB", 2 ^ 20 }, { "KiB", 2 ^ 10 }, { "bytes", 1 } } },
  { "_gib", "lower", { { "GiB", 1 } } },
  { "_gbps", "higher", { { "Gbit/s", 1 } } },
  { "_tokens", nil, { { "tokens", 1 } } },
  { "_usd", "lower", { { "USD", 1 } } },
  { "_ratio", nil, { { "ratio", 1 } } },
  { "_ms", "lower", { { "ms", 1 } } },
  { "_s", "lower", { { "s", 0.1, 1 }, { "ms", 1e-4, 1e-3 }, { "us", 0, 1e-6 } } },
}

-- The last words of names that tell a goal, beside a unit or without one.
local goals = {
  omega = "lower", perplexity = "lower", error = "lower", mse = "lower", loss = "lower", gap = "lower",
  speedup = "higher", accuracy = "higher", throughput = "higher",
}

local function suffix_of(column)
  for _, entry in ipairs(suffixes) do
    if #column > #entry[1] and column:sub(-#entry[1]) == entry[1] then return entry end
  end
end

--- "lower" or "higher" where a column's name tells what is better, else nil.
function M.better(column)
  if column:find "^usd_" or column:find "_usd_" then return "lower" end
  local goal = goals[column:match "[^_]+$"]
  if goal then return goal end
  local entry = suffix_of(column)
  if not entry then return nil end
  return entry[2] or goals[column:sub(1, -#entry[1] - 1):match "[^_]+$"]
end

--- label ("memory (GiB)"), unit ("GiB") and worth (2^30: what one of it is in the column's unit) of a column whose
--- largest absolute value is `largest`.
function M.of(column, largest)
  column = escape.clean(column)
  if column:find "^usd_per_" then
    return { label = (column:gsub("^usd", "USD"):gsub("_", " ")), unit = "USD", worth = 1 }
  end
  local entry = suffix_of(column)
  if not entry then return { label = (column:gsub("_", " ")), unit = "", worth = 1 } end
  local units = entry[3]
  local chosen = largest == 0 and units[1] or units[#units]
  for _, unit in ipairs(largest == 0 and {} or units) do
    if largest >= unit[2] then
      chosen = unit
      break
    end
  end
  local name = column:sub(1, -#entry[1] - 1):gsub("_", " ")
  return { label = ("%s (%s)"):format(name, chosen[1]), unit = chosen[1], worth = chosen[3] or chosen[2] }
end

--- A number for people: four digits, thousands apart, exact integers.
function M.number(value)
  local size = math.abs(value)
  if size >= 1e7 or (size < 1e-3 and size > 0) then
    return (("%.3g"):format(value):gsub("e([+-])0*(%d)", function(sign, digits)
      return "e" .. (sign == "-" and "-" or "") .. digits
    end))
  end
  if value == math.floor(value) or size >= 1e4 then
    local digits = ("%.0f"):format(size)
    digits = digits:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", "")
    return (value < 0 and "-" or "") .. digits
  end
  return ("%.4g"):format(value)
end

--- A format with digits after the point that all numbers of a column share, so that they align: four digits of the
--- largest. Nil where all are whole, and where some number would then lose nearly all of its own. `sizes`: their
--- absolute values; `worth`: what one of the unit is worth.
function M.shared_format(sizes, worth)
  local most, whole = 0, true
  for _, size in ipairs(sizes) do
    most, whole = math.max(most, size / worth), whole and size / worth == math.floor(size / worth)
  end
  if whole or most == 0 or most >= 1e4 then return nil end
  local decimals = math.max(3 - math.floor(math.log10(most)), 0)
  for _, size in ipairs(sizes) do
    if size > 0 and size / worth < 10 ^ (1 - decimals) then return nil end
  end
  return decimals <= 6 and ("%%.%df"):format(decimals) or nil
end

--- The number with its unit: "12.5 GiB".
function M.value(value, unit)
  local text = M.number(value / unit.worth)
  return unit.unit == "" and text or text .. " " .. unit.unit
end

return M
