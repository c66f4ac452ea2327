-- Schedulers by name. One in Lua is called once per step.

local core = require "tessera.core"
local options = require "tessera.options"
local plugins = require "tessera.plugins"
local serving = require "tessera.serving"
local sorted_keys = require "tessera.sorted_keys"
local view_of = require "tessera.plugins.scheduler_view"

local M = {}

local bound, is_of_engine = {}, {} -- by name: { entry, opt }; whether it is one in C++
for _, card in ipairs(serving.schedulers()) do is_of_engine[card.name] = true end

local kind = plugins.kind {
  what = "scheduler", unknown = "there is no scheduler", engine = serving.schedulers(), folders = { "schedulers" },
}

M.register_scheduler = kind:form {
  call = "ts.register_scheduler", object = "tessera.SchedulerCard", names = "scheduler =",
  doc = "Adds a scheduler written in Lua; its name then works as `scheduler =` of ts.engine.",
  fields = {
    { "schedule", "fun(view: tessera.SchedulerView, opt: table)", "Decides a step" },
    { "every_step", "boolean?", "Ask for every step. Otherwise a step in which all that run decode one token and "
      .. "nobody joins is taken to be decided alike until a request comes or ends, or blocks are short" },
    { "removed", "fun(request: integer, opt: table)|nil", "A request (its number) leaves before its end, as its client "
      .. "has gone: what was kept of it may go" },
  },
  options = "ts.engine.scheduler", options_doc = ": ts.engine { scheduler = { name =, ... } }",
  reserved = { name = "it names the scheduler; choose another name" },
  added = function(entry) bound[entry.name] = { entry = entry, opt = entry.read {} } end,
}

core.document {
  name = "ts.schedulers", doc = "Cards of all schedulers, sorted by name: name, doc, source.", returns = "table[]",
}
function M.list() return kind:cards() end

-- A scheduler with options of its own goes by a name that has them: "shortest_first(aging = 0.5)".
local function name_with_options(given)
  local path = "ts.engine.scheduler"
  options.plain(given, path, "the name of a scheduler, or { name =, ... }")
  if type(given.name) ~= "string" then core.refuse(path .. ".name", "missing; give the name of a scheduler") end
  local own = {}
  for key, value in pairs(given) do
    if key ~= "name" then own[key] = value end
  end
  if next(own) == nil then return given.name end
  local entry = kind:named(given.name, path)
  local opt, texts = entry.read(own), {}
  for _, key in ipairs(sorted_keys(own)) do texts[#texts + 1] = ("%s = %s"):format(key, tostring(own[key])) end
  local text = ("%s(%s)"):format(given.name, table.concat(texts, ", "))
  bound[text] = { entry = entry, opt = opt }
  return text
end

--- ts.engine, which also takes scheduler = { name =, options of the scheduler }. Those of one in C++ are options of the
--- engine.
function M.engine(given)
  local scheduler = type(given) == "table" and given.scheduler
  if type(scheduler) == "string" and not bound[scheduler] then kind:named(scheduler, "ts.engine.scheduler") end
  if type(scheduler) ~= "table" then return serving.engine(given) end
  local copy = {}
  for key, value in pairs(given) do copy[key] = value end
  if not is_of_engine[scheduler.name] then
    copy.scheduler = name_with_options(scheduler)
    return serving.engine(copy)
  end
  copy.scheduler = nil
  for key, value in pairs(scheduler) do
    if copy[key] ~= nil then
      core.refuse("ts.engine.scheduler", ("%s is given twice, in it and beside it"):format(key))
    end
    copy[key == "name" and "scheduler" or key] = value
  end
  return serving.engine(copy)
end

--- What the engine calls for each step, whether it wants every one, and what it calls for who leaves.
function M.bind(name, address)
  if not bound[name] then kind:named(name, "scheduler") end
  local entry, opt, view = bound[name].entry, bound[name].opt, view_of(address)
  local removed = entry.removed and function(request) entry.removed(request, opt) end
  return function() entry.schedule(view, opt) end, entry.every_step == true, removed
end

return M
