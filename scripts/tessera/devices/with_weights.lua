-- What is measured of a model needs weights, of whatever value.

local core = require "tessera.core"
local exists = require "tessera.files".exists
local measure = require "tessera.measure"

--- Calls fn(path) with a folder or GGUF file that has the model's weights: its own, where `model` names one, or one
--- with random weights of so many layers, which goes again. Returns what fn returns.
return function(model, num_layers, fn)
  if type(model) == "string" and (exists(model .. "/config.json") or model:find "%.gguf$") then return fn(model) end
  local result
  measure.random_model(core.model(model), num_layers, function(folder) result = fn(folder) end)
  return result
end
