-- Uniform: what one gets without thinking. Layers split evenly, one bitwidth for all of them, lowered from the
-- highest until the plan fits, micro-batch sizes of least latency.
-- The published code lets the last prefill size win instead of the best one; we do not reproduce that.

local planners = require "tessera.planners"
local search = require "tessera.baselines.search"

return planners.add {
  name = "uniform",
  doc = "Even partition in cluster order, one bitwidth lowered until it fits, best micro-batch sizes",
  source = "SplitQuant VI-A, LLM-PQ 6.1",
  plan = function(problem, opt)
    local order = opt.device_order or problem.devices
    if #order > problem.num_layers then
      return nil, ("%d stages and only %d layers"):format(#order, problem.num_layers)
    end
    local counts = search.even_counts(problem.num_layers, #order)
    local late, best = search.clock(opt), nil
    for _, bitwidth in ipairs(search.descending(problem.bitwidths)) do
      best = search.best_of(problem)
      for prefill, decode in search.micro_batches(problem, opt, #order, late) do
        best.offer {
          stages = search.stages(order, counts, bitwidth),
          prefill_micro_batch_size = prefill,
          decode_micro_batch_size = decode,
        }
      end
      if best.candidate or late() then break end
    end
    return search.answer(best, late,
      "uniform fits at no bitwidth: " .. (best.message or "no micro-batch sizes to try"))
  end,
}
