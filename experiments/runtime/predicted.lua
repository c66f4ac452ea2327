-- Plans that really run, on shares of this CPU: predicted by a profile that was measured here, then measured.
--
-- Each share is a core. The profile is of layers, embedding, LM head and sampling while the other cores do the same, as
-- the stages of a pipeline do (`tessera profile`); plans of one stage have the machine to themselves, and are priced by
-- it all the same. A plan is run three times, the run in the middle counts, and one during which a plain sum changed
-- by more than 5 % is run again; it is compared with the plan's simulation for the prompts that came. The bound of
-- 10 % was chosen before the first run.
local ts = require "tessera"
local core = require "tessera.core"
local models = require "lib.runtime.models"
local steady = require "lib.runtime.steady"

local repeats, most_again = 3, 3
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

-- The run in the middle of three, by its total.
local function median_run(plan, folder, num_requests)
  local prompts = models.prompts(num_requests, prompt_tokens, plan:problem().model.vocab_size)
  local runs, again = {}, 0
  for i = 1, repeats do
    local repeated
    runs[i], repeated = steady.run(function()
      return ts.execute(plan, { model = folder, prompts = prompts, max_tokens = output_tokens,
        ignore_stop_tokens = true, temperature = 0, threads = 1, progress = false })
    end, most_again)
    again = again + repeated
    if runs[i].state ~= "done" then core.raise("internal", runs[i].why, "runtime/predicted") end
  end
  table.sort(runs, function(a, b) return a.total_s < b.total_s end)
  return runs[(repeats + 1) / 2], runs[repeats].total_s / runs[1].total_s - 1, again
end

local shared = "times of a machine that others use, and of a fit whose held-out error is of that size"

return ts.experiment {
  name = "runtime/predicted",
  doc = "Plans on shares of this CPU, predicted by a profile measured here and then run",
  grid = { model = { models.small, models.shaped }, plan = names },
  quick = { model = { models.small }, plan = { "one_4", "two_4" } },
  columns = {
    "total_s", "predicted_s", "total_error", "ttft_error", "decode_round_error", "decode_round_s", "spread",
    "throughput_tok_s", "busy_ratio", "provenance", "held_out_error", "again", "load",
  },
  notes = {
    "error: predicted over measured, minus 1; spread: slowest over fastest of three runs, minus 1",
    "busy_ratio: share of the run that the busiest stage computed",
    "again: runs that were repeated as a plain sum changed by more than 5 %; load: processes at the end, of 2 cores",
  },
  time_limit_s = 1800,

  run = function(point, context)
    return models.with(point.model, function(folder)
      local cluster = ts.detect { cpu = true, cores_per_device = 1 }
      local device, chosen, batch_size = cluster.devices[1], plans[point.plan], 8
      local problem = ts.problem { model = folder, cluster = cluster, bitwidths = { 4, 8, 16 }, tensor_parallel = 1,
        profiles = { models.profile(device, folder, point.model, context) },
        workload = { prompt_tokens = prompt_tokens, output_tokens = output_tokens, batch_size = batch_size } }
      local plan, refused = ts.plan(problem, { planner = "manual", prefill_micro_batch_size = chosen.prefill,
        decode_micro_batch_size = chosen.decode,
        stages = models.stages(device.name, models.cut(chosen.stages, problem.model.num_layers)) })
      if not plan then return nil, refused end
      local run, spread, again = median_run(plan, folder, batch_size)
      local busy = 0
      for _, stage in ipairs(run.stages) do busy = math.max(busy, 1 - stage.idle_ratio) end
      return { total_s = run.total_s, predicted_s = run.predicted.total_s, total_error = run.error.total,
        ttft_error = run.error.ttft, decode_round_error = run.error.decode_round, decode_round_s = run.decode_round_s,
        spread = spread, throughput_tok_s = run.throughput_tok_s, busy_ratio = busy, provenance = plan.provenance,
        held_out_error = plan.error, again = again, load = steady.load() }
    end)
  end,

  check = function(t)
    for _, model in ipairs { models.small, models.shaped } do
      for _, column in ipairs { "total_error", "ttft_error", "decode_round_error" } do
        t:expect_all { column = column, where = { model = model },
          at_least = -0.1, at_most = 0.1, may_differ = shared }
      end
    end
  end,
  plots = { { kind = "bars", x = "plan", y = "total_error", by = "model" } },
}
