-- Step 2: a device of your own. What is asked for stands on the data sheet; the rest has defaults.
local ts = require "tessera"

local card = ts.device {
  name = "LAB-24G",
  memory_bytes = 24e9,
  memory_bytes_per_s = 700e9,
  flop_per_s = { fp16 = 120e12, int8 = 240e12 },
  compute_capability = 7, -- without one it runs no CUDA
  price_usd_per_h = 0.4,
  source = "data sheet of the vendor, 2026-11",
}
print(card)

local workload = ts.workload { prompt_tokens = 512, output_tokens = 100, batch_size = 16 }
local rows = {}
for _, device in ipairs { "T4-16G", card, "V100-32G" } do
  local plan, why = ts.plan({
    model = "opt-13b", cluster = ts.cluster { { "T4-16G", 1 }, { device, 1 }, link_gbps = 100 }, workload = workload,
  }, { prefill_micro_batch_size = 4, decode_micro_batch_size = 8 })
  rows[#rows + 1] = {
    a_T4_and = type(device) == "string" and device or device.name, status = plan and plan.status or why.code,
    throughput_tok_s = plan and plan.throughput_tok_s, mean_bitwidth = plan and plan.mean_bitwidth,
  }
end
print(ts.table(rows, { columns = { "a_T4_and", "throughput_tok_s", "mean_bitwidth", "status" } }))
