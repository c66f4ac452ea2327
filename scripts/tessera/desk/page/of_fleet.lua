-- The page of a fleet: nodes and what runs on them, what was promised beside what a simulation of all of it answers,
-- what more or less money would buy of attainment, and what reserves and other limits cost.

local classes = require "tessera.fleets.classes"
local core = require "tessera.core"
local copy = require "tessera.shallow_copy"
local fleet_picture = require "tessera.desk.picture.fleet"
local html = require "tessera.desk.report.html"
local pictures = require "tessera.desk.report.pictures"
local plan_fleet = require "tessera.fleets.plan"
local plot = require "tessera.desk.plot"
local rows_table = require "tessera.desk.page.rows_table"
local serve = require "tessera.fleets.serve"
local stored_rows = require "tessera.desk.stored_rows"

local h = html.h
local M = {}

local duration_s = 120 -- of the simulated demand
local factors = { 0.8, 0.9, 0.95, 1.05, 1.1, 1.25 } -- times the demand, of fleets for less and for more
local reserves, slo_factors = { 0, 1, 2 }, { 0.75, 1, 1.5 } -- nodes; times the limits
local least_s = 5 -- that another fleet may take

local units = { cost = "USD/h", gpus = "GPUs", rate = "times the demand" }

local function facts(fleet)
  local unit, pricing = units[fleet.instance.objective], fleet.pricing
  return html.facts {
    { "costs", ("%.2f USD/h"):format(fleet.usd_per_h) },
    { "runs on", ("%d GPUs of %d nodes"):format(fleet.gpus, #fleet.nodes) },
    { "objective", ("%.6g %s, %s"):format(fleet.objective, unit, (fleet.status:gsub("_", " "))) },
    { "bound", fleet.bound and ("%.6g %s, gap %.2g %%"):format(fleet.bound, unit, 100 * fleet.gap) },
    { "the bound is of", fleet.scope },
    { "serves", ("%.3g times the demand"):format(fleet.scale) },
    { "kept in reserve", (fleet.instance.reserve_nodes or 0) > 0
      and ("%d nodes may be lost"):format(fleet.instance.reserve_nodes) or nil },
    { "found in", ("%s, %d of %d shapes simulated"):format(core.format_seconds(fleet.solve_s), pricing.simulated,
      pricing.shapes) },
    { "notes", table.concat(fleet.notes, "; ") },
  }
end

local function prices(fleet)
  local rows = {}
  for _, price in ipairs(fleet.dual_prices.devices) do
    if price.value > 1e-9 then
      rows[#rows + 1] = { what = ("one more %s in %s"):format(price.name, price.node_class), worth = price.value }
    end
  end
  for _, price in ipairs(fleet.dual_prices.models) do
    rows[#rows + 1] = { what = ("one request/s of %s less"):format(price.name), worth = math.abs(price.value) }
  end
  return h("section", nil, h("h2", nil, "What one more is worth"), h("p", { class = "muted" },
    ("In %s, by the linear programme, for small changes."):format(units[fleet.instance.objective])),
    rows_table("prices", "prices", rows, { "what", "worth" }, "modelled"))
end

-- Load and capacity of each model as bars.
local function loads(fleet)
  local rows = {}
  for _, model in ipairs(fleet.models) do
    rows[#rows + 1] = { model = model.name, what = "demand", rate_per_s = model.demand_per_s }
    rows[#rows + 1] = { model = model.name, what = "capacity", rate_per_s = model.capacity_per_s }
  end
  local made = plot { kind = "bars", rows = rows, x = "model", y = "rate_per_s", by = "what", log_y = true,
    title = "Load against capacity", y_label = "requests per second" }
  return pictures.of_plot(made, "Demand and capacity of each model")
end

-- The least share of any model's requests within its limits, and whether all models keep to them.
local function least_attainment(served)
  local least = 1
  for _, model in ipairs(served.models) do least = math.min(least, model.attainment_ratio or 1) end
  return least
end

local function promises(fleet)
  local served, rows = serve(fleet, nil, { duration_s = duration_s }), {}
  for i, model in ipairs(served.models) do
    local run = model.served
    rows[i] = { model = model.name, demand_per_s = model.rate_per_s, promised_per_s = model.promised_per_s,
      load_ratio = fleet.models[i].load_ratio, answered_per_s = run and run.request_per_s,
      ttft_p99_s = run and run.ttft_s.p99, tpot_p99_s = run and run.tpot_s.p99,
      attainment_ratio = model.attainment_ratio, keeps = model.keeps and "yes" or "no",
      replicas = fleet.models[i].replicas, gpus = fleet.models[i].gpus, usd_per_h = fleet.models[i].usd_per_h }
  end
  return h("section", nil, h("h2", nil, "What was promised, and what a simulation answers"),
    h("p", { class = "muted" }, ("Promises are rates of engines simulated alone. Beside them the demand for %d s, "
      .. "all replicas of a model at once behind a router."):format(duration_s)),
    h("div", { class = "plots" }, loads(fleet)),
    rows_table("promises", "models", rows, { "model", "demand_per_s", "promised_per_s", "load_ratio",
      "answered_per_s", "ttft_p99_s", "tpot_p99_s", "attainment_ratio", "keeps", "replicas", "gpus", "usd_per_h" },
      "modelled")), least_attainment(served)
end

-- Fleets for other demands, of what was priced for this one, under the demand that comes.
local function attainments(fleet, least, note)
  local rows = { { planned_for = 1, usd_per_h = fleet.usd_per_h, attainment_ratio = least } }
  for i, factor in ipairs(factors) do
    note(i - 1, #factors, ("planning for %g times the demand"):format(factor))
    local demand, traffics = {}, {}
    for m, model in ipairs(fleet.models) do
      demand[model.name] = model.demand_per_s * factor
      traffics[model.name] = classes.traffic(fleet.options.models[m], duration_s)
    end
    local other = fleet:replan { demand_per_s = demand }
    if other then
      rows[#rows + 1] = { planned_for = factor, usd_per_h = other.usd_per_h,
        attainment_ratio = least_attainment(serve(other, traffics, { duration_s = duration_s })) }
    end
  end
  table.sort(rows, function(a, b) return a.planned_for < b.planned_for end)
  local made = plot { kind = "scatter", rows = rows, x = "usd_per_h", y = "attainment_ratio",
    title = "Cost against attainment", x_label = "USD/h", y_label = "least share within the limits" }
  return h("section", nil, h("h2", nil, "Cost against attainment"), h("p", { class = "muted" },
    ("Fleets planned for more or less than the demand, under the demand: the least of any model over %d s."):format(
      duration_s)), h("div", { class = "plots" }, pictures.of_plot(made, "Cost of fleets by attainment")),
    rows_table("attainments", "fleets", rows, { "planned_for", "usd_per_h", "attainment_ratio" }, "modelled"))
end

-- Limits times a factor.
local function scaled(slo, factor)
  if type(slo) == "number" then return slo * factor end
  if type(slo) ~= "table" then return slo end
  local result = {}
  for key, value in pairs(slo) do result[key] = scaled(value, factor) end
  return result
end

local function with(fleet, reserve_nodes, slo_factor)
  local asked = copy(fleet.options)
  asked.reserve = { nodes = reserve_nodes }
  asked.time_limit_s = math.max(least_s, 1.5 * fleet.solve_s)
  asked.on_incumbent = nil
  asked.models = {}
  for m, model in ipairs(fleet.options.models) do
    local own = copy(model)
    own.slo, own.classes = scaled(model.slo, slo_factor), model.classes and {}
    for i, class in ipairs(model.classes or {}) do
      own.classes[i] = copy(class)
      own.classes[i].slo = scaled(class.slo, slo_factor)
    end
    asked.models[m] = own
  end
  local other, why = plan_fleet(asked)
  return other or why and why.best
end

-- Other reserves with the limits as they are, and other limits with the reserve as it is.
local function frontier(fleet, note)
  local own, wanted, rows = fleet.instance.reserve_nodes or 0, {}, {}
  for _, nodes in ipairs(reserves) do wanted[#wanted + 1] = { nodes, 1 } end
  local num_reserves = #wanted
  for _, factor in ipairs(slo_factors) do wanted[#wanted + 1] = { own, factor } end
  for i, pair in ipairs(wanted) do
    local reserve_nodes, slo_factor = unpack(pair)
    note(i - 1, #wanted, ("planning with %d nodes in reserve and %g times the limits"):format(reserve_nodes,
      slo_factor))
    local is_this = reserve_nodes == own and slo_factor == 1
    local other = is_this and fleet or with(fleet, reserve_nodes, slo_factor)
    rows[i] = { reserve_nodes = reserve_nodes, slo_factor = slo_factor, usd_per_h = other and other.usd_per_h,
      bound = other and other.bound, gap = other and other.gap, gpus = other and other.gpus,
      status = other and other.status:gsub("_", " ") or "nothing found" }
    -- What keeps the limits keeps looser ones.
    if reserve_nodes == own and slo_factor > 1 and (rows[i].usd_per_h or math.huge) > fleet.usd_per_h then
      rows[i].usd_per_h, rows[i].gpus, rows[i].gap = fleet.usd_per_h, fleet.gpus, nil
      rows[i].status = "nothing cheaper found"
    end
  end
  local figures = {}
  for _, axis in ipairs { { "reserve_nodes", "nodes that may be lost", 1, num_reserves },
    { "slo_factor", "times the limits", num_reserves + 1, #wanted } } do
    local own_rows = {}
    for i = axis[3], axis[4] do own_rows[#own_rows + 1] = rows[i] end
    table.sort(own_rows, function(a, b) return a[axis[1]] < b[axis[1]] end)
    local made = plot { kind = "lines", rows = own_rows, x = axis[1], y = "usd_per_h", title = "Cost by " .. axis[2],
      x_label = axis[2], y_label = "USD/h" }
    figures[#figures + 1] = pictures.of_plot(made, "Cost by " .. axis[2])
  end
  return h("section", nil, h("h2", nil, "What reserves and limits cost"), h("p", { class = "muted" },
    "Each planned anew, in about the time that this fleet took; limits of all models times a factor."),
    h("div", { class = "plots" }, figures),
    rows_table("frontier", "fleets", rows, { "reserve_nodes", "slo_factor", "usd_per_h", "bound", "gap", "gpus",
      "status" }, "modelled"))
end

local function replicas(fleet)
  local rows = {}
  for i, row in ipairs(fleet.replicas) do
    rows[i] = { model = row.model, replica = row.label, count = row.count, nodes = table.concat(row.node_names, ", "),
      rate_per_s = row.rate_per_s, gpus = row.gpus * row.count }
  end
  return h("section", nil, h("h2", nil, "Replicas"), rows_table("replicas", "replicas", rows,
    { "model", "replica", "count", "nodes", "rate_per_s", "gpus" }, "modelled"))
end

--- { title, summary, sections } of a fleet.
function M.page(fleet)
  if not fleet.options then
    core.raise("unsupported", "a page of a fleet needs models to simulate; of this one the columns were given",
      "ts.report")
  end
  local promised, least = promises(fleet)
  local attained, reserved
  stored_rows.with_bar(function(note) attained = attainments(fleet, least, note) end)
  if fleet.instance.objective == "cost" then
    stored_rows.with_bar(function(note) reserved = frontier(fleet, note) end)
  end
  local sections = { h("section", nil, h("h2", nil, "The fleet"), facts(fleet)),
    h("section", nil, h("h2", nil, "Map"), pictures.of_picture(function(width)
      return fleet_picture.draw(fleet, width)
    end)), promised, attained }
  sections[#sections + 1] = reserved
  sections[#sections + 1] = prices(fleet)
  sections[#sections + 1] = replicas(fleet)
  return { title = fleet_picture.title(fleet), sections = sections,
    summary = ("%d models, %.3g times the demand at %.2f USD/h"):format(#fleet.models, fleet.scale,
      fleet.usd_per_h) }
end

return M
