-- Fleets of one period after the other: what ts.plan_fleet with periods returns.

local copy = require "tessera.shallow_copy"
local core = require "tessera.core"
local losses_of = require "tessera.fleets.losses"
local methods_of = require "tessera.fleets.methods"
local save = require "tessera.fleets.save"

local type_name = "tessera.FleetPeriods"

core.document_object {
  name = type_name,
  doc = "A fleet for each period, beside one for the peak that stands through all of them.",
  fields = {
    { "usd", "number", "Of all periods together, with what replicas that start or stop cost (USD)" },
    { "bound_usd", "number", "No row of fleets costs less: each period at the bound of its own fleet, and as if "
      .. "switching were free" },
    { "gap", "number", "usd against bound_usd, as a ratio" },
    { "scope", "string", "What the bound is of" },
    { "peak_usd", "number", "Of the fleet for the largest demand of each model, through all periods (USD)" },
    { "switched", "integer", "Replicas that start or stop from one period to the next" },
    { "switch_usd", "number", "Of each of them" },
    { "found_by", "string", "What the row comes from" },
    { "solve_s", "number", "Of all of it (s)" },
    { "rows", "table[]", "Of each period: hours, demand_per_s by model, usd_per_h, gpus, replicas, starts, stops" },
    { "fleets", "tessera.Fleet[]", "Of each period" },
    { "peak", "tessera.Fleet", "The fleet for the peak" },
  },
  methods = {
    { "explain", "(): string", "A line for each period, and what it all comes to" },
    { "to_table", "(): table", "Its fields, without the fleets" },
    { "losses", "(options: table?): table[]",
      "What losing each node does in each period, as fleet:losses has it, with period and hours" },
    { "save", "(folder: string)", "Writes it and its fleets into a folder, for ts.load_plan" },
  },
}

local meta = { __name = type_name }
local methods, method = methods_of("plan", function(thing) return getmetatable(thing) == meta end,
  "ts.plan_fleet with periods")
meta.__index = methods

local function count_of(list)
  local count = 0
  for _, item in ipairs(list) do count = count + item.count end
  return count
end

local function row_of(fleet, period, before)
  local diff = before and before:diff(fleet) or { starts = {}, stops = {} }
  return { hours = period.hours, demand_per_s = period.demand_per_s, usd_per_h = fleet.usd_per_h, gpus = fleet.gpus,
    replicas = count_of(fleet.replicas), starts = count_of(diff.starts), stops = count_of(diff.stops) }
end

local function plan_of(found)
  local plan = { usd = found.usd, bound_usd = found.bound_usd, peak = found.peak, switch_usd = found.switch_usd,
    fleets = found.fleets, found_by = found.found_by, solve_s = found.solve_s, switched = 0, peak_usd = 0, rows = {} }
  for t, period in ipairs(found.periods) do
    local row = row_of(found.fleets[t], period, found.fleets[t - 1] or found.current)
    plan.rows[t], plan.switched = row, plan.switched + row.starts + row.stops
    plan.peak_usd = plan.peak_usd + period.hours * found.peak.usd_per_h
  end
  if found.current then
    plan.peak_usd = plan.peak_usd + found.switch_usd * found.switched(found.current, found.peak)
  end
  plan.gap = plan.usd > 0 and (plan.usd - plan.bound_usd) / plan.usd or 0
  plan.scope = ("%d periods, each alone and as if switching were free, of %s"):format(#plan.rows, found.peak.scope)
  return setmetatable(plan, meta)
end

method("explain", function(plan)
  local lines = { ("%.2f USD in %d periods, %d replicas start or stop at %.4g USD; none costs less than %.2f "
    .. "(gap %.2g %%: %s)"):format(plan.usd, #plan.rows, plan.switched, plan.switch_usd, plan.bound_usd,
    100 * plan.gap, plan.scope) }
  lines[2] = ("a fleet for the peak costs %.2f USD, %.1f %% more (%s)"):format(plan.peak_usd,
    100 * (plan.peak_usd / math.max(plan.usd, 1e-12) - 1), plan.found_by)
  for t, row in ipairs(plan.rows) do
    lines[#lines + 1] = ("%3d: %.4g h, %.2f USD/h, %d GPUs, %d replicas (+%d -%d)"):format(t, row.hours, row.usd_per_h,
      row.gpus, row.replicas, row.starts, row.stops)
  end
  return table.concat(lines, "\n")
end)

method("to_table", function(plan)
  local plain = {}
  for name, value in pairs(plan) do
    if name ~= "fleets" and name ~= "peak" then plain[name] = value end
  end
  return plain
end)

-- A fleet that stands through several periods is looked at once.
method("losses", function(plan, given)
  local rows, known = {}, {}
  for t, fleet in ipairs(plan.fleets) do
    known[fleet] = known[fleet] or losses_of(fleet, given)
    for _, loss in ipairs(known[fleet]) do
      local row = copy(loss)
      row.period, row.hours = t, plan.rows[t].hours
      rows[#rows + 1] = row
    end
  end
  return rows
end)

method("save", function(plan, folder) save.save_periods(plan, folder) end)

meta.__tostring = methods.explain

--- The plan of what a folder keeps: its plain fields, and fleets.
local function again(fields) return setmetatable(fields, meta) end

return setmetatable({ again = again }, { __call = function(_, found) return plan_of(found) end })
