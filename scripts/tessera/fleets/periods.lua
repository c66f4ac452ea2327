-- ts.plan_fleet { periods = ... }: a fleet for each period of a day, and what it costs to go from one to the next. A
-- fleet for the peak that stands through all of them, one for each period alone, and one rolled forward are where it
-- starts from; then each period is planned anew between the two beside it, until none gets better.

local classes = require "tessera.fleets.classes"
local copy = require "tessera.shallow_copy"
local core = require "tessera.core"
local fleets = require "tessera.fleets.fleet"
local options = require "tessera.options"
local plan_of_periods = require "tessera.fleets.period_plan"
local replan = require "tessera.fleets.replan"
local timer = require "tessera.planning.timer"

local path = "ts.plan_fleet.periods"

local read = options.card {
  name = path,
  doc = "A period: how long it is, and what is asked for in it.",
  returns = "table",
  options = {
    { name = "hours", type = "number", unit = "h", min = 1e-3, max = 1e6, default = 1, doc = "How long it is" },
    { name = "scale", type = "number", min = 0, max = 1e6, default = 1,
      doc = "Times the rates of the models' traffic" },
    { name = "demand_per_s", type = "table", unit = "1/s", lua_type = "table<string, number>",
      doc = "Of models by name, in place of that" },
  },
}

local most_periods = 1000
-- Of the time: the fleet for the peak, and all fleets that are planned alone, and that are rolled forward.
local share_of_peak, share_of_alone, share_of_rolled = 0.3, 0.3, 0.2
local sweeps = 4

