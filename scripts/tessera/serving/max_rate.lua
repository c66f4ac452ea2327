-- ts.max_rate(deployment, traffic, { options }): the rate is what is looked for, so traffic need not say one.

local copy = require "tessera.shallow_copy"
local solver = require "tessera.solver"

-- Traffic whose requests come at a rate, which is 1 a second where nothing says it. A trace, a file of rates and a
-- closed loop have their own.
local function with_rate(traffic)
  if type(traffic) ~= "table" or traffic.rate_per_s or traffic.trace or traffic.arrivals == "closed" then
    return traffic
  end
  local result = copy(traffic)
  result.rate_per_s = 1
  return result
end

return function(deployment, traffic, ...) return solver.max_rate(deployment, with_rate(traffic), ...) end
