-- Planners and heuristics by name. An entry has name, doc, source, options, and one or both of
--   plan(problem, opt)      a planner in Lua; `engine = true` instead for one in C++
--   improve(search, opt)    a heuristic; `starts` says from where when it is asked for alone

local core = require "tessera.core"
local plugins = require "tessera.plugins"
local solver = require "tessera.solver"

local M = {}

--- Options that ts.plan itself understands, whoever plans: [name] = true.
M.common = {}
local reserved = {}
for _, option in ipairs(core.options_of "ts.plan") do
  M.common[option.name] = option.name ~= "stages" or nil
  reserved[option.name] = M.common[option.name] and "every planner has this option already; choose another name"
end

local engine, by_name = { {
  name = "manual", kind = "planner", engine = true,
  doc = "A plan made by hand: stages and both micro-batch sizes, checked and priced like any other",
} }, {}
for i, card in ipairs(solver.planner_cards()) do
  card.engine, card.kind = true, "planner"
  engine[#engine + 1], by_name[card.name] = card, card
  if i == 1 then M.default = card.name end
end
for _, card in ipairs(solver.heuristic_cards()) do
  local known = by_name[card.name]
  if not known then
    card.engine, card.kind = true, "heuristic"
    engine[#engine + 1] = card
  end
  (known or card).improves = true
end

local kind = plugins.kind {
  what = "planner", unknown = "unknown planner", engine = engine, folders = { "planners", "baselines", "heuristics" },
}

M.register_planner = kind:form {
  call = "ts.register_planner", object = "tessera.PlannerCard", names = "planner =",
  doc = "Adds a planner written in Lua; its name then works as `planner =`.",
  fields = { { "plan", "fun(problem: tessera.Problem, opt: table): table?, tessera.Error?",
    "Returns stages and both micro-batch sizes, as planner = \"manual\" takes them, or nil and why" } },
  options = "ts.plan", options_doc = ", which ts.plan then takes", reserved = reserved,
}

M.register_heuristic = kind:form {
  call = "ts.register_heuristic", object = "tessera.HeuristicCard", names = "planner =",
  doc = "Adds a heuristic written in Lua: it improves a plan that fits, by moves. Its name then works as `planner =`, "
    .. "alone or in a chain { \"adabits\", name }. An error in improve is raised by ts.plan, unless its on_error is "
    .. "\"continue\"; one that is cut short leaves the best plan so far, which says so in stopped_by.",
  fields = {
    { "improve", "fun(search: tessera.Search, opt: table)", "Improves the plan of the search by moves" },
    { "starts", "\"one\"|\"every\"|nil", "adabits' plan, or that of every order of device types and pair of "
      .. "micro-batch sizes, of which the best answer counts" },
  },
  options = "ts.plan", options_doc = ", which ts.plan then takes", reserved = reserved,
  check = function(card, path)
    if card.starts and card.starts ~= "one" and card.starts ~= "every" then
      core.refuse(path .. ".starts", ("'%s' is neither \"one\" nor \"every\""):format(card.starts))
    end
  end,
}

--- Files of TESSERA_PATH that could not be loaded: "path: why".
function M.broken() return kind:broken() end

--- The entry of that name; `path` is the option that names it.
function M.named(name, path) return kind:named(name, path) end

core.document {
  name = "ts.planners", doc = "Cards of all planners and heuristics, sorted by name.", returns = "table[]",
}
--- Cards: name, doc, source, kind (planner or heuristic), and the options of their own. Copies: changing them changes
--- nothing.
function M.list()
  return kind:cards(function(card, entry)
    card.options = plugins.copy(entry.options or {}, "ts.planners")
    card.kind = entry.kind or (entry.plan and "planner" or "heuristic")
    card.improves = entry.improve ~= nil or entry.improves == true
  end)
end

return M