-- { hours =, demand_per_s = { name = rate } } of each.
local function periods_of(given, base)
  local periods = {}
  options.list(given.periods, path, "a list of periods")
  if #given.periods == 0 or #given.periods > most_periods then
    core.refuse(path, ("%d periods where 1 to %d belong"):format(#given.periods, most_periods))
  end
  for t, one in ipairs(given.periods) do
    local where = ("%s[%d]"):format(path, t)
    local asked, demand = read(one, where), {}
    for name, rate in pairs(base) do demand[name] = rate * asked.scale end
    for name, rate in pairs(asked.demand_per_s or {}) do
      if base[name] == nil then
        core.refuse(where .. ".demand_per_s", ("no model is called '%s'"):format(tostring(name)))
      end
      demand[name] = options.number(rate, ("%s.demand_per_s.%s"):format(where, name), 0, 1e15)
    end
    periods[t] = { hours = asked.hours, demand_per_s = demand }
  end
  return periods
end

local function base_of(given)
  if type(given.models) ~= "table" then core.refuse("ts.plan_fleet.models", "a list of models belongs here") end
  local base = {}
  for i, model in ipairs(given.models) do
    local where = ("ts.plan_fleet.models[%d].traffic"):format(i)
    local rate = type(model) == "table" and classes.rate(model)
    if not rate then core.refuse(where, "with periods a table with rate_per_s belongs here, whose rate they change") end
    base[model.name] = rate
  end
  return base
end

-- What was asked, of the largest demand that each model has.
local function peak_of(given, periods)
  local asked = copy(given)
  asked.periods, asked.current, asked.switch_usd, asked.hours, asked.models = nil, nil, nil, nil, {}
  for i, model in ipairs(given.models) do
    local most = 0
    for _, period in ipairs(periods) do most = math.max(most, period.demand_per_s[model.name]) end
    if most == 0 then
      core.refuse(("ts.plan_fleet.models[%d]"):format(i), ("'%s' is asked for in no period: leave it out"):format(
        model.name))
    end
    asked.models[i] = classes.with_rate(model, most)
  end
  return asked
end

-- Replicas that start or stop from one fleet to the next.
local function switched(from, to)
  local diff, count = from:diff(to), 0
  for _, list in ipairs { diff.starts, diff.stops } do
    for _, change in ipairs(list) do count = count + change.count end
  end
  return count
end

--- A row of fleets, and what it costs in all: `current` runs before it.
local function usd_of(row, periods, switch_usd, current)
  local usd = 0
  for t, period in ipairs(periods) do
    usd = usd + period.hours * row[t].usd_per_h
    local before = row[t - 1] or current
    if before then usd = usd + switch_usd * switched(before, row[t]) end
  end
  return usd
end

return function(given)
  local base = base_of(given)
  local periods = periods_of(given, base)
  if (given.objective or "cost") ~= "cost" then
    core.refuse("ts.plan_fleet.periods", "they are paid for: objective = \"cost\" goes with them")
  end
  local switch_usd = options.number(given.switch_usd or 0, "ts.plan_fleet.switch_usd", 0, 1e9)
  local limit_s = options.number(given.time_limit_s or 60, "ts.plan_fleet.time_limit_s", 0, 1e7)
  local clock, count = timer(limit_s), #periods
  local asked = peak_of(given, periods)
  asked.time_limit_s = limit_s * share_of_peak
  local peak, why = require "tessera.fleets.plan"(asked)
  if not peak then return nil, why end

  local ran_before = {} -- [fleet] what it was planned beside
  local function beside(from, t, around, time_s)
    local changes = { demand_per_s = periods[t].demand_per_s, hours = periods[t].hours, switch_usd = switch_usd,
      time_limit_s = time_s, before = around.before, after = around.after }
    local fleet, why_none = replan.beside(from, changes)
    fleet = fleet or why_none.best
    if fleet then ran_before[fleet] = around.before end
    return fleet, why_none
  end

  local alone, rolled, constant, bound_usd = {}, {}, {}, 0
  for t = 1, count do
    local why_none
    alone[t], why_none = beside(alone[t - 1] or peak, t, {}, limit_s * share_of_alone / count)
    if why_none and why_none.code == "interrupted" then return nil, why_none end
    local bound = alone[t] and alone[t].bound or why_none and why_none.bound
    bound_usd = bound_usd + periods[t].hours * (bound or 0)
    alone[t] = alone[t] or peak -- what serves the peak serves every period
    constant[t] = peak
  end
  for t = 1, count do
    local before = rolled[t - 1] or given.current
    rolled[t] = before and beside(alone[t], t, { before = before }, limit_s * share_of_rolled / count) or alone[t]
  end

  local best, best_usd, found_by
  for _, choice in ipairs { { "the fleet for the peak", constant }, { "each period alone", alone },
    { "rolled forward", rolled } } do
    local usd = usd_of(choice[2], periods, switch_usd, given.current)
    if not best or usd < best_usd - 1e-9 then best, best_usd, found_by = copy(choice[2]), usd, choice[1] end
  end
  for _ = 1, sweeps do
    local before_usd = best_usd
    for t = 1, count do
      if clock.left() <= 0 or switch_usd == 0 then break end
      local around = { before = best[t - 1] or given.current, after = best[t + 1] }
      -- What stands before the first stands for nothing.
      if not around.before then around.before, around.after = around.after, nil end
      local fleet = around.before and beside(best[t], t, around, clock.left() / count)
      if fleet then
        local changed = copy(best)
        changed[t] = fleet
        local usd = usd_of(changed, periods, switch_usd, given.current)
        if usd < best_usd - 1e-9 then best, best_usd, found_by = changed, usd, "improved period by period" end
      end
    end
    if best_usd >= before_usd - 1e-9 then break end
  end
  -- Whose neighbour changed after it was planned: once more, so that its moves are from what runs before it.
  for t = 1, count do
    local before = best[t - 1] or given.current
    if before and ran_before[best[t]] ~= before then
      local again = copy(best)
      again[t] = beside(best[t], t, { before = before, after = best[t + 1] }, 1 + clock.left() / count) or best[t]
      local usd = usd_of(again, periods, switch_usd, given.current)
      if usd <= best_usd + 1e-9 then best, best_usd = again, usd end
    end
    if not before or ran_before[best[t]] ~= before then best[t] = fleets.without_moves(best[t]) end
  end
  return plan_of_periods { fleets = best, periods = periods, usd = best_usd, bound_usd = bound_usd, peak = peak,
    switch_usd = switch_usd, switched = switched, current = given.current, found_by = found_by,
    solve_s = limit_s - clock.left() }
end
