-- Routers by name.

local core = require "tessera.core"
local plugins = require "tessera.plugins"
local serving = require "tessera.serving"
local solver = require "tessera.solver"

local M = {}

local kind = plugins.kind {
  what = "router", unknown = "there is no router", engine = serving.routers(), folders = { "routers" },
}

M.register_router = kind:form {
  call = "ts.register_router", object = "tessera.RouterCard", names = "router =",
  doc = "Adds a router written in Lua; its name then works as `router =` of ts.deployment.",
  fields = {
    { "choose", "fun(replicas: table[], request: table): integer",
      "Gives a position in replicas, from 1. Each has waiting, running, pending_tokens, used_blocks, kv_blocks, seats, "
      .. "share (what it should have of all requests, against the others), and cached_tokens where the card asks for "
      .. "prefixes; the request has request, prompt_tokens, max_tokens, priority and slo_class" },
    { "prefixes", "boolean?", "Whether it reads cached_tokens, which takes a look-up in every engine" },
  },
}

core.document {
  name = "ts.routers", doc = "Cards of all routers, sorted by name: name, doc, source.", returns = "table[]",
}
function M.list() return kind:cards() end

--- The option as the engine takes it: a name that a script registered becomes its function.
function M.resolved(router)
  local name = type(router) == "table" and router.name or router
  if type(name) ~= "string" or type(router) == "table" and router.choose then return router end
  local card = kind:named(name, "ts.deployment.router")
  if not card.choose then return router end
  local options = { name = name, choose = card.choose, prefixes = card.prefixes or false }
  for key, value in pairs(type(router) == "table" and router or {}) do options[key] = value end
  return options
end

--- ts.deployment, where routers of scripts go by their names too.
function M.deployment(given)
  if type(given) ~= "table" or given.router == nil then return solver.deployment(given) end
  local options = {}
  for name, value in pairs(given) do options[name] = value end
  options.router = M.resolved(given.router)
  return solver.deployment(options)
end

return M
