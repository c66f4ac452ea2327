-- The page of ts.plan_serving's list: the best deployment on a map, its latencies from idle to overload beside their
-- limits, a run at its rate, what a user gets against what a GPU gives, and the others.

local cards_of = require "tessera.desk.page.cards"
local core = require "tessera.core"
local html = require "tessera.desk.report.html"
local map = require "tessera.desk.page.map"
local of_served = require "tessera.desk.page.of_served"
local parts_of = require "tessera.serving.parts"
local pictures = require "tessera.desk.report.pictures"
local plot = require "tessera.desk.plot"
local rows_table = require "tessera.desk.page.rows_table"
local serve = require "tessera.runtime.serve"
local serving = require "tessera.serving"
local scopes = require "tessera.serving.scopes"
local solver = require "tessera.solver"
local stored_rows = require "tessera.desk.stored_rows"

local h = html.h
local M = {}

local loads = { 0.1, 0.3, 0.5, 0.7, 0.85, 1, 1.1, 1.25 } -- of the rate that held
local most_requests = 20000

local function facts(options, row)
  return html.facts {
    { "layout", row.layout },
    { "bits", ("%s-bit weights, %s-bit KV cache"):format(row.bitwidth, row.kv_bitwidth) },
    { "serves", ("%.4g req/s, TTFT p99 %s%s"):format(row.rate_per_s, core.format_seconds(row.ttft_p99_s),
      row.tpot_p99_s and ", TPOT p99 " .. core.format_seconds(row.tpot_p99_s) or "") },
    { "a GPU gives", ("%.4g tok/s of output"):format(row.tok_s_per_gpu) },
    { "a user gets", row.tok_s_per_user and ("%.3g tok/s at that load"):format(row.tok_s_per_user) },
    { "GPUs", row.gpus }, { "engines", row.engines },
    { "price", row.usd_per_h and ("%.2f USD/h, %.2f USD per million output tokens"):format(row.usd_per_h,
      row.usd_per_million_tokens) },
    { "limited by", row.limited_by and row.limited_by:gsub("(%l+)_s ", function(name) return name:upper() .. " " end) },
    { "simulated", ("%d engines and deployments; the best: %s"):format(options.simulated, scopes[row.scope]) },
    { "preferred", options.preference }, { "quality", options.quality_note },
    { "gain of mixing", options.gain_of_mixing and ("%.3g times the best on one type of device, %s"):format(
      options.gain_of_mixing, options.best_homogeneous or "none") or nil },
  }
end

-- The engines of the best row on the GPUs of the whole cluster.
local function map_of(options)
  local asked = parts_of.asked(options)
  local places, nodes = cards_of.places(asked.cluster)
  local device_places = asked.cluster:places()
  local cards, engines, first = {}, {}, {}
  local parts = parts_of.list(asked, options[1], options.found:devices(1))
  for _, part in ipairs(parts) do
    engines[part.role] = (engines[part.role] or 0) + #part.plan.placement.engines
  end
  for _, part in ipairs(parts) do
    local own = {}
    for k, index in ipairs(part.devices) do own[k] = device_places[index + 1] end
    local replica = part.deployment.replicas[1]
    cards_of.of_plan(cards, part.plan, {
      role = part.role, first_engine = first[part.role] or 1, engines = engines[part.role],
      kv_bytes = replica.kv_tokens and replica.kv_tokens * replica.kv_bytes_per_token,
      placement = solver.placement_at(part.plan, nodes, own),
    })
    first[part.role] = (first[part.role] or 1) + #part.plan.placement.engines
  end
  cards_of.add_idle(cards, asked.cluster, places)
  return h("section", nil, h("h2", nil, "Map"), map.draw(cards, nodes))
end

-- Per engine, where nobody says.
local function usual_requests()
  for _, option in ipairs(core.options_of "ts.plan_serving") do
    if option.name == "num_requests" then return tonumber(option.default) end
  end
end

