-- ts.deployment: engines of one model, or with `models` several models on the same GPUs.

local of_models = require "tessera.serving.models"
local routers = require "tessera.plugins.routers"

return function(given)
  if type(given) == "table" and given.models ~= nil then return of_models(given) end
  return routers.deployment(given)
end
