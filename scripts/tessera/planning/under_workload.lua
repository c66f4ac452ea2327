-- A plan's stages under another workload: the same layers and bits, priced anew, by another kernel set where one is
-- named. Micro-batches are the plan's; where `is_served`, those of decode grow with a batch that is larger than the
-- plan's, as servers decode all requests in flight at once, in no more groups than they have stages.

local planners = require "tessera.planning.planners"

--- The plan; nil and why where the batch does not fit. Of one pipeline.
return function(plan, workload, kernel_set, is_served)
  local problem = plan:problem():with { workload = workload, kernel_set = kernel_set }
  local batch, decode = workload.batch_size, plan.decode_micro_batch_size
  if is_served and batch > plan:problem().workload.batch_size then
    local as_many = decode * batch / plan:problem().workload.batch_size
    decode = math.max(decode, math.ceil(math.min(as_many, batch / #plan.stages)))
  end
  return planners.plan(problem, { planner = "manual", stages = plan.stages,
    prefill_micro_batch_size = math.min(plan.prefill_micro_batch_size, batch),
    decode_micro_batch_size = math.min(decode, batch) })
end
