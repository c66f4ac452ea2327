-- Routers by name: those of the engine, and those that scripts add.

local core = require "tessera.core"
local serving = require "tessera.serving"
local solver = require "tessera.solver"
local sorted_keys = require "tessera.sorted_keys"

local M = {}
local fail = core.refuse

local entries, built_in = {}, {}
for _, card in ipairs(serving.routers()) do built_in[card.name] = card end

local card_fields = {
  name = "string", doc = "string", source = "string", choose = "function", prefixes = "boolean",
}

local function check(card, path)
  core.check_plain(card, path, "a table with name, doc and choose")
  for field, value in pairs(card) do
    if not card_fields[field] then
      fail(path, ("unknown field '%s'%s"):format(tostring(field),
        core.did_you_mean(tostring(field), sorted_keys(card_fields))))
    end
    if type(value) ~= card_fields[field] then
      fail(path .. "." .. field, ("a %s belongs here, not a %s"):format(card_fields[field], type(value)))
    end
  end
  for _, field in ipairs { "name", "doc", "choose" } do
    if card[field] == nil then fail(path .. "." .. field, "missing; give a " .. card_fields[field]) end
  end
  if not card.name:find "^[%a_][%w_%-]*$" then
    fail(path .. ".name", "a name has letters, digits, '_' and '-', such as \"least_waiting\"")
  end
  if built_in[card.name] then fail(path .. ".name", ("'%s' is built in; choose another"):format(card.name)) end
end

core.document_object {
  name = "tessera.RouterCard", doc = "What ts.register_router takes.",
  fields = {
    { "name", "string", "What router = names" },
    { "doc", "string", "One sentence" },
    { "source", "string?", "Where it comes from" },
    { "choose", "fun(replicas: table[], request: table): integer",
      "Gives a position in replicas, from 1. Each has waiting, running, pending_tokens, used_blocks, kv_blocks, seats, "
      .. "and cached_tokens where the card asks for prefixes; the request has request, prompt_tokens, max_tokens, "
      .. "priority and slo_class" },
    { "prefixes", "boolean?", "Whether it reads cached_tokens, which takes a look-up in every engine" },
  },
  methods = {},
}
core.document {
  name = "ts.register_router", doc = "Adds a router written in Lua; its name then works as `router =` of "
    .. "ts.deployment. One of the same name that was added before is replaced.",
  parameters = { { "card", "tessera.RouterCard", "name, doc, choose = function(replicas, request), prefixes" } },
  returns = "tessera.RouterCard",
}
function M.register_router(card)
  check(card, "ts.register_router")
  entries[card.name] = card
  return card
end

core.document {
  name = "ts.routers", doc = "Cards of all routers, sorted by name: name, doc, source.", returns = "table[]",
}
function M.list()
  local cards = {}
  for _, name in ipairs(sorted_keys(entries, built_in)) do
    local card = built_in[name] or entries[name]
    cards[#cards + 1] = { name = name, doc = card.doc, source = card.source or "" }
  end
  return cards
end

-- The option as the engine takes it: a name that a script registered becomes its function.
local function resolved(router)
  local name = type(router) == "table" and router.name or router
  local card = type(name) == "string" and entries[name]
  if not card or type(router) == "table" and router.choose then return router end
  local options = { name = name, choose = card.choose, prefixes = card.prefixes or false }
  for key, value in pairs(type(router) == "table" and router or {}) do options[key] = value end
  return options
end

--- ts.deployment, where routers of scripts go by their names too.
function M.deployment(given)
  if type(given) ~= "table" or given.router == nil then return solver.deployment(given) end
  local options = {}
  for name, value in pairs(given) do options[name] = value end
  options.router = resolved(given.router)
  return solver.deployment(options)
end

return M
