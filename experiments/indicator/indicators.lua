-- Indicators side by side on a model on disk, as SplitQuant's Table V and LLM-PQ's Table 6 compare them: what they
-- take, how well their order of layers agrees with the truth, and what plans of the same latency or size lose.
--
-- The truth is the error of the layers' outputs under rounding to nearest ("measured"), and the rise of the model's
-- loss where that was measured. On a real model (TESSERA_WEIGHTS) the weights and statistics are its own; else a tiny
-- model of random weights stands in, which shows that everything runs and nothing about indicators.
local ts = require "tessera"
local rank = require "tessera.rank_correlation"
local similar_latency = require "tessera.papers.similar_latency"

local disk = require("tessera.model_on_disk").find()
local bitwidths = { 3, 4, 8, 16 }

-- One scale per output channel everywhere, so that all describe the same rounding.
local options_of = {
  measured = { kind = "measured" },
  variance = { kind = "variance", granularity = "channel" },
  variance_stochastic = { kind = "variance", granularity = "channel", rounding = "stochastic" },
  variance_weights_only = { kind = "variance", granularity = "channel", statistics = false },
  variance_per_tensor = { kind = "variance", granularity = "tensor" },
  variance_llm_pq_code = { kind = "variance", variant = "llm-pq-code" },
  hessian = { kind = "hessian" },
  hessian_llm_pq_code = { kind = "hessian", variant = "llm-pq-code" },
  gptq_error = { kind = "gptq_error" },
  random = { kind = "random", statistics = false },
}
local names = {}
for name in pairs(options_of) do names[#names + 1] = name end
table.sort(names)

local function make(name, seed)
  local options = { model = disk.path, bitwidths = bitwidths, seed = seed, statistics = disk.statistics }
  for key, value in pairs(options_of[name]) do options[key] = value end
  if options.statistics == false then options.statistics = nil end
  return ts.indicator(options)
end

-- omega over the layers at one bitwidth.
local function column(indicator, bitwidth)
  local values = {}
  for layer = 0, indicator.num_layers - 1 do values[layer + 1] = indicator:omega(layer, bitwidth) end
  return values
end

-- Mean over the bitwidths that both know and that lose something.
local function agreement(indicator, truth, correlation)
  local sum, count = 0, 0
  for _, bitwidth in ipairs(truth.bitwidths) do
    local r = bitwidth < 16 and correlation(column(indicator, bitwidth), column(truth, bitwidth))
    if r then sum, count = sum + r, count + 1 end
  end
  return count > 0 and sum / count or nil
end

-- How the measured error relates to the variance indicator, which Theorem 1 calls its upper bound: the mean ratio, and
-- the share of (layer, bitwidth) pairs above it. The bound is one for independent errors and uncorrelated inputs.
local function over_bound(indicator, measured)
  local sum, above, count = 0, 0, 0
  for _, bitwidth in ipairs { 3, 4, 8 } do
    for layer = 0, measured.num_layers - 1 do
      local ratio = measured:omega(layer, bitwidth) / indicator:omega(layer, bitwidth)
      sum, above, count = sum + ratio, above + (ratio > 1 and 1 or 0), count + 1
    end
  end
  return sum / count, above / count
end

local function lost(plan, truth)
  local sum = 0
  for _, stage in ipairs(plan.stages) do
    for i, bitwidth in ipairs(stage.bitwidths) do sum = sum + truth:omega(stage.first_layer + i - 1, bitwidth) end
  end
  return sum
end

-- The bitwidths of least omega whose mean is at most `mean`: least[total bits] layer by layer. What they lose in truth.
local function lost_at(mean, indicator, truth)
  local least = { [0] = { omega = 0, lost = 0 } }
  for layer = 0, indicator.num_layers - 1 do
    local longer = {}
    for total, so_far in pairs(least) do
      for _, bitwidth in ipairs(bitwidths) do
        local key, omega = total + bitwidth, so_far.omega + indicator:omega(layer, bitwidth)
        if key <= mean * indicator.num_layers and (not longer[key] or omega < longer[key].omega) then
          longer[key] = { omega = omega, lost = so_far.lost + truth:omega(layer, bitwidth) }
        end
      end
    end
    least = longer
  end
  local best
  for total = 0, mean * indicator.num_layers do
    local one = least[total]
    if one and (not best or one.omega < best.omega) then best = one end
  end
  return best.lost
end

local function printed(table_name)
  local parts = {}
  for _, row in ipairs(ts.paper(table_name).rows) do
    local figures = row.overhead_s and (", %.2f s"):format(row.overhead_s) or ""
    parts[#parts + 1] = ("%s %s %s%s"):format(row.point.cluster, row.point.indicator, row.perplexity, figures)
  end
  return "printed, cluster, indicator, perplexity, overhead: " .. table.concat(parts, "; ")
end

return ts.experiment {
  name = "indicator/indicators",
  doc = "Indicators on a model on disk: overhead, agreement with the truth, and plans of similar latency",
  seed = 1,
  grid = { indicator = names },
  quick = { indicator = { "variance", "hessian", "random", "measured" } },
  columns = {
    "overhead_s", "weights_s", "statistics_s", "spearman", "kendall", "spearman_loss", "bound_ratio",
    "above_bound_ratio", "latency_s", "lost_ratio", "mean_bitwidth", "lost_at_5_bits_ratio",
  },
  time_limit_s = 1200,
  notes = {
    ("model %s (%s)"):format(disk.name, disk.is_real and "real" or "tiny, random weights: the numbers mean nothing"),
    "spearman, kendall: order of the layers against the measured output error, mean over 3, 4 and 8 bits; "
      .. "spearman_loss: against the rise of the loss, where tests/reference/loss_increase.py measured it",
    "bound_ratio: measured error over the indicator, mean; above_bound_ratio: share of layers and bitwidths above 1",
    "lost_ratio: measured error of the plan's bitwidths over that of the plan made from the measured error; plans of "
      .. "the largest theta that stay within 1.1 of the fastest one's latency; none where those keep 16 bits",
    "lost_at_5_bits_ratio: the same for bitwidths chosen to a mean of at most 5, whatever their latency",
    printed "splitquant/table5.csv",
    printed "llmpq/table6.csv",
  },

  run = function(point, context)
    if not disk.statistics then return { status = "no_statistics" } end
    local indicator, measured = make(point.indicator, context.seed), make("measured", context.seed)
    local row = {
      status = "done", overhead_s = indicator.overhead_s, weights_s = indicator.weights_s,
      statistics_s = indicator.statistics_s,
      spearman = agreement(indicator, measured, rank.spearman), kendall = agreement(indicator, measured, rank.kendall),
      spearman_loss = disk.loss and agreement(indicator, ts.indicator(disk.loss), rank.spearman) or nil,
    }
    if point.indicator:find "^variance" then
      row.bound_ratio, row.above_bound_ratio = over_bound(indicator, measured)
    end
    local problem = ts.problem {
      model = ts.weights(disk.path):model(), bitwidths = bitwidths, theta = 0,
      cluster = ts.cluster { { "T4-16G", 1, node = "a" }, { "V100-32G", 1, node = "b" }, link_gbps = 100 },
      workload = { prompt_tokens = 64, output_tokens = 32, batch_size = 4 },
    }
    local steps = context.quick and 4 or 8
    local plan = similar_latency.plan(problem:with { indicator = indicator }, steps)
    local best = similar_latency.plan(problem:with { indicator = measured }, steps)
    row.latency_s, row.mean_bitwidth = plan.latency_s, plan.mean_bitwidth
    row.lost_ratio = lost(best, measured) > 0 and lost(plan, measured) / lost(best, measured) or nil
    row.lost_at_5_bits_ratio = lost_at(5, indicator, measured) / lost_at(5, measured, measured)
    return row
  end,

  check = function(t)
    t:expect_all { column = "spearman", at_least = 0.999, where = { indicator = "measured" } }
    t:expect_all { column = "lost_at_5_bits_ratio", at_least = 1 }
    if not disk.is_real then return end
    t:expect_that {
      text = "the variance indicator takes less time than the Hessian",
      where = { indicator = { "variance", "hessian" } },
      holds = function(at)
        local ratio = at { indicator = "hessian" }.overhead_s / at { indicator = "variance" }.overhead_s
        return ratio > 1, ("%.1f times"):format(ratio)
      end,
    }
    t:expect_that {
      text = "the variance indicator orders layers better than random draws",
      where = { indicator = { "variance", "random" } },
      holds = function(at)
        local variance, random = at { indicator = "variance" }.spearman, at { indicator = "random" }.spearman
        return variance > random, ("%.2f against %.2f"):format(variance, random)
      end,
    }
  end,
  plots = { { kind = "bars", x = "indicator", y = "spearman" } },
}
