-- ts.plan and the registry behind it: planners in C++, plans by hand ("manual"), and planners in Lua.

local core = require "tessera.core"
local solver = require "tessera.solver"
local options = require "tessera.options"

local M = {}

local registry = {}
local built_in = { "manual" }
local shipped = { "uniform", "het" } -- files of tessera.baselines, loaded when first asked for

for i, card in ipairs(solver.planner_cards()) do
  registry[card.name], built_in[#built_in + 1] = card, card.name
  if i == 1 then M.default = card.name end
end
registry.manual = {
  name = "manual",
  doc = "A plan made by hand: stages and both micro-batch sizes, checked and priced like any other",
  source = "",
}

local function load_shipped()
  for _, name in ipairs(shipped) do
    if not registry[name] then require("tessera.baselines." .. name) end
  end
end

local function names()
  load_shipped()
  local list = {}
  for name in pairs(registry) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local function fail(path, text) core.raise("invalid_argument", path .. ": " .. text, path) end

local function sorted_keys(...)
  local keys = {}
  for _, map in ipairs { ... } do
    for key in pairs(map) do keys[#keys + 1] = key end
  end
  table.sort(keys)
  return keys
end

local function deep_copy(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, item in pairs(value) do copy[key] = deep_copy(item) end
  return copy
end

core.document {
  name = "ts.planners", doc = "Cards of all planners, sorted by name.", returns = "table[]",
}
--- Cards of all planners: name, doc, source, and the options of their own. Copies: changing them changes nothing.
function M.list()
  local cards = {}
  for _, name in ipairs(names()) do
    local p = registry[name]
    cards[#cards + 1] = { name = p.name, doc = p.doc, source = p.source or "", options = deep_copy(p.options or {}) }
  end
  return cards
end

local common = { -- what ts.plan itself understands, whoever plans
  planner = true, device_order = true, prefill_micro_batch_size = true, decode_micro_batch_size = true,
  time_limit_s = true, gap = true, threads = true, seed = true, on_incumbent = true,
}

-- What a problem with side constraints is planned with by default: the exact search cannot keep them.
local keeps_constraints = "ilp"

local card_fields = { name = "string", doc = "string", source = "string", options = "table", plan = "function" }

local function check_fields(card, path)
  for field, value in pairs(card) do
    if not card_fields[field] then
      fail(path, ("unknown field '%s'%s"):format(tostring(field),
        core.did_you_mean(tostring(field), sorted_keys(card_fields))))
    end
    if type(value) ~= card_fields[field] then
      fail(path .. "." .. field, ("a %s belongs here, not a %s"):format(card_fields[field], type(value)))
    end
  end
  for _, field in ipairs { "name", "doc", "plan" } do
    if card[field] == nil then fail(path .. "." .. field, "missing; give a " .. card_fields[field]) end
  end
  if not card.name:find "^[%w_][%w_.%-]*$" then
    fail(path .. ".name", "a name has letters, digits, '_', '-' and '.', such as \"first_fit\"")
  end
end

--- Adds a planner, shipped ones included; ts.register_planner is `register`.
function M.add(card)
  local path = "ts.register_planner"
  if type(card) ~= "table" then fail(path, "a table belongs here, not a " .. type(card)) end
  check_fields(card, path)
  for name, spec in pairs(card.options or {}) do
    if common[name] then
      fail(("%s.options.%s"):format(path, name), "every planner has this option already; choose another name")
    end
    options.check_spec(name, spec, path .. ".options")
  end
  registry[card.name] = deep_copy(card)
  return card
end

core.document {
  name = "ts.register_planner", doc = "Adds a planner written in Lua; its name then works as `planner =`. "
    .. "One of the same name that was added before is replaced.",
  parameters = { { "card", "table",
    "name, doc, source, plan = function(problem, opt), "
    .. "options = { [name] = { type =, default =, min =, max =, doc = } }" } },
  returns = "table",
}
function M.register(card)
  if type(card) == "table" and type(card.name) == "string" then
    for _, list in ipairs { built_in, shipped } do
      for _, name in ipairs(list) do
        if card.name == name then
          fail("ts.register_planner.name", ("'%s' is built in; choose another"):format(name))
        end
      end
    end
  end
  return M.add(card)
end

-- The options that the planner declares, and those of every planner.
local function split_options(planner, given)
  local own, shared = {}, {}
  for key, value in pairs(given) do
    if planner.options and planner.options[key] then
      own[key] = value
    elseif common[key] then
      shared[key] = value
    else
      core.raise("invalid_argument", ("ts.plan: planner '%s' has no option '%s'%s"):format(planner.name, tostring(key),
        core.did_you_mean(tostring(key), sorted_keys(common, planner.options or {}))), "ts.plan." .. tostring(key))
    end
  end
  return own, shared
end

-- What a planner in Lua answered, as stages and micro-batch sizes; it may hand on the plan of another planner.
local function candidate_of(planner, answer)
  local path = ("planner '%s'"):format(planner.name)
  if getmetatable(answer) == "tessera.Plan" then
    return {
      stages = answer.stages,
      prefill_micro_batch_size = answer.prefill_micro_batch_size,
      decode_micro_batch_size = answer.decode_micro_batch_size,
    }
  end
  if type(answer) ~= "table" then
    fail(path, "its plan function must return a table with stages, or nil and why, not a " .. type(answer))
  end
  local candidate = {}
  for key, value in pairs(answer) do
    if key ~= "note" then candidate[key] = value end
  end
  return candidate, answer.note
end

local function why_of(planner, why)
  if type(why) == "table" and type(why.code) == "string" and type(why.message) == "string" then return why end
  return core.why("infeasible", why ~= nil and tostring(why) or ("planner '%s' found no plan"):format(planner.name))
end

local function plan_in_lua(planner, problem, given)
  local own, shared = split_options(planner, given)
  solver.check_options(problem, shared)
  local opt = options.read(own, planner.options or {}, "ts.plan")
  for key, value in pairs(shared) do opt[key] = value end
  local started = os.clock()
  local answer, why = planner.plan(problem, opt)
  if answer == nil then return nil, why_of(planner, why) end
  local candidate, note = candidate_of(planner, answer)
  local plan, reason = solver.price(problem, candidate, planner.name, os.clock() - started)
  if not plan then return nil, reason end
  return note ~= nil and plan:with_note(note) or plan
end

-- The planner of that name; `path` is the option that names it.
local function planner_named(name, path)
  if type(name) ~= "string" then fail(path, "the name of a planner belongs here, not a " .. type(name)) end
  if not registry[name] then
    local known = names() -- loads the shipped ones
    if not registry[name] then
      core.raise("not_found", ("%s: unknown planner '%s'%s"):format(path, name, core.did_you_mean(name, known)), path)
    end
  end
  return registry[name]
end

-- A floor that names a baseline becomes a number: Uniform's omega, else Het's, else 4 bits throughout, else none.
local function resolve_floor(problem)
  local floor = problem.quality and problem.quality.at_least
  if not floor then return problem end
  planner_named(floor, "ts.problem.quality.at_least")
  local none = problem:with { quality = { at_least = "none" }, theta = problem.theta }
  local free = none:with { constraints = {} } -- the floor is the baseline's quality, whatever else plans must keep
  local function at(max_omega) return problem:with { quality = { max_omega = max_omega }, theta = problem.theta } end
  for _, name in ipairs(floor == "het" and { "het" } or { floor, "het" }) do
    local baseline = M.plan(free, { planner = name })
    if baseline then
      local note = ("quality floor: omega of %s, %.6g"):format(name, baseline.omega)
      if name ~= floor then note = note .. (" (%s does not fit)"):format(floor) end
      return at(baseline.omega), note
    end
  end
  if problem.indicator and problem.theta_unit == "s_per_normalised_omega" then
    return at(1), "quality floor: 4 bits throughout (no baseline fits)"
  end
  return none, "quality floor: none (no baseline fits)"
end

local function with_planner(opt, name)
  local copy = { planner = name }
  for key, value in pairs(opt) do copy[key] = value end
  return copy
end

--- Plans a problem: a plan, or nil and why (why.code: infeasible, time_limit, interrupted).
function M.plan(problem, opt)
  if problem == nil then fail("ts.plan", "give a problem, or the fields of one") end
  opt = opt or {}
  if type(opt) ~= "table" then
    fail("ts.plan", "its options are a table, not a " .. type(opt))
  end
  if opt.planner ~= nil then planner_named(opt.planner, "ts.plan.planner") end
  if getmetatable(problem) ~= "tessera.Problem" then problem = solver.problem(problem) end
  local notes = {}
  if opt.planner == nil and #problem.constraints > 0 then
    opt = with_planner(opt, keeps_constraints)
    notes[1] = ("planned with '%s', which keeps side constraints"):format(keeps_constraints)
  end
  local planner = planner_named(opt.planner or M.default, "ts.plan.planner")
  if planner.name == "manual" then
    local stages = {}
    for key, value in pairs(opt) do
      if key ~= "planner" then stages[key] = value end
    end
    return solver.price(problem, stages, "manual", 0)
  end
  local floor
  problem, floor = resolve_floor(problem)
  notes[#notes + 1] = floor
  local plan, why
  if planner.plan then
    plan, why = plan_in_lua(planner, problem, opt)
  else
    plan, why = solver.solve(problem, opt)
  end
  if not plan then return nil, why end
  for _, note in ipairs(notes) do plan = plan:with_note(note) end
  return plan
end

return M
