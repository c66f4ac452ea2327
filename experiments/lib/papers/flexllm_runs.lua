-- FlexLLM's strategies as plans that run here: two workers, each on a core of its own, of given speeds and links
-- (ts.execute { speeds =, link_gbps = }), and the paper's model of what they take.

local core = require "tessera.core"
local exists = require("tessera.files").exists
local models = require "lib.runtime.models"
local solver = require "tessera.solver"
local steady = require "lib.runtime.steady"
local ts = require "tessera"

local M = {
  strategies = { "data_parallel", "attention_offload", "model_parallel", "model_parallel_2" },
  -- Prompt and output tokens: where the line is fitted, and where it is judged, in the paper's proportions.
  loads = {
    [models.small] = { short = { 24, 8 }, medium = { 96, 16 }, large = { 192, 32 } },
    [models.shaped] = { short = { 16, 8 }, medium = { 64, 16 }, large = { 128, 32 } },
  },
  batch_sizes = { [models.small] = { 2, 4, 8, 16 }, [models.shaped] = { 2, 4, 8 } },
}

local element_bytes = 4 -- hidden states, queries, keys and values travel and lie in f32
local flop_per_s = 5e10 -- of a core; only scale over it can be identified

-- Operations of a layer on a batch, as (5) and (6) for any feed-forward network and number of KV heads; prompts are not
-- taken as causal.
local function flop_of(case, batch_size, phase)
  local model = case.model
  local prompt_tokens, output_tokens = unpack(case.load)
  local context = phase == "prefill" and prompt_tokens or prompt_tokens + output_tokens / 2
  local tokens = batch_size * (phase == "prefill" and prompt_tokens or 1)
  return { matrices = 2 * tokens * model.layer_parameters, attention = 4 * tokens * context * model.hidden_size }
end

local function over_link(case, bytes) return bytes / (case.link_gbps * 1e9 / 8) end

-- Seconds of a phase before any correction: (7), (8) and for two micro-batches their `simulated` reading, (10), (11)
-- and (13), (14). case: model, load, batch_size, ratio, link_gbps.
local seconds = {}

function seconds.data_parallel(case, phase, first)
  local layers, most = case.model.num_layers, 0
  for i, requests in ipairs { first, case.batch_size - first } do
    local flop = flop_of(case, requests, phase)
    most = math.max(most, layers * (flop.matrices + flop.attention) / (flop_per_s * (i == 1 and 1 or case.ratio)))
  end
  return most
end

local function model_parallel(overlaps)
  return function(case, phase)
    local model = case.model
    local flop, first = flop_of(case, case.batch_size, phase), math.ceil(model.num_layers / 2)
    local layer = (flop.matrices + flop.attention) / flop_per_s
    local own, other = first * layer, (model.num_layers - first) * layer / case.ratio
    local tokens = case.batch_size * (phase == "prefill" and case.load[1] or 1)
    return (overlaps and math.max(own, other) or own + other)
      + over_link(case, tokens * model.hidden_size * element_bytes)
  end
end

seconds.model_parallel, seconds.model_parallel_2 = model_parallel(false), model_parallel(true)

function seconds.attention_offload(case, phase)
  local model, flop = case.model, flop_of(case, case.batch_size, phase)
  local head_dim = model.hidden_size / model.num_heads
  if phase == "prefill" then
    local cache = 2 * case.batch_size * (case.load[1] + case.load[2]) * model.num_layers * model.num_kv_heads * head_dim
    return math.max(model.num_layers * (flop.matrices + flop.attention) / flop_per_s,
      over_link(case, cache * element_bytes))
  end
  local moved = case.batch_size * (2 * model.hidden_size + 2 * model.num_kv_heads * head_dim) * element_bytes
  return model.num_layers * (flop.matrices / flop_per_s + flop.attention / (flop_per_s * case.ratio)
    + over_link(case, moved))
end

