-- What quality costs: the same problem at several prices of omega, printed as a table.
local ts = require "tessera"

local problem = ts.problem {
  model = "opt-13b",
  cluster = ts.cluster { { "T4-16G", 1 }, { "V100-32G", 1 }, link_gbps = 100 },
  workload = { prompt_tokens = 512, output_tokens = 100, batch_size = 16 },
}

local rows = {}
for _, theta in ipairs { 0, 1, 10, 100 } do
  local plan, why = ts.plan(problem:with { theta = theta },
    { prefill_micro_batch_size = 4, decode_micro_batch_size = 8, time_limit_s = 1 })
  rows[#rows + 1] = plan and {
    theta = theta, latency_s = plan.latency_s, throughput_tok_s = plan.throughput_tok_s,
    mean_bitwidth = plan.mean_bitwidth, omega = plan.omega, status = plan.status,
  } or { theta = theta, status = why.code }
end
print(ts.table(rows, { columns = { "theta", "latency_s", "throughput_tok_s", "mean_bitwidth", "omega", "status" } }))
