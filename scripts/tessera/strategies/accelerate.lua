-- Hugging Face's Accelerate, a baseline of iServe (arXiv 2501.13111, section 8). The paper says that it is FSDP, which
-- gathers each layer's weights on all GPUs before it computes it. That would read a model over PCIe for every token,
-- seconds for 40B, which no printed number shows. The public code has another form, too: device_map = "auto" spreads
-- layers over the GPUs, which compute one after the other, and keeps what has no room in host memory, from where it is
-- read for every token. Both are here; device_map is the default, as it is what fits the paper's figures.
--
-- Assumed: layers are spread evenly over all GPUs; what is read from the host or from the other GPUs comes in sequence
-- with computing, at the rates below.

local ts = require "tessera"
local fixed_shape = require "tessera.serving.fixed_shape"

-- The row with so much more for every step.
local function slowed(row, seconds)
  local copy = {}
  for key, value in pairs(row) do copy[key] = value end
  copy.ttft_s, copy.tpot_s, copy.latency_s = row.ttft_s + seconds, row.tpot_s + seconds, nil
  return copy
end

-- Bytes of a model that the GPUs have no room for, of those that lie evenly on them.
local function hosted_bytes(view, model, row)
  local layers, block, bytes = fixed_shape.even(model.num_layers, row.pipeline_parallel), row.base_bytes
    / model.num_layers, 0
  for k, count in ipairs(layers) do
    bytes = bytes + math.max(0, count - math.floor(view.gpus[k].free_bytes / block)) * block
  end
  return bytes
end

return ts.register_strategy {
  name = "accelerate",
  doc = "Layers spread over all GPUs, the rest in host memory; or all weights gathered for every step",
  source = "arXiv 2501.13111, section 8; huggingface/accelerate",
  options = {
    form = { type = "string", default = "device_map", doc = "device_map or all_gather" },
    scheme = { type = "string", default = "fp16", doc = "Of the estimates" },
    host_bytes_per_s = { type = "number", default = 12e9, min = 1, doc = "From host memory to a GPU (bytes/s)" },
    link_bytes_per_s = { type = "number", default = 12e9, min = 1, doc = "From GPU to GPU, all_gather (bytes/s)" },
  },

  prepare = function(_, _, _, opt)
    if opt.form == "device_map" or opt.form == "all_gather" then return end
    require("tessera.core").refuse("ts.deployment.strategy.form",
      ("no form is called '%s'; give device_map or all_gather"):format(opt.form))
  end,

  place = function(view, model, opt)
    local count = math.min(#view.gpus, model.num_layers or #view.gpus)
    local row = fixed_shape.row(model, opt.scheme, 1, count)
    if not row then return nil, ("it has no estimate of %s at TP 1 x PP %d"):format(opt.scheme, count) end
    if opt.form == "all_gather" then
      return fixed_shape.place(view, model, slowed(row, row.base_bytes * (count - 1) / count / opt.link_bytes_per_s))
    end
    local hosted = hosted_bytes(view, model, row)
    if hosted == 0 then return fixed_shape.place(view, model, row) end
    local found = { devices = {}, layers = fixed_shape.even(model.num_layers, count) }
    found.configuration = slowed(row, hosted / opt.host_bytes_per_s)
    found.configuration.hosted_bytes = hosted
    found.block_bytes = (row.base_bytes - hosted) / model.num_layers
    for i = 1, count do
      found.devices[i] = view.gpus[i].index
      -- What lies on a GPU is at most what it has.
      found.block_bytes = math.min(found.block_bytes, view.gpus[i].free_bytes / found.layers[i])
    end
    return found
  end,
}
