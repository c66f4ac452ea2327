-- ts.language_model: a model in memory, with a bar while it is loaded.

local lm = require "tessera.lm"
local new_bar = require "tessera.bar"

return function(options)
  if type(options) ~= "table" then return lm.language_model(options) end
  local own = {}
  for key, value in pairs(options) do own[key] = value end
  local clear = function() end
  if own.progress == false then
    own.progress = nil
  elseif own.progress == nil then
    local draw
    draw, clear = new_bar()
    own.progress = draw and function(done, total) draw(done, total, ("%d/%d layers"):format(done, total)) end
  end
  local ok, result = pcall(lm.language_model, own)
  clear()
  if not ok then error(result, 0) end
  return result
end