-- Requests of the first worker under data parallelism: in proportion, one at least for each.
local function first_share(case)
  local first = math.floor(case.batch_size / (1 + case.ratio) + 0.5)
  return math.max(1, math.min(case.batch_size - 1, first))
end

--- What the paper's model says of a strategy, before correction.
function M.predict(strategy, case, phase) return seconds[strategy](case, phase, first_share(case)) end

-- A device for each worker; what they are is said by speeds.
local names = { "T4-16G", "L4" }

local function problem_of(case, batch_size, devices)
  return ts.problem { model = case.folder, cluster = core.cluster(devices), bitwidths = { 16 }, kv_bitwidth = 16,
    tensor_parallel = 1, theta = 0,
    workload = { prompt_tokens = case.load[1], output_tokens = case.load[2], batch_size = batch_size } }
end

local function layers_of(count)
  local bitwidths = {}
  for i = 1, count do bitwidths[i] = 16 end
  return bitwidths
end

local function manual(problem, stages, size)
  return assert(ts.plan(problem, { planner = "manual", stages = stages, prefill_micro_batch_size = size,
    decode_micro_batch_size = size }))
end

--- The plan of a strategy. case: as for predict, and folder.
function M.plan(strategy, case)
  local devices, layers, batch = { { names[1], 1 }, { names[2], 1 } }, case.model.num_layers, case.batch_size
  local whole = problem_of(case, batch, devices)
  if strategy == "data_parallel" then
    local first, parts = first_share(case), {}
    for i, requests in ipairs { first, batch - first } do
      local own = solver.on_devices(whole, { i - 1 }, requests)
      parts[i] = { manual(own, { { device = names[i], bitwidths = layers_of(layers) } }, requests), { i - 1 } }
    end
    return assert(solver.join_plans(whole, parts, strategy))
  elseif strategy == "attention_offload" then
    return manual(whole, { { device = names[1], bitwidths = layers_of(layers),
      attention = { device = names[2], ratio = 1 } } }, batch)
  end
  local first = math.ceil(layers / 2)
  return manual(whole, { { device = names[1], bitwidths = layers_of(first) },
    { device = names[2], bitwidths = layers_of(layers - first) } },
    strategy == "model_parallel" and batch or math.ceil(batch / 2))
end

