-- What the random caller passes: objects of every kind, and values that belong nowhere.

local ffi = require "ffi"
local files = require "tessera.files"
local claims = require "tessera.desk.experiment.claims"
local core = require "tessera.core"
local host = require "tessera.host"
local store = require "tessera.store"
local ts = require "tessera"
local verdict = require "verdict"

local M = {}

local datasets, examples = host.installation.datasets_dir, host.installation.experiments_dir
M.text = ("The quick brown fox jumps over the lazy dog. "):rep(4)
M.tiny = examples .. "/indicator/data/tiny_llama"
M.statistics = M.tiny .. ".statistics.safetensors"
M.instance = datasets .. "/../tests/fuzz/corpus/instance/c1.json"
M.lengths = datasets .. "/../tests/fuzz/corpus/trace_csv/azure.csv"
M.samples = datasets .. "/../tests/fuzz/corpus/profile_data/tessera.csv"

local workload = { prompt_tokens = 32, output_tokens = 8, batch_size = 4 }
M.workload = workload

local function problem()
  return ts.problem { model = "opt-125m", cluster = "1xT4-16G+1xV100-32G", workload = workload,
    bitwidths = { 4, 8, 16 } }
end

local function plan()
  return assert(ts.plan(problem(), { prefill_micro_batch_size = 2, decode_micro_batch_size = 2 }))
end

local function tensor(columns)
  local data = {}
  for i = 1, 4 * columns do data[i] = (i * 7919 % 101 - 50) / 50 end
  return ts.tensor { shape = { 4, columns }, data = data }
end
M.tensor = tensor

local function experiment(check)
  return ts.experiment { name = "attack/one", grid = { i = { 1, 2, 3 }, p = { "a", "b" } }, check = check,
    quick = { i = { 1 } }, run = function(point) return { x_s = point.i } end }
end

local function rows()
  local list = {}
  for i, point in ipairs(ts.grid { i = { 1, 2, 3 }, p = { "a", "b" } }) do
    list[i] = { point = point, status = "done", x_s = i / 7, note = "n" .. i }
  end
  return list
end
M.rows = rows

local function filled_store()
  local file = store.open "attack.db"
  local run = file:start_run { experiment = "attack/one" }
  for _, row in ipairs(rows()) do file:add(run, { point = row.point, columns = { x_s = row.x_s } }) end
  return file
end

-- Of the module without models that the battery names in TESSERA_MODELS_MODULE, whose tokens are bytes.
local function language_model()
  if not files.exists "fake_model" then
    host.make_folder "fake_model"
    local config = core.from_json(core.read_file(M.tiny .. "/config.json"))
    config.vocab_size = 260
    core.write_file("fake_model/config.json", core.to_json(config))
    core.write_file("fake_model/model.safetensors", core.read_file(M.tiny .. "/model.safetensors"))
    core.write_file("fake_model/text.txt", M.text)
    core.write_file("fake_model/piqa.jsonl", [[{"goal": "to open", "sol1": "pull", "sol2": "push", "label": 0}]])
  end
  return ts.language_model { path = "fake_model", bitwidths = 4, threads = 1, progress = false }
end

-- A deployment and traffic that take a millisecond; steps without a model.
local function deployment()
  return ts.deployment { step_cost = { base_s = 0.01, per_token_s = 1e-5 }, replicas = 2, router = "least_requests",
    engine = { max_num_seqs = 4, max_num_batched_tokens = 64, kv_blocks = 32 } }
end

local function traffic()
  return ts.traffic { rate_per_s = 5, num_requests = 12, prompt_tokens = 40, output_tokens = 6 }
