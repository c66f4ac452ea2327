-- Calls that succeed, of every documented function and method: what the random caller starts from. Each is a function
-- that returns the list of arguments, of methods without the object.

local core = require "tessera.core"
local store = require "tessera.store"
local ts = require "tessera"
local values = require "values"

local M = {}

local function object(kind) return values.make["tessera." .. kind]() end

local function one(...)
  local arguments = { ... }
  return function() return arguments end
end

local gemms = ts.calibration_points { device = "T4-16G", kernel_set = "modern", dtype = "bfloat16", count = 12 }
for i, sample in ipairs(gemms) do sample.latency_s = 1e-5 * i + 1e-12 * sample.m * sample.n * sample.k / 50 end

local sizes = { prefill_micro_batch_size = 2, decode_micro_batch_size = 2 }
local order = { "T4-16G", "V100-32G" }
local hand_made = {
  { device = "T4-16G", bitwidths = { 8, 8, 8, 8, 8, 8 } },
  { device = "V100-32G", bitwidths = { 16, 16, 16, 16, 16, 16 } },
}

local num_pruned = 0

local function with(fields, more)
  local copy = {}
  for key, value in pairs(fields) do copy[key] = value end
  for key, value in pairs(more) do copy[key] = value end
  return copy
end

M.functions = {
  ["ts.model"] = one { config = values.tiny .. "/config.json" },
  ["ts.device"] = one { name = "mine", memory_bytes = 16e9, memory_bytes_per_s = 3e11,
    flop_per_s = { fp16 = 6e13, int8 = 1.2e14 }, compute_capability = 7.5, pcie_bytes_per_s = 1.2e10 },
  ["ts.cluster"] = one { { "T4-16G", 2, node = "a" }, { "V100-32G", 1, node = "b" }, link_gbps = 100 },
  ["ts.workload"] = one(values.workload),
  ["ts.indicator"] = one { kind = "variance", model = values.tiny, bitwidths = { 4, 8 }, threads = 1 },
  ["ts.problem"] = one { model = "opt-125m", cluster = "2xT4-16G", workload = values.workload, bitwidths = { 4, 8 },
    theta = 1 },
  ["ts.plan"] = function()
    return { object "Problem", with(sizes, { planner = "exact", time_limit_s = 0.3, threads = 1 }) }
  end,
  ["ts.load_plan"] = function()
    object "Plan":save "plan.json"
    return { "plan.json" }
  end,
  ["ts.load_launch"] = function()
    object "Plan":export("json", "launch", { overwrite = true })
    return { "launch" }
  end,
  ["ts.plan_fleet"] = one { instance = values.fleet, gap = 0, time_limit_s = 1, seed = 2 },
  ["ts.check"] = function() return { object "Plan" } end,
  ["ts.simulate"] = function() return { object "Plan", { num_batches = 2 } } end,
  ["ts.report"] = function() return { object "Plan", "report.html" } end,
  ["ts.picture"] = function() return { object "Plan", "picture.svg" } end,
  ["ts.device_changes"] = function() return { object "Plan", { time_limit_s = 0.1 } } end,
  ["ts.beside"] = function() return { object "Plan", { time_limit_s = 0.1 } } end,
  ["ts.replan"] = function() return { object "Plan", "1xA100-80G", { time_limit_s = 0.1 } } end,
  ["ts.max_batch"] = function() return { object "Problem", { max_batch_size = 8, time_limit_s = 0.1 } } end,
  ["ts.pareto"] = function() return { object "Problem", { max_points = 3, max_subsets = 3, time_limit_s = 0.1 } } end,
  ["ts.size"] = one { model = "opt-125m", workload = values.workload, devices = { "T4-16G" },
    target = { latency_s = 10 }, max_devices = 2, time_limit_s = 0.1 },
  ["ts.select_strategy"] = one { model = "opt-1.3b", workload = values.workload, devices = { "A10", "T4-16G" },
    link_gbps = 16, prices = { A10 = 1, ["T4-16G"] = 0.4 },
    strategies = { "data_parallel", { name = "most", attention_on = 2, split = function() return 0.9 end } } },
  ["ts.fit_correction"] = one { { predicted_s = 1, measured_s = 3 }, { predicted_s = 2, measured_s = 4 } },
  ["ts.planners"] = one(),
  ["ts.data_sets"] = one { name = "azure-2023" },
  ["ts.register_planner"] = one { name = "attack_planner", doc = "d", plan = function() return nil, "none" end,
    options = { slack = { type = "number", default = 0.1, min = 0, max = 1, doc = "d" } } },
  ["ts.register_heuristic"] = one { name = "attack_heuristic", doc = "d", improve = function() end },
  ["ts.weights"] = one { path = values.tiny },
  ["ts.tensor"] = one { shape = { 2, 3 }, data = { 1, 2, 3, 4, 5, 6 } },
  ["ts.quantise"] = function() return { { tensor = values.tensor(16), bitwidth = 4, group_size = 8 } } end,
  ["ts.quantise_model"] = one { model = values.tiny, bitwidths = 4, out = "quantised", group_size = 8,
    overwrite = true, progress = false },
  ["ts.prune_model"] = function()
    num_pruned = num_pruned + 1 -- a folder that is there is not replaced
    return { { model = values.tiny, method = "wanda_2_4", statistics = values.statistics, out = "pruned" .. num_pruned,
      progress = false } }
  end,
  ["ts.quality_map"] = function() return { { points = values.quality_points() } } end,
  ["ts.language_model"] = function()
    object "LanguageModel"
    return { { path = "fake_model", bitwidths = { 16, 8, 4, 4, 3, 3 }, group_size = 8, threads = 1, progress = false } }
  end,
  ["ts.tokenizer"] = function()
    object "LanguageModel"
    return { { path = "fake_model" } }
  end,
  ["ts.profile"] = one { device = "T4-16G", kernel_set = "modern" },
  ["ts.fit_profile"] = one { device = "T4-16G", samples = gemms, folds = 2 },
  ["ts.cross_validate"] = one { device = "T4-16G", samples = gemms, folds = 2 },
  ["ts.calibrate"] = one { device = "T4-16G", samples = gemms, folds = 2 },
  ["ts.calibration_points"] = one { device = "T4-16G", dtype = "bfloat16", count = 5 },
  ["ts.read_profile_data"] = one(values.samples, { warn = false }),
  ["ts.histogram"] = one({ 1, 5, 9, 200 }, { 0, 8, 128 }),
  ["ts.grid"] = one { a = { 1, 2 }, b = { "x", "y" } },
  ["ts.paper"] = one "llmpq/table4.csv",
  ["ts.table"] = function() return { values.rows(), { columns = { "i", "x_s" } } } end,
  ["ts.repeated"] = one({ { point = { i = 1, rep = 1 }, x_s = 1 }, { point = { i = 1, rep = 2 }, x_s = 3 } }, "rep"),
  ["ts.plot"] = function() return { { kind = "lines", rows = values.rows(), x = "i", y = "x_s", by = "p" } } end,
  ["ts.results"] = one("attack/one", { db = "attack.db" }),
  ["ts.experiment"] = one { name = "attack/two", grid = { i = { 1, 2 } }, quick = { i = { 1 } },
    run = function() return { x_s = 1 } end, check = function() end, columns = { "x_s" }, notes = { "a note" },
    plots = { { kind = "lines", x = "i", y = "x_s" } } },
  ["ts.collection"] = one { name = "c", scripts = { "readers.lua" } },
  ["ts.help_topic"] = one "models",
  ["ts.help_topics"] = one(),
  ["ts.engine"] = one { scheduler = "vllm_v1", max_num_seqs = 8, max_num_batched_tokens = 512, kv_blocks = 64,
    speculative = { method = "ngram", num_tokens = 2, acceptance = { 0.5, 0.25 }, found = 0.9 } },
  ["ts.traffic"] = one { rate_per_s = 5, num_requests = 20, prompt_tokens = { distribution = "lognormal", mean = 30,
    cv = 0.5, max = 60 }, output_tokens = 6, prefix_groups = 2, prefix_tokens = 16, seed = 3 },
  ["ts.deployment"] = function()
    return { { plan = object "Plan", engine = object "Engine",
      router = { name = "prefix_aware", signal_age_s = 0.1 } } }
  end,
  ["ts.serve"] = function() return { object "Deployment", object "Traffic", { slo = values.slo, seed = 2 } } end,
  ["ts.replay"] = function() return { object "Served" } end,
  ["ts.view"] = function() return { object "Served", "served.html" } end,
  ["ts.max_rate"] = function()
    return { object "Deployment", object "Traffic", { slo = values.slo, tolerance = 0.3, max_runs = 5 } }
  end,
  ["ts.plan_serving"] = one(values.serving),
  ["ts.routers"] = one(),
  ["ts.register_router"] = one { name = "attack_router", doc = "d", prefixes = true,
    choose = function(replicas) return #replicas end },
  ["ts.schedulers"] = one(),
  ["ts.register_scheduler"] = one { name = "attack_scheduler", doc = "d", schedule = function() end,
    options = { slack = { type = "number", default = 0.1, min = 0, max = 1, doc = "d" } } },
  ["ts.strategies"] = one(),
  ["ts.register_strategy"] = one { name = "attack_strategy", doc = "d", prepare = function() end,
    place = function() return { devices = { 0 } } end,
    options = { slack = { type = "any", default = 0.1, doc = "d" } } },
  ["ts.schemes"] = one(),
  ["ts.configurations"] = one { num_gpus = 2, tensor_parallel = { 1, 2 }, pipeline_parallel = { 1, 2 },
    schemes = { "fp16", "int4" }, cluster = "2xT4-16G+1xA10" },
  ["ts.fingerprint"] = one(values.fingerprint),
  ["ts.select"] = one { model = "opt-125m", cluster = "2xA6000", schemes = { "fp16", "int4" } },
  ["ts.intent"] = one { minimise = "latency", memory_bytes = 1e12 },
  ["ts.place"] = one({ { tensor_parallel = 1, pipeline_parallel = 2, base_bytes = 8, memory_bytes = 9,
      device_types = { "A10", "L4" }, by_type = { A10 = { base_bytes = 9 }, L4 = { base_bytes = 7 } } } },
    { { free_bytes = 10, load = 0.5, device = "A10" }, { free_bytes = 20, load = 0, device = "L4" } },
    { num_layers = 4, policy = "packing" }),
  ["ts.sampling.draw"] = one { logits = { 1, 2, 3 }, temperature = 0.8, num_draws = 5 },
  ["ts.sampling.probabilities"] = one { logits = { 1, 2, 3 }, top_k = 2 },
  ["ts.speculative.accepted_drafts"] = one { acceptance = 0.7, num_tokens = 3, num_requests = 2, num_steps = 3 },
  ["ts.speculative.break_even_batch"] = one { acceptance = 0.7, num_tokens = 3, base_s = 6e-3, per_token_s = 2e-5,
    draft_base_s = 4e-4, draft_per_sequence_s = 2e-6 },
  ["ts.speculative.expected_tokens"] = one { acceptance = { 0.7, 0.5 }, num_tokens = 2 },
  ["ts.speculative.prompt_lookup"] = one { tokens = { 1, 2, 3, 1, 2 }, prompt_lookup_min = 1, prompt_lookup_max = 2,
    num_tokens = 3 },
  ["ts.speculative.rule"] = one { q = { 0.2, 0.5, 0.3 }, p = { 0.5, 0.3, 0.2 } },
  ["ts.speculative.verify"] = one { p = { { 0.5, 0.5 }, { 0.9, 0.1 } }, q = { { 0.3, 0.7 } }, seed = 1,
    num_draws = 9 },
  ["store.open"] = one("attack.db", { create = true }),
}

local term = { stage = 1, bitwidth = 8, coefficient = 1 }
local constraint = { name = "c", terms = { term }, sense = "<=", rhs = 8 }
local point = { i = 1, p = "a" }

M.methods = {
  ["tessera.Model:kv_bytes_per_token"] = one(16),
  ["tessera.Model:layer_bytes"] = one(4),
  ["tessera.Cluster:link"] = one(0, 2),
  ["tessera.Cluster:topology"] = one(),
  ["tessera.Cluster:notes"] = one(),
  ["tessera.Cluster:priced"] = one("T4-16G", 0.3),
  ["tessera.Cluster:part"] = one { 0, 2 },
  ["tessera.Cluster:node_indices"] = one(),
  ["tessera.Cluster:places"] = one(),
  ["tessera.Indicator:omega"] = one(0, 4),
  ["tessera.Indicator:omegas"] = one(4),
  ["tessera.Indicator:standard_error"] = one(0, 4),
  ["tessera.Indicator:save"] = one "omega.json",
  ["tessera.Plan:explain"] = one { what_if = false, robustness = 1, time_limit_s = 0.1, as = "table" },
  ["tessera.Plan:save"] = one "plan.json",
  ["tessera.Plan:export"] = one("vllm", "launch", { overwrite = true }),
  ["tessera.Plan:problem"] = one(),
  ["tessera.Plan:with_note"] = one "a note",
  ["tessera.Plan:quality"] = function()
    object "LanguageModel"
    return { "fake_model", { text = values.text, context_tokens = 30, threads = 1, group_size = 8 } }
  end,
  ["tessera.LanguageModel:logits"] = one { 1, 2, 3 },
  ["tessera.LanguageModel:generate"] = one("Hello", { max_tokens = 8, temperature = 0.8, top_k = 20, top_p = 0.9,
    repetition_penalty = 1.1, seed = 3, on_token = function() end }),
  ["tessera.LanguageModel:perplexity"] = one { text = values.text, context_tokens = 30, stride = 10, max_tokens = 100 },
  ["tessera.LanguageModel:zero_shot"] = one { task = "piqa", file = "fake_model/piqa.jsonl", limit = 1 },
  ["tessera.LanguageModel:calibrate"] = one { text = values.text, out = "calibrated.safetensors",
    num_samples = 2, sample_tokens = 16 },
  ["tessera.LanguageModel:speed"] = one { prompt_tokens = 8, context_tokens = 4, output_tokens = 2, repeats = 2 },
  ["tessera.LanguageModel:describe"] = one(),
  ["tessera.LanguageModel:to_table"] = one(),
  ["tessera.Tokenizer:encode"] = one("a text", { special = false }),
  ["tessera.Tokenizer:decode"] = one({ 97, 256, 98 }, { skip_special = true }),
  ["tessera.Tokenizer:token"] = one(97),
  ["tessera.QualityMap:predict"] = one(0.6, { extrapolate = true }),
  ["tessera.QualityMap:save"] = one "map.json",
  ["tessera.QualityMap:to_table"] = one(),
  ["tessera.Plot:svg"] = one(false, 340),
  ["tessera.Plot:text"] = one(80),
  ["tessera.Plot:save"] = one "plot.svg",
  ["tessera.Problem:with"] = one { theta = 2, bitwidths = { 8 } },
  ["tessera.Problem:add_constraint"] = one(constraint),
  ["tessera.Problem:write_model"] = one("model.lp", sizes),
  ["tessera.Problem:evaluate"] = one(with(sizes, { stages = hand_made })),
  ["tessera.Problem:micro_batch_sizes"] = one(),
  ["tessera.Problem:balanced_partition"] = one(with(sizes, { device_order = order, bitwidth = 8 })),
  ["tessera.Problem:device_facts"] = one(with(sizes, { device_order = order })),
  ["tessera.Problem:offload"] = one(with(sizes, { stages = hand_made })),
  ["tessera.Problem:variants"] = one(),
  ["tessera.Problem:device_orders"] = one(4),
  ["tessera.Deployment:step_s"] = one { num_decodes = 3, context_tokens = 100, num_prompts = 1, prompt_tokens = 20 },
  ["tessera.Traffic:requests"] = one(),
  ["tessera.Traffic:save"] = one "traffic.csv",
  ["tessera.Traffic:scaled"] = one { rate_per_s = 9 },
  ["tessera.Traffic:joined"] = function() return { { object "Traffic" } } end,
  ["tessera.FleetPeriods:explain"] = one(),
  ["tessera.FleetPeriods:losses"] = one { time_limit_s = 1, gap = 0.1 },
  ["tessera.FleetPeriods:save"] = one "day",
  ["tessera.FleetPeriods:to_table"] = one(),
  ["tessera.Fleet:to_table"] = one(),
  ["tessera.Fleet:losses"] = one { time_limit_s = 1, gap = 0.1 },
  ["tessera.Fleet:explain"] = one(),
  ["tessera.Fleet:replan"] = one { demand_per_s = { a = 2 }, time_limit_s = 1 },
  ["tessera.Fleet:save"] = one "fleet.json",
  ["tessera.Fleet:diff"] = function() return { object "Fleet" } end,
  ["tessera.Fleet:export"] = one("json", "fleet", { overwrite = true }),
  ["tessera.Fleet:deployment"] = one "a",
  ["tessera.ServingPlans:frontier"] = one(),
  ["tessera.ServingPlans:export"] = one("vllm", "launch", { overwrite = true }),
  ["tessera.SchedulerView:running"] = one(1),
  ["tessera.SchedulerView:waiting"] = one(1),
  ["tessera.SchedulerView:schedule"] = function() return { values.request, 1 } end,
  ["tessera.SchedulerView:continue_running"] = one(1),
  ["tessera.SchedulerView:preempt"] = function() return { values.request } end,
  ["tessera.SchedulerView:cached_tokens"] = function() return { values.request } end,
  ["tessera.SchedulerView:blocks_needed"] = function() return { values.request } end,
  ["tessera.Served:requests"] = one(),
  ["tessera.Served:steps"] = one(),
  ["tessera.Served:series"] = one(10),
  ["tessera.Served:prompts"] = one(),
  ["tessera.Served:tokens"] = one(),
  ["tessera.Served:texts"] = one(),
  ["tessera.Served:stop_reasons"] = one(),
  ["tessera.Served:save_trace"] = one "served.json",
  ["tessera.Served:save_requests"] = one "served.csv",
  ["tessera.Profile:layer_s"] = one { model = "opt-30b", bitwidth = 16, phase = "decode", batch_size = 8, tokens = 1,
    context_tokens = 512 },
  ["tessera.Profile:all_reduce_s"] = one { dtype = "bfloat16", bytes = 65536, num_devices = 2 },
  ["tessera.Profile:all_gather_s"] = one { bytes = 65536, num_devices = 2 },
  ["tessera.Profile:reduce_scatter_s"] = one { bytes = 65536, num_devices = 4 },
  ["tessera.Profile:all_to_all_s"] = one { bytes = 65536, num_devices = 8 },
  ["tessera.Profile:send_recv_s"] = one { bytes = 65536 },
  ["tessera.Profile:experts_s"] = one { dtype = "bfloat16", tokens = 64, hidden_size = 4096, inner_size = 1536,
    num_experts = 128, top_k = 8, routing = 1.2, num_devices = 2 },
  ["tessera.Profile:gemm_s"] = one { dtype = "bfloat16", m = 64, n = 4096, k = 4096 },
  ["tessera.Profile:attention_s"] = one { phase = "decode", dtype = "bfloat16", batch_size = 8, tokens = 1,
    context_tokens = 512, num_heads = 32, num_kv_heads = 8, head_dim = 128 },
  ["tessera.Profile:save"] = one "profile.json",
  ["tessera.Quantised:dequantised"] = one(),
  ["tessera.ResultStore:start_run"] = one { experiment = "attack/one", declaration = { name = "attack/one" } },
  ["tessera.ResultStore:runs"] = one { experiment = "attack/one" },
  ["tessera.ResultStore:run"] = one(1),
  ["tessera.ResultStore:add"] = one(1, { point = { i = 9 }, columns = { x_s = 1 } }),
  ["tessera.ResultStore:add_all"] = one(1, { { point = { i = 8 }, columns = { x_s = 1 }, replace = true } }),
  ["tessera.ResultStore:keys"] = one(1),
  ["tessera.ResultStore:rows"] = one(1, { meta = true }),
  ["tessera.ResultStore:artefacts"] = function() return { 1, store.key(point) } end,
  ["tessera.ResultStore:set_claims"] = one(1, { { text = "t", status = "pass", passed = true } }),
  ["tessera.ResultStore:merge"] = one({ "attack.db" }, { prefer = "first" }),
  ["tessera.ResultStore:close"] = one(),
  ["tessera.Fingerprint:estimates"] = one { output_tokens = 10, price_usd_per_h = 1 },
  ["tessera.Intent:rank"] = one { { num_gpus = 1, memory_bytes = 1, latency_s = 1, cost_byte_s = 1 } },
  ["tessera.Results:has"] = one(point),
  ["tessera.Results:add"] = one({ i = 7, p = "c" }, { x_s = 3 }),
  ["tessera.Results:rows"] = one { i = { 1, 2 } },
  ["tessera.Results:runs"] = one(),
  ["tessera.Results:count"] = one { i = 1 },
  ["tessera.Results:diff"] = one "attack.db",
  ["tessera.Run:save_trace"] = one "trace.json",
  ["tessera.Run:requests"] = one(),
  ["tessera.Run:unit_times"] = one(),
  ["tessera.Tensor:shape"] = one(),
  ["tessera.Tensor:dtype"] = one(),
  ["tessera.Tensor:min"] = one(),
  ["tessera.Tensor:max"] = one(),
  ["tessera.Tensor:mean"] = one(),
  ["tessera.Tensor:variance"] = one(),
  ["tessera.Tensor:num_not_finite"] = one(),
  ["tessera.Tensor:to_table"] = one(1, 4),
  ["tessera.Weights:tensors"] = one(),
  ["tessera.Weights:tensor"] = one "model.norm.weight",
  ["tessera.Weights:model"] = one(),
  ["tessera.Weights:bitwidths"] = one(),
  ["tessera.Weights:linear"] = one(0, "q_proj"),
  ["tessera.Workload:requests"] = one(),
  ["tessera.Claims:expect_best"] = one { column = "x_s", is = { p = "a" }, highest = true, where = { i = { 1, 2 } } },
  ["tessera.Claims:expect_close"] = one { column = "x_s", to = 0.5, rel = 2 },
  ["tessera.Claims:expect_all"] = one { column = "x_s", at_least = 0, at_most = 9 },
  ["tessera.Claims:expect_order"] = one { column = "x_s", by = "p", order = { "a", "b" }, highest = true },
  ["tessera.Claims:expect_ratio"] = one { column = "x_s", of = { p = "a" }, over = { p = "b" }, at_least = 0 },
  ["tessera.Claims:expect_that"] = one { text = "t",
    holds = function(at) return at { i = 1, p = "a" } ~= nil, "n" end },
  ["tessera.Claims:expect"] = one("t", true, "1 of 1"),
  ["tessera.Claims:skip"] = one "t",
  ["tessera.Claims:note"] = one("t", "1 of 1"),
  ["tessera.Claims:rows"] = one { i = 1 },
  ["tessera.Claims:published"] = one(point, "x_s"),
  ["tessera.Search:moves"] = one { from = 0, to = 1, kinds = { "shift", "retype" } },
  ["tessera.Search:random_move"] = one { from = 0, kinds = { "shift", "retype" }, fits = true },
  ["tessera.Search:count"] = one { kinds = "swap" },
  ["tessera.Search:stages"] = one(),
  ["tessera.Search:micro_batch_sizes"] = one(),
  ["tessera.Search:omega"] = one(),
  ["tessera.Search:apply"] = one(),
  ["tessera.Search:undo"] = one(),
  ["tessera.Search:evaluate"] = one(),
  ["tessera.Search:perturb"] = one(0.2),
  ["tessera.Search:slowest_stage"] = one(),
  ["tessera.Search:objective"] = one(),
  ["tessera.Search:best"] = one(),
  ["tessera.Search:expired"] = one(),
  ["tessera.Search:moves_made"] = one(),
  ["tessera.Search:random"] = one(),
  ["tessera.Move:keep"] = one(),
  ["tessera.Move:to_table"] = one(),
}

--- Verbs of the command line, which checks the types of flags before their Lua is called.
M.verbs = {
  ["tessera plan"] = one { model = "opt-125m", cluster = "2xT4-16G", prompt_tokens = 32, output_tokens = 8,
    batch_size = 4, time_limit_s = 0.2, beside = false },
  ["tessera capacity"] = one { model = "opt-125m", cluster = "1xT4-16G", prompt_tokens = 40, output_tokens = 6,
    rate = 5, ttft_p99 = 1, num_requests = 20, limit = 1, disaggregated = false },
  ["tessera results"] = one { names = { "attack/one" }, results = "attack.db", out = "rows.txt" },
  ["tessera plot"] = one { names = { "attack/one" }, results = "attack.db", out = "plots", format = "svg" },
  ["tessera report"] = one { names = { "attack/one" }, results = "attack.db", out = "report.html" },
  ["tessera quality"] = function()
    object "LanguageModel"
    return { { names = { "fake_model" }, text = "fake_model/text.txt", bitwidths = { 4 }, reference = true,
      threads = 1 } }
  end,
  ["tessera support"] = one { names = { "opt-125m", "T4-16G", "8" }, kernel_set = "modern", context_tokens = 64 },
  ["tessera fleet"] = function()
    core.write_file("fleet.json", core.to_json(values.fleet))
    return { { names = { "fleet.json" }, time_limit_s = 1, save = "saved_fleet.json" } }
  end,
  ["tessera select"] = one { model = "opt-125m", cluster = "2xA6000", minimise = "latency", beside = false, top = 3 },
  ["tessera strategies"] = one { model = "opt-125m", devices = { "A10", "T4-16G" }, prompt_tokens = 40,
    output_tokens = 6, batch_size = 4, slo_s_per_token = 1, exact = false, time_limit_s = 0.2 },
  ["tessera detect"] = function()
    core.write_file("host.txt", "name, memory.total [MiB]\nNVIDIA L4, 23034 MiB\n")
    return { { names = { "host.txt" }, out = "cluster.json", link_gbps = 10 } }
  end,
  ["tessera compare"] = function()
    object "Plan":save "plan.json"
    core.write_file("bench.json", '{"avg_latency": 1.5}')
    return { { names = { "plan.json", "bench.json" }, time_limit_s = 0.1 } }
  end,
  ["tessera quantise"] = one { names = { values.tiny }, bitwidths = { 4 }, out = "quantised", group_size = 8,
    overwrite = true },
  ["tessera indicator"] = one { names = { values.tiny }, threads = 1, out = "omega.json" },
}

--- What is documented and not called, and why.
M.left_out = {
  ["ts.engine.speculative"] = "of ts.engine, which is called with it",
  ["ts.deployment.models"] = "of ts.deployment, which is called without models",
  ["ts.deployment.strategy"] = "of ts.deployment, which is called without models",
  ["ts.deployment.pool"] = "of ts.deployment, which is called",
  ["ts.deployment.router"] = "of ts.deployment, which is called with it",
  ["ts.deployment.step_cost"] = "of ts.deployment, which is called",
  ["ts.deployment.transfer"] = "of ts.deployment, which is called",
  ["ts.plan_fleet.by_models"] = "of ts.plan_fleet, with models in the place of an instance; its tests call it",
  ["ts.plan_fleet.models"] = "of ts.plan_fleet.by_models",
  ["ts.plan_fleet.models.classes"] = "of ts.plan_fleet.by_models",
  ["ts.plan_fleet.rent"] = "of ts.plan_fleet.by_models",
  ["ts.plan_fleet.constraints"] = "of ts.plan_fleet.by_models",
  ["ts.plan_fleet.periods"] = "of ts.plan_fleet.by_models; a tessera.FleetPeriods is made of some",
  ["ts.plan_fleet.columns"] = "what a function of ts.plan_fleet.by_models gives; its tests call some",
  ["fleet:losses"] = "tessera.Fleet:losses, which is called",
  ["ts.plan_fleet.reserve"] = "of ts.plan_fleet.by_models",
  ["fleet:replan"] = "tessera.Fleet:replan, which is called",
  ["fleet:export"] = "tessera.Fleet:export, which is called",
  ["fleet:deployment"] = "tessera.Fleet:deployment, which is called",
  ["ts.serve.fleet"] = "ts.serve of a fleet, whose methods are called",
  ["ts.plan_serving.quality"] = "of ts.plan_serving, which is called",
  ["problem:add_constraint.term"] = "one term of add_constraint, which is called",
  ["tessera.desk.report.write"] = "what tessera report calls",
  ["ts.detect"] = "measures this machine for seconds, or asks its driver",
  ["ts.measure_profile"] = "measures this machine for seconds",
  ["tessera profile"] = "measures this machine for seconds",
  ["ts.execute"] = "starts processes, and takes seconds",
  ["ts.serve.real"] = "runs a model by the module that starts processes, which batteries have not",
  ["tessera execute"] = "starts processes, and takes seconds",
  ["tessera serve"] = "listens until it is stopped",
  ["tessera stage"] = "waits for a master",
  ["tessera view"] = "ts.view, which is called, on the file that ts.replay reads",
  ["tessera run"] = "starts worker processes; the sandbox's scripts are run by it",
  ["tessera generate"] = "writes what the model says to the stream that carries the verdicts",
  ["tessera bench"] = "starts processes, and takes seconds",
  ["tessera examples"] = "copies files to wherever it is told",
  ["tessera man"] = "has no flags",
  ["tessera data"] = "prints to the stream that carries the verdicts; ts.data_sets, which it calls, is called",
}

--- Options of methods by the names of their cards.
M.options_of = {
  ["fingerprint:estimates"] = "tessera.Fingerprint:estimates",
  ["plan:explain"] = "tessera.Plan:explain", ["plan:export"] = "tessera.Plan:export",
  ["plans:export"] = "tessera.ServingPlans:export",
  ["plan:quality"] = "tessera.Plan:quality",
  ["deployment:step_s"] = "tessera.Deployment:step_s", ["traffic:scaled"] = "tessera.Traffic:scaled",
  ["map:predict"] = "tessera.QualityMap:predict",
  ["lm:generate"] = "tessera.LanguageModel:generate", ["lm:perplexity"] = "tessera.LanguageModel:perplexity",
  ["lm:zero_shot"] = "tessera.LanguageModel:zero_shot", ["lm:calibrate"] = "tessera.LanguageModel:calibrate",
  ["lm:speed"] = "tessera.LanguageModel:speed", ["tokenizer:encode"] = "tessera.Tokenizer:encode",
  ["tokenizer:decode"] = "tessera.Tokenizer:decode",
  ["problem:add_constraint"] = "tessera.Problem:add_constraint",
  ["problem:balanced_partition"] = "tessera.Problem:balanced_partition",
  ["problem:device_facts"] = "tessera.Problem:device_facts", ["problem:write_model"] = "tessera.Problem:write_model",
  ["ResultStore:add"] = "tessera.ResultStore:add", ["ResultStore:merge"] = "tessera.ResultStore:merge",
  ["ResultStore:rows"] = "tessera.ResultStore:rows", ["ResultStore:runs"] = "tessera.ResultStore:runs",
  ["ResultStore:start_run"] = "tessera.ResultStore:start_run",
}

return M
