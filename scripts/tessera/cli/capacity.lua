-- `tessera capacity`: which engines serve a stream of requests within latency limits.

local core = require "tessera.core"
local host = require "tessera.host"
local launch_flags = require "tessera.cli.launch_flags"
local options = require "tessera.options"
local taken = require "tessera.cli.taken"
local terminal = require "tessera.terminal"
local text_table = require "tessera.desk.text_table"
local ts = require "tessera"

local M = {}

-- What stands beside the flags as their defaults, where the library has others.
local defaults = { prompt_tokens = 1000, output_tokens = 200, length_cv = 0, burstiness = 1, seed = 1,
  scheduler = "vllm_v1" }

-- { ttft_s = { p99 = 2 }, ... } of the flags.
local function slo_of(given)
  local slo = {}
  for _, metric in ipairs { "ttft", "tpot", "e2e" } do
    for _, statistic in ipairs { "p99", "mean" } do
      local limit_s = given[metric .. "_" .. statistic]
      if limit_s then
        slo[metric .. "_s"] = slo[metric .. "_s"] or {}
        slo[metric .. "_s"][statistic] = limit_s
      end
    end
  end
  if next(slo) == nil then
    core.raise("usage", "say what latency is allowed, as with --ttft-p99 2 --tpot-p99 0.05", "tessera capacity")
  end
  return slo
end

local function length_of(mean, cv)
  return cv == 0 and mean or { distribution = "lognormal", mean = mean, cv = cv }
end

local function traffic_of(given)
  local traffic = options.of_flags(given, "ts.traffic")
  traffic.rate_per_s, traffic.num_requests = given.rate, nil
  if given.trace then
    if given.lengths then core.raise("usage", "give --trace or --lengths", "--lengths") end
    traffic.prompt_tokens, traffic.output_tokens, traffic.burstiness = nil, nil, nil
    return traffic
  end
  traffic.arrivals = "gamma"
  traffic.prompt_tokens = not given.lengths and length_of(given.prompt_tokens, given.length_cv) or nil
  traffic.output_tokens = not given.lengths and length_of(given.output_tokens, given.length_cv) or nil
  return traffic
end

local function quality_of(given)
  if not (given.max_perplexity_increase or given.min_accuracy_recovery) then return nil end
  return {
    max_perplexity_increase = given.max_perplexity_increase, min_accuracy_recovery = given.min_accuracy_recovery,
  }
end

local function check(given)
  local known = {}
  for i, scheduler in ipairs(ts.schedulers()) do
    if scheduler.name == given.scheduler then known = nil break end
    known[i] = scheduler.name
  end
  if known then
    core.raise("usage", ("no scheduler '%s'; known: %s"):format(given.scheduler, table.concat(known, ", ")),
      "--scheduler")
  end
  launch_flags.check(given)
  if given.objective and given.objective ~= "rate" and not (given.rate or given.trace) then
    core.raise("usage", ("--objective %s wants a rate to sustain: --rate 10"):format(given.objective), "--rate")
  end
end

-- What starts the best deployment; where it cannot be started, the line that says so names the best that can.
local function launch(plans, given)
  local written, why = plans:export(given.launch, given.out, launch_flags.options(given))
  if written or not plans[1].disaggregated then return written, why end
  for _, row in ipairs(plans) do
    if not row.disaggregated then
      return nil, core.why(why.code, ("%s; rank %d (%s) shares engines: --no-disaggregated launches it"):format(
        why.message, row.rank, row.layout))
    end
  end
  return nil, why
end

-- Rows as data, without objects.
local function plain(rows)
  local result = {}
  for i, row in ipairs(rows) do
    result[i] = {}
    for name, value in pairs(row) do
      if type(value) ~= "userdata" and name ~= "quality" then result[i][name] = value end
    end
  end
  return result
end

--- Prints the list (or hands it to --json); nil and why where nothing keeps to the limits.
function M.main(flags)
  local given = setmetatable({}, { __index = function(_, name)
    if flags[name] == nil then return defaults[name] end
    return flags[name]
  end })
  check(given)
  local asked = options.of_flags(given, "ts.plan_serving")
  asked.traffic, asked.slo, asked.quality = traffic_of(given), slo_of(given), quality_of(given)
  asked.objective = given.objective or (given.rate and "gpus" or "rate")
  asked.engine = options.of_flags(given, "ts.engine")
  asked.cluster = taken.cluster(given)
  local plans, why = ts.plan_serving(asked)
  if not plans then return nil, why end
  local frontier = given.frontier and plans:frontier() or nil
  local written, why_not
  if given.launch then written, why_not = launch(plans, given) end
  if host.json then
    host.set_result { options = plain(plans), frontier = frontier, reasons = plans.reasons, launch = written,
      aggregated_over_disaggregated = plans.aggregated_over_disaggregated }
  else
    local cluster = ts.cluster(asked.cluster)
    terminal.say(terminal.wrapped(taken.text(ts.model(asked.model), cluster)) .. tostring(plans))
    if asked.objective == "cost" then terminal.say(terminal.wrapped(taken.prices(cluster))) end
    if frontier then
      local rows = {}
      for _, row in ipairs(frontier) do
        if row.efficient then rows[#rows + 1] = row end
      end
      terminal.say("\n" .. tostring(text_table(rows, { columns = { "tok_s_per_user", "tok_s_per_gpu", "rate_per_s",
        "rank", "layout" } })) .. "\n")
    end
    if written then
      terminal.say(("\nstarts %s\n%s"):format(written.layout, launch_flags.written_text(written)))
      if #written.left_out > 0 then
        terminal.say(("left out: %s\n"):format(table.concat(written.left_out, "; ")))
      end
    end
  end
  if why_not then return nil, why_not end
  return 0
end

return M
