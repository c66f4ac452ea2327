-- A cluster of your own: two nodes with different GPUs and a slow network between them.
local ts = require "tessera"

local cluster = ts.cluster {
  { "RTX-3090", 2, node = "desk" },
  { "RTX-4090", 1, node = "lab" },
  link_gbps = 10,
}
print(cluster)
local link = cluster:link(0, 2)
print(("desk to lab: %s, %.2f GB/s"):format(link.kind, link.bytes_per_s / 1e9))

local problem = ts.problem {
  model = "qwen2.5-32b",
  cluster = cluster,
  workload = { prompt_tokens = 1024, output_tokens = 128, batch_size = 8 },
  bitwidths = { 4, 8, 16 },
}
local plan = assert(ts.plan(problem, { time_limit_s = 3 }))
print(plan)
print(ts.simulate(plan))
