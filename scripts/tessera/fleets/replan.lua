-- fleet:replan { lost_nodes =, demand_per_s = }: the same fleet again, from what runs.

local outcome = require "tessera.fleets.outcome"
local solver = require "tessera.solver"

return function(fleet, changes)
  return outcome(solver.replan_fleet(fleet.found.priced, fleet.options, changes or {}), fleet.options)
end
