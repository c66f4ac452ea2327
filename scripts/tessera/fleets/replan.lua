-- fleet:replan { lost_nodes =, demand_per_s =, ... }: the same fleet again, from what runs.

local core = require "tessera.core"
local copy = require "tessera.shallow_copy"
local fleets = require "tessera.fleets.fleet"
local outcome = require "tessera.fleets.outcome"
local solver = require "tessera.solver"

local M = {}

-- What the engine plans again from. A fleet of a file has its columns priced, and what it knows of them simulated,
-- first.
local function priced_of(fleet)
  if not fleet.priced then
    fleet.priced = solver.restore_fleet(fleet.named.asked, fleet.solved, fleet.named)
  end
  return fleet.priced
end

--- With nothing around it where `changes` names nothing.
function M.beside(fleet, changes)
  return outcome(solver.replan_fleet(priced_of(fleet), fleet.options, changes), fleet.options)
end

function M.replan(fleet, changes)
  if changes ~= nil and type(changes) ~= "table" then
    core.refuse("fleet:replan", "a table belongs here: { lost_nodes = { 0 }, demand_per_s = { chat = 33 } }")
  end
  local all = copy(changes or {})
  for _, name in ipairs { "before", "after" } do
    if all[name] ~= nil and not fleets.is(all[name]) then
      core.refuse("fleet:replan." .. name, "a fleet of ts.plan_fleet belongs here")
    end
  end
  all.before = all.before or fleet
  return M.beside(fleet, all)
end

return setmetatable(M, { __call = function(_, ...) return M.replan(...) end })
