-- Which engines serve a stream of requests within latency limits: what `tessera capacity` answers, and `tessera plan`
-- where no batch is asked for.

local core = require "tessera.core"
local cost = require "tessera.cost"
local device_types = require "tessera.planning.device_types"
local host = require "tessera.host"
local launch_flags = require "tessera.cli.launch_flags"
local no_cpu = require "tessera.devices.no_cpu"
local tables = require "tessera.options"
local text_of = require "tessera.serving.answer"
local taken = require "tessera.cli.taken"
local remedies = require "tessera.serving.remedy"
local solver = require "tessera.solver"
local terminal = require "tessera.terminal"
local text_table = require "tessera.desk.text_table"
local ts = require "tessera"
local usual_lengths = require "tessera.cli.usual_lengths"

local M = {}

-- What stands beside the flags as their defaults, where the library has others.
local defaults = { prompt_tokens = host.stream.prompt_tokens, output_tokens = host.stream.output_tokens, length_cv = 0,
  burstiness = 1, seed = 1, scheduler = "vllm_v1" }

-- Flags with what stands in for those that are not given.
local function with_defaults(flags)
  local lengths
  return setmetatable({}, { __index = function(_, name)
    if flags[name] ~= nil then return flags[name] end
    if (name == "prompt_tokens" or name == "output_tokens") and flags.model then
      lengths = lengths or usual_lengths(defaults, taken.model(flags))
      return lengths[name]
    end
    return defaults[name]
  end })
end

-- Limits where none is given: what a chat feels quick with.
local default_slo = { ttft_p99 = 2, tpot_p99 = 0.1 }

-- What a saved plan of a stream says of it.
local lengths_words = "for a stream of requests of %s prompt and %s output tokens"

function M.lengths_note(prompt_tokens, output_tokens)
  return lengths_words:format(("%.10g"):format(prompt_tokens), ("%.10g"):format(output_tokens))
end

--- { prompt_tokens, output_tokens } of such a note; nil of others.
function M.noted_lengths(note)
  local prompt, output = note:match("^" .. lengths_words:format("(%d[%d.]*)", "(%d[%d.]*)") .. "$")
  return prompt and { prompt_tokens = tonumber(prompt), output_tokens = tonumber(output) }
end

--- The flags of limits, of which each is a metric and its statistic.
M.limits = solver.latency_limits()

-- The limits in force, by flag.
local function limits_of(given)
  local list, any = {}, false
  for _, name in ipairs(M.limits) do
    list[name] = given[name]
    any = any or given[name] ~= nil
  end
  return any and list or default_slo
end

-- { ttft_s = { p99 = 2 }, ... } of limits by flag.
local function slo_of(list)
  local slo = {}
  for name, limit_s in pairs(list) do
    local metric, statistic = name:match "^(%w+)_(%w+)$"
    slo[metric .. "_s"] = slo[metric .. "_s"] or {}
    slo[metric .. "_s"][statistic] = limit_s
  end
  return slo
end

local function length_of(mean, cv)
  return cv == 0 and mean or { distribution = "lognormal", mean = mean, cv = cv }
end

local function traffic_of(given)
  local traffic = tables.of_flags(given, "ts.traffic")
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

--- What ts.plan_serving is asked for by flags; what is not given has the default of a stream.
function M.asked(flags)
  local given = with_defaults(flags)
  check(given)
  local asked = tables.of_flags(given, "ts.plan_serving")
  asked.traffic, asked.slo, asked.quality = traffic_of(given), slo_of(limits_of(given)), taken.quality_bound(given)
  asked.objective = given.objective or (given.rate and "gpus" or "rate")
  if asked.disaggregated == nil and launch_flags.in_containers(given) then asked.disaggregated = false end
  asked.engine = tables.of_flags(given, "ts.engine")
  asked.model, asked.cluster = taken.model(given), taken.cluster(given)
  asked.bitwidths = taken.bitwidths(asked.model, asked.bitwidths)
  return asked
