-- llama.cpp as it comes: layers in proportion to the free memory of each device, in cluster order.
--
-- What the code does (src/llama-model.cpp, load_tensors, "default split, by free memory"; --tensor-split overrides
-- it): of n layers and the output layer, unit i goes to the first device whose memory, added to that of the devices
-- before it, is a larger share of all than i / (n + 1). Speed takes no part. A device with little memory gets nothing.
-- What is ours: free memory is what this problem's memory model leaves to a plan; llama.cpp keeps the input embedding
-- on the host, here it stays on the first device. One bitwidth for all layers, the highest that fits, as one GGUF file
-- has; the micro-batch sizes of least latency.

local search = require "tessera.planning.baselines"
local ts = require "tessera"

return ts.register_planner {
  name = "memory_split",
  doc = "llama.cpp's split by free memory, one bitwidth lowered until it fits, best micro-batch sizes",
  source = "llama.cpp, --tensor-split",
  plan = function(problem, opt)
    local order, memory = opt.device_order or problem.devices, {}
    local facts = problem:device_facts {
      device_order = order, prefill_micro_batch_size = 1, decode_micro_batch_size = 1,
    }
    for k, device in ipairs(facts) do memory[k] = math.max(device.usable_bytes, 0) end
    return search.as_split(problem, opt, "memory_split", order,
      search.proportional_counts(problem.num_layers, problem.num_layers + 1, memory))
  end,
}
