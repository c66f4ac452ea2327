-- ts.plan: runs a planner, or a chain of a planner and heuristics, on a problem.

local core = require "tessera.core"
local host = require "tessera.host"
local solver = require "tessera.solver"
local budget = require "tessera.budget"
local options = require "tessera.options"
local registry = require "tessera.registry"
local replicas = require "tessera.replicas"
local search_object = require "tessera.search"
local sorted_keys = require "tessera.sorted_keys"
local timer = require "tessera.timer"
local variants = require "tessera.variants"

local M = {
  default = registry.default, list = registry.list, add = registry.add_planner,
  register = registry.register_planner, register_heuristic = registry.register_heuristic,
}

local fail = core.refuse

-- The entries that opt.planner names. A heuristic in front improves what adabits finds, unless it wants every start.
local function chain_of(given)
  local path, list = "ts.plan.planner", given
  if type(given) ~= "table" then list = { given } end
  options.list(list, path, "the name of a planner, or a list of names")
  if #list == 0 then fail(path, "the list of planners is empty; name a planner, then heuristics") end
  local chain = {}
  for i, name in ipairs(list) do
    local at = type(given) == "table" and ("%s[%d]"):format(path, i) or path
    local entry = registry.named(name, at)
    if i > 1 and not entry.improve then
      fail(at, ("'%s' makes plans of its own; only heuristics may follow in a chain"):format(name))
    end
    chain[i] = entry
  end
  local first = chain[1]
  if first.improve and not (first.plan or first.engine) and (first.starts ~= "every" or #chain > 1) then
    table.insert(chain, 1, registry.named("adabits", path))
  end
  return chain
end

-- What ts.plan itself understands, and the options that each entry of the chain declares.
local function split_options(chain, given)
  local shared, own, declared = {}, {}, {}
  for i, entry in ipairs(chain) do
    own[i] = {}
    for name in pairs(entry.options or {}) do declared[name] = true end
  end
  for key, value in pairs(given) do
    if registry.common[key] then
      shared[key] = value
    elseif not declared[key] then
      core.raise("invalid_argument", ("ts.plan: planner '%s' has no option '%s'%s"):format(chain[1].name,
        tostring(key), core.did_you_mean(tostring(key), sorted_keys(registry.common, declared))),
        "ts.plan." .. tostring(key))
    end
    for i, entry in ipairs(chain) do
      if entry.options and entry.options[key] then own[i][key] = value end
    end
  end
  for i, entry in ipairs(chain) do own[i] = entry.read and entry.read(own[i]) or own[i] end
  return shared, own
end

local function time_limit_s(shared) return shared.time_limit_s or 60 end

-- What a planner in Lua answered, as stages and micro-batch sizes; it may hand on the plan of another planner.
local function candidate_of(planner, answer)
  local path = ("planner '%s'"):format(planner.name)
  if budget.is(answer, "tessera.Plan") then
    return {
      stages = answer.stages,
      prefill_micro_batch_size = answer.prefill_micro_batch_size,
      decode_micro_batch_size = answer.decode_micro_batch_size,
      offload = answer.offload,
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

local function plan_in_lua(planner, problem, shared, own)
  if shared.group and shared.group ~= 1 then
    fail("ts.plan.group", ("planner '%s' decides layer by layer; group is for planners of the engine"):format(
      planner.name))
  end
  local opt = own
  for key, value in pairs(shared) do opt[key] = value end
  local started = core.clock()
  local in_time, answer, why = host.limited(time_limit_s(shared), ("planner '%s'"):format(planner.name), planner.plan,
    problem, opt)
  if not in_time then
    return nil, core.why("time_limit", ("planner '%s' was stopped at its time limit of %g s without a plan; let it "
      .. "look at the time, or raise time_limit_s"):format(planner.name, time_limit_s(shared)))
  end
  if answer == nil then return nil, why_of(planner, why) end
  local candidate, note = candidate_of(planner, answer)
  local plan, reason = solver.price(problem, candidate, planner.name, core.clock() - started)
  if not plan then return nil, reason end
  return note ~= nil and plan:with_note(note) or plan
end

-- Lets a heuristic loose on a search. A note where it was cut short; its error where the script wants to stop then.
local function improve(entry, state, own, limit_s, on_error)
  local who = ("heuristic '%s'"):format(entry.name)
  local function run()
    local in_time, answer = host.limited(limit_s, who, entry.improve, search_object.new(state), own)
    if not in_time then return who .. " was stopped at its time limit" end
    if answer ~= nil then
      fail(who, ("it returned a %s; it changes the plan by search:apply and returns nothing"):format(type(answer)))
    end
    return state:expired() and who .. " ended at its time limit" or nil
  end
  if on_error ~= "continue" then return run() end
  local ok, answer = pcall(run)
  if ok then return answer end
  if type(answer) == "table" and answer.code == "interrupted" then error(answer, 0) end
  return ("on_error = continue: %s failed: %s"):format(who, (tostring(answer):gsub("%s*\n.*", "")))
end

local function with_notes(plan, notes)
  for _, note in ipairs(notes) do plan = plan:with_note(note) end
  return plan
end

-- A heuristic that wants every start: the best of its answers.
local function plan_from_every_start(entry, problem, shared, own)
  local started = core.clock()
  local starts = solver.starts(problem, shared, entry.name)
  local best, seen, notes = nil, {}, {}
  local state = starts:next()
  while state do
    local note = improve(entry, state, own, starts:left_s(), shared.on_error)
    if note and not seen[note] then seen[note], notes[#notes + 1] = true, note end
    if not best or state:best_objective() < best:best_objective() then best = state end
    state = starts:next()
  end
  if not best then return nil, core.why(starts:why()) end
  return with_notes(best:plan(core.clock() - started), notes)
end

local function first_plan(entry, problem, shared, own)
  if entry.plan then return plan_in_lua(entry, problem, shared, own) end
  if not entry.engine then return plan_from_every_start(entry, problem, shared, own) end
  local opt = {}
  for key, value in pairs(shared) do opt[key] = value end
  opt.planner = entry.name
  return solver.solve(problem, opt)
end

local function run(chain, problem, given)
  local shared, own = split_options(chain, given)
  shared.planner = nil
  for _, name in ipairs { "start", "form" } do
    if shared[name] ~= nil and chain[1].name ~= "ilp" then
      fail("ts.plan." .. name, "only planner = \"ilp\" takes it")
    end
  end
  local improves = #chain > 1 or not (chain[1].plan or chain[1].engine)
  if improves and #problem.constraints > 0 then
    core.raise("unsupported", ("ts.plan.planner: heuristic '%s' cannot keep side constraints; use planner = \"ilp\"")
      :format(chain[#chain].name), "ts.plan.planner")
  end
  solver.check_options(problem, shared)
  local clock = timer(given.time_limit_s)
  local plan, why = first_plan(chain[1], problem, shared, own[1])
  if not plan then return nil, why end
  local name, notes = chain[1].name, {}
  for i = 2, #chain do
    name = name .. " + " .. chain[i].name
    shared.time_limit_s = clock.left()
    local state = solver.search(problem, plan, shared, name)
    notes[#notes + 1] = improve(chain[i], state, own[i], shared.time_limit_s, shared.on_error)
    plan = with_notes(state:plan(clock.elapsed_s()), plan.notes)
  end
  return with_notes(plan, notes)
end

-- Baselines that set a floor do not save on the KV cache.
local function best_kv_cache(problem)
  if not problem.kv_bitwidths then return problem end
  return problem:with { kv_bitwidth = math.max(unpack(problem.kv_bitwidths)) }
end

--- A floor that names a baseline becomes a number: Uniform's omega, else Het's, else 4 bits throughout, else none.
function M.resolve_floor(problem)
  local floor = problem.quality and problem.quality.at_least
  if not floor then return problem end
  registry.named(floor, "ts.problem.quality.at_least")
  local none = problem:with { quality = { at_least = "none" }, theta = problem.theta }
  local free = none:with { constraints = {} } -- the floor is the baseline's quality, whatever else plans must keep
  local function at(max_omega) return problem:with { quality = { max_omega = max_omega }, theta = problem.theta } end
  for _, name in ipairs(floor == "het" and { "het" } or { floor, "het" }) do
    local baseline = M.plan(best_kv_cache(free), { planner = name })
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

-- A plan made by hand; of a problem with open choices, by the first mesh that has its devices.
local function plan_by_hand(problem, opt)
  local stages, devices = {}, {}
  for key, value in pairs(opt) do
    if key ~= "planner" then stages[key] = value end
  end
  for i, stage in ipairs(type(opt.stages) == "table" and opt.stages or {}) do
    local fields = type(stage)
    devices[i] = (fields == "table" or fields == "userdata") and stage.device or nil
  end
  if #problem:variants() > 1 and #devices > 0 then problem = variants.holding(problem, devices) end
  return solver.price(problem, stages, "manual", 0)
end

-- One problem without open choices by one chain. Only the engine's own planners know of the cutoff.
local function plan_one(chain, problem, opt)
  local known = {}
  for key, value in pairs(opt) do known[key] = value end
  known.replicas, known.every_candidate = nil, nil
  if #chain > 1 or not chain[1].engine then known.cutoff = nil end
  return run(chain, problem, known)
end

--- Plans a problem: a plan, or nil and why (why.code: infeasible, time_limit, interrupted).
function M.plan(problem, opt)
  if problem == nil then fail("ts.plan", "give a problem, or the fields of one") end
  opt = opt or {}
  if type(opt) ~= "table" then
    fail("ts.plan", "its options are a table, not a " .. type(opt))
  end
  local chain = opt.planner ~= nil and chain_of(opt.planner) or nil
  if not budget.is(problem, "tessera.Problem") then problem = solver.problem(problem) end
  local notes = {}
  if not chain and #problem.constraints > 0 then
    local prover = budget.prover(problem)
    chain = chain_of(prover)
    notes[1] = ("planned with '%s', which keeps side constraints"):format(prover)
  end
  chain = chain or chain_of(M.default)
  if chain[1].name == "manual" and #chain == 1 then return plan_by_hand(problem, opt) end
  solver.check_options(problem, { -- for every planner alike, before any of it is used
    cutoff = opt.cutoff, time_limit_s = opt.time_limit_s, on_incumbent = opt.on_incumbent, replicas = opt.replicas,
    every_candidate = opt.every_candidate,
  })
  local floor
  problem, floor = M.resolve_floor(problem)
  notes[#notes + 1] = floor
  local plan, why = replicas.plan(problem, opt, function(part, part_opt)
    return variants.plan(part, part_opt, function(...) return plan_one(chain, ...) end)
  end)
  if not plan then return nil, why end
  if opt.cutoff and plan.objective >= opt.cutoff then return nil, variants.why_cutoff(opt.cutoff) end
  return with_notes(plan, notes)
end

return M
