-- A model on disk: how sensitive its layers are, what quantising a matrix does to it, and a plan that knows.
--
-- Takes the model that TESSERA_WEIGHTS names: SmolLM2-135M, which scripts/fetch_smollm2.sh unpacks, or any folder of
-- safetensors or .gguf file. Without one it takes the small one that ships.
local ts = require "tessera"
local model_on_disk = require "lib.model_on_disk"

local disk = model_on_disk.find()
local weights = ts.weights(disk.path)
local model = weights:model()
print(("%s: %d layers of %s"):format(disk.name, model.num_layers, model.family))

-- Without statistics of the inputs the variance indicator takes them to have unit variance, and says so.
local bitwidths = { 3, 4, 8, 16 }
local indicator = ts.indicator {
  model = disk.path, kind = "variance", granularity = "channel", bitwidths = bitwidths, statistics = disk.statistics,
}
print(indicator.source)
print(("%.3f s over the weights, %.3f s over the statistics"):format(indicator.weights_s, indicator.statistics_s))

-- omega falls by orders of magnitude with every bit: its logarithm makes the better picture, without 16 bits, which
-- lose next to nothing. The same plot saves as a picture: plot:save "sensitivity.svg".
local rows = {}
for layer = 0, model.num_layers - 1 do
  for _, bitwidth in ipairs { 3, 4, 8 } do
    rows[#rows + 1] = { layer = layer, bitwidth = bitwidth, log10_omega = math.log10(indicator:omega(layer, bitwidth)) }
  end
end
print(ts.plot {
  kind = "heatmap", rows = rows, x = "bitwidth", y = "layer", value = "log10_omega",
  title = "Sensitivity of the layers of " .. disk.name,
})

-- One matrix, quantised. (Weights that come from 4-bit codes keep their values where the new codes match the old.)
local quantised = {}
for _, bitwidth in ipairs { 3, 4, 8 } do
  for _, granularity in ipairs { "tensor", "channel", "group" } do
    local q = ts.quantise {
      tensor = weights:linear(0, "down_proj"), bitwidth = bitwidth, granularity = granularity,
      group_size = granularity == "group" and 32 or nil,
    }
    quantised[#quantised + 1] = { bitwidth = bitwidth, granularity = granularity, mse = q.mse, max_error = q.max_error }
  end
end
print(ts.table(quantised, { columns = { "bitwidth", "granularity", "mse", "max_error" } }))

-- Layers that the indicator calls sensitive keep more bits.
local problem = ts.problem {
  model = model, bitwidths = bitwidths, indicator = indicator, theta = 0.01,
  cluster = ts.cluster { { "T4-16G", 1 }, { "L4", 1 }, link_gbps = 10 },
  workload = { prompt_tokens = 128, output_tokens = 64, batch_size = 8 },
}
print(assert(ts.plan(problem, { prefill_micro_batch_size = 2, decode_micro_batch_size = 4, time_limit_s = 10 })))
