-- Table IV, ours: the strategies as plans that run, two workers on a core each, and how well the paper's model with its
-- corrections predicts them.
--
--   tessera run experiments/flexllm/executors.lua --jobs 1
--
-- As the paper does it: seconds by the equations of each phase, a line through what was measured at short prompts over
-- batches of 2, 4, 8, ..., five runs after one that does not count, of which the time in the middle counts (the paper
-- takes means, on a machine of its own); then the line is judged at two longer lengths. Both workers have this
-- machine's speed, and the link 2 GB/s. Bounds were chosen before any run. Models: the project's own, and one of
-- SmolLM2-135M's shape, whose layers the printed equations do not describe: operations are counted by its matrices and
-- heads.
local ts = require "tessera"
local models = require "lib.runtime.models"
local runs = require "lib.papers.flexllm_runs"
local steady = require "lib.runtime.steady"

local target = { data_parallel = 0.10, model_parallel = 0.10, model_parallel_2 = 0.10, attention_offload = 0.15 }
local phases = { "prefill", "decode" }

-- Points { predicted_s, measured_s } of a phase at a load over batch sizes, and whether all tokens are those of one
-- process.
local function measured(strategy, folder, point, load, batch_sizes, repeats)
  local points, same = { prefill = {}, decode = {} }, true
  for i, batch_size in ipairs(batch_sizes) do
    local case = { folder = folder, model = ts.model(folder), load = runs.loads[point.model][load], ratio = 1,
      batch_size = batch_size, link_gbps = point.link_gbps }
    local run = runs.measure(runs.plan(strategy, case), case, repeats)
    if load == "short" then same = same and runs.is_same(run, runs.alone(case)) end
    for _, phase in ipairs(phases) do
      points[phase][i] = { predicted_s = runs.predict(strategy, case, phase), measured_s = run[phase .. "_s"] }
    end
  end
  return points, same
end

local function mape(points, fit)
  local sum = 0
  for _, point in ipairs(points) do
    sum = sum + math.abs((fit.scale * point.predicted_s + fit.offset_s) / point.measured_s - 1) / #points
  end
  return sum
end

local function band_of(value)
  return value < 0.05 and "excellent" or value < 0.15 and "good" or value <= 0.2 and "acceptable" or "concerning"
end

return ts.experiment {
  name = "flexllm/executors",
  doc = "FlexLLM, Table IV of ours: what a line through short runs says of longer ones, by strategy and phase",
  grid = { model = { models.small, models.shaped }, strategy = runs.strategies, link_gbps = { 16 } },
  quick = { model = { models.small }, strategy = { "attention_offload" } },
  columns = { "same_tokens", "prefill_fit_mape", "prefill_medium_mape", "prefill_large_mape", "prefill_band",
    "decode_fit_mape", "decode_medium_mape", "decode_large_mape", "decode_band", "prefill_scale", "prefill_offset_s",
    "decode_scale", "decode_offset_s", "load" },
  notes = {
    "short (24, 8), medium (96, 16), large (192, 32) tokens in and out of the small model in batches of 2, 4, 8, 16; "
      .. "(16, 8), (64, 16), (128, 32) of the other in 2, 4, 8",
    "model_parallel: one micro-batch, (7) and (8) as printed; model_parallel_2: two, as Table V was computed",
    "scale: over 50 GFLOP/s; only scale over the rate can be identified",
    "bands: of the mean over both longer lengths; below 5 % excellent, 15 good, 20 acceptable",
    "same_tokens: greedy tokens at the short load are those of one process, in every batch",
    "load: processes that ran or waited, over a minute, at the end; two cores that others use too",
    "print: 2.73 to 18.62 % in prefill, 3.16 to 20.08 % in decode, which its text calls below 5 to 20 %",
  },
  time_limit_s = 1800,

  run = function(point, context)
    return models.with(point.model, function(folder)
      local repeats, sizes = context.quick and 1 or 5, runs.batch_sizes[point.model]
      if context.quick then sizes = { 2, 4 } end
      local row, lists, same = {}, {}, nil
      for _, load in ipairs { "short", "medium", "large" } do
        local points, is_same = measured(point.strategy, folder, point, load, sizes, repeats)
        lists[load] = points
        if load == "short" then same = is_same end
      end
      for _, phase in ipairs(phases) do
        local fit = ts.fit_correction(lists.short[phase])
        row[phase .. "_scale"], row[phase .. "_offset_s"] = fit.scale, fit.offset_s
        row[phase .. "_fit_mape"] = fit.mape
        row[phase .. "_medium_mape"] = mape(lists.medium[phase], fit)
        row[phase .. "_large_mape"] = mape(lists.large[phase], fit)
        row[phase .. "_band"] = band_of((row[phase .. "_medium_mape"] + row[phase .. "_large_mape"]) / 2)
      end
      row.same_tokens, row.load = same and 1 or 0, steady.load()
      return row
    end)
  end,

  check = function(t)
    t:expect_all { column = "same_tokens", at_least = 1, at_most = 1 }
    for strategy, most in pairs(target) do
      for _, phase in ipairs(phases) do
        for _, load in ipairs { "medium", "large" } do
          t:expect_all { column = ("%s_%s_mape"):format(phase, load), at_least = 0, at_most = most,
            where = { strategy = strategy }, may_differ = "two cores that others use too; a line knows no caches" }
        end
      end
    end
  end,
}
