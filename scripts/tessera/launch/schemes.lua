-- Which kind of quantisation a plan's bitwidths stand for: the kernel set says it, by device.

local core = require "tessera.core"

local M = {}

--- Whether a rule of a kernel set is for a device.
function M.is_for(rule, name, compute_capability)
  local is_listed = not rule.devices or #rule.devices == 0
  for _, listed in ipairs(rule.devices or {}) do is_listed = is_listed or listed == name end
  return is_listed and compute_capability >= (rule.min_compute_capability or 0)
    and compute_capability <= (rule.max_compute_capability or math.huge)
end

-- The kernel of a bitwidth on a device: the last rule that holds there, as later ones are for newer devices.
local function method_of(kernel_set, bitwidth, stage)
  local found
  for _, rule in ipairs(kernel_set.rules) do
    if rule.bitwidth == bitwidth and M.is_for(rule, stage.device, stage.compute_capability) then found = rule.method end
  end
  return found
end

local function kind_of(method)
  if not method then return "int" end
  if method:find "^fp8" then return "fp8" end
  if method:find "w8a8" then return "w8a8" end
  return "int" -- weights alone
end

--- "int" (weights alone), "fp8" or "w8a8": what 8 bit means for this pipeline.
function M.of_8_bit(engine)
  for _, stage in ipairs(engine.stages) do
    local kind = kind_of(method_of(engine.kernel_set, 8, stage))
    if kind ~= "int" then return kind end
  end
  return "int"
end

--- Whether 8 bit means integers for the weights alone on every device of a problem, with its kernel set.
function M.has_integers_alone(problem)
  local kernel_set = core.from_json(core.read_file(core.data_file("kernel_sets", problem.kernel_set)))
  for _, device in ipairs(problem.cluster.devices) do
    local stage = { device = device.name, compute_capability = device.compute_capability }
    if kind_of(method_of(kernel_set, 8, stage)) ~= "int" then return false end
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
