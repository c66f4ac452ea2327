-- Uniform: what one gets without thinking. Layers split evenly, one bitwidth for all of them, lowered from the
-- highest until the plan fits, micro-batch sizes of least latency.
-- The published code lets the last prefill size win instead of the best one; we do not reproduce that.

local search = require "tessera.planning.baselines"
local ts = require "tessera"

return ts.register_planner {
  name = "uniform",
  doc = "Even partition in cluster order, one bitwidth lowered until it fits, best micro-batch sizes",
  source = "SplitQuant VI-A, LLM-PQ 6.1",
  plan = function(problem, opt)
    local order = opt.device_order or problem.devices
    local candidate, why = search.at_one_bitwidth(problem, opt, "uniform", order,
      search.even_counts(problem.num_layers, #order))
    return candidate, why
  end,
}
