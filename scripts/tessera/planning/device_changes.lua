-- ts.device_changes(plan): what leaving devices out of the plan's cluster, or adding one, would do.

local budget = require "tessera.planning.budget"
local core = require "tessera.core"
local device_types = require "tessera.planning.device_types"
local options = require "tessera.options"
local planners = require "tessera.planning.planners"
local solver = require "tessera.solver"
local timer = require "tessera.planning.timer"

local read = options.reader("ts.device_changes", {
  time_limit_s = { type = "number", default = 5, min = 0, max = 1e7, doc = "For all of them together (s)" },
  least_gain = { type = "number", default = 0.005, min = 0, max = 1,
    doc = "Of the objective, for a device that is added: below it, it buys nothing" },
  problem = { type = "any", lua_type = "tessera.Problem", doc = "That was planned; default: plan:problem()" },
})

core.document {
  name = "ts.device_changes",
  doc = "What the best plan would be without each type of device that the plan runs on (of a single type: with one "
    .. "fewer), and with one more of each type beside those that there are. Each is { change, status, latency_s, "
    .. "omega, latency_ratio, usd_per_h }: the latency over the plan's, and what the cluster would cost more, where "
    .. "prices are known. status is optimal or feasible; no_better where one more device gains less than least_gain; "
    .. "infeasible or time_limit where there is no plan.",
  parameters = {
    { "plan", "tessera.Plan", "Any plan of a cluster" },
    { "options?", "{ time_limit_s: number, least_gain: number, problem: tessera.Problem }",
      "For all of them together, default 5 and 0.005; problem: the one that was planned, where more of it was open" },
  },
  returns = "table[]",
}

-- Types of the cluster in its order: { name, price, devices = { 0-based, ... }, used = how many of them run layers }.
local function types_of(plan, cluster)
  local types, unused = device_types(cluster), {}
  for _, name in ipairs(plan.unused_devices) do
    local device = name:match "^[^@]*"
    unused[device] = (unused[device] or 0) + 1
  end
  for _, own in ipairs(types) do
    own.price, own.used = own.device.price_usd_per_h, #own.devices - (unused[own.name] or 0)
  end
  return types
end

-- All devices but some, 0-based.
local function all_but(num_devices, left_out)
  local kept, is_out = {}, {}
  for _, i in ipairs(left_out) do is_out[i] = true end
  for i = 0, num_devices - 1 do
    if not is_out[i] then kept[#kept + 1] = i end
  end
  return kept
end

local function row_of(change, usd_per_h, plan, found, why)
  local row = { change = change, usd_per_h = usd_per_h }
  if found then
    row.status, row.latency_s, row.omega = found.status, found.latency_s, found.omega
    row.latency_ratio = found.latency_s / plan.latency_s
  else
    row.status = why.constraint == "cutoff" and "no_better" or why.code
  end
  return row
end

return function(plan, opt)
  budget.object(plan, "tessera.Plan", "ts.device_changes.plan")
  local given = read(opt)
  local problem = given.problem and budget.object(given.problem, "tessera.Problem", "ts.device_changes.problem")
    or plan:problem()
  if not problem.cluster then
    core.raise("unsupported", "ts.device_changes: an instance has no devices to leave out or to add")
  end
  local types, clock, changes = types_of(plan, problem.cluster), timer(given.time_limit_s), {}
  local num_devices = #problem.cluster.devices
  for _, own in ipairs(types) do
    local left_out = #types > 1 and own.devices or { own.devices[#own.devices] }
    if own.used > 0 and #left_out < num_devices then
      changes[#changes + 1] = { #types > 1 and ("without %d x %s"):format(#left_out, own.name) or
        ("one %s fewer"):format(own.name), own.price and -#left_out * own.price,
        function() return solver.on_devices(problem, all_but(num_devices, left_out)) end }
    end
  end
  local is_quality_free = problem.objective == "steady"
  for _, own in ipairs(types) do
    changes[#changes + 1] = { ("one %s more"):format(own.name), own.price,
      function() return solver.with_one_more(problem, own.devices[#own.devices]) end,
      is_quality_free and plan.objective * (1 - given.least_gain) or nil }
  end
  local rows = {}
  for i, change in ipairs(changes) do
    local ok, changed = pcall(change[3])
    if ok then
      local found, why = planners.plan(changed, { cutoff = change[4],
        time_limit_s = clock.left() / (#changes - i + 1) })
      rows[i] = row_of(change[1], change[2], plan, found, why)
    elseif type(changed) == "table" and changed.code == "invalid_argument" then
      rows[i] = row_of(change[1], change[2], plan, nil, { code = "infeasible" }) -- a degree that needs all of them
    else
      error(changed, 0)
    end
  end
  return rows
end
