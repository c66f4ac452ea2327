-- Times on a machine that others use too: what ran while the machine's own speed changed is run again.

local core = require "tessera.core"

local M = {}

local numbers = {}
for i = 1, 2 ^ 20 do numbers[i] = i end

--- How long a plain sum takes, the fastest of five (s).
local function sum_s()
  local best = math.huge
  for _ = 1, 5 do
    local start, sum = core.clock(), 0
    for i = 1, #numbers do sum = sum + numbers[i] end
    best = math.min(best, core.clock() - start)
  end
  return best
end

--- What fn() returns, run between two plain sums that differ by 5 % at most, and how often it was run again for that;
--- after `most` times its last run counts as it is.
function M.run(fn, most)
  for again = 0, most do
    local before = sum_s()
    local result = fn()
    if math.abs(sum_s() / before - 1) <= 0.05 or again == most then return result, again end
  end
end

--- The one in the middle.
function M.median(values)
  table.sort(values)
  return values[math.floor((#values + 1) / 2)]
end

--- Processes that ran or waited to, over the last minute; nil where the system does not say.
function M.load()
  local file = io.open "/proc/loadavg"
  if not file then return nil end
  local text = file:read "*l"
  file:close()
  return tonumber(text:match "^%S+")
end

return M
