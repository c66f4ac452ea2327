-- The kinds of file that the product reads: where inputs to mutate come from, what they are made of, under which name
-- a mutated one is written, and how a user goes on with it.

local core = require "tessera.core"
local host = require "tessera.host"
local store = require "tessera.store"
local ts = require "tessera"
local verdict = require "verdict"

local data, examples = host.installation.datasets_dir, host.installation.experiments_dir
local corpus = data .. "/../tests/fuzz/corpus/"
local tiny = examples .. "/indicator/data/tiny_llama"
local statistics = tiny .. ".statistics.safetensors"

local folder -- where mutated files and what is made of them go

local small = { prompt_tokens = 32, output_tokens = 8, batch_size = 4 }
local in_time = { time_limit_s = 0.2, threads = 1 }

local function out(name) return folder .. "/" .. name end

-- A plan as it was saved reads back as the plan that it was.
local function save_and_load(plan)
  plan:save(out "saved.json")
  local again = ts.load_plan(out "saved.json")
  if again.objective ~= plan.objective then verdict.defect "a saved plan reads back with another objective" end
end

local function use_plan(plan, random)
  verdict.object(plan, "the plan")
  local valid, why = ts.check(plan)
  if not valid then verdict.why(why) end
  save_and_load(plan)
  local ok, run = pcall(ts.simulate, plan, { record = random:once_in(4), num_batches = 2 })
  if ok then verdict.object(run, "the run") else verdict.why(run) end
  if random:once_in(4) then verdict.text(plan:explain { what_if = false, robustness = 0 }, "the explanation") end
  if random:once_in(8) then ts.picture(plan, out "picture.svg") end
  if random:once_in(8) then
    local other, reason = ts.replan(plan, "1xA100-80G", { time_limit_s = 0.2 })
    if not other then verdict.why(reason) end
  end
end

local function use_problem(problem, random)
  verdict.object(problem, "the problem")
  local options = { time_limit_s = in_time.time_limit_s, threads = 1,
    planner = random:pick { "exact", "exact", "uniform", "adabits", "het" } }
  local plan, why = ts.plan(problem, options)
  if plan then use_plan(plan, random) else verdict.why(why) end
  if plan and random:once_in(8) then
    local whole = problem.cluster and problem:with { use_all_devices = true } or problem
    local written, reason = whole:write_model(out "model.lp", { prefill_micro_batch_size = 1,
      decode_micro_batch_size = 1 })
    if not written then verdict.why(reason) end
  end
end

local function problem_of(changes)
  local description = { model = "opt-125m", cluster = "1xT4-16G+1xV100-32G", workload = small,
    bitwidths = { 4, 8, 16 } }
  for name, value in pairs(changes) do description[name] = value end
  return ts.problem(description)
end

local function use_model(model, random)
  verdict.object(model, "the model")
  verdict.finite({ model:kv_bytes_per_token(16), model:layer_bytes(4), model.num_parameters }, "the model")
  use_problem(problem_of { model = model, cluster = "2xA100-80G" }, random)
end

local function use_profile(profile, random)
  verdict.object(profile, "the profile")
  for _, query in ipairs {
    { "gemm_s", { dtype = "bfloat16", m = 64, n = 4096, k = 4096 } },
    { "layer_s", { model = "opt-30b", bitwidth = 16, phase = "decode", batch_size = 8, tokens = 1,
      context_tokens = 512 } },
    { "attention_s", { phase = "decode", dtype = "bfloat16", batch_size = 8, tokens = 1, context_tokens = 512,
      num_heads = 32, num_kv_heads = 8, head_dim = 128 } },
  } do
    local ok, seconds, info = pcall(profile[query[1]], profile, query[2])
    if ok then verdict.finite({ seconds, info }, query[1]) else verdict.why(seconds) end
  end
  profile:save(out "profile.json")
  verdict.object(ts.profile { file = out "profile.json" }, "the profile that was saved")
  use_problem(problem_of { kernel_set = profile.kernel_set, profiles = { profile } }, random)
end

