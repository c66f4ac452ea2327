-- Step 1: a problem, a plan, a simulation.
local ts = require "tessera"

local problem = ts.problem {
  model = "opt-13b",
  cluster = ts.cluster { { "T4-16G", 1 }, { "V100-32G", 1 }, link_gbps = 100 },
  workload = ts.workload { prompt_tokens = 512, output_tokens = 100, batch_size = 16 },
  theta = 1,
}

local plan, why = ts.plan(problem)
if not plan then return print("no plan:", why.message) end
print(plan)

-- The same problem where quality counts ten times as much: `with` copies, nothing changes behind your back.
local careful = assert(ts.plan(problem:with { theta = 10 }))
print(("theta 1: %.1f tok/s at %.2f bits; theta 10: %.1f tok/s at %.2f bits"):format(plan.throughput_tok_s,
  plan.mean_bitwidth, careful.throughput_tok_s, careful.mean_bitwidth))

-- The plan's latency is a formula; the simulation lets every micro-batch pass through the pipeline.
local run = ts.simulate(plan)
print(("simulated %.2f s, planned %.2f s"):format(run.total_s, plan.latency_s))
for _, stage in ipairs(run.stages) do print(stage.name, ("idle %.0f %%"):format(100 * stage.idle_ratio)) end
