-- The bitwidths of a pipeline's layers.

local M = {}

--- { [bitwidth] = number of layers }, and the bitwidth of all layers where there is one.
function M.bitwidths(engine)
  local counts, uniform = {}, engine.bitwidths[1]
  for _, bitwidth in ipairs(engine.bitwidths) do
    counts[bitwidth] = (counts[bitwidth] or 0) + 1
    if bitwidth ~= uniform then uniform = nil end
  end
  return counts, uniform
end

return M
