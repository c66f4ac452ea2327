-- Decisions around a plan: how many GPUs to buy, what quality costs, what to do when one fails.
local ts = require "tessera"

local workload = { prompt_tokens = 256, output_tokens = 32, batch_size = 8 }

-- The cheapest mix and the fewest GPUs for a target.
local result = assert(ts.size {
  model = "opt-13b", workload = workload, devices = { "T4-16G", "L4", "A10G" }, max_devices = 4,
  target = { throughput_tok_s = 150 },
})
print(("cheapest: %s, %.2f USD/h; fewest: %s; %d of %d mixes were solved"):format(result.cheapest.devices,
  result.cheapest.price_usd_per_h, result.fewest.devices, result.tried, result.mixes))

-- A plan for three GPUs, and why it is as it is.
local problem = ts.problem {
  model = "opt-13b", workload = workload, theta = 1, bitwidths = { 4, 8, 16 },
  cluster = { { "T4-16G", 2, node = "a" }, { "L4", 1, node = "b" }, link_gbps = 10 },
}
local plan = assert(ts.plan(problem, { replicas = 1, time_limit_s = 4 }))
print(plan)
print(plan:explain { robustness = 5 })

-- Latency against quality and price.
local points = assert(ts.pareto(problem, { max_points = 3 }))
print(ts.table(points, { columns = { "latency_s", "omega", "price_usd_per_h", "usd_per_million_tokens", "devices" } }))

-- A T4 fails: a plan for what is left that loads few weights anew.
local smaller, moves = assert(ts.replan(plan, { { "T4-16G", 1, node = "a" }, { "L4", 1, node = "b" }, link_gbps = 10 }))
print(smaller)
print(("%.2f GB to load, %.2f s; the best plan would load %.2f GB"):format(moves.moved_bytes / 1e9, moves.transfer_s,
  moves.optimum_moved_bytes / 1e9))

-- The largest batch that fits what is left.
print((ts.max_batch(smaller:problem())), "requests at most")
