-- Step 3: a baseline of your own. A planner in Lua proposes stages and sizes; the engine checks and prices them.
local ts = require "tessera"

-- Layers in proportion to `speeds`, every device one at least; what rounding leaves over goes to the fastest.
local function proportional(num_layers, speeds)
  local total, fastest, counts, left = 0, 1, {}, num_layers
  for k, speed in ipairs(speeds) do
    total = total + speed
    if speed > speeds[fastest] then fastest = k end
  end
  for k, speed in ipairs(speeds) do
    counts[k] = math.max(math.floor(num_layers * speed / total), 1)
    left = left - counts[k]
  end
  counts[fastest] = counts[fastest] + left
  return counts
end

ts.register_planner {
  name = "decode_balance",
  doc = "Layers in proportion to decode speed, at the highest bitwidth that fits",
  source = "the tutorial",
  options = {
    lowest_bitwidth = { type = "integer", default = 3, min = 3, max = 16, doc = "Never goes below it (bits)" },
  },
  plan = function(problem, opt)
    local prefill, decode = opt.prefill_micro_batch_size or 1, opt.decode_micro_batch_size or 8
    local facts = problem:device_facts {
      device_order = opt.device_order or problem.devices,
      prefill_micro_batch_size = prefill,
      decode_micro_batch_size = decode,
    }
    local why
    for b = #problem.bitwidths, 1, -1 do
      local bitwidth, speeds, stages = problem.bitwidths[b], {}, {}
      if bitwidth < opt.lowest_bitwidth then break end
      for k, device in ipairs(facts) do speeds[k] = 1 / device.decode_layer_s[bitwidth] end
      for k, count in ipairs(proportional(problem.num_layers, speeds)) do
        stages[k] = { device = facts[k].device, bitwidths = {} }
        for i = 1, count do stages[k].bitwidths[i] = bitwidth end
      end
      local plan, reason = ts.plan(problem, { -- whether it fits
        planner = "manual", stages = stages, prefill_micro_batch_size = prefill, decode_micro_batch_size = decode,
      })
      if plan then
        return { stages = stages, prefill_micro_batch_size = prefill, decode_micro_batch_size = decode }
      end
      why = reason
    end
    return nil, why
  end,
}

local problem = ts.problem {
  model = "opt-13b",
  cluster = ts.cluster { { "T4-16G", 1 }, { "V100-32G", 1 }, link_gbps = 100 },
  workload = ts.workload { prompt_tokens = 512, output_tokens = 100, batch_size = 16 },
  theta = 1,
}
local mine = assert(ts.plan(problem, { planner = "decode_balance", lowest_bitwidth = 4 }))
local best = assert(ts.plan(problem))
print(mine)
print(("the optimum has %.2f times its throughput"):format(best.throughput_tok_s / mine.throughput_tok_s))
