-- Which kind of quantisation a plan's bitwidths stand for: the kernel set says it, by device.

local solver = require "tessera.solver"

local M = {}

-- By the formats of weights that kernels read; others are integers for the weights alone.
local kinds = { int8_activations = "w8a8", fp8_weights = "fp8", fp8_activations = "fp8" }

--- "int" (weights alone), "fp8" or "w8a8": what 8 bit means for this pipeline.
function M.of_8_bit(engine)
  for _, stage in ipairs(engine.stages) do
    if kinds[stage.eight_bit] then return kinds[stage.eight_bit] end
  end
  return "int"
end

--- Whether 8 bit means integers for the weights alone on every device of a problem, with its kernel set.
function M.has_integers_alone(problem)
  for _, format in ipairs(solver.kernels(problem).eight_bit) do
    if kinds[format] then return false end
  end
  return true
end

--- { [bitwidth] = number of layers }, and the bitwidth of all layers where there is one.
function M.bitwidths(engine)
  local counts, uniform = {}, engine.bitwidths[1]
  for _, bitwidth in ipairs(engine.bitwidths) do
    counts[bitwidth] = (counts[bitwidth] or 0) + 1
    if bitwidth ~= uniform then uniform = nil end
  end
  return counts, uniform
end

--- Why its bitwidths do not fit into one checkpoint; nil where they do. Layers in whole integers of 4 or 8 bits beside
--- layers in 16 are one scheme; FP8, or integers for activations too, beside 4 bits are two.
function M.why_mixed(engine)
  local counts = M.bitwidths(engine)
  local kind = M.of_8_bit(engine)
  if kind == "int" or not counts[8] then return nil end
  local what = kind == "fp8" and "FP8" or "INT8 weights and activations"
  if counts[4] then
    return ("8 bit is %s with kernel set %s; beside 4-bit layers that is a second quantisation scheme, and a "
      .. "checkpoint has one"):format(what, engine.kernel_set.name)
  end
  if counts[16] then
    return ("8 bit is %s with kernel set %s, for all layers of a checkpoint or none"):format(what,
      engine.kernel_set.name)
  end
end

return M
