-- Strategies by name: where each of several models goes on the GPUs that they share.

local core = require "tessera.core"
local options = require "tessera.options"
local plugins = require "tessera.plugins"

local M = {}

local path = "ts.deployment.strategy"

local kind = plugins.kind {
  what = "strategy", unknown = "there is no strategy", engine = {}, folders = { "strategies" },
}

-- What every strategy has, whoever wrote it.
local common = options.card {
  name = path,
  doc = "Where each of several models goes: the name of a strategy, or { name =, these, and options of its own }; or "
    .. "{ place = function(view, model, opt) end, prepare =, route = }, one without a name.",
  returns = "table",
  options = {
    { name = "window_s", type = "number", unit = "s", default = 120, min = 1e-3, max = 1e6,
      doc = "Loads are the busy share of so long before the last whole second" },
    { name = "load_bytes_per_s", type = "number", unit = "bytes/s", min = 1, max = 1e15,
      doc = "Loading a model takes what it takes of a GPU by this; requests wait; left out: no time" },
  },
}
local is_common, reserved = {}, { name = "it names the strategy; choose another name" }
for _, option in ipairs(core.options_of(path)) do
  is_common[option.name], reserved[option.name] = true, "every strategy has this option already; choose another name"
end

M.register_strategy = kind:form {
  call = "ts.register_strategy", object = "tessera.StrategyCard", names = "strategy =",
  doc = "Adds a strategy written in Lua; its name then works as `strategy =` of ts.deployment { models = }.",
  fields = {
    { "prepare", "fun(view: table, models: table[], traffic: tessera.Traffic, opt: table)|nil",
      "Called when a run begins; what it finds out it keeps in opt, which is of that run" },
    { "place", "fun(view: table, model: table, opt: table): table?, any",
      "Called when a model comes. The view has now_s and gpus: index (from 0), device, total_bytes, free_bytes, load "
      .. "and models. The model has name, index, estimates (rows of a fingerprint), intent, slo, num_layers, at_s and "
      .. "until_s. Returns what ts.place gives: devices (from 0, stage after stage), layers (of each stage), "
      .. "configuration (a row of estimates), block_bytes; besides seats, the requests that an engine holds at least, "
      .. "where its max_num_seqs are fewer (as many as stages fill a pipeline); a list of such for several engines; or "
      .. "nil and why, and is asked again when another model has left" },
    { "route", "fun(request: table, model: table, opt: table): integer?|nil",
      "Called for each request of a model that has a place, instead of a router: now_s, request (from 0), "
      .. "prompt_tokens, max_tokens, priority, slo_class. Returns the model's engine, from 1; nil drops the request" },
  },
  options = path, options_doc = ": strategy = { name =, ... }", reserved = reserved,
}

core.document {
  name = "ts.strategies", doc = "Cards of all strategies, sorted by name: name, doc, source.", returns = "table[]",
}
function M.list() return kind:cards() end

-- A strategy without a name.
local function unnamed(own)
  for key in pairs(own) do
    if key ~= "place" and key ~= "prepare" and key ~= "route" then
      core.refuse(("%s.%s"):format(path, tostring(key)), "is an option of a strategy with a name: give name, too")
    end
  end
  for field, value in pairs { place = own.place or false, prepare = own.prepare, route = own.route } do
    if type(value) ~= "function" then
      core.refuse(("%s.%s"):format(path, field), value and ("a function belongs here, not a %s"):format(type(value))
        or "missing; give name, or a function")
    end
  end
  return { name = "place", place = own.place, prepare = own.prepare, route = own.route }
end

local function split(given)
  local shared, own = {}, {}
  for key, value in pairs(given) do
    if key ~= "name" then (is_common[key] and shared or own)[key] = value end
  end
  return common(shared), own
end

--- The strategy as a run takes it: place, prepare, route, name, window_s, load_bytes_per_s, and opt(), new each
--- time.
function M.resolved(given)
  if type(given) == "string" then given = { name = given } end
  options.plain(given, path, "the name of a strategy, or { name =, ... }")
  local shared, own = split(given)
  local card
  if given.name == nil then
    card = unnamed(own)
  else
    card = kind:named(given.name, path)
    card.read(own)
  end
  return {
    name = card.name, place = card.place, prepare = card.prepare, route = card.route, window_s = shared.window_s,
    load_bytes_per_s = shared.load_bytes_per_s,
    opt = function() return card.read and card.read(own) or {} end,
  }
end

return M
