-- ts.serve(deployment, traffic, options): simulated, or with `real` by a model that runs; of a fleet all its models.

local core = require "tessera.core"
local host = require "tessera.host"
local solver = require "tessera.solver"

local path = "ts.serve.real"

-- What of `real` says how it serves, and what says which model it is.
local function split(real)
  local serves = {}
  for _, option in ipairs(core.options_of(path)) do serves[option.name] = true end
  local serving, model = {}, {}
  for key, value in pairs(real) do (serves[key] and serving or model)[key] = value end
  return serving, model
end

local function model_of(given)
  if given.model == nil then return require("tessera.models.with_bar").language_model(given) end
  for key in pairs(given) do
    if key ~= "model" then
      core.refuse(path .. "." .. tostring(key), "the model is there already; ts.language_model takes such options")
    end
  end
  return given.model
end

return function(deployment, traffic, options)
  if require("tessera.fleets.fleet").is(deployment) then
    return require "tessera.fleets.serve"(deployment, traffic, options)
  end
  local real = type(options) == "table" and options.real
  if not real then
    if type(options) == "table" and options.clock ~= nil then
      core.refuse("ts.serve.clock", "is of a model that runs: give real = { path = DIR } too")
    end
    return solver.serve(deployment, traffic, options)
  end
  if type(real) ~= "table" then core.refuse(path, "a table belongs here: { path = DIR, ... }") end
  if host.sandboxed then core.raise("unsupported", "the sandbox has no runtime: ts.serve simulates there", path) end
  local serving, model = split(real)
  local draft = serving.draft_model
  serving.draft_model = nil
  if type(draft) == "string" then draft = { path = draft } end
  if type(draft) == "table" then draft = model_of(draft) end
  local server = require("tessera.run").server(model_of(model), serving, options.clock or "wall", draft)
  return solver.serve(deployment, traffic, options, server)
end
