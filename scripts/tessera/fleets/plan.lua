-- ts.plan_fleet { ... }: which models run on which nodes, in how many replicas of which shape. The engine makes the
-- columns, prices and solves; here what comes of it becomes a fleet. With `instance` the columns are given.

local copy = require "tessera.shallow_copy"
local outcome = require "tessera.fleets.outcome"
local solver = require "tessera.solver"

return function(given)
  if type(given) ~= "table" or given.instance ~= nil then return solver.solve_fleet(given) end
  local asked = copy(given)
  return outcome(solver.price_fleet(given), asked)
end
