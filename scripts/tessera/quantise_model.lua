-- ts.quantise_model: a quantised copy of a model, with a bar while it is written.

local quant = require "tessera.quant"
local terminal = require "tessera.terminal"

-- The bar on stderr, and what removes it.
local function bar(facts)
  local function draw(done, total, layer_index)
    io.stderr:write("\r\27[K", terminal.bar(done / total, 20, "green", facts),
      (" %d/%d matrices, layer %d"):format(done, total, layer_index))
    io.stderr:flush()
  end
  return draw, function() io.stderr:write "\r\27[K" end
end

return function(options)
  local facts = terminal.facts "stderr"
  if type(options) ~= "table" then return quant.quantise_model(options) end
  local own = {}
  for key, value in pairs(options) do own[key] = value end
  local clear
  if own.progress == false then
    own.progress = nil
  elseif own.progress == nil and facts.redraws then
    own.progress, clear = bar(facts)
  end
  if not clear then return quant.quantise_model(own) end
  local ok, result = pcall(quant.quantise_model, own)
  clear()
  if not ok then error(result, 0) end
  return result
end
