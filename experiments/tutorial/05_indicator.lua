-- Step 5: an indicator of your own: what each layer loses at each bitwidth, as a table omega[layer][bitwidth].
local ts = require "tessera"

local model = ts.model "opt-13b"
local bitwidths = { 3, 4, 8, 16 }

-- The first and the last layers suffer most here: a guess to be replaced by what you have measured.
local omega = {}
for layer = 1, model.num_layers do
  local depth = (layer - 1) / (model.num_layers - 1) -- 0 at the first layer, 1 at the last
  local sensitivity = 1 + 4 * (2 * depth - 1) ^ 2
  omega[layer] = {}
  for _, bitwidth in ipairs(bitwidths) do
    -- The squared step of a uniform quantiser falls by four with every bit; 16 bits lose nothing.
    omega[layer][bitwidth] = bitwidth < 16 and sensitivity * 4 ^ -bitwidth or 0
  end
end

local problem = ts.problem {
  model = model,
  cluster = ts.cluster { { "T4-16G", 1 }, { "V100-32G", 1 }, link_gbps = 100 },
  workload = ts.workload { prompt_tokens = 512, output_tokens = 100, batch_size = 16 },
  bitwidths = bitwidths,
  theta = 1,
}
for _, case in ipairs { { "constant", ts.indicator { model = model } }, { "mine", omega } } do
  local name, indicator = case[1], case[2]
  local plan = assert(ts.plan(problem:with { indicator = indicator },
    { prefill_micro_batch_size = 1, decode_micro_batch_size = 8 }))
  local eight = {}
  for _, stage in ipairs(plan.stages) do
    for i, bitwidth in ipairs(stage.bitwidths) do
      if bitwidth >= 8 then eight[#eight + 1] = stage.first_layer + i - 1 end
    end
  end
  print(("%-9s layers at 8 bits or more: %s"):format(name, table.concat(eight, " ")))
end
