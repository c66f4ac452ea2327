-- Planners and heuristics by name: those of the engine, those that ship as Lua files, those that scripts add.
-- An entry has name, doc, source, options, and one or both of
--   plan(problem, opt)      a planner in Lua; `engine = true` instead for one in C++
--   improve(search, opt)    a heuristic; `starts` says from where when it is asked for alone

local core = require "tessera.core"
local host = require "tessera.host"
local options = require "tessera.options"
local solver = require "tessera.solver"
local sorted_keys = require "tessera.sorted_keys"

local M = {}

local entries = {}
local built_in = { manual = true }
local shipped = {
  baselines = {
    "uniform", "het", "pipeedge", "vllm_even", "memory_split", "flops_split", "best_homogeneous", "flexgen",
    "flexgen_int8",
  },
  heuristics = { "bitwidth_transfer" },
}

--- Options that ts.plan itself understands, whoever plans: [name] = true.
M.common = {}
for _, option in ipairs(core.options_of "ts.plan") do M.common[option.name] = option.name ~= "stages" or nil end

for i, card in ipairs(solver.planner_cards()) do
  card.engine = true
  entries[card.name], built_in[card.name] = card, true
  if i == 1 then M.default = card.name end
end
for _, card in ipairs(solver.heuristic_cards()) do
  local entry = entries[card.name] or { name = card.name, doc = card.doc, source = card.source, kind = "heuristic" }
  entry.engine, entry.improves = true, true
  entries[card.name], built_in[card.name] = entry, true
end
entries.manual = {
  name = "manual",
  doc = "A plan made by hand: stages and both micro-batch sizes, checked and priced like any other",
  source = "",
}

local fail = core.refuse

