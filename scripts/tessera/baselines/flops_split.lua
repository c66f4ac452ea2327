-- A rule of thumb: layers in proportion to the FP16 FLOP/s on the data sheet, in cluster order. It balances prefill
-- where kernels reach the same share of their peak everywhere, and forgets memory, bandwidth and decoding.
-- An instance has no data sheet: there the speed of a layer counts, one over its prefill time at the highest bitwidth
-- that runs and at the batch over the stages. One bitwidth for all layers, the highest that fits, and the micro-batch
-- sizes of least latency. A device too slow for a layer gets none.

local search = require "tessera.planning.baselines"
local ts = require "tessera"

local function speed_of(device, bitwidths)
  if device.fp16_flop_per_s then return device.fp16_flop_per_s end
  for _, bitwidth in ipairs(search.descending(bitwidths)) do
    local seconds = device.prefill_layer_s[bitwidth]
    if seconds then return seconds > 0 and 1 / seconds or 1e12 end
  end
  return 0
end

return ts.register_planner {
  name = "flops_split",
  doc = "Layers in proportion to FP16 FLOP/s, one bitwidth lowered until it fits, best micro-batch sizes",
  source = "rule of thumb",
  plan = function(problem, opt)
    local order, speeds, total = opt.device_order or problem.devices, {}, 0
    local size = search.batch_over_stages(problem, #order)
    local facts = problem:device_facts {
      device_order = order, prefill_micro_batch_size = size, decode_micro_batch_size = size,
    }
    for k, device in ipairs(facts) do
      speeds[k] = speed_of(device, problem.bitwidths)
      total = total + speeds[k]
    end
    if total == 0 then return nil, "no device has a kernel for any of the candidate bitwidths" end
    return search.as_split(problem, opt, "flops_split", order,
      search.proportional_counts(problem.num_layers, problem.num_layers, speeds))
  end,
}
