-- ts.fingerprint(options): a model measured by a few of its layers, and from that every way to deploy it (iServe,
-- section 5).

local budget = require "tessera.configurations.budget"
local check_types = require "tessera.configurations.check_types"
local core = require "tessera.core"
local extrapolate = require "tessera.configurations.extrapolate"
local median = require "tessera.median"
local options = require "tessera.options"
local sorted_keys = require "tessera.sorted_keys"

local path = "ts.fingerprint"

local read = options.card {
  name = path,
  doc = "Runs a model with few layers (its fingerprint) in the shapes that a method needs, once each, and estimates "
    .. "time and memory of all configurations. Latency: L2 by two fingerprints at two output lengths, L1 by the whole "
    .. "model. Memory: M2 by fingerprints at (1, 1), (2, 1) and (1, 2) of tensor and pipeline parallelism, M1 by the "
    .. "whole model there, M3 by fingerprints in every shape. "
    .. "Methods: estimates { output_tokens, price_usd_per_h }. Fields: runs, cost, error, notes.",
  returns = "tessera.Fingerprint",
  options = {
    { name = "model", type = "any", doc = "Name, file or tessera.Model; its layers are counted" },
    { name = "num_layers", type = "integer", min = 1, max = 1e4, doc = "Of the whole model, where no model is given" },
    { name = "configurations", type = "table", required = true, doc = "Of ts.configurations" },
    { name = "latency_method", type = "choice", default = "L2", choices = extrapolate.latency_methods,
      doc = "Of whole models or of fingerprints" },
    { name = "memory_method", type = "choice", default = "M2", choices = extrapolate.memory_methods,
      doc = "Of which shapes" },
    { name = "stages", type = "choice", default = "reused", choices = extrapolate.stages,
      doc = "reused: the time with one stage stands for any number, as in the paper; priced: each number is run" },
    { name = "fingerprint_layers", type = "integers", default = { 1, 2 }, min = 1, max = 1e4,
      doc = "Layers of the two fingerprints" },
    { name = "output_tokens", type = "integers", unit = "tokens", default = { 16, 64 }, min = 1, max = 1e7,
      doc = "The two lengths of answers that are timed" },
    { name = "prompt_tokens", type = "integer", unit = "tokens", default = 512, min = 1, max = 1e7,
      doc = "Of the prompt" },
    { name = "batch_size", type = "integer", default = 1, min = 1, max = 1e5, doc = "Requests that are in memory at "
      .. "once: each run is timed for one and for so many, and estimates say what every further one adds to a step" },
    { name = "repeats", type = "integer", default = 5, min = 1, max = 1000, doc = "Of each run; medians count" },
    { name = "max_error", type = "number", min = 1e-6, max = 1, doc = "Standard error wanted of the latency, over it: "
      .. "the larger fingerprint and the repeats are chosen, in the least device time" },
    { name = "max_gpu_s", type = "number", unit = "s", min = 1e-9, max = 1e12, doc = "Device time that the runs may "
      .. "take: the same are chosen, for the least error" },
    { name = "measure", type = "any", lua_type = "'profile'|'engine'|function", default = "profile",
      doc = "profile: the cost models answer, for GPUs of cluster of the types that configurations name, else the "
        .. "first; engine: really run on this machine; or function(run) that runs { num_layers, tensor_parallel, "
        .. "pipeline_parallel, device_types, scheme, output_tokens (empty where only memory is wanted), prompt_tokens "
        .. "} and returns { memory_bytes =, latency_s = { t1, t2 } }, or { refused = why }; with batch_size it is in "
        .. "the run, and batch_latency_s of so many requests beside latency_s" },
    { name = "cluster", type = "any", doc = "Cluster, its name, or as \"8xA6000@bridges\", for the cost models" },
    { name = "kernel_set", type = "string", default = "modern", doc = "Whose kernels price the runs" },
    { name = "engine", type = "table", doc = "How the engine runs: { dtype = \"bf16\", device = \"cpu\", threads = 0, "
      .. "counted = \"wall\" or \"processor\" }" },
  },
}

