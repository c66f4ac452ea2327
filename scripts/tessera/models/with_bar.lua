-- ts.language_model, a model in memory, and ts.quantise_model and ts.prune_model, copies on disk: each with a bar while
-- it is made, unless progress is false or a function.

local lm = require "tessera.lm"
local new_bar = require "tessera.bar"
local quant = require "tessera.quant"

-- make(options), whose `progress` draws a bar labelled text(done, total, ...).
local function with_bar(make, text)
  return function(options)
    if type(options) ~= "table" then return make(options) end
    local own = {}
    for key, value in pairs(options) do own[key] = value end
    local clear = function() end
    if own.progress == false then
      own.progress = nil
    elseif own.progress == nil then
      local draw
      draw, clear = new_bar()
      own.progress = draw and function(done, total, ...) draw(done, total, text:format(done, total, ...)) end
    end
    local ok, result = pcall(make, own)
    clear()
    if not ok then error(result, 0) end
    return result
  end
end

return {
  language_model = with_bar(lm.language_model, "%d/%d layers"),
  prune_model = with_bar(quant.prune_model, "%d/%d tensors"),
  quantise_model = with_bar(quant.quantise_model, "%d/%d matrices, layer %d"),
}
