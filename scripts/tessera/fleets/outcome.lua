-- What the engine found, as a fleet, or nil and why.

local core = require "tessera.core"
local fleet_of = require "tessera.fleets.fleet"
local why_not = require "tessera.fleets.why_not"

return function(found, asked)
  if found.status == "infeasible" then return nil, why_not(found) end
  local fleet = found.placement and found.objective and fleet_of(found, asked) or nil
  if fleet and found.gap and found.status ~= "interrupted" then return fleet end
  local why = core.why(found.status == "interrupted" and "interrupted" or "time_limit",
    fleet and "the search was interrupted; why.best is the best so far" or "no fleet was found before the search ended")
  why.best, why.bound = fleet, found.bound
  return nil, why
end