end
M.slo = { ttft_s = { p90 = 1 }, tpot_s = 0.5 }
M.fingerprint = {
  num_layers = 4, repeats = 2,
  configurations = ts.configurations { num_gpus = 2, tensor_parallel = { 1, 2 }, pipeline_parallel = { 1, 2 },
    schemes = { "fp16" } },
  measure = function(run)
    local times = {}
    for i, tokens in ipairs(run.output_tokens) do times[i] = 0.1 + 0.001 * run.num_layers * tokens end
    return { memory_bytes = 1e9 * run.num_layers, latency_s = times }
  end,
}
M.serving = { model = "opt-125m", cluster = "1xT4-16G", slo = M.slo, num_requests = 20, limit = 1,
  traffic = { rate_per_s = 5, prompt_tokens = 40, output_tokens = 6 }, disaggregated = false, tensor_parallel = { 1 },
  pipeline_parallel = { 1 }, bitwidths = { 16 }, kv_bitwidths = { 16 } }

local function perplexity() return language_model():perplexity { text = M.text, context_tokens = 30 } end

-- Points of a quality map, as plan:quality gives them.
local function quality_points()
  local list = {}
  for i = 1, 4 do
    list[i] = { omega = i / 4, kl_nats = 0.1 * i ^ 1.2, loss_increase_nats = 0.08 * i, base_perplexity = 12,
      model = "opt-125m", indicator = "constant 0", settings = "method=rtn" }
  end
  return list
end
M.quality_points = quality_points

local num_pruned = 0 -- a folder that is there is not replaced

--- How an object of each documented kind is made.
--- Two models on two kinds of nodes.
M.fleet = {
  format = "tessera-fleet-1", objective = "cost",
  device_types = { { name = "A", usd_per_h = 1 }, { name = "B", usd_per_h = 3 } },
  node_classes = {
    { name = "2xA", count = 2, devices = { A = 2 }, usd_per_h = 2 },
    { name = "1xB", count = 1, devices = { B = 1 }, usd_per_h = 3 },
  },
  models = { { name = "m", demand = { 3 } }, { name = "n", demand = { 1 } } },
  columns = {
    { model = 0, devices = { A = 1 }, rate = { 1.5 } }, { model = 1, devices = { A = 1 }, rate = { 0.5 } },
    { model = 1, devices = { B = 1 }, rate = { 2 } },
  },
}

