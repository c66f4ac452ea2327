-- Indicators side by side on a model on disk, as SplitQuant's Table V and LLM-PQ's Table 6 compare them: what they
-- take, how well their order of layers agrees with the truth, and what plans of the same latency or size lose.
--
-- The truth is the error of the layers' outputs under rounding to nearest ("measured"), the divergence of the model
-- with one layer quantised, and the perplexity and divergence with a plan's bitwidths. The model is the one that
-- TESSERA_WEIGHTS names, else the small one that ships.
local ts = require "tessera"
local indicator_rows = require "lib.papers.indicator_rows"
local measure = require "lib.quality.measure"
local on_disk = require "lib.papers.indicators_on_disk"

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
  grid = { indicator = on_disk.names },
  quick = { indicator = { "variance", "hessian", "random", "measured" } },
  columns = {
    "model", "overhead_s", "weights_s", "statistics_s", "spearman", "kendall", "spearman_kl", "bound_ratio",
    "above_bound_ratio", "latency_s", "mean_bitwidth", "perplexity", "perplexity_increase", "loss_increase_nats",
    "loss_increase_se", "kl_nats", "kl_se", "kl_sd", "num_tokens", "output_error", "error_at_5_bits", "kl_at_5_bits",
    "note",
  },
  time_limit_s = 1200,
  notes = indicator_rows.notes_and {
    "plans on the GPUs of splitquant-7: 4xT4 + 2xV100",
    "kendall: as spearman, by Kendall's tau-b",
    "bound_ratio: measured output error over the indicator, mean; above_bound_ratio: share of them above 1",
    "error_at_5_bits, kl_at_5_bits: output error and divergence of the bitwidths that the indicator chooses for a "
      .. "mean of at most 5, whatever their latency; random: of the first draw",
    printed "splitquant/table5.csv",
    printed "llmpq/table6.csv",
  },

  run = function(point, context)
    local row, why = indicator_rows.row(point.indicator, "splitquant-7", context)
    if not row then return nil, why end
    local subject = on_disk.subject(context.quick)
    local own = on_disk.make(point.indicator, subject, context.output_dir, context.seed)
    local truth = on_disk.truth(subject, context.output_dir)
    if point.indicator:find "^variance" then
      row.bound_ratio, row.above_bound_ratio = over_bound(own, truth.output_error)
    end
    local chosen = on_disk.chosen_at(5, own)
    row.error_at_5_bits = on_disk.lost(chosen, truth.output_error)
    row.kl_at_5_bits = measure.row(subject, { bitwidths = chosen }).kl_nats
    return row
  end,

  check = function(t)
    t:expect_all { column = "spearman", at_least = 0.999, where = { indicator = "measured" } }
    t:expect_best { column = "error_at_5_bits", is = { indicator = "measured" }, lowest = true }
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
