-- ts.plan and the registry behind it: planners in C++ ("ilp"), plans by hand ("manual"), and planners in Lua.

local core = require "tessera.core"
local solver = require "tessera.solver"
local options = require "tessera.options"

local M = { default = "ilp" }

local registry = {}
local shipped = { "uniform", "het" } -- files of tessera.baselines, loaded when first asked for

registry.ilp = {
  name = "ilp",
  doc = "Proven optimum by integer programming on COIN-OR CBC, over device orders and micro-batch sizes",
  source = "SplitQuant eqs. (4)-(16), in prefix-and-counts form",
}
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

core.document {
  name = "ts.planners", doc = "Cards of all planners, sorted by name.", returns = "table[]",
}
--- Cards of all planners: name, doc, source, and the options of their own.
function M.list()
  local cards = {}
  for _, name in ipairs(names()) do
    local p = registry[name]
    cards[#cards + 1] = { name = p.name, doc = p.doc, source = p.source or "", options = p.options or {} }
  end
  return cards
end

local card_fields = { name = "string", doc = "string", source = "string", options = "table", plan = "function" }

core.document {
  name = "ts.register_planner", doc = "Adds a planner written in Lua; its name then works as `planner =`.",
  parameters = { { "card", "table",
    "name, doc, source, plan = function(problem, opt), "
    .. "options = { [name] = { type =, default =, min =, max =, doc = } }" } },
  returns = "table",
}
function M.register(card)
  local path = "ts.register_planner"
  if type(card) ~= "table" then core.raise("invalid_argument", path .. ": a table belongs here", path) end
  local known = {}
  for field in pairs(card_fields) do known[#known + 1] = field end
  table.sort(known)
  for field, value in pairs(card) do
    if not card_fields[field] then
      core.raise("invalid_argument",
        ("%s: unknown field '%s'%s"):format(path, tostring(field), core.did_you_mean(tostring(field), known)), path)
    end
    if type(value) ~= card_fields[field] then
      core.raise("invalid_argument",
        ("%s.%s: a %s belongs here, not a %s"):format(path, field, card_fields[field], type(value)), path)
    end
  end
  for _, field in ipairs { "name", "doc", "plan" } do
    if card[field] == nil then core.raise("invalid_argument", ("%s.%s is missing"):format(path, field), path) end
  end
  for option, spec in pairs(card.options or {}) do
    if type(spec) ~= "table" or not options.types[spec.type] then
      core.raise("invalid_argument",
        ("%s.options.%s: { type = \"number\" | \"integer\" | \"boolean\" | \"string\", default =, doc = } belongs here")
          :format(path, tostring(option)), path)
    end
  end
  if card.name == "ilp" or card.name == "manual" then
    core.raise("invalid_argument", ("%s.name: '%s' is built in"):format(path, card.name), path)
  end
  registry[card.name] = card
  return card
end

local common = { -- what ts.plan itself understands, whoever plans
  device_order = true, prefill_micro_batch_size = true, decode_micro_batch_size = true,
  time_limit_s = true, gap = true, threads = true, seed = true, on_incumbent = true,
}

local function plan_in_lua(planner, problem, given)
  local own, shared = {}, {}
  for key, value in pairs(given) do
    if planner.options and planner.options[key] then
      own[key] = value
    elseif common[key] then
      shared[key] = value
    elseif key ~= "planner" then
      local known = {}
      for name in pairs(common) do known[#known + 1] = name end
      for name in pairs(planner.options or {}) do known[#known + 1] = name end
      table.sort(known)
      core.raise("invalid_argument",
        ("ts.plan: planner '%s' has no option '%s'%s"):format(planner.name, tostring(key),
          core.did_you_mean(tostring(key), known)), "ts.plan." .. tostring(key))
    end
  end
  local opt = options.read(own, planner.options or {}, "ts.plan")
  for key, value in pairs(shared) do opt[key] = value end
  local started = os.clock()
  local answer, why = planner.plan(problem, opt)
  if answer == nil then
    if type(why) == "string" then why = core.why("infeasible", why) end
    return nil, why or core.why("infeasible", ("planner '%s' found no plan"):format(planner.name))
  end
  local plan, reason = solver.price(problem, {
    stages = answer.stages,
    prefill_micro_batch_size = answer.prefill_micro_batch_size,
    decode_micro_batch_size = answer.decode_micro_batch_size,
  }, planner.name, os.clock() - started)
  if not plan then return nil, reason end
  return answer.note and plan:with_note(answer.note) or plan
end

-- A floor that names a baseline becomes a number: Uniform's omega, else Het's, else 4 bits throughout, else none.
local function resolve_floor(problem)
  local floor = problem.quality and problem.quality.at_least
  if not floor then return problem end
  local free = problem:with { quality = { at_least = "none" }, theta = problem.theta }
  local function at(max_omega) return free:with { quality = { max_omega = max_omega }, theta = problem.theta } end
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
  return free, "quality floor: none (no baseline fits)"
end

local function planner_named(name)
  if type(name) ~= "string" then
    core.raise("invalid_argument", "ts.plan.planner: the name of a planner belongs here, not a " .. type(name),
      "ts.plan.planner")
  end
  if not registry[name] then
    local known = names()
    if not registry[name] then
      core.raise("not_found", ("ts.plan.planner: no planner is called '%s'%s"):format(name,
        core.did_you_mean(name, known)), "ts.plan.planner")
    end
  end
  return registry[name]
end

--- Plans a problem: a plan, or nil and why (why.code: infeasible, time_limit, interrupted).
function M.plan(problem, opt)
  opt = opt or {}
  if type(opt) ~= "table" then
    core.raise("invalid_argument", "ts.plan: its options are a table, not a " .. type(opt), "ts.plan")
  end
  local planner = planner_named(opt.planner or M.default)
  if type(problem) ~= "userdata" then problem = solver.problem(problem) end
  if planner.name == "manual" then
    local stages = {}
    for key, value in pairs(opt) do
      if key ~= "planner" then stages[key] = value end
    end
    return solver.price(problem, stages, "manual", 0)
  end
  local note
  problem, note = resolve_floor(problem)
  local plan, why
  if planner.plan then
    plan, why = plan_in_lua(planner, problem, opt)
  else
    plan, why = solver.solve(problem, opt)
  end
  if not plan then return nil, why end
  return note and plan:with_note(note) or plan
end

return M
