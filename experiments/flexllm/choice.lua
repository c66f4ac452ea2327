-- Does the corrected model choose well? 63 settings that run: two models, a second worker of the same speed, half and a
-- tenth, three links, batches; beside the three strategies what our planner makes of the same two workers.
--
--   tessera run experiments/flexllm/choice.lua --jobs 1
--
-- Lines are fitted as in executors.lua, on two equal workers and the fastest link, and extrapolated to the others as
-- Table V does. What is chosen is the strategy of the least corrected latency; within one pair, whose price is one for
-- all, an SLO forbids a choice and never changes it: six SLOs of each setting ask whether the model says rightly that
-- its choice serves within them. The planner prices a core by the rates that it has measured (ts.detect) and knows
-- nothing of these runs. Targets, chosen before any run: the best in 90 % of the settings, and 10 % of regret
-- elsewhere.
local ts = require "tessera"
local models = require "lib.runtime.models"
local runs = require "lib.papers.flexllm_runs"
local steady = require "lib.runtime.steady"

local strategies = { "data_parallel", "attention_offload", "model_parallel_2" }
local loads = { [models.small] = { 64, 16 }, [models.shaped] = { 24, 8 } }
local batch_sizes = { [models.small] = { 2, 4, 8, 12, 16 }, [models.shaped] = { 2, 4 } }
local repeats = { [models.small] = 3, [models.shaped] = 1 }

local points = {}
for _, model in ipairs { models.small, models.shaped } do
  for _, ratio in ipairs { 1, 0.5, 0.1 } do
    for _, link_gbps in ipairs { 16, 1, 0.1 } do
      for _, batch_size in ipairs(batch_sizes[model]) do
        points[#points + 1] = { model = model, ratio = ratio, link_gbps = link_gbps, batch_size = batch_size }
      end
    end
  end
end

-- An SLO within one pair says yes or no to the choice: so many times the latency of the measured best.
local slo_ratios = { 0.8, 0.95, 1.05, 1.25, 1.5, 2 }

local function kind_of(plan)
  if plan.replicas then return "replicas" end
  if #plan.stages > 1 then return "stages" end
  return plan.stages[1].attention and "attention" or "one worker"
end

-- The name with the least value.
local function least(values, names)
  local best
  for _, name in ipairs(names) do
    if not best or values[name] < values[best] then best = name end
  end
  return best
end

local function count(rows, holds)
  local number = 0
  for _, row in ipairs(rows) do number = number + (holds(row) and 1 or 0) end
  return number
end

return ts.experiment {
  name = "flexllm/choice",
  doc = "FlexLLM's choice by the corrected model against what runs, and the planner's plan beside it",
  grid = points,
  quick = { model = { models.small }, ratio = { 0.5 }, link_gbps = { 1 }, batch_size = { 4 } },
  columns = { "chosen", "best", "regret_ratio", "data_parallel_s", "attention_offload_s", "model_parallel_2_s",
    "planner", "planner_s", "gain_ratio", "slos_right", "load" },
  notes = {
    "chosen: by the corrected model; best: measured, of the three; regret: time of the chosen over that of the best, "
      .. "less 1",
    "planner: what the planner's plan is, whose time is DP's where it is that plan; gain: time of the best of the "
      .. "three over the plan's",
    ("slos_right: of %d SLOs, %s times the best's time, those of which the model says rightly whether its choice keeps "
      .. "them"):format(#slo_ratios, table.concat(slo_ratios, ", ")),
    "model_parallel_2: half of the layers each, two micro-batches; AO: all heads; DP: requests in proportion",
    "load: processes that ran or waited, over a minute, at the end; two cores that others use too",
  },
  time_limit_s = 1800,

  run = function(point, context)
    return models.with(point.model, function(folder)
      local case = { folder = folder, model = ts.model(folder), load = loads[point.model], ratio = point.ratio,
        batch_size = point.batch_size, link_gbps = point.link_gbps }
      local corrections = runs.corrections(point.model, case, context)
      local predicted, measured = {}, {}
      local times = context.quick and 1 or repeats[point.model]
      for _, strategy in ipairs(strategies) do
        predicted[strategy] = runs.corrected_latency(strategy, case, corrections)
        measured[strategy] = runs.measure(runs.plan(strategy, case), case, times).latency_s
      end
      local plan, slow = runs.planned(case)
      local chosen, best = least(predicted, strategies), least(measured, strategies)
      local same = runs.is_data_parallel(plan, case, slow)
      local row = { chosen = chosen, best = best, regret_ratio = measured[chosen] / measured[best] - 1,
        planner = same and "data_parallel" or kind_of(plan), load = steady.load(),
        planner_s = same and measured.data_parallel or runs.measure(plan, case, times, slow).latency_s }
      for strategy, seconds in pairs(measured) do row[strategy .. "_s"] = seconds end
      row.gain_ratio = measured[best] / row.planner_s
      row.slos_right = count(slo_ratios, function(ratio)
        local slo_s = ratio * measured[best]
        return (predicted[chosen] <= slo_s) == (measured[chosen] <= slo_s)
      end)
      return row
    end)
  end,

  check = function(t)
    local shared = "times of a machine that others use"
    t:expect_that { text = "the corrected model chooses the measured best in 90 % of the settings", may_differ = shared,
      holds = function(_, rows)
        local right = count(rows, function(row) return row.chosen == row.best end)
        return right >= 0.9 * #rows, ("%d of %d"):format(right, #rows), right / #rows
      end }
    t:expect_that { text = "where it does not, 10 % are lost at most", may_differ = shared,
      holds = function(_, rows)
        local most = 0
        for _, row in ipairs(rows) do most = math.max(most, row.regret_ratio) end
        return most <= 0.1, ("%.1f %% at most"):format(100 * most), most
      end }
    local rows = {}
    for _, row in ipairs(t:rows {}) do
      if row.gain_ratio then rows[#rows + 1] = row end
    end
    for _, strategy in ipairs(strategies) do
      t:note(strategy .. " is the best of the three", ("%d of %d"):format(count(rows, function(row)
        return row.best == strategy
      end), #rows))
    end
    local right = 0
    for _, row in ipairs(rows) do right = right + row.slos_right end
    t:note("SLOs of which the model says rightly whether its choice keeps them", ("%d of %d"):format(right,
      #slo_ratios * #rows))
    t:note("the planner's plan takes at least 3 % less than any of the three", ("%d of %d"):format(
      count(rows, function(row) return row.gain_ratio >= 1.03 end), #rows))
    t:note("and at least 3 % more than the best of them", ("%d of %d"):format(
      count(rows, function(row) return row.gain_ratio <= 1 / 1.03 end), #rows))
  end,
}
