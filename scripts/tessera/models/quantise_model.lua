-- ts.quantise_model: a quantised copy of a model, with a bar while it is written.

local new_bar = require "tessera.bar"
local quant = require "tessera.quant"

return function(options)
  if type(options) ~= "table" then return quant.quantise_model(options) end
  local own = {}
  for key, value in pairs(options) do own[key] = value end
  local clear = function() end
  if own.progress == false then
    own.progress = nil
  elseif own.progress == nil then
    local draw
    draw, clear = new_bar()
    own.progress = draw and function(done, total, layer_index)
      draw(done, total, ("%d/%d matrices, layer %d"):format(done, total, layer_index))
    end
  end
  local ok, result = pcall(quant.quantise_model, own)
  clear()
  if not ok then error(result, 0) end
  return result
end
