-- SplitQuant, Fig. 11; LLM-PQ, Fig. 8: what theta does to throughput and to the quality that is measured.
--
-- "a larger theta generally results in lower inference throughput and higher model accuracy". Plans are those of the
-- exact planner with the variance indicator, on LLM-PQ's cluster 9 (4xV100-32G) cut down until layers of 5 bits just
-- fit, so that bits have to be chosen; the model then runs with every plan's bitwidths. theta is in seconds per
-- normalised omega (4 bits throughout are 1), in units of the fastest plan's latency. The order of the predicted
-- latency and omega is no claim here: of an exact minimiser it is a theorem. That of the measured divergence is none.
--
-- Bounds were chosen before the first run.
local ts = require "tessera"
local indicators = require "lib.quality.indicators"
local measure = require "lib.quality.measure"
local scaled_cluster = require "lib.papers.scaled_cluster"
local subjects = require "lib.quality.subject"

local models = { subjects.small, subjects.real }
local factors = { 0, 0.01, 0.1, 1, 10 }

local function problem_of(subject, folder)
  local omega, table_of = indicators.make("variance", subject, folder, 1), {}
  for layer = 1, subject.num_layers do
    table_of[layer] = {}
    for _, bitwidth in ipairs(indicators.bitwidths) do table_of[layer][bitwidth] = omega(layer - 1, bitwidth) end
  end
  return scaled_cluster.problem {
    cluster = "llmpq-9", model = subject.model, bitwidths = indicators.bitwidths, indicator = table_of, theta = 0,
    workload = { batch_size = 32, prompt_tokens = 128, output_tokens = 64 }, preset = "splitquant",
  }
end

return ts.experiment {
  name = "quality/theta",
  doc = "Throughput, and measured perplexity and divergence, of plans by theta",
  grid = { model = models, factor = factors },
  quick = { model = { subjects.small }, factor = { 0, 0.1, 10 } },
  columns = {
    "theta", "latency_s", "throughput_tok_s", "omega", "mean_bitwidth", "bitwidths", "perplexity",
    "perplexity_increase", "kl_nats", "kl_se", "memory_share", "num_tokens", "note",
  },
  notes = measure.notes_and {
    "plans: cluster llmpq-9 with memory_share of what its GPUs can use, kernel set llmpq_2023_08, memory preset "
      .. "llm-pq, objective steady; latency and throughput are predicted, not run",
    "factor: theta over the latency of the fastest plan; variance: of the calibration text, for the rounding measured",
  },
  time_limit_s = 3600,

  run = function(point, context)
    local subject, why = subjects.find(point.model, context.quick)
    if not subject then return nil, why end
    local problem, share = problem_of(subject, context.output_dir)
    local options = { planner = "exact", time_limit_s = 60 }
    local fastest = assert(ts.plan(problem, options))
    local theta = point.factor * fastest.latency_s
    local plan = assert(ts.plan(problem:with { theta = theta }, options))
    local bitwidths = {}
    for i, stage in ipairs(plan.stages) do bitwidths[i] = table.concat(stage.bitwidths, " ") end
    local row = measure.row(subject, { plan = plan })
    row.status, row.plan, row.theta, row.bitwidths = plan.status, plan, theta, table.concat(bitwidths, " | ")
    row.latency_s, row.throughput_tok_s, row.omega = plan.latency_s, plan.throughput_tok_s, plan.omega
    row.mean_bitwidth, row.memory_share = plan.mean_bitwidth, share
    return row
  end,

  check = function(t)
    for _, model in ipairs(models) do
      t:expect_order {
        column = "kl_nats", by = "factor", order = { 10, 0.1, 0 }, lowest = true, within = 0.05,
        where = { model = model, factor = { 0, 0.1, 10 } },
      }
      t:expect_that {
        text = "at factor 10 the divergence is 0.02 to 0.9 of that at 0, for 0 to 60 % of the throughput",
        where = { model = model, factor = { 0, 10 } },
        holds = function(at)
          local fast, good = at { factor = 0 }, at { factor = 10 }
          local kl, cost = good.kl_nats / fast.kl_nats, 1 - good.throughput_tok_s / fast.throughput_tok_s
          return kl >= 0.02 and kl <= 0.9 and cost >= 0 and cost <= 0.6, ("%.3g for %.1f %%"):format(kl, 100 * cost)
        end,
      }
    end
  end,
  plots = { { kind = "lines", x = "throughput_tok_s", y = "kl_nats", by = "model" } },
}
