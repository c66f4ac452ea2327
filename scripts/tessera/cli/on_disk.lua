-- What the verbs that run a model have in common: the model that their flags describe, and what is shown meanwhile.

local core = require "tessera.core"
local host = require "tessera.host"
local new_bar = require "tessera.bar"
local ts = require "tessera"

local M = {}

--- The path of the model, the first word; `also` says in words what may follow.
function M.path(given, verb, most, also)
  local names = given.names
  if #names == 0 then
    core.raise("usage", ("name a model: a folder with config.json, or a .gguf file%s"):format(also or ""), verb)
  end
  if #names > most then
    core.raise("usage", ("there are %d words where %d belong; quote a text of several words"):format(#names, most),
      verb)
  end
  return names[1]
end

--- Options of ts.language_model from the flags of its names.
function M.options(given, path, but)
  local options = { path = path }
  for _, option in ipairs(core.options_of "ts.language_model") do
    if not (but and but[option.name]) and option.name ~= "path" then options[option.name] = given[option.name] end
  end
  if given.bitwidths and given.plan then core.raise("usage", "give either --bitwidths or --plan", "--plan") end
  local list = given.bitwidths
  if list then options.bitwidths = #list == 1 and list[1] or list end
  if given.plan then options.plan = ts.load_plan(given.plan) end
  return options
end

--- Calls fn(draw), where draw(done, total, text) is nil without a terminal; Ctrl-C ends no Lua meanwhile, but what
--- looks for it.
function M.with_bar(fn)
  local draw, clear = new_bar()
  host.poll_interrupts(true)
  local ok, result = pcall(fn, draw)
  host.poll_interrupts(false)
  clear()
  if not ok then error(result, 0) end
  return result
end

--- The middle of a list, the lowest and the highest.
function M.spread(values)
  local sorted = { unpack(values) }
  table.sort(sorted)
  local n = #sorted
  if n == 0 then return nil end
  return (sorted[math.floor((n + 1) / 2)] + sorted[math.ceil((n + 1) / 2)]) / 2, sorted[1], sorted[n]
end

return M
