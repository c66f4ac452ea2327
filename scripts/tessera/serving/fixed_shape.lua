-- Places of strategies that give every model the same shape, whatever it takes: stages over all GPUs, from the first.

local M = {}

--- The row of a scheme and a shape, or nil.
function M.row(model, scheme, tp, pp)
  for _, row in ipairs(model.estimates or {}) do
    if row.scheme == scheme and row.tensor_parallel == tp and row.pipeline_parallel == pp and not row.refused then
      return row
    end
  end
  return nil
end

M.even = require "tessera.configurations.even_layers"

--- The place of a row on these GPUs of the view, the first ones; nil and why where one has too little memory.
function M.place(view, model, row)
  local tp, pp = row.tensor_parallel, row.pipeline_parallel
  local layers, block, devices = M.even(model.num_layers, pp), row.base_bytes / (tp * model.num_layers), {}
  for i = 1, tp * pp do
    local gpu, bytes = view.gpus[i], layers[math.ceil(i / tp)] * block
    if gpu.free_bytes < bytes then
      return nil, ("GPU %d has %.1f GB free, its part of TP %d x PP %d takes %.1f GB"):format(gpu.index,
        gpu.free_bytes / 1e9, tp, pp, bytes / 1e9)
    end
    devices[i] = gpu.index
  end
  return { devices = devices, layers = layers, block_bytes = block, configuration = row }
end

--- TP x PP in a scheme on all GPUs, or nil and why.
function M.on_all(view, model, scheme, along)
  local count = #view.gpus
  local tp, pp = along == "tensor" and count or 1, along == "tensor" and 1 or math.min(count, model.num_layers or count)
  local row = M.row(model, scheme, tp, pp)
  if not row then return nil, ("it has no estimate of %s at TP %d x PP %d"):format(scheme, tp, pp) end
  return M.place(view, model, row)
end

return M
