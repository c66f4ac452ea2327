-- ts.plan_fleet { ... }: which models run on which nodes, in how many replicas of which shape. The engine makes the
-- columns, prices and solves; here what comes of it becomes a fleet. With `instance` the columns are given.

local core = require "tessera.core"
local fleet_of = require "tessera.fleets.fleet"
local why_not = require "tessera.fleets.why_not"
local solver = require "tessera.solver"

local function copy(given)
  local options = {}
  for name, value in pairs(given) do options[name] = value end
  return options
end

return function(given)
  if type(given) ~= "table" or given.instance ~= nil then return solver.solve_fleet(given) end
  local asked = copy(given)
  local found = solver.price_fleet(given)
  if found.status == "infeasible" then return nil, why_not(found) end
  local fleet = found.placement and found.objective and fleet_of(found, asked) or nil
  if found.status == "time_limit" or found.status == "interrupted" then
    if fleet and found.gap then return fleet end
    local why = core.why(found.status, found.notes[1] or "no fleet was found before the search ended")
    why.best, why.bound = fleet, found.bound
    return nil, why
  end
  return fleet
end