-- The traffic of the search at its best rate, of as many requests as it had, within bounds.
local function traffic_of(options, share)
  local given, rate_per_s = options.options.traffic, share * options[1].rate_per_s
  if type(given) == "userdata" then return given:scaled { rate_per_s = rate_per_s }, rate_per_s end
  local asked = { rate_per_s = rate_per_s }
  for name, value in pairs(given) do asked[name] = asked[name] or value end
  if not asked.trace then
    local of_engine = options.options.num_requests or usual_requests()
    asked.num_requests = math.min(of_engine * #options[1].deployment.replicas, most_requests)
  end
  local traffic = serving.traffic(asked)
  return asked.trace and traffic:scaled { rate_per_s = rate_per_s } or traffic, rate_per_s
end

-- { metric = "ttft_s", statistic = "p99", limit_s } of an SLO that is one table.
local function limits_of(slo)
  local found = {}
  for _, metric in ipairs { "ttft_s", "tpot_s", "e2e_s", "itl_s" } do
    local given = slo[metric]
    for statistic, limit_s in pairs(type(given) == "table" and given or { every = given }) do
      if type(limit_s) == "number" then
        found[#found + 1] = { metric = metric, statistic = statistic, limit_s = limit_s }
      end
    end
  end
  return found
end

-- p50 and p99 of a latency at each load, and its limits, as series of one plot.
local function curve(rows, metric, limits)
  local points = {}
  for _, row in ipairs(rows) do
    for _, statistic in ipairs { "p50", "p99" } do
      points[#points + 1] = { rate_per_s = row.rate_per_s, what = statistic,
        [metric] = row.served[metric] and row.served[metric][statistic] }
    end
    for _, limit in ipairs(limits) do
      if limit.metric == metric then
        points[#points + 1] = { rate_per_s = row.rate_per_s, [metric] = limit.limit_s,
          what = ("limit on %s"):format(limit.statistic) }
      end
    end
  end
  local made = plot { kind = "lines", rows = points, x = "rate_per_s", y = metric, by = "what", log_y = true,
    title = metric:gsub("_s$", ""):upper() .. " by rate", x_label = "requests per second" }
  return pictures.of_plot(made, metric .. " over the rate of requests")
end

local function curves(options)
  local row = options[1]
  local share = math.min(1, #row.deployment.replicas / row.engines) -- of a search that looked at one engine of many
  local traffic, rate_per_s = traffic_of(options, share)
  local slo, rows, at_rate = options.options.slo, {}, nil
  stored_rows.with_bar(function(note)
    for i, load in ipairs(loads) do
      note(i - 1, #loads, ("simulating load %d of %d"):format(i, #loads))
      local served = serve(row.deployment, traffic:scaled { rate_per_s = load * rate_per_s }, { slo = slo })
      rows[i] = { rate_per_s = load * row.rate_per_s, load_ratio = load, served = served, stable = served.stable,
        answered_per_s = served.request_per_s / share, attainment_ratio = served.attainment_ratio,
        ttft_p99_s = served.ttft_s.p99, tpot_p99_s = served.tpot_s.p99, kv_peak_ratio = served.kv_peak_usage_ratio }
      if load == 1 then at_rate = served end
    end
  end)
  local limits, figures = type(slo) == "table" and limits_of(slo) or {}, {}
  for _, metric in ipairs { "ttft_s", "tpot_s" } do figures[#figures + 1] = curve(rows, metric, limits) end
  local note = share < 1 and h("p", { class = "muted" }, ("Simulated on %d of %d engines at their share of the rate."):
    format(#row.deployment.replicas, row.engines)) or nil
  return h("section", nil, h("h2", nil, "Latencies from idle to overload"),
    h("p", { class = "muted" }, ("The best deployment, from %g to %g times the rate that held. Above it queues grow, "
      .. "and latencies measure how long the run was."):format(loads[1], loads[#loads])), note,
    h("div", { class = "plots" }, figures),
    rows_table("loads", "loads", rows, { "load_ratio", "rate_per_s", "answered_per_s", "ttft_p99_s", "tpot_p99_s",
      "attainment_ratio", "kv_peak_ratio", "stable" }, "modelled")),
    h("section", nil, h("h2", nil, "A run at that rate"), of_served.over_time(at_rate, row.layout))
end

local function frontier(options)
  local rows = options:frontier()
  if #rows < 2 then return nil end
  for _, row in ipairs(rows) do row.deployment_rank = ("%d: %s"):format(row.rank, options[row.rank].layout) end
  table.sort(rows, function(a, b) return a.rank < b.rank end) -- as the list has them
  local made = plot { kind = "pareto", rows = rows, x = "tok_s_per_user", y = "tok_s_per_gpu", by = "deployment_rank",
    x_better = "higher", y_better = "higher", x_label = "tok/s per user", y_label = "tok/s per GPU" }
  return h("section", nil, h("h2", nil, "What a user gets against what a GPU gives"),
    pictures.of_plot(made, "Frontier of the listed deployments"))
end

local function others(options)
  local rows = {}
  for i, row in ipairs(options) do
    rows[i] = { rank = row.rank }
    for name, value in pairs(row) do
      if type(value) ~= "userdata" and type(value) ~= "table" then rows[i][name] = value end
    end
  end
  return h("section", nil, h("h2", nil, "All deployments that are listed"),
    rows_table("deployments", "deployments", rows, { "rank", "layout", "rate_per_s", "ttft_p99_s", "tpot_p99_s",
      "tok_s_per_gpu", "tok_s_per_user", "gpus", "engines", "bitwidth", "kv_bitwidth", "usd_per_h",
      "usd_per_million_tokens", "limited_by" }, "modelled"))
end

local function ruled_out(reasons)
  if #reasons == 0 then return nil end
  return h("section", nil, h("h2", nil, "What was ruled out, and why"),
    rows_table("reasons", "engines that were ruled out", reasons, { "engine", "cause", "reason" }))
end

--- { title, summary, sections } of a list.
function M.page(options)
  local row, given = options[1], options.options
  local model, cluster = core.model(given.model), core.cluster(given.cluster)
  local sections = { h("section", nil, h("h2", nil, "The best"), facts(options, row)) }
  local load_curves, run = curves(options)
  for _, part in ipairs { map_of(options), load_curves, run, frontier(options) or false, others(options),
    ruled_out(options.reasons) or false } do
    sections[#sections + 1] = part or nil
  end
  return {
    title = ("%s on %s"):format(model.name, cluster.name), sections = sections,
    summary = ("%s serves %.4g req/s"):format(row.layout, row.rate_per_s),
  }
end

return M
