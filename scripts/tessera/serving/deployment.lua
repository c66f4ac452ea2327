-- ts.deployment: engines of one model, or with `models` several models on the same GPUs.

return function(given)
  if type(given) == "table" and given.models ~= nil then return require "tessera.serving.models"(given) end
  return require("tessera.plugins.routers").deployment(given)
end
