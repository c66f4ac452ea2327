-- Signs of gains: ++ from a factor 1.5 on, + from 1.05 on, - and -- the same below 1, 0 between, and 0 where the 95 %
-- interval over seeds has 1 in it. Fixed before the first run.
local M = {}

local some, much = 1.05, 1.5
local student = { [2] = 12.706, [3] = 4.303, [4] = 3.182, [5] = 2.776 } -- 97.5 %, by number of seeds

--- The geometric mean of gains by seed and its 95 % interval: logarithms, Student's t.
function M.mean(gains)
  local sum, square = 0, 0
  for _, gain in ipairs(gains) do sum = sum + math.log(gain) end
  local mean = sum / #gains
  for _, gain in ipairs(gains) do square = square + (math.log(gain) - mean) ^ 2 end
  local half = student[#gains] * math.sqrt(square / (#gains - 1) / #gains)
  return math.exp(mean), math.exp(mean - half), math.exp(mean + half)
end

function M.of(gain, low, high)
  if low <= 1 and high >= 1 then return "0" end
  if gain >= some then return gain >= much and "++" or "+" end
  if gain <= 1 / some then return gain <= 1 / much and "--" or "-" end
  return "0"
end

--- "better", "same" or "worse".
function M.direction(sign) return sign:find "+" and "better" or sign:find "-" and "worse" or "same" end

--- The signs that a printed cell allows: "0 / +" two, "±" one to either side.
function M.printed(cell)
  local allowed = {}
  for sign in cell:gsub("±", "+/-"):gmatch "[^/%s]+" do allowed[#allowed + 1] = sign end
  return allowed
end

--- Whether a sign has the direction of a printed one; and whether it is the very one.
function M.agree(sign, cell)
  local direction, exact = false, false
  for _, printed in ipairs(M.printed(cell)) do
    direction = direction or M.direction(printed) == M.direction(sign)
    exact = exact or printed == sign
  end
  return direction, exact
end

return M