end

-- What was assumed, in flags: "requests of 1000 prompt and 200 output tokens, TTFT p99 2 s".
local function settings(given, asked)
  local words = {}
  if given.trace then
    words[1] = ("requests of %s"):format(given.trace)
  elseif given.lengths then
    words[1] = ("lengths of %s"):format(given.lengths)
  else
    local full = with_defaults(given)
    words[1] = ("requests of %g prompt and %g output tokens"):format(full.prompt_tokens, full.output_tokens)
  end
  if given.rate then words[#words + 1] = ("%g of them a second"):format(given.rate) end
  for _, name in ipairs(M.limits) do
    local metric, statistic = name:match "^(%w+)_(%w+)$"
    local limit_s = asked.slo[metric .. "_s"] and asked.slo[metric .. "_s"][statistic]
    if limit_s then
      words[#words + 1] = ("%s %s at most %s"):format(metric:upper(), statistic, core.format_seconds(limit_s))
    end
  end
  for _, metric in ipairs { "ttft", "tpot" } do
    if not (asked.slo[metric .. "_s"] or asked.slo.e2e_s) then
      words[#words + 1] = ("no limit of %s (--%s-p99 %g sets one)"):format(metric:upper(), metric,
        default_slo[metric .. "_p99"])
    end
  end
  local model, cluster = core.model(asked.model), core.cluster(asked.cluster)
  return ("%s on %s: a stream of %s\n(--prompt-tokens, --output-tokens, --ttft-p99, --tpot-p99, --rate change it; "
    .. "--batch-size of `tessera plan` asks for an offline batch)\n"):format(model.name, cluster.name,
      table.concat(words, ", ")) .. taken.text(model, cluster)
end

-- What starts the best deployment; where it cannot be started, the line that says so names the best that can.
local function launch(options, given)
  local written, why = options:export(given.launch, given.out, launch_flags.options(given))
  if written or not options[1].disaggregated then return written, why end
  for _, row in ipairs(options) do
    if not row.disaggregated then
      return nil, core.why(why.code, ("%s; rank %d (%s) shares engines: `tessera capacity --no-disaggregated` "
        .. "launches it"):format(why.message, row.rank, row.layout))
    end
  end
  return nil, why
end

-- The best deployment as a plan, for what reads plans.
local function plan_of(options, flag)
  local plan = options[1].deployment and options[1].deployment.plan
  if not plan then
    core.raise("unsupported", ("%s has several pools, a plan has one: --json holds it all"):format(options[1].layout),
      flag)
  end
  return plan
end

-- Saves the plan with a note of the lengths that it is for, where they are said, as its own are a batch's: compare
-- reads it.
local function save(plan, path, given)
  if not (given.trace or given.lengths) then
    local full = with_defaults(given)
    plan = plan:with_note(M.lengths_note(full.prompt_tokens, full.output_tokens))
  end
  plan:save(path)
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

local function as_data(options, frontier, written)
  local data = { options = plain(options), frontier = frontier, reasons = options.reasons, launch = written }
  for _, name in ipairs { "relief", "preference", "quality_note", "gain_of_mixing", "best_homogeneous",
    "aggregated_over_disaggregated" } do
    data[name] = options[name]
  end
  return data
end

local function frontier_text(frontier)
  local rows = {}
  for _, row in ipairs(frontier) do
    if row.efficient then rows[#rows + 1] = row end
  end
  local picture = ts.plot { kind = "lines", rows = rows, x = "tok_s_per_user", y = "tok_s_per_gpu",
    x_label = "tok/s per user", y_label = "tok/s per GPU" }
  return ("\n%s\n%s\n"):format(text_table(rows, { columns = { "tok_s_per_user", "tok_s_per_gpu", "rate_per_s", "rank",
    "layout" } }), picture:text(math.min(terminal.limit() or 80, 80)))
end

-- Types of a cluster that vLLM's launch files do not cover: neither of CUDA nor in vLLM's kernel set of ROCm.
local function of_others(cluster)
  local names = {}
  for _, own in ipairs(device_types(core.cluster(cluster))) do
    local is_cuda = (own.device.compute_capability or 0) >= 2 -- as the launch rules have it
    if not (is_cuda or cost.kernel("vllm_rocm", own.device, 16)) then names[#names + 1] = own.name end
  end
  return names
end

-- The list. Where nobody names a runtime or asks for a launch, devices of other vendors count with what their kernels
-- do.
local function answer(given, asked)
  local others = of_others(asked.cluster)
  if #others == 0 or given.runtime or given.launch then return ts.plan_serving(asked) end
  asked.runtime = "tessera"
  local options, why = ts.plan_serving(asked)
  if not options then return nil, why end
  local how = no_cpu(core.cluster(asked.cluster))
    and "this is what the kernels do; --launch llama.cpp starts servers there"
    or "--save PLAN and `tessera execute PLAN` run it here"
  local note = ("vLLM's launch files do not cover %s: %s"):format(table.concat(others, ", "), how)
  options.quality_note = options.quality_note and note .. "; " .. options.quality_note or note
  return options
end

-- Why there is nothing, with what would serve.
local function with_remedies(why, asked)
  local lines = remedies.lines(asked, why.reasons)
  local text = why.message
  if #lines > 0 then text = ("%s\nWhat would serve:\n  %s"):format(text, table.concat(lines, "\n  ")) end
  local told = core.why(why.code, host.wrapped("stderr", text))
  told.reasons, told.constraint, told.remedies = why.reasons, why.constraint, lines
  return told
end

local function show(options, given, asked)
  terminal.say(terminal.wrapped(text_of(options, given.beside ~= false) .. taken.prices(core.cluster(asked.cluster))))
end

local function written_text(written)
  local text = ("\nstarts %s\n%s"):format(written.layout, launch_flags.written_text(written))
  if #written.left_out > 0 then
    text = ("%s\nleft out: %s\n"):format(text, table.concat(written.left_out, "; "))
  end
  return terminal.wrapped(text)
end

--- Prints the list (or hands it to --json); nil and why where nothing keeps to the limits.
function M.main(given)
  local asked = M.asked(given)
  local options, why = answer(given, asked)
  if not host.json then terminal.out:write(terminal.wrapped(settings(given, asked)), "\n") end
  if not options then return nil, with_remedies(why, asked) end
  options.published_bits = taken.published_bits(asked.model)
  options.relief = asked.objective == "rate" and remedies.relief(asked, options[1]) or nil
  local frontier = given.frontier and options:frontier() or nil
  if not host.json then show(options, given, asked) end -- before what may fail
  local written, why_not
  if given.launch then written, why_not = launch(options, given) end
  if host.json then
    host.set_result(as_data(options, frontier, written))
  else
    if frontier then terminal.say(frontier_text(frontier)) end
    if written then terminal.say(written_text(written)) end
  end
  if given.save then save(plan_of(options, "--save"), given.save, given) end
  if given.picture then ts.picture(plan_of(options, "--picture"), given.picture) end
  if given.report then ts.report(options, given.report) end
  if why_not then return nil, why_not end
  return 0
end

--- The best row of a stream of requests that flags describe; nil and why, in a line.
function M.best(given)
  local options, why = answer(given, M.asked(given))
  if options then return options[1] end
  local head, first = why.message:match "^([^\n]+)\n  ([^\n]+)"
  return nil, head and head .. ", " .. first or why.message
end

--- One line of what a stream of the same requests would get, for those who plan a batch.
function M.line(given)
  local row, why = M.best(given)
  if not row then return "As a stream: " .. why end
  return ("As a stream (`tessera plan` without a batch): %s at %d bits, %.4g req/s"):format(row.layout, row.bitwidth,
    row.rate_per_s)
end

return M
