-- What a word of the command line means.

local ts = require "tessera"

local M = {}

--- A model: a .gguf file, or what ts.model takes: a path, a name, a Hugging Face id.
function M.model(name)
  if name:find "%.gguf$" then return ts.weights(name):model() end
  return ts.model(name)
end

return M