-- On models of as many layers as the inputs have, until one takes it.
local function use_indicator(path, random)
  local problem, err
  for _, num_layers in ipairs { 1, 2, 40 } do
    for _, bitwidths in ipairs { { 4 }, { 3, 4 }, { 4, 8 } } do
      local ok, made = pcall(function()
        local model = ts.model { family = "opt", name = "opt-13b", num_layers = num_layers, hidden_size = 768,
          num_heads = 12, ffn_size = 3072, vocab_size = 50272, max_context_tokens = 2048 }
        return problem_of { indicator = path, bitwidths = bitwidths, model = model }
      end)
      if ok then problem = made else verdict.why(made) end
      err = ok and err or made
    end
  end
  if not problem then error(err, 0) end
  use_problem(problem, random)
  if path:find "json$" then verdict.object(ts.indicator(path), "the indicator") end
end

local function use_weights(weights, random)
  verdict.object(weights, "the weights")
  local some = 0
  for tensor in weights:tensors() do
    some = some + 1
    if some > 3 then break end
    local held = weights:tensor(tensor.name)
    verdict.text(tostring(held), "the tensor") -- its own numbers may be anything
    for _, method in ipairs { "min", "max", "mean", "variance", "num_not_finite" } do
      local value = held[method](held)
      if value ~= nil then verdict.finite(value, "tensor:" .. method) end
    end
    if held.num_elements > 0 then held:to_table(1, math.min(8, held.num_elements)) end
    local shape = held:shape()
    if #shape == 2 and shape[1] * shape[2] <= 65536 then
      verdict.object(ts.quantise { tensor = held, bitwidth = random:pick { 3, 4, 8 },
        group_size = random:pick { 16, 32, 128 } }, "the quantised tensor")
    end
  end
end

-- A model on disk whose files are those of the tiny one but for what was mutated.
local function use_model_folder(path, random)
  if random:once_in(2) then
    local indicator = ts.indicator { model = path, kind = random:pick { "variance", "measured", "hessian" },
      statistics = random:once_in(2) and statistics or nil, bitwidths = { 4, 8 }, threads = 1 }
    verdict.object(indicator, "the indicator")
    indicator:save(out "indicator.json")
    verdict.object(ts.indicator(out "indicator.json"), "the indicator that was saved")
    return
  end
  local made = ts.quantise_model { model = path, bitwidths = random:pick { 4, 8 }, out = out "quantised",
    method = "rtn", group_size = 8, overwrite = true, progress = false }
  verdict.object(made, "the quantised model")
  use_weights(ts.weights(out "quantised"), random)
end

local function use_statistics(path, random)
  if random:once_in(2) then
    return verdict.object(ts.indicator { model = tiny, kind = random:pick { "variance", "hessian", "gptq_error",
      "measured" }, statistics = path, bitwidths = { 4 }, threads = 1 }, "the indicator")
  end
  verdict.object(ts.quantise_model { model = tiny, bitwidths = 4, out = out "quantised", statistics = path,
    method = random:pick { "gptq", "awq", "smoothquant" }, granularity = "channel", overwrite = true,
    progress = false }, "the quantised model")
end

local function use_samples(path, random)
  local format = random:once_in(2) and random:pick { "tessera", "vidur", "helix", "llmpq", "aiconfigurator" } or nil
  local samples = ts.read_profile_data(path, { format = format, device = "T4-16G", kernel_set = "modern",
    model = "opt-30b", warn = false })
  verdict.finite(samples, "the samples")
  if random:once_in(2) then
    use_profile((ts.fit_profile { device = "T4-16G", kernel_set = "modern", samples = samples }), random)
  else
    verdict.finite({ select(2, ts.calibrate { device = "T4-16G", kernel_set = "modern", samples = path }) },
      "the errors")
  end
end

local function use_lengths(path, random)
  local workload = ts.workload { lengths = path, batch_size = 4, max_prompt_tokens = 4096, max_output_tokens = 4096 }
  verdict.object(workload, "the workload")
  verdict.finite(workload:requests(), "the requests")
  local plan, why = ts.plan(problem_of { workload = workload }, in_time)
  if not plan then return verdict.why(why) end
  verdict.object(ts.simulate(plan, { lengths = "distribution", num_batches = 2, seed = random:below(100),
    batching = random:pick { "padded", "ragged" },
    arrivals = workload.has_arrivals and "trace" or "all_at_once" }), "the run")
  use_plan(plan, random)
end

