-- ts.plan: the engine plans (choices, floors, replicas, chains, one time limit). This file says what the names of
-- planners and heuristics stand for, and runs those that are scripts.

local core = require "tessera.core"
local host = require "tessera.host"
local solver = require "tessera.solver"
local options = require "tessera.options"
local reachable = require "tessera.planning.reachable"
local registry = require "tessera.plugins.planners"
local search_object = require "tessera.planning.search"
local sorted_keys = require "tessera.sorted_keys"

local M = {
  default = registry.default, list = registry.list,
  stopped_by = nil, -- what cut short a plan made since this was last cleared
}

local fail = core.refuse

-- Whether it is an object of the engine of this kind; a table may call itself one.
local function is(value, kind) return type(value) == "userdata" and getmetatable(value) == kind end

local function copy(list)
  local result = {}
  for key, value in pairs(list) do result[key] = value end
  return result
end

-- Options that no entry knows are errors; the rest is the engine's, or of the entries that declare it.
local function split_options(given)
  local shared, own = {}, {}
  for key, value in pairs(given) do
    if registry.common[key] then shared[key] = value else own[key] = value end
  end
  if next(own) == nil then return shared, own end
  local names, declared = given.planner == nil and { M.default } or given.planner, {}
  if type(names) ~= "table" then names = { names } end
  for i, name in ipairs(names) do
    local at = type(given.planner) == "table" and ("ts.plan.planner[%d]"):format(i) or "ts.plan.planner"
    for option in pairs(registry.named(name, at).options or {}) do declared[option] = true end
  end
  for key in pairs(own) do
    if not declared[key] then
      core.raise("invalid_argument", ("ts.plan: planner '%s' has no option '%s'%s"):format(names[1], tostring(key),
        core.did_you_mean(tostring(key), sorted_keys(registry.common, declared))),
        "ts.plan." .. tostring(key))
    end
  end
  return shared, own
end

-- What a planner in Lua answered, as stages and micro-batch sizes; it may hand on the plan of another planner.
local function candidate_of(planner, answer)
  local path = ("planner '%s'"):format(planner.name)
  if is(answer, "tessera.Plan") then
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

-- Incumbents of one of several problems are news only below the best so far; its bound is not that of all.
local function news(on_incumbent, below)
  return function(incumbent)
    if incumbent.objective < below then on_incumbent { objective = incumbent.objective } end
  end
end

-- Runs a planner that is a script on a problem without open choices; a plan, or nil and why.
local function plan_by_script(planner, problem, shared, own, news_below)
  if shared.group and shared.group ~= 1 then
    fail("ts.plan.group", ("planner '%s' decides layer by layer; group is for planners of the engine"):format(
      planner.name))
  end
  local opt = copy(own)
  for key, value in pairs(shared) do opt[key] = value end
  if news_below and opt.on_incumbent then opt.on_incumbent = news(opt.on_incumbent, news_below) end
  local started, limit_s = core.clock(), shared.time_limit_s
  local in_time, answer, why = host.limited(limit_s, ("planner '%s'"):format(planner.name), planner.plan, problem, opt)
  if not in_time then
    return nil, core.why("time_limit", ("planner '%s' was stopped at its time limit of %g s without a plan; let it "
      .. "look at the time, or raise time_limit_s"):format(planner.name, limit_s))
  end
  if answer == nil then return nil, why_of(planner, why) end
  local candidate, note = candidate_of(planner, answer)
  local plan, reason = solver.price(problem, candidate, planner.name, core.clock() - started)
  if not plan then return nil, reason end
  return note ~= nil and plan:with_note(note) or plan
end

-- Lets a heuristic that is a script loose on a search; a note where it was cut short.
local function improve_by_script(heuristic, state, own, limit_s)
  local who = ("heuristic '%s'"):format(heuristic.name)
  local in_time, answer = host.limited(limit_s, who, heuristic.improve, search_object.new(state), own)
  if not in_time then return who .. " was stopped at its time limit" end
  if answer ~= nil then
    fail(who, ("it returned a %s; it changes the plan by search:apply and returns nothing"):format(type(answer)))
  end
  return state:expired() and who .. " ended at its time limit" or nil
end

-- What the engine is told of a planner or heuristic that is a script, by its name; `given` are options of scripts.
local function naming(given)
  return function(name, where)
    local entry, own = registry.named(name, where), {}
    for option in pairs(entry.options or {}) do own[option] = given[option] end
    own = entry.read and entry.read(own) or own
    return {
      from_every_start = entry.starts == "every",
      plan = entry.plan and function(problem, shared, news_below)
        return plan_by_script(entry, problem, shared, own, news_below)
      end,
      improve = entry.improve and function(state, limit_s)
        return improve_by_script(entry, state, own, limit_s)
      end,
    }
  end
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
  local runtime = problem.runtime
  if (runtime or #problem:variants() > 1) and #devices > 0 then problem = solver.variant_with(problem, devices) end
  local plan, why = solver.price(problem, stages, "manual", 0)
  if not plan or not runtime then return plan, why end
  return solver.launched_by(plan, runtime)
end

-- The names in opt.planner; nil where there are none.
local function check_names(given)
  if given == nil then return nil end
  local list = type(given) == "table" and given or { given }
  options.list(list, "ts.plan.planner", "the name of a planner, or a list of names", function(name, path)
    if type(name) ~= "string" then
      fail(type(given) == "table" and path or "ts.plan.planner", "the name of a planner belongs here, not a "
        .. type(name))
    end
  end)
  return list
end

--- A problem whose quality floor names a baseline, with that baseline's omega in place of the name; and a note.
function M.resolve_floor(problem) return solver.resolve_floor(problem, naming {}) end

--- Plans a problem: a plan, or nil and why (why.code: infeasible, time_limit, interrupted).
function M.plan(problem, opt)
  if problem == nil then fail("ts.plan", "give a problem, or the fields of one") end
  opt = opt or {}
  if type(opt) ~= "table" then
    fail("ts.plan", "its options are a table, not a " .. type(opt))
  end
  local names = check_names(opt.planner)
  if not is(problem, "tessera.Problem") then problem = solver.problem(problem) end
  if names and names[1] == "manual" and #names == 1 then return plan_by_hand(problem, opt) end
  local shared, own = split_options(opt)
  local plan, why = solver.plan(problem, shared, naming(own))
  if plan then
    M.stopped_by = M.stopped_by or plan.stopped_by
    return plan
  end
  return nil, reachable.explain(problem, why, function(other, settings)
    return solver.plan(other, settings, naming {})
  end)
end

return M
