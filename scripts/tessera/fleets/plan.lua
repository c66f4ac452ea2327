-- ts.plan_fleet { ... }: which models run on which nodes, in how many replicas of which shape. The engine makes the
-- columns, prices and solves; here what comes of it becomes a fleet. With `instance` the columns are given.

local copy = require "tessera.shallow_copy"
local core = require "tessera.core"
local fleets = require "tessera.fleets.fleet"
local options = require "tessera.options"
local outcome = require "tessera.fleets.outcome"
local rules = require "tessera.fleets.rules"
local solver = require "tessera.solver"

local default_limit_s = 60

local function check_fleets(given)
  for _, name in ipairs { "start", "current" } do
    if given[name] ~= nil and not fleets.is(given[name]) then
      core.refuse("ts.plan_fleet." .. name, "a fleet of ts.plan_fleet belongs here")
    end
  end
end

-- What functions of the script do goes into `notes`, and no further.
local function with_rules(given, notes)
  local asked, limit_s = copy(given), tonumber(given.time_limit_s) or default_limit_s
  if given.round ~= nil then asked.round = rules.round(given.round, limit_s, notes) end
  if given.columns ~= nil and given.models ~= nil then
    options.list(given.models, "ts.plan_fleet.models", "a list of models", options.item_of "table")
    asked.columns = rules.columns(given.columns, given.models, limit_s, notes)
  end
  return asked
end

local function noted(fleet, notes)
  for _, note in ipairs(fleet and notes or {}) do fleet.notes[#fleet.notes + 1] = note end
  return fleet
end

local function of_columns(given)
  local notes = {}
  local asked = with_rules(given, notes)
  local solved, why = solver.solve_fleet(asked)
  if solved then return noted(fleets(solved), notes) end
  if why.best then why.best = noted(fleets(why.best), notes) end
  return nil, why
end

return function(given)
  if type(given) ~= "table" then return solver.solve_fleet(given) end
  check_fleets(given)
  if given.instance ~= nil then return of_columns(given) end
  if given.periods ~= nil then return require "tessera.fleets.periods"(given) end
  local notes = {}
  local fleet, why = outcome(solver.price_fleet(with_rules(given, notes)), given)
  noted(fleet or why.best, notes)
  return fleet, why
end