local function use_results(path, random)
  local results = ts.results("attack/one", { db = path })
  verdict.text(tostring(results), "the results")
  verdict.text(debug.getmetatable(results).__full(results), "the results in full")
  require("tessera.cli.results").main { names = random:pick { {}, { "attack/one" } }, results = path,
    format = random:pick { "table", "json", "csv", "markdown", "latex" }, meta = random:once_in(2) or nil,
    out = out "rows.txt" }
  if random:once_in(2) then
    require("tessera.cli.plot").main { names = { "attack/one" }, results = path, out = out "plots", format = "svg" }
  end
  if random:once_in(2) then require("tessera.desk.report").write { results = path, out = out "report.html" } end
  if random:once_in(4) then
    local into = store.open(out "into.db")
    into:merge({ path }, { prefer = "first" })
    into:close()
  end
  if random:once_in(4) then
    local writable = store.open(path)
    local run = writable:start_run { experiment = "attack/one" }
    writable:add(run, { point = { i = random:below(100) }, columns = { x_s = 1 } })
    writable:close()
  end
end

local function list(pattern)
  local found = {}
  local pipe = assert(io.popen("ls -d " .. pattern .. " 2>/dev/null"))
  for path in pipe:lines() do
    if not path:find "/found%-" then found[#found + 1] = path end
  end
  pipe:close()
  assert(#found > 0, "no files: " .. pattern)
  return found
end

-- Rows of every kind that a sweep stores, in the file that --results names.
local function write_results(path)
  local file = store.open(path)
  local run = file:start_run { experiment = "attack/one", script_path = "one.lua", script_text = "return 1",
    script_hash = ("a"):rep(64), git_commit = ("b"):rep(40), seed = 7, machine = { host = "h", cpus = 2 },
    declaration = { name = "attack/one", doc = "One line", keys = { "i" }, columns = { "x_s", "note" },
      paper = { keys = { "i" }, columns = { "x_s" }, rows = { { point = { i = 1 }, x_s = 0.5 } } },
      notes = { "a note" }, plots = { { kind = "lines", x = "i", y = "x_s" } } } }
  local plan = assert(ts.plan(problem_of {}, { planner = "uniform" }))
  for i = 1, 6 do
    file:add(run, { point = { i = i }, status = i < 6 and "done" or "failed", error = i == 6 and "it broke" or nil,
      columns = { x_s = i / 3, note = "n" .. i, flag = true }, duration_s = 0.5, started_at = 1e9,
      provenance = "fitted",
      artefacts = i == 1 and { { name = "plan", kind = "plan", value = plan:to_table() } } or nil })
  end
  file:set_claims(run, { { text = "one is best", status = "pass", passed = true, numbers = "1 of 1", lines = {},
    checked = 1, skipped = 0 } })
  file:close()
  return { path }
end

-- A folder with the files of the tiny model, in which one is to be mutated.
local function model_folder(name)
  os.execute(("cp -r '%s' '%s'"):format(tiny, out(name)))
  return out(name)
end

local function by_name(kind, make)
  return {
    name = kind:gsub("s$", "") .. "_by_name", form = "json", at = kind .. "/attacked.json",
    inputs = function() return list(data .. "/" .. kind .. "/*.json") end,
    use = function(_, random) make(random) end,
  }
end

local function of_corpus(name, form, at, use)
  return { name = name, form = form, at = at, use = use, inputs = function() return list(corpus .. name .. "/*") end }
end

local M = {}

--- Sets the folder and prepares what the kinds need there.
function M.prepare(path)
  folder = path
  os.execute(("mkdir -p '%s'"):format(out "index"))
  os.execute(("cp '%s/model.safetensors' '%s/a.safetensors'"):format(tiny, out "index"))
  for _, name in ipairs { "config", "weights" } do model_folder(name) end
end

M.list = {
  of_corpus("model_config", "json", "config.json", function(path, random)
    use_model(ts.model { config = path }, random)
  end),
  by_name("models", function(random) use_model(ts.model "attacked", random) end),
  by_name("devices", function(random) use_problem(problem_of { cluster = "2xattacked" }, random) end),
  of_corpus("device", "json", "device.json", function(path, random)
    local device = ts.device { file = path }
    verdict.object(device, "the device")
    use_problem(problem_of { cluster = ts.cluster { { device, 2 } } }, random)
  end),
  by_name("clusters", function(random)
    local cluster = ts.cluster "attacked"
    verdict.object(cluster, "the cluster")
    use_problem(problem_of { cluster = cluster }, random)
  end),
  by_name("workloads", function(random) use_problem(problem_of { workload = "attacked" }, random) end),
  by_name("kernel_sets", function(random) use_problem(problem_of { kernel_set = "attacked" }, random) end),
  {
    name = "profile", form = "json", at = "profile.json",
    inputs = function() return list(corpus .. "profile/* " .. data .. "/profiles/*.json") end,
    use = function(path, random) use_profile(ts.profile { file = path }, random) end,
  },
  of_corpus("plan", "json", "plan.json", function(path, random)
    local plan = ts.load_plan(path)
    use_plan(plan, random)
    use_problem(plan:problem(), random)
  end),
  {
    name = "instance", form = "json", at = "instance.json", inputs = function() return list(corpus .. "instance/*") end,
    use = function(path, random)
      use_problem(ts.problem { instance = path, objective = random:pick { "steady", "paper" } }, random)
    end,
  },
  of_corpus("indicator", "json", "omega.json", use_indicator),
  of_corpus("indicator_csv", "csv", "omega.csv", use_indicator),
  of_corpus("step_log", "bytes", "step_log.json", function(path)
    local replay = ts.replay(path)
    assert(replay.identical == (replay.first_difference == nil), "a replay that says two things")
  end),
  of_corpus("trace_csv", "csv", "lengths.csv", use_lengths),
  of_corpus("profile_data", "csv", "a100/llama1_30b/t4/T4_prompt.csv", use_samples),
  {
    name = "paper", form = "csv", at = "papers/attacked.csv",
    inputs = function() return list(data .. "/papers/*/*.csv") end,
    use = function()
      local paper = ts.paper "attacked.csv"
      verdict.finite(paper.rows, "the rows")
      ts.experiment { name = "attacked", grid = paper.points, paper = paper, run = function() end }
      ts.table(paper.rows)
    end,
  },
  {
    name = "safetensors", form = "safetensors", at = "weights.safetensors",
    inputs = function() return list(corpus .. "safetensors/* " .. tiny .. "/model.safetensors") end,
    use = function(path, random) use_weights(ts.weights(path), random) end,
  },
  {
    name = "gguf", form = "binary", at = "weights.gguf", inputs = function() return list(corpus .. "gguf/*.gguf") end,
    use = function(path, random)
      local weights = ts.weights(path)
      use_weights(weights, random)
      use_model(weights:model(), random)
    end,
  },
  {
    name = "weight_index", form = "json", at = "index/model.safetensors.index.json",
    inputs = function()
      local weights, map = ts.weights(tiny), {}
      for tensor in weights:tensors() do map[tensor.name] = "a.safetensors" end
      core.write_file(out "index.json",
        core.to_json { metadata = { total_size = weights.size_bytes }, weight_map = map })
      return { out "index.json" }
    end,
    use = function(path, random) use_weights(ts.weights((path:match "^(.*)/")), random) end,
  },
  {
    name = "model_folder_config", form = "json", at = "config/config.json",
    inputs = function() return { tiny .. "/config.json" } end,
    use = function(path, random) use_model_folder(path:match "^(.*)/", random) end,
  },
  {
    name = "model_folder_weights", form = "safetensors", at = "weights/model.safetensors",
    inputs = function() return { tiny .. "/model.safetensors" } end,
    use = function(path, random) use_model_folder(path:match "^(.*)/", random) end,
  },
  {
    name = "compressed_tensors", form = "json", at = "checkpoint/config.json",
    inputs = function()
      ts.quantise_model { model = tiny, bitwidths = 4, out = out "checkpoint", group_size = 8, progress = false }
      os.execute(("cp '%s' '%s'"):format(out "checkpoint/config.json", out "checkpoint.json"))
      return { out "checkpoint.json" }
    end,
    use = function(path, random)
      local weights = ts.weights((path:match "^(.*)/"))
      use_weights(weights, random)
      use_model(weights:model(), random)
    end,
  },
  {
    name = "statistics", form = "safetensors", at = "statistics.safetensors",
    inputs = function() return list(corpus .. "statistics/*.safetensors " .. statistics) end, use = use_statistics,
  },
  {
    name = "results", form = "database", at = "results.db",
    inputs = function() return write_results(out "stored.db") end,
    use = function(path, random)
      local ok, err = pcall(use_results, path, random)
      for _, name in ipairs { path, out "into.db" } do
        for _, suffix in ipairs { "-wal", "-shm", "-journal" } do os.remove(name .. suffix) end
      end
      os.remove(out "into.db")
      if not ok then error(err, 0) end
    end,
  },
}

return M
