-- What the best of all plans does on a pair: layers and bitwidths split anyhow, requests in any proportion, any number
-- of KV heads on the second device.

local plans = require "tessera.planning.strategies.plans"
local solver = require "tessera.solver"
local budget = require "tessera.planning.budget"

local function strategy_of(plan)
  if plan.replicas then return "data_parallel" end
  if #plan.stages > 1 then return "model_parallel" end
  return plan.stages[1].attention and "attention_offload" or "one_device"
end

-- The best plan of a problem on a pair, "optimal" where that is proven, and why there is none.
local function best_of(problem, clock, num_kv_heads)
  clock.stopped = false
  local best, why = clock.solve(problem, { replicas = "all" })
  if #problem.cluster.devices > 1 then
    for heads = 1, num_kv_heads do
      local divided = solver.with_attention(problem, 0, 1, heads / num_kv_heads)
      if not divided then break end -- all heads share one cache
      local plan = clock.solve(divided, { replicas = 1, cutoff = best and best.objective })
      best = plan or best
    end
  end
  return best, clock.stopped and "feasible" or "optimal", why
end

local function has_16(bitwidths)
  for _, bitwidth in ipairs(bitwidths) do
    if bitwidth == 16 then return true end
  end
  return false
end

--- What stands beside the chosen plan (nil where our memory has none for it), of the same batch.
return function(case, pair, chosen, batch_size, usd_per_h)
  local clock = budget.new(case.time_limit_s)
  local at_16, status_16_bit, why = best_of(plans.problem(case, pair, batch_size), clock, case.num_kv_heads)
  -- A search that ran out of time may be worse than what is known.
  if chosen and not (at_16 and at_16.latency_s <= chosen.latency_s) then at_16 = chosen end
  local own = { bitwidths = case.bitwidths, quality = case.quality }
  local plan, status, why_none = best_of(plans.problem(case, pair, batch_size, own), clock, case.num_kv_heads)
  local is_worse = at_16 and status == "feasible" and not (plan and plan.latency_s <= at_16.latency_s)
  if is_worse and has_16(case.bitwidths) then plan = at_16 end
  if not plan then return nil, why_none or why end
  local exact = { strategy = strategy_of(plan), plan = plan, latency_s = plan.latency_s,
    tokens_per_usd = usd_per_h == 0 and math.huge or 3600 * plan.throughput_tok_s / usd_per_h,
    status = status }
  if at_16 then
    exact.strategy_16_bit, exact.plan_16_bit, exact.latency_16_bit_s = strategy_of(at_16), at_16, at_16.latency_s
    exact.status_16_bit = status_16_bit
  end
  if chosen then
    exact.gain_ratio = chosen.latency_s / plan.latency_s
    exact.gain_16_bit_ratio = chosen.latency_s / at_16.latency_s
  end
  return exact
end
