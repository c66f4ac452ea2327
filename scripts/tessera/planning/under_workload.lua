-- A plan's stages under another workload: the same layers, bits and micro-batches, priced anew, by another kernel set
-- where one is named.

local planners = require "tessera.planning.planners"

--- The plan; nil and why where the batch does not fit. Of one pipeline.
return function(plan, workload, kernel_set)
  local problem = plan:problem():with { workload = workload, kernel_set = kernel_set }
  return planners.plan(problem, { planner = "manual", stages = plan.stages,
    prefill_micro_batch_size = math.min(plan.prefill_micro_batch_size, workload.batch_size),
    decode_micro_batch_size = math.min(plan.decode_micro_batch_size, workload.batch_size) })
end