core.document_object {
  name = "tessera.Fingerprint", doc = "A model's fingerprint, and what it says of the whole.",
  fields = {
    { "runs", "table[]", "The run, memory_bytes, latency_s, wall_s, gpu_s, spread (standard deviation of the repeats "
      .. "over the median, the largest), provenance (of the engine measured, or emulated where one of several "
      .. "tensor-parallel ranks ran); of the engine weight_bytes, kv_cache_bytes, scratch_bytes; or refused" },
    { "cost", "table", "num_runs, wall_s, gpu_s (device time), peak_memory_bytes" },
    { "chosen", "table?", "Of max_error and max_gpu_s: fingerprint_layers, repeats, noise_ratio (of a run, at a first "
      .. "look, whose time is in cost), error_ratio and gpu_s as expected" },
    { "error", "table", "latency_ratio, memory_ratio: the median error of the estimates by the spread of the repeats; "
      .. "nil of one repeat" },
    { "num_layers", "integer", "Of the whole model" },
    { "notes", "string[]", "Where what was measured cannot be" },
  },
  methods = {
    { "estimates", "(options: table): table[]", "A row per configuration, in order: its fields, ttft_s, tpot_s, "
      .. "latency_s, latency_low_s, latency_high_s (two standard errors away), memory_bytes, base_bytes, block_bytes, "
      .. "weight_bytes (W), activation_bytes (A), pipeline_bytes (A_p), gpu_s, cost_byte_s, usd, error, provenance, "
      .. "perplexity_increase; of batches batch_size and further_s (what every further request adds to a step); of "
      .. "GPUs of several types by_type: ttft_s, tpot_s, base_bytes and memory_bytes of the whole on each; or "
      .. "refused, with memory_bytes where only the time is no estimate" },
  },
}

local read_estimates = options.card {
  name = "fingerprint:estimates",
  doc = "Time, memory and cost of every configuration for answers of so many tokens.",
  returns = "table[]",
  options = {
    { name = "output_tokens", type = "integer", unit = "tokens", default = 100, min = 1, max = 1e7,
      doc = "Of an answer" },
    { name = "prompt_tokens", type = "integer", unit = "tokens", min = 1, max = 1e7,
      doc = "Of the prompt: that of the runs, as no equation has it" },
    { name = "price_usd_per_h", type = "number", unit = "USD/h", min = 0, max = 1e6,
      doc = "Of a GPU; left out: no usd" },
    { name = "prices", type = "table", lua_type = "table<string, number>", unit = "USD/h",
      doc = "By type of GPU, instead, of configurations that name theirs" },
  },
}

local function check_pair(list, where, words)
  if #list ~= 2 then core.refuse(where, ("%d numbers; give two"):format(#list)) end
  if list[1] == list[2] then
    core.refuse(where, ("both are %d; two unlike %s tell what each takes"):format(list[1], words))
  end
end

local function layers_of(opt)
  if opt.model ~= nil then return core.model(opt.model).num_layers end
  if not opt.num_layers then core.refuse(path, "give model, or num_layers of the whole model") end
  return opt.num_layers
end

-- Copies of rows that are whole.
local function checked(configurations)
  local where, copies = path .. ".configurations", {}
  if #configurations == 0 then core.refuse(where, "the list is empty") end
  for i, row in ipairs(configurations) do -- beside them it has left_out
    if type(row) ~= "table" then core.refuse(("%s[%d]"):format(where, i), "a configuration belongs here") end
    for _, field in ipairs { "tensor_parallel", "pipeline_parallel", "num_gpus" } do
      local value = row[field]
      if type(value) ~= "number" or value % 1 ~= 0 or value < 1 or value > 2 ^ 20 then
        core.refuse(("%s[%d].%s"):format(where, i, field), "a whole number from 1 on belongs here")
      end
    end
    if type(row.scheme) ~= "string" then
      core.refuse(("%s[%d].scheme"):format(where, i), "the name of a scheme belongs here")
    end
    check_types(row, ("%s[%d]"):format(where, i), {})
    copies[i] = {}
    for key, value in pairs(row) do copies[i][key] = value end
  end
  return copies
