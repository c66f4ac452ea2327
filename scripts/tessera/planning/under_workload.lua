-- A plan's stages under another workload: the same layers, bits and micro-batches, priced anew.

local planners = require "tessera.planning.planners"

--- The plan; nil and why where the batch does not fit. Of one pipeline.
return function(plan, workload)
  local problem = plan:problem():with { workload = workload }
  return planners.plan(problem, { planner = "manual", stages = plan.stages,
    prefill_micro_batch_size = math.min(plan.prefill_micro_batch_size, workload.batch_size),
    decode_micro_batch_size = math.min(plan.decode_micro_batch_size, workload.batch_size) })
end