M.make = {
  ["tessera.Model"] = function() return ts.model "opt-125m" end,
  ["tessera.Device"] = function() return ts.device "T4-16G" end,
  ["tessera.Cluster"] = function() return ts.cluster "2xT4-16G+1xV100-32G" end,
  ["tessera.Workload"] = function() return ts.workload(workload) end,
  ["tessera.Indicator"] = function() return ts.indicator { kind = "constant", model = "opt-125m" } end,
  ["tessera.Problem"] = problem,
  ["tessera.Plan"] = plan,
  ["tessera.PlanQuality"] = function() return plan().quality end,
  ["tessera.Stage"] = function() return plan().stages[1] end,
  ["tessera.StageMemory"] = function() return plan().stages[1].memory end,
  ["tessera.Run"] = function() return ts.simulate(plan()) end,
  ["tessera.RunStage"] = function() return ts.simulate(plan()).stages[1] end,
  ["tessera.Profile"] = function() return ts.profile { device = "T4-16G", kernel_set = "modern" } end,
  ["tessera.Weights"] = function() return ts.weights(M.tiny) end,
  ["tessera.Tensor"] = function() return tensor(16) end,
  ["tessera.Quantised"] = function() return ts.quantise { tensor = tensor(16), bitwidth = 4, group_size = 8 } end,
  ["tessera.QuantisedModel"] = function()
    return ts.quantise_model { model = M.tiny, bitwidths = 4, out = "quantised", group_size = 8, overwrite = true,
      progress = false }
  end,
  ["tessera.LanguageModel"] = language_model,
  ["tessera.Tokenizer"] = function() return language_model().tokenizer end,
  ["tessera.Generation"] = function() return language_model():generate("a", { max_tokens = 4 }) end,
  ["tessera.Speed"] = function()
    return language_model():speed { prompt_tokens = 8, context_tokens = 4, output_tokens = 2, repeats = 2 }
  end,
  ["tessera.Perplexity"] = perplexity,
  ["tessera.ZeroShot"] = function()
    return language_model():zero_shot { task = "piqa", file = "fake_model/piqa.jsonl" }
  end,
  ["tessera.Calibration"] = function()
    return language_model():calibrate { text = M.text, out = "calibrated.safetensors", num_samples = 2,
      sample_tokens = 16 }
  end,
  ["tessera.Engine"] = function()
    return ts.engine { max_num_seqs = 8, speculative = { num_tokens = 2, acceptance = 0.5 } }
  end,
  ["tessera.Traffic"] = traffic,
  ["tessera.Deployment"] = deployment,
  ["tessera.Served"] = function() return ts.serve(deployment(), traffic(), { slo = M.slo }) end,
  ["tessera.MaxRate"] = function()
    return ts.max_rate(deployment(), traffic(), { slo = M.slo, tolerance = 0.3, max_runs = 6 })
  end,
  ["tessera.FleetPeriods"] = function()
    return assert(ts.plan_fleet { cluster = "1xT4-16G", models = { { name = "a", model = "opt-125m", slo = M.slo,
      num_requests = 20, traffic = { rate_per_s = 1, prompt_tokens = 20, output_tokens = 4 } } }, time_limit_s = 4,
      periods = { { scale = 0.5 }, { hours = 2 } } })
  end,
  ["tessera.Fleet"] = function()
    return assert(ts.plan_fleet { cluster = "1xT4-16G", models = { { name = "a", model = "opt-125m", slo = M.slo,
      num_requests = 20, traffic = { rate_per_s = 1, prompt_tokens = 20, output_tokens = 4 } } } })
  end,
  ["tessera.ServingPlans"] = function() return assert(ts.plan_serving(M.serving)) end,
  ["tessera.RouterCard"] = function() return { name = "attackers", doc = "d", choose = function() return 1 end } end,
  ["tessera.StrategyCard"] = function()
    return { name = "attackers", doc = "d", place = function() return { devices = { 0 } } end }
  end,
  ["tessera.SchedulerCard"] = function() return { name = "attackers", doc = "d", schedule = function() end } end,
  ["tessera.QualityMap"] = function() return ts.quality_map { points = quality_points() } end,
  ["tessera.Experiment"] = experiment,
  ["tessera.Plot"] = function() return ts.plot { kind = "lines", rows = rows(), x = "i", y = "x_s", by = "p" } end,
  ["tessera.PrunedModel"] = function()
    num_pruned = num_pruned + 1
    return ts.prune_model { model = M.tiny, method = "structured", statistics = M.statistics,
      out = "pruned_model" .. num_pruned, progress = false }
  end,
  ["tessera.Fingerprint"] = function() return ts.fingerprint(M.fingerprint) end,
  ["tessera.Intent"] = function() return ts.intent { memory_bytes = 1e12 } end,
  ["tessera.Results"] = function() return ts.results("attack/one", { db = "attack.db" }) end,
  ["tessera.ResultStore"] = filled_store,
  ["tessera.Collection"] = function() return ts.collection { name = "c", scripts = { "readers.lua" } } end,
  ["tessera.PlannerCard"] = function() return { name = "attacker", doc = "d", plan = function() end } end,
  ["tessera.HeuristicCard"] = function() return { name = "attackers", doc = "d", improve = function() end } end,
}

--- Objects that live in a call only: each calls use(object) there.
M.within = {
  ["tessera.Claims"] = function(use) claims.check(experiment(use), rows()) end,
  ["tessera.Search"] = function(use) M.search(use) end,
  ["tessera.SchedulerView"] = function(use) M.steps(use) end,
  ["tessera.SchedulerRequest"] = function(use) M.steps(function() use(M.request) end) end,
  ["tessera.Move"] = function(use)
    M.search(function(search)
      local move = search:moves {}()
      if move then use(move) end
    end)
  end,
}

local improve -- of the attacked heuristic
ts.register_heuristic { name = "attacked", doc = "Calls what the attack wants called",
  improve = function(search) improve(search) end }

function M.search(use)
  improve = use
  assert(ts.plan(problem(), { planner = { "adabits", "attacked" }, time_limit_s = 5, on_error = "stop" }))
