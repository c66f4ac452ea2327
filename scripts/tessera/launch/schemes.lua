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

--- "8-bit layers", "8- and 4-bit layers"
function M.text(engine)
  local counts, words = M.bitwidths(engine), {}
  for _, bitwidth in ipairs { 16, 8, 4, 3 } do
    if counts[bitwidth] then words[#words + 1] = tostring(bitwidth) end
  end
  return table.concat(words, "- and ") .. "-bit layers"
end

return M