end

local function deviation(values)
  if #values < 2 then return nil end
  local mean, squares = 0, 0
  for _, value in ipairs(values) do mean = mean + value / #values end
  for _, value in ipairs(values) do squares = squares + (value - mean) ^ 2 end
  return math.sqrt(squares / (#values - 1))
end

-- Of a median of n values whose deviation is known.
local function error_of_median(values)
  local sd = deviation(values)
  return sd and (#values > 2 and 1.2533 or 1) * sd / math.sqrt(#values) or 0
end

local function check_number(value, what, run)
  if type(value) == "number" and value == value and math.abs(value) < math.huge then return value end
  core.refuse(path .. ".measure", ("%s of %d layers, TP %d, PP %d, %s is %s; a finite number belongs there"):format(
    what, run.num_layers, run.tensor_parallel, run.pipeline_parallel, run.scheme, tostring(value)))
end

local function checked_times(given, field, run)
  local times = {}
  for i = 1, #run.output_tokens do
    times[i] = check_number(type(given) == "table" and given[i], ("%s[%d]"):format(field, i), run)
  end
  return times
end

-- Checks what one measurement gave: memory, and by field seconds by output length.
local function checked_result(result, run)
  if type(result) ~= "table" then
    core.refuse(path .. ".measure",
      ("it returned a %s; { memory_bytes =, latency_s = { t1, t2 } } belongs there"):format(type(result)))
  end
  if type(result.refused) == "string" then return nil, result.refused end
  local times = {}
  for _, field in ipairs(run.batch_size and { "latency_s", "batch_latency_s" } or { "latency_s" }) do
    times[field] = checked_times(result[field], field, run)
  end
  return check_number(result.memory_bytes, "memory_bytes", run), times
end

-- What a measurement may say beside time and memory.
local extras = { "weight_bytes", "kv_cache_bytes", "scratch_bytes", "provenance", "perplexity_increase" }

local function new_run(needed, opt)
  return {
    num_layers = needed.num_layers, tensor_parallel = needed.tensor_parallel, scheme = needed.scheme,
    pipeline_parallel = needed.pipeline_parallel, device_types = needed.device_types,
    prompt_tokens = opt.prompt_tokens,
    output_tokens = needed.timed and { opt.output_tokens[1], opt.output_tokens[2] } or {},
    batch_size = opt.batch_size > 1 and opt.batch_size or nil, wall_s = 0, gpu_s = 0,
  }
end

-- Runs it once more; not what could not run before.
local function repeat_run(measure, run, samples)
  if run.refused then return end
  local started = core.clock()
  local result = measure(run)
  local bytes, seconds = checked_result(result, run)
  run.wall_s = run.wall_s + core.clock() - started
  if not bytes then
    run.refused = seconds
    return
  end
  samples.memory[#samples.memory + 1] = bytes
  local busy_s = 0
  for field, times in pairs(seconds) do
    samples[field] = samples[field] or { {}, {} }
    for i, value in ipairs(times) do
      table.insert(samples[field][i], value)
      busy_s = busy_s + value * run.tensor_parallel * run.pipeline_parallel
    end
  end
  run.gpu_s = run.gpu_s + (result.gpu_s or busy_s)
  for _, name in ipairs(extras) do run[name] = result[name] end
end

-- The medians of all repeats of a run, and how far they may be off.
local function sum_up(run, samples)
  if run.refused then return end
  run.memory_bytes, run.memory_error = median(samples.memory), error_of_median(samples.memory)
  run.latency_s, run.latency_error_s, run.spread = {}, {}, 0
  run.batch_latency_s = run.batch_size and {} or nil
  for i in ipairs(run.output_tokens) do
    local times = samples.latency_s[i]
    if run.batch_size then run.batch_latency_s[i] = median(samples.batch_latency_s[i]) end
    run.latency_s[i], run.latency_error_s[i] = median(times), error_of_median(times)
    run.spread = math.max(run.spread, (deviation(times) or 0) / math.max(math.abs(run.latency_s[i]), 1e-300))
  end
end

-- In rounds of all runs: a machine that slows down meanwhile slows them alike.
local function measure_runs(measure, needed, opt)
  local runs, samples = {}, {}
  for i, one in ipairs(needed) do
    runs[i], samples[i] = new_run(one, opt), { memory = {} }
  end
  for _ = 1, opt.repeats do
    for i, run in ipairs(runs) do repeat_run(measure, run, samples[i]) end
  end
  for i, run in ipairs(runs) do sum_up(run, samples[i]) end
  return runs
end

local function chooses(opt) return opt.max_error ~= nil or opt.max_gpu_s ~= nil end

-- Of any run.
local function most_layers(num_layers, opt)
  if opt.latency_method == "L1" or opt.memory_method == "M1" then return num_layers end
  local most = math.max(opt.fingerprint_layers[1], opt.fingerprint_layers[2])
  return chooses(opt) and math.max(most, budget.most_layers(num_layers)) or most
end

-- The layers and repeats that max_error and max_gpu_s choose, by a first look at one deployment; nil without them.
local function chosen(measure, configurations, num_layers, opt, cost)
  if not chooses(opt) then return nil end
  local looks, at = {}, {}
  for _, run in ipairs(extrapolate.runs(configurations, num_layers, opt)) do
    if run.timed and #looks < 2 then looks[#looks + 1] = run end
  end
  local pilot = measure_runs(measure, looks, setmetatable({ repeats = budget.pilot_repeats }, { __index = opt }))
  local spent_s = 0
  for i, run in ipairs(pilot) do
    if run.refused then core.refuse(path .. ".measure", "the first look could not run: " .. run.refused) end
    at[i] = { num_layers = run.num_layers, latency_s = run.latency_s[2], noise_ratio = run.spread,
      gpu_s = run.gpu_s / budget.pilot_repeats / (run.tensor_parallel * run.pipeline_parallel) }
    spent_s, cost.wall_s = spent_s + run.gpu_s, cost.wall_s + run.wall_s
    cost.peak_memory_bytes = math.max(cost.peak_memory_bytes, run.memory_bytes)
  end
  cost.gpu_s = spent_s
  return budget.choose(at, configurations, num_layers, opt, spent_s)
end

-- By name: function(opt, configurations, most_layers, use) that calls use(measure).
local measures = {
  engine = "tessera.configurations.engine_measure", profile = "tessera.configurations.by_cost_models",
}

local function with_measure(opt, configurations, most, use)
  if type(opt.measure) == "function" then return use(opt.measure) end
  local module = type(opt.measure) == "string" and measures[opt.measure]
  if module then return require(module)(opt, configurations, most, use) end
  local names = sorted_keys(measures)
  core.refuse(path .. ".measure", ("a function belongs here, or %s; not %s%s"):format(table.concat(names, " or "),
    type(opt.measure) == "string" and "'" .. opt.measure .. "'" or "a " .. type(opt.measure),
    type(opt.measure) == "string" and core.did_you_mean(opt.measure, names) or ""))
end

local Fingerprint = {}
local private = setmetatable({}, { __mode = "k" })

-- Why a row is no estimate, or nil.
local function why_refused(row)
  if row.memory_bytes <= 0 then return "its memory comes out as nothing or less" end
  if row.tpot_s <= 0 then return "its time does not rise with the answer's length" end
  if row.latency_s <= 0 then return "its latency comes out as nothing or less" end
  return nil
end

local function refused(c, why, memory_bytes)
  local row = { refused = why, memory_bytes = memory_bytes }
  for key, value in pairs(c) do row[key] = value end
  return row
end

-- What the whole would take on GPUs of each of the types of a row, so that the stages' shares make up the row's times.
local function by_type(state, c, row, types)
  local result, all = {}, { ttft_s = 0, tpot_s = 0 }
  for _, own in ipairs(types) do
    local tpot, ttft, further = extrapolate.latency_on(state.measured, c, own.name, state.num_layers, state.opt)
    local parts = state.parts[c.scheme][own.name]
    result[own.name] = { ttft_s = ttft, tpot_s = tpot, further_s = further, base_bytes = parts.base,
      memory_bytes = state.opt.memory_method == "M3" and row.memory_bytes or extrapolate.memory_on(c, parts) }
    all.ttft_s, all.tpot_s = all.ttft_s + own.share * ttft, all.tpot_s + own.share * tpot
  end
  for field, sum in pairs(all) do -- as they are, unless stages are priced
    for _, of_type in pairs(result) do
      if sum ~= 0 then of_type[field] = of_type[field] * row[field] / sum end
    end
  end
  return result
end

-- Dollars an hour of a configuration's GPUs; nil where one has no price.
local function usd_per_h(c, opt)
  if not opt.prices then return opt.price_usd_per_h and c.num_gpus * opt.price_usd_per_h end
  local sum = 0
  for _, name in ipairs(c.device_types or {}) do
    if not opt.prices[name] then return nil end
    sum = sum + c.tensor_parallel * opt.prices[name]
  end
  return c.device_types and sum or nil
end

local function estimate(state, c, asked)
  local row = {}
  for key, value in pairs(c) do row[key] = value end
  local parts, num_layers = state.parts[c.scheme], state.num_layers
  local never = extrapolate.why_refused(state.measured, c, parts, num_layers, state.opt)
  if never then return refused(c, never) end
  local function mean(field)
    return extrapolate.mean(c, num_layers, function(own) return parts[own][field] end)
  end
  local memory, memory_error = extrapolate.memory_of(state.measured, c, parts, num_layers, state.opt)
  local tpot, intercept, at = extrapolate.latency_of(state.measured, c, num_layers, state.opt)
  local latency, latency_error = at(asked.output_tokens)
  row.tpot_s, row.ttft_s, row.latency_s, row.memory_bytes = tpot, intercept + tpot, latency, memory
  local why = why_refused(row)
  if why then return refused(c, why, memory > 0 and memory or nil) end
  row.further_s = extrapolate.further_of(state.measured, c, num_layers, state.opt)
  row.batch_size = row.further_s and state.opt.batch_size
  row.weight_bytes, row.activation_bytes, row.pipeline_bytes = mean "w", mean "a", mean "a_p"
  local run = extrapolate.timed_run(state.measured, c, num_layers, state.opt)
  row.provenance, row.perplexity_increase = run.provenance, run.perplexity_increase
  row.base_bytes = mean "base"
  row.block_bytes = row.base_bytes / (c.tensor_parallel * num_layers)
  row.gpu_s, row.cost_byte_s = c.num_gpus * latency, memory * latency
  local price = usd_per_h(c, asked)
  row.usd = price and price * latency / 3600 or nil
  row.error, row.memory_error = latency_error / latency, memory_error / memory
  row.latency_low_s, row.latency_high_s = latency - 2 * latency_error, latency + 2 * latency_error
  local types = extrapolate.types(c, num_layers)
  if #types > 1 then row.by_type = by_type(state, c, row, types) end
  return row
end

function Fingerprint:estimates(given)
  local state = private[self]
  if not state then core.refuse("fingerprint:estimates", "call it with a colon, on what ts.fingerprint gave") end
  local opt = read_estimates(given or {})
  if opt.prompt_tokens and opt.prompt_tokens ~= state.opt.prompt_tokens then
    core.refuse("fingerprint:estimates.prompt_tokens", ("the runs had prompts of %d tokens, and no equation goes to "
      .. "%d; make a fingerprint with prompt_tokens = %d"):format(state.opt.prompt_tokens, opt.prompt_tokens,
      opt.prompt_tokens))
  end
  if opt.prices and opt.price_usd_per_h then
    core.refuse("fingerprint:estimates.prices", "given beside price_usd_per_h; give one or the other")
  end
  for name, price in pairs(opt.prices or {}) do
    options.number(price, ("fingerprint:estimates.prices.%s"):format(tostring(name)), 0, 1e6)
  end
  local rows = {}
  for i, c in ipairs(state.configurations) do rows[i] = estimate(state, c, opt) end
  return rows
end

local function summary(self)
  if not private[self] then return "fingerprint" end
  return ("fingerprint: %d runs, %s of devices, %d configurations; error of the latency %s"):format(self.cost.num_runs,
    core.format_seconds(self.cost.gpu_s), #private[self].configurations, self.error.latency_ratio
      and ("%.1f %%"):format(100 * self.error.latency_ratio) or "unknown (one repeat)")
end

local meta = { __index = Fingerprint, __name = "tessera.Fingerprint", __tostring = summary }

local function add_cost(cost, run)
  cost.num_runs, cost.wall_s, cost.gpu_s = cost.num_runs + 1, cost.wall_s + run.wall_s, cost.gpu_s + run.gpu_s
  cost.peak_memory_bytes = math.max(cost.peak_memory_bytes, run.memory_bytes)
end

-- Medians of the errors of all estimates.
local function errors_of(map, opt)
  if opt.repeats < 2 then return {} end
  local latency, memory = {}, {}
  for _, row in ipairs(map:estimates { output_tokens = opt.output_tokens[2] }) do
    if not row.refused then
      latency[#latency + 1], memory[#memory + 1] = row.error, row.memory_error
    end
  end
  if #latency == 0 then return {} end
  return { latency_ratio = median(latency), memory_ratio = median(memory) }
end

return function(given)
  local opt = read(given)
  check_pair(opt.fingerprint_layers, path .. ".fingerprint_layers", "fingerprints")
  check_pair(opt.output_tokens, path .. ".output_tokens", "lengths")
  if chooses(opt) and given.repeats then
    core.refuse(path .. ".repeats", "max_error and max_gpu_s choose the repeats; leave one out")
  end
  if chooses(opt) and opt.latency_method == "L1" then
    core.refuse(path .. ".latency_method", "max_error and max_gpu_s choose layers of fingerprints; L1 has none")
  end
  local num_layers = layers_of(opt)
  local configurations = checked(opt.configurations)
  local state = { opt = opt, num_layers = num_layers, configurations = configurations, measured = {}, parts = {} }
  local map = { num_layers = num_layers, runs = {}, notes = {} }
  map.cost = { num_runs = 0, wall_s = 0, gpu_s = 0, peak_memory_bytes = 0 }
  with_measure(opt, configurations, most_layers(num_layers, opt), function(measure)
    map.chosen = chosen(measure, configurations, num_layers, opt, map.cost)
    if map.chosen then
      opt.fingerprint_layers, opt.repeats = map.chosen.fingerprint_layers, map.chosen.repeats
    end
    map.runs = measure_runs(measure, extrapolate.runs(configurations, num_layers, opt), opt)
  end)
  for _, run in ipairs(map.runs) do
    state.measured[extrapolate.key(run.num_layers, run)] = run
    if not run.refused then add_cost(map.cost, run) end
  end
  for _, c in ipairs(configurations) do
    local of_scheme = state.parts[c.scheme] or {}
    state.parts[c.scheme] = of_scheme
    for _, own in ipairs(extrapolate.types(c, num_layers)) do
      if not of_scheme[own.name] then
        local parts = extrapolate.memory_parts(state.measured, configurations, c.scheme, own.name, num_layers, opt)
        of_scheme[own.name] = parts
        for _, note in ipairs(parts.notes) do map.notes[#map.notes + 1] = note end
      end
    end
  end
  private[map] = state
  setmetatable(map, meta)
  map.error = errors_of(map, opt)
  return map
end