end

local step -- of the attacked scheduler
ts.register_scheduler { name = "attacked", doc = "Calls what the attack wants called",
  schedule = function(view) step(view) end }

-- Calls use(view) in the first step of a run; M.request is one of its requests then.
function M.steps(use)
  local first = true
  step = function(view)
    M.request = view:waiting(1) or view:running(1)
    if first then
      first = false
      use(view)
    end
    for i = 1, view.num_waiting do view:schedule(view:waiting(i)) end
    for i = 1, view.num_running do view:schedule(view:running(i)) end
  end
  ts.serve(ts.deployment { step_cost = { base_s = 0.01 }, engine = { scheduler = "attacked" } },
    ts.traffic { rate_per_s = 5, num_requests = 2, prompt_tokens = 5, output_tokens = 2 })
end

local kept = {}

--- An object of this kind: one for many calls, or sometimes one of its own.
function M.object(kind, random)
  if not kept[kind] or random:once_in(8) then kept[kind] = M.make[kind]() end
  return kept[kind]
end

local kinds = {}
for kind in pairs(M.make) do kinds[#kinds + 1] = kind end
table.sort(kinds)

local function raising() error(verdict.own_error, 0) end

local function deep(levels)
  local value = 1
  for _ = 1, levels do value = { value } end
  return value
end

local closed = io.tmpfile()
closed:close()

-- Lists of values that belong nowhere, or almost; one list is chosen, then one of its values.
local plain = {
  { false, true },
  { 0, -1, 1, 0.5, -0.0, 3, 1e308, -1e308, 1e-320, 2 ^ 53 + 2, -2 ^ 53, 2 ^ 31, 4096 },
  { 0 / 0, math.huge, -math.huge },
  { "", "x", "4", "0", "-1", "NaN", "1e999", "opt-125m", "T4-16G", "exact", "." },
  { "a\0b", "\255\254", "\27[31m", "a\nb", "\194\155m", ("y"):rep(70000), (" "):rep(70000) .. "x", "%s%n%d" },
  { print, raising, function() end, function() return {} end, function(...) return ... end, coroutine.yield },
  { io.stdout, closed, newproxy(true), ffi.new "int64_t", ffi.new "double[4]", ts },
}

-- The same of tables, made anew each time: whoever gets one may change it.
local tables = {
  function() return {} end,
  function(random) return random:pick { { 1, 2, 3 }, { "a", "b" }, { true }, { {} }, { { 1 }, { "x" } } } end,
  function(random)
    return random:pick { { nil, 2 }, { 1, nil, 3 }, { [0] = 1 }, { [1.5] = 1 }, { [-1] = 1 }, { [2 ^ 40] = 1 } }
  end,
  function(random)
    return random:pick { { a = 1 }, { 1, a = 2 }, { [true] = 1 }, { [{}] = 1 }, { ["a\27b"] = 1 }, { [""] = {} } }
  end,
  function(random) return random:pick { { 0 / 0 }, { math.huge }, { -1 }, { 2 ^ 60 }, { "4" }, { 4.5 } } end,
  function()
    local list = {}
    for i = 1, 10000 do list[i] = i end
    return list
  end,
  function()
    local self = {}
    self[1] = self
    return self
  end,
  function(random) return deep(random:pick { 10, 63, 65, 2000 }) end,
  function() return setmetatable({}, { __index = function() return 1 end, __len = function() return 5 end }) end,
  function() return setmetatable({}, { __index = raising, __tostring = raising, __call = raising }) end,
  function() return setmetatable({}, { __tostring = function() return "a liar" end, __metatable = "tessera.Plan" }) end,
  function() return coroutine.create(raising) end,
  function() return select(2, pcall(ts.model, "none")) end,
}

--- A value that belongs nowhere, or almost.
function M.odd(random)
  local kind = random:below(8)
  if kind == 0 then return nil end
  if kind < 4 then return random:pick(random:pick(plain)) end
  if kind < 7 then return random:pick(tables)(random) end
  return M.object(random:pick(kinds), random)
end

return M
