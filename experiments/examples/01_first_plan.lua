-- The first plan: Qwen2.5-32B on three T4s and one V100, beside the Uniform baseline.
local ts = require "tessera"

local problem = ts.problem {
  model = "qwen2.5-32b",
  cluster = ts.cluster { { "T4-16G", 3 }, { "V100-32G", 1 }, link_gbps = 800 },
  workload = ts.workload { prompt_tokens = 512, output_tokens = 100, batch_size = 32 },
  theta = 1, -- seconds that one would pay to avoid the quality loss of 4 bits throughout
}

local plan = assert(ts.plan(problem, { time_limit_s = 4 }))
print(plan)
print(plan:explain())

local uniform, why = ts.plan(problem, { planner = "uniform" })
print(uniform or ("Uniform: " .. why.message))
if uniform then
  print(("%.2f times the throughput of Uniform"):format(plan.throughput_tok_s / uniform.throughput_tok_s))
end
