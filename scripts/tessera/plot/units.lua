-- Column names say their unit by a suffix; axes say it in words, in a unit that keeps the numbers short.

local escape = require "tessera.escape"

local M = {}

local gib = 2 ^ 30
-- Suffix, then units from large to small with what one of them is worth; the first that the largest value reaches.
local suffixes = {
  { "_bytes_per_s", { { "GB/s", 1e9 }, { "MB/s", 1e6 }, { "B/s", 1 } } },
  { "_flop_per_s", { { "Tflop/s", 1e12 }, { "Gflop/s", 1e9 }, { "flop/s", 1 } } },
  { "_usd_per_h", { { "USD/h", 1 } } },
  { "_tok_s", { { "tok/s", 1 } } },
  { "_per_s", { { "1/s", 1 } } },
  { "_bytes", { { "GiB", gib }, { "MiB", 2 ^ 20 }, { "KiB", 2 ^ 10 }, { "bytes", 1 } } },
  { "_tokens", { { "tokens", 1 } } },
  { "_usd", { { "USD", 1 } } },
  { "_ratio", { { "ratio", 1 } } },
  { "_s", { { "s", 0.1 }, { "ms", 1e-4, 1e-3 }, { "us", 0, 1e-6 } } },
}

--- label ("memory (GiB)"), unit ("GiB") and worth (2^30: what one of it is in the column's unit) of a column whose
--- largest absolute value is `largest`.
function M.of(column, largest)
  column = escape.clean(column)
  for _, entry in ipairs(suffixes) do
    local suffix, units = entry[1], entry[2]
    if #column > #suffix and column:sub(-#suffix) == suffix then
      local chosen = units[#units]
      for _, unit in ipairs(units) do
        if largest >= unit[2] then
          chosen = unit
          break
        end
      end
      if largest == 0 then chosen = units[1] end
      local worth = chosen[3] or (suffix == "_s" and 1 or chosen[2])
      local name = column:sub(1, -#suffix - 1):gsub("_", " ")
      return { label = ("%s (%s)"):format(name, chosen[1]), unit = chosen[1], worth = worth }
    end
  end
  return { label = (column:gsub("_", " ")), unit = "", worth = 1 }
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

--- The number with its unit: "12.5 GiB".
function M.value(value, unit)
  local text = M.number(value / unit.worth)
  return unit.unit == "" and text or text .. " " .. unit.unit
end

return M