local function deep_copy(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, item in pairs(value) do copy[key] = deep_copy(item) end
  return copy
end

local function check_fields(card, path, fields, required)
  if type(card) ~= "table" then fail(path, "a table belongs here, not a " .. type(card)) end
  for field, value in pairs(card) do
    if not fields[field] then
      fail(path, ("unknown field '%s'%s"):format(tostring(field),
        core.did_you_mean(tostring(field), sorted_keys(fields))))
    end
    if type(value) ~= fields[field] then
      fail(path .. "." .. field, ("a %s belongs here, not a %s"):format(fields[field], type(value)))
    end
  end
  for _, field in ipairs(required) do
    if type(card[field]) ~= fields[field] then fail(path .. "." .. field, "missing; give a " .. fields[field]) end
  end
  if not card.name:find "^[%w_][%w_.%-]*$" then
    fail(path .. ".name", "a name has letters, digits, '_', '-' and '.', such as \"first_fit\"")
  end
  for name, spec in pairs(card.options or {}) do
    if M.common[name] then
      fail(("%s.options.%s"):format(path, name), "every planner has this option already; choose another name")
    end
    options.check_spec(name, spec, path .. ".options")
  end
end

local function refuse_built_in(card, path)
  if type(card) == "table" and built_in[card.name] then
    fail(path .. ".name", ("'%s' is built in; choose another"):format(card.name))
  end
end

local function add(card)
  local entry = deep_copy(card)
  entry.read = options.reader("ts.plan", entry.options or {})
  entries[card.name] = entry
end

local planner_fields = { name = "string", doc = "string", source = "string", options = "table", plan = "function" }

--- Adds a planner in Lua, shipped ones included.
function M.add_planner(card)
  check_fields(card, "ts.register_planner", planner_fields, { "name", "doc", "plan" })
  add(card)
  return card
end

local heuristic_fields = {
  name = "string", doc = "string", source = "string", options = "table", improve = "function", starts = "string",
}

--- Adds a heuristic in Lua, shipped ones included.
function M.add_heuristic(card)
  local path = "ts.register_heuristic"
  check_fields(card, path, heuristic_fields, { "name", "doc", "improve" })
  if card.starts and card.starts ~= "one" and card.starts ~= "every" then
    fail(path .. ".starts", ("'%s' is neither \"one\" nor \"every\""):format(card.starts))
  end
  add(card)
  return card
end

-- Files load once, when a name is first looked for that is not there, so that start-up does not wait.
local shipped_loaded, users_loaded = false, false
local broken = {} -- files of users that could not be loaded, each with why

local function load_shipped()
  if shipped_loaded then return end
  shipped_loaded = true
  for _, folder in ipairs { "baselines", "heuristics" } do
    for _, name in ipairs(shipped[folder]) do built_in[require(("tessera.%s.%s"):format(folder, name)).name] = true end
  end
end

-- One broken file of a user must not take the others with it.
local function load_users()
  if users_loaded then return end
  users_loaded = true
  for _, folder in ipairs { "planners", "baselines", "heuristics" } do
    for _, path in ipairs(host.user_scripts(folder)) do
      local chunk, message = loadfile(path)
      local ok = chunk ~= nil
      if chunk then ok, message = pcall(chunk) end
      if not ok then broken[#broken + 1] = ("%s: %s"):format(path, tostring(message)) end
    end
  end
end

local function load_all()
  load_shipped()
  load_users()
end

--- Files of TESSERA_PATH that could not be loaded: "path: why".
function M.broken()
  load_all()
  return broken
end

local plan_card = {
  { "name", "string", "What planner = names" },
  { "doc", "string", "One sentence" },
  { "source", "string?", "The paper it comes from" },
  { "options", "table<string, { type: string, default: any, min: number?, max: number?, doc: string? }>?",
    "Options of its own, which ts.plan then takes" },
}
local function with_fields(...)
  local fields = deep_copy(plan_card)
  for _, field in ipairs { ... } do fields[#fields + 1] = field end
  return fields
end
core.document_object {
  name = "tessera.PlannerCard", doc = "What ts.register_planner takes.",
  fields = with_fields({ "plan", "fun(problem: tessera.Problem, opt: table): table?, tessera.Error?",
    "Returns stages and both micro-batch sizes, as planner = \"manual\" takes them, or nil and why" }),
}
core.document_object {
  name = "tessera.HeuristicCard", doc = "What ts.register_heuristic takes.",
  fields = with_fields(
    { "improve", "fun(search: tessera.Search, opt: table)", "Improves the plan of the search by moves" },
    { "starts", "\"one\"|\"every\"|nil", "adabits' plan, or that of every order of device types and pair of "
      .. "micro-batch sizes, of which the best answer counts" }),
}

core.document {
  name = "ts.register_planner", doc = "Adds a planner written in Lua; its name then works as `planner =`. "
    .. "One of the same name that was added before is replaced.",
  parameters = { { "card", "tessera.PlannerCard",
    "name, doc, source, plan = function(problem, opt), "
    .. "options = { [name] = { type =, default =, min =, max =, doc = } }" } },
  returns = "tessera.PlannerCard",
}
function M.register_planner(card)
  load_shipped()
  refuse_built_in(card, "ts.register_planner")
  return M.add_planner(card)
end

core.document {
  name = "ts.register_heuristic", doc = "Adds a heuristic written in Lua: it improves a plan that fits, by moves. Its "
    .. "name then works as `planner =`, alone or in a chain { \"adabits\", name }. An error in improve is raised by "
    .. "ts.plan, unless its on_error is \"continue\"; one that is cut short leaves the best plan so far, which says so "
    .. "in stopped_by.",
  parameters = { { "card", "tessera.HeuristicCard",
    "name, doc, source, options, improve = function(search, opt), starts = \"one\" (adabits' plan) or \"every\" "
    .. "(that of every order of device types and pair of micro-batch sizes; the best answer counts)" } },
  returns = "tessera.HeuristicCard",
}
function M.register_heuristic(card)
  load_shipped()
  refuse_built_in(card, "ts.register_heuristic")
  return M.add_heuristic(card)
end

core.document {
  name = "ts.planners", doc = "Cards of all planners and heuristics, sorted by name.", returns = "table[]",
}
--- Cards: name, doc, source, kind (planner or heuristic), and the options of their own. Copies: changing them changes
--- nothing.
function M.list()
  load_all()
  local cards = {}
  for _, name in ipairs(sorted_keys(entries)) do
    local e = entries[name]
    cards[#cards + 1] = {
      name = name, doc = e.doc, source = e.source or "", options = deep_copy(e.options or {}),
      kind = e.kind or (e.improve and not e.plan and "heuristic") or "planner",
      improves = e.improve ~= nil or e.improves == true,
    }
  end
  return cards
end

--- The entry of that name; `path` is the option that names it.
function M.named(name, path)
  if type(name) ~= "string" then fail(path, "the name of a planner belongs here, not a " .. type(name)) end
  if not entries[name] then load_shipped() end
  if not entries[name] then load_users() end
  if not entries[name] then
    local files = #broken > 0 and "; not loaded: " .. table.concat(broken, "; ") or ""
    core.raise("not_found", ("%s: unknown planner '%s'%s%s"):format(path, name,
      core.did_you_mean(name, sorted_keys(entries)), files), path)
  end
  return entries[name]
end

return M