-- Speeds of a plan's processes in the order of their ranks; the slow worker is the second device.
local function speeds_of(plan, ratio, slow)
  local list = {}
  local function add(device) list[#list + 1] = device == slow and ratio or 1 end
  for _, pipeline in ipairs(plan.replicas or { plan }) do
    for _, stage in ipairs(pipeline.stages) do
      add(stage.device)
      if stage.attention then add(stage.attention.device) end
    end
  end
  return list
end

--- Runs a plan: seconds of prefill (until every prompt has a token) and of a decode step, latency, tokens and stages.
--- slow: name of its slow device.
function M.run(plan, case, slow)
  local run = ts.execute(plan, { model = case.folder, device = "cpu", threads = 1, progress = false, temperature = 0,
    prompts = models.prompts(case.batch_size, case.load[1], case.model.vocab_size), max_tokens = case.load[2],
    ignore_stop_tokens = true, speeds = speeds_of(plan, case.ratio, slow or names[2]), link_gbps = case.link_gbps,
    link_latency_s = case.link_latency_s })
  if run.state ~= "done" then core.raise("internal", run.why, "flexllm") end
  return { prefill_s = run.prefill_s, decode_s = (run.total_s - run.prefill_s) / (case.load[2] - 1),
    latency_s = run.total_s, tokens = run.tokens, stages = run.stages }
end

--- Each time in the middle of those of some runs, after one that does not count.
function M.measure(plan, case, repeats, slow)
  local found, lists = M.run(plan, case, slow), { prefill_s = {}, decode_s = {}, latency_s = {} }
  for i = 1, repeats do
    found = M.run(plan, case, slow)
    for name, list in pairs(lists) do list[i] = found[name] end
  end
  for name, list in pairs(lists) do found[name] = steady.median(list) end
  return found
end

local fits = {} -- by model

--- The lines through what each strategy takes at short prompts on two equal workers, [strategy][phase], as the paper
--- fits them: once for all points of an experiment.
function M.corrections(name, case, context)
  local path = ("%s/%s%s.fit.json"):format(context.output_dir, name:match "^[%w.-]+", context.quick and ".quick" or "")
  if not fits[name] and exists(path) then fits[name] = core.from_json(core.read_file(path)) end
  if fits[name] then return fits[name] end
  local found = {}
  for _, strategy in ipairs(M.strategies) do
    local points = { prefill = {}, decode = {} }
    for i, batch_size in ipairs(M.batch_sizes[name]) do
      local own = { folder = case.folder, model = case.model, load = M.loads[name].short, batch_size = batch_size,
        ratio = 1, link_gbps = 16 }
      local run = M.measure(M.plan(strategy, own), own, context.quick and 1 or 5)
      for phase, list in pairs(points) do
        list[i] = { predicted_s = M.predict(strategy, own, phase), measured_s = run[phase .. "_s"] }
      end
    end
    found[strategy] = { prefill = ts.fit_correction(points.prefill), decode = ts.fit_correction(points.decode) }
  end
  core.write_file(path, core.to_json(found))
  fits[name] = found
  return found
end

--- What the corrected model says that a strategy takes.
function M.corrected_latency(strategy, case, corrections)
  local sum = 0
  for _, phase in ipairs { "prefill", "decode" } do
    local line = corrections[strategy][phase]
    local times = phase == "prefill" and 1 or case.load[2] - 1
    sum = sum + times * (line.scale * M.predict(strategy, case, phase) + line.offset_s)
  end
  return sum
end

local core_device -- as ts.detect measured it

--- The planner's own plan on a core and one of case.ratio of its rates, and the name of the latter.
function M.planned(case)
  core_device = core_device or ts.detect({ cpu = true, cores_per_device = 1 }).devices[1]:to_table()
  local slow = {}
  for key, value in pairs(core_device) do slow[key] = value end
  slow.name, slow.full_name, slow.flop_per_s = "slow-core", nil, {}
  for kind, rate in pairs(core_device.flop_per_s) do slow.flop_per_s[kind] = case.ratio * rate end
  slow.memory_bytes_per_s = case.ratio * core_device.memory_bytes_per_s
  local devices = { { core.device(core_device), 1 }, { core.device(slow), 1 }, link_gbps = case.link_gbps,
    link_latency_s = 0 }
  local problem = problem_of(case, case.batch_size, devices)
  return ts.plan(problem, { replicas = "all" }), slow.name
end

--- Whether a plan is that of data parallelism, by whatever names: the same requests on each worker, in one micro-batch.
function M.is_data_parallel(plan, case, slow)
  local replicas, first = plan.replicas or {}, first_share(case)
  for _, replica in ipairs(replicas) do
    local requests = replica:problem().workload.batch_size
    local own = replica.stages[1].device == slow and case.batch_size - first or first
    if #replica.stages > 1 or requests ~= own or replica.prefill_micro_batch_size ~= requests
      or replica.decode_micro_batch_size ~= requests then return false end
  end
  return #replicas == 2
end

--- Whether two runs wrote the same.
function M.is_same(a, b)
  for i, tokens in ipairs(a.tokens) do
    if table.concat(tokens, " ") ~= table.concat(b.tokens[i], " ") then return false end
  end
  return #a.tokens == #b.tokens
end

--- One process with all layers.
function M.alone(case)
  local problem = problem_of(case, case.batch_size, { { names[1], 1 } })
  local stage = { device = names[1], bitwidths = layers_of(case.model.num_layers) }
  return M.run(manual(problem, { stage }, case.batch_size), case)
end

return M
