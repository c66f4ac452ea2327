-- Plans that really run, on shares of this CPU: predicted by a profile that was measured here, then measured.
--
-- Each share is a core. The profile is of layers, embedding, LM head and sampling while the other cores do the same, as
-- the stages of a pipeline do (`tessera profile`); plans of one stage have the machine to themselves, and are priced by
-- it all the same. A plan is run three times, the run in the middle counts; it is compared with the plan's simulation
-- for the prompts that came. The bound of 10 % was chosen before the first run.
local ts = require "tessera"
local core = require "tessera.core"
local exists = require("tessera.files").exists
local subjects = require "lib.quality.subject"

local repeats = 3
local prompt_tokens, output_tokens = 64, 32

-- Layers are shares of the model: { share of the layers, bits } by stage; sizes of micro-batches.
local plans = {
  one_16 = { stages = { { 1, 16 } }, prefill = 8, decode = 8 },
  one_8 = { stages = { { 1, 8 } }, prefill = 8, decode = 8 },
  one_4 = { stages = { { 1, 4 } }, prefill = 8, decode = 8 },
  one_4_in_two = { stages = { { 1, 4 } }, prefill = 4, decode = 4 },
  two_16 = { stages = { { 1 / 2, 16 }, { 1 / 2, 16 } }, prefill = 4, decode = 4 },
  two_8 = { stages = { { 1 / 2, 8 }, { 1 / 2, 8 } }, prefill = 4, decode = 4 },
  two_4 = { stages = { { 1 / 2, 4 }, { 1 / 2, 4 } }, prefill = 4, decode = 4 },
  two_uneven = { stages = { { 2 / 3, 4 }, { 1 / 3, 4 } }, prefill = 4, decode = 4 },
  two_mixed = { stages = { { 1 / 2, 8 }, { 1 / 2, 4 } }, prefill = 4, decode = 4 },
  two_balanced = { stages = { { 5 / 12, 16 }, { 7 / 12, 4 } }, prefill = 4, decode = 4 },
  two_small_prefill = { stages = { { 1 / 2, 4 }, { 1 / 2, 4 } }, prefill = 1, decode = 4 },
  two_whole_batch = { stages = { { 1 / 2, 4 }, { 1 / 2, 4 } }, prefill = 8, decode = 8 },
  two_small_decode = { stages = { { 1 / 2, 4 }, { 1 / 2, 4 } }, prefill = 4, decode = 2 },
}
local names = {}
for name in pairs(plans) do names[#names + 1] = name end
table.sort(names)

-- What runs, where this build can: a folder with the model, as lib.quality.subject finds it.
local function folder_of(model, quick)
  local subject, why = subjects.find(model, quick)
  if not subject then return nil, why end
  local ok, failure = pcall(ts.language_model, { path = subject.path, threads = 1, progress = false })
  if ok then return subject.path end
  if failure.code == "unsupported" then return nil, { code = "no_data", message = failure.message } end
  error(failure, 0)
end

-- Devices of a core each, and what was measured of layers on one of them: once for all points.
local function devices(folder, context)
  local cluster = ts.detect { cpu = true, cores_per_device = 1 }
  local path = ("%s/%s.profile.json"):format(context.output_dir, folder:match "[^/]+$")
  if not exists(path) then
    local profile = ts.measure_profile { device = cluster.devices[1], model = folder, quick = context.quick,
      progress = false, bitwidths = { 4, 8, 16 } }
    profile:save(path)
  end
  return cluster, path
end

local function stages_of(plan, device, num_layers)
  local stages, first, share = {}, 0, 0
  for i, stage in ipairs(plan.stages) do
    share = share + stage[1]
    local last = i == #plan.stages and num_layers or math.floor(num_layers * share + 0.5)
    stages[i] = { device = device, bitwidths = {} }
    for layer = first, last - 1 do stages[i].bitwidths[layer - first + 1] = stage[2] end
    first = last
  end
  return stages
end

local function prompts_of(count, vocab_size)
  local list = {}
  for i = 1, count do
    list[i] = {}
    for k = 1, prompt_tokens do list[i][k] = (i * 7919 + k * 104729) % (vocab_size - 10) + 5 end
  end
  return list
end

-- The run in the middle of three, by its total.
local function median_run(plan, folder, num_requests)
  local runs = {}
  for i = 1, repeats do
    runs[i] = ts.execute(plan, { model = folder, prompts = prompts_of(num_requests, plan:problem().model.vocab_size),
      max_tokens = output_tokens, ignore_stop_tokens = true, temperature = 0, threads = 1, progress = false })
    if runs[i].state ~= "done" then core.raise("internal", runs[i].why, "runtime/predicted") end
  end
  table.sort(runs, function(a, b) return a.total_s < b.total_s end)
  return runs[(repeats + 1) / 2], runs[repeats].total_s / runs[1].total_s - 1
end

local shared = "times of a machine that others use, and of a fit whose held-out error is of that size"

return ts.experiment {
  name = "runtime/predicted",
  doc = "Plans on shares of this CPU, predicted by a profile measured here and then run",
  grid = { model = { subjects.small, subjects.real }, plan = names },
  quick = { model = { subjects.small }, plan = { "one_4", "two_4" } },
  columns = {
    "total_s", "predicted_s", "total_error", "ttft_error", "decode_round_error", "decode_round_s", "spread",
    "throughput_tok_s", "busy_ratio", "provenance", "held_out_error",
  },
  notes = {
    "error: predicted over measured, minus 1; spread: slowest over fastest of three runs, minus 1",
    "busy_ratio: share of the run that the busiest stage computed",
  },
  time_limit_s = 1800,

  run = function(point, context)
    local folder, why = folder_of(point.model, context.quick)
    if not folder then return nil, why end
    local cluster, profile = devices(folder, context)
    local chosen = plans[point.plan]
    local batch_size = 8
    local problem = ts.problem { model = folder, cluster = cluster, profiles = { profile }, bitwidths = { 4, 8, 16 },
      tensor_parallel = 1, workload = { prompt_tokens = prompt_tokens, output_tokens = output_tokens,
        batch_size = batch_size } }
    local device = problem.cluster.devices[1].name
    local plan, refused = ts.plan(problem, { planner = "manual", prefill_micro_batch_size = chosen.prefill,
      decode_micro_batch_size = chosen.decode, stages = stages_of(chosen, device, problem.model.num_layers) })
    if not plan then return nil, refused end
    local run, spread = median_run(plan, folder, batch_size)
    local busy = 0
    for _, stage in ipairs(run.stages) do busy = math.max(busy, 1 - stage.idle_ratio) end
    return { total_s = run.total_s, predicted_s = run.predicted.total_s, total_error = run.error.total,
      ttft_error = run.error.ttft, decode_round_error = run.error.decode_round, decode_round_s = run.decode_round_s,
      spread = spread, throughput_tok_s = run.throughput_tok_s, busy_ratio = busy, provenance = plan.provenance,
      held_out_error = plan.error }
  end,

  check = function(t)
    for _, model in ipairs { subjects.small, subjects.real } do
      for _, column in ipairs { "total_error", "ttft_error", "decode_round_error" } do
        t:expect_all { column = column, where = { model = model },
          at_least = -0.1, at_most = 0.1, may_differ = shared }
      end
    end
  end,
  plots = { { kind = "bars", x = "plan", y = "total_error", by = "model" } },
}
