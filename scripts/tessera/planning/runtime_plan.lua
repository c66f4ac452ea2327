-- Plans for a runtime: only what it can launch is searched, and a note says what that costs against the free optimum.
--
-- The free optimum is found first: where the runtime can launch it, it is the answer. Else the problem is planned with
-- each degree of tensor parallelism alone, with the bitwidths and KV bitwidths that the runtime has kernels for; where
-- the best order of devices cannot be launched, the orders that can are tried one by one.

local core = require "tessera.core"
local layouts = require "tessera.launch.layout"
local obstacles = require "tessera.launch.obstacles"
local solver = require "tessera.solver"
local vllm = require "tessera.launch.vllm_versions"

local M = {}

local most_orders = 2000 -- of devices, tried for one problem
local kv_bitwidths_of = { vllm = { [16] = true, [8] = true }, ["llama.cpp"] = { [16] = true, [8] = true, [4] = true } }

-- What is in both lists.
local function common(list, allowed)
  local found, is_allowed = {}, {}
  for _, value in ipairs(allowed) do is_allowed[value] = true end
  for _, value in ipairs(list) do
    if is_allowed[value] then found[#found + 1] = value end
  end
  return found
end

--- Why the problem's runtime cannot launch the plan: sentences; none where it can, or where no runtime is named.
function M.obstacles(plan, runtime)
  if runtime == "tessera" then return {} end
  local layout, why = layouts.of(plan)
  if not layout then return { why.message } end
  return obstacles.of(layout, runtime, vllm.default)
end

-- Sets of bitwidths that one checkpoint can have: with whole integers all, else 8 bit alone or not at all.
local function bitwidth_sets(problem, runtime)
  if runtime == "llama.cpp" then return { common(problem.bitwidths, { 3, 4, 8, 16 }) } end
  local sets = {}
  for _, allowed in ipairs(solver.has_integers_alone(problem) and { { 4, 8, 16 } } or { { 8 }, { 4, 16 } }) do
    local set = common(problem.bitwidths, allowed)
    if #set > 0 then sets[#sets + 1] = set end
  end
  return sets
end

local function kv_bitwidths(problem, runtime)
  local found = {}
  for _, bitwidth in ipairs(problem.kv_bitwidths) do
    if kv_bitwidths_of[runtime][bitwidth] then found[#found + 1] = bitwidth end
  end
  return found
end

-- The problem with these settled, or nil where they do not fit its devices (a degree that divides no group, say).
local function narrowed(problem, changes)
  local ok, result = pcall(problem.with, problem, changes)
  if ok then return result end
  if type(result) == "table" and result.code == "invalid_argument" then return nil end
  error(result, 0)
end

-- Problems in which all that is left open can be launched but for the order of devices. Large degrees first: they have
-- few stages, so a plan to beat is found soon.
local function narrow(problem, runtime)
  local degrees = runtime == "llama.cpp" and common(problem.tensor_parallel, { 1 })
    or problem.uniform_degree and { false } -- each pipeline has one as it is
    or problem.tensor_parallel
  local kv, problems = kv_bitwidths(problem, runtime), {}
  for _, kernel_set in ipairs(problem.kernel_sets) do
    local own = problem:with { kernel_set = kernel_set, kv_bitwidth = 16 }
    for i = #degrees, 1, -1 do
      for _, bitwidths in ipairs(bitwidth_sets(own, runtime)) do
        for _, kv_bitwidth in ipairs(kv) do
          problems[#problems + 1] = narrowed(own, { tensor_parallel = degrees[i] or nil, bitwidths = bitwidths,
            kv_bitwidth = kv_bitwidth })
        end
      end
    end
  end
  return problems
end

-- Calls visit(order) for every distinct order of `items`, until it returns false.
local function permute(items, visit)
  local counts, names, order = {}, {}, {}
  for _, item in ipairs(items) do
    if not counts[item] then names[#names + 1] = item end
    counts[item] = (counts[item] or 0) + 1
  end
  local function extend()
    if #order == #items then return visit(order) end
    for _, name in ipairs(names) do
      if counts[name] > 0 then
        counts[name], order[#order + 1] = counts[name] - 1, name
        local go_on = extend()
        counts[name], order[#order] = counts[name] + 1, nil
        if go_on == false then return false end
      end
    end
  end
  return extend()
end

-- Orders of devices in which every node's ("2xT4-16G@a") come one after the other: a list, and whether it has all.
local function orders_by_node(problem)
  local devices, nodes, orders = {}, {}, {}
  for _, name in ipairs(problem.devices) do
    local node = name:match "@(.*)$"
    if not devices[node] then
      devices[node], nodes[#nodes + 1] = {}, node
    end
    table.insert(devices[node], name)
  end
  local complete = true
  permute(nodes, function(node_order)
    local function extend(i, before)
      if i > #node_order then
        orders[#orders + 1] = before
        complete = #orders < most_orders
        return complete
      end
      return permute(devices[node_order[i]], function(own)
        local list = { unpack(before) }
        for _, name in ipairs(own) do list[#list + 1] = name end
        return extend(i + 1, list)
      end)
    end
    return extend(1, {})
  end)
  return orders, complete
end

local function with(opt, changes)
  local own = {}
  for key, value in pairs(opt) do own[key] = value end
  for key, value in pairs(changes) do own[key] = value end
  return own
end

-- The best plan of one problem that can be launched; `state` has the best so far and the clock.
local function improve(problem, runtime, opt, solve, state)
  local function try(changes)
    changes.cutoff, changes.time_limit_s = state.best and state.best.objective or opt.cutoff, state.left()
    local plan, why = solve(problem, with(opt, changes))
    if not plan then
      if not state.best and (not state.why or why.code ~= "infeasible") then state.why = why end
      return why.code == "infeasible"
    end
    local found = M.obstacles(plan, runtime)
    if #found == 0 then
      state.best, state.proven = plan, state.proven and plan.status == "optimal"
      return true
    end
    state.obstacle = found[1]
    return false
  end
  if try {} or opt.device_order then return end
  local orders, complete = orders_by_node(problem)
  state.proven = state.proven and complete
  for _, order in ipairs(orders) do
    if state.left() <= 0 then
      state.proven = false
      return
    end
    try { device_order = order }
  end
end

local function percent(ratio) return ("%.2g %%"):format(ratio * 100) end

local function note_of(runtime, free, best)
  local slower = best.latency_s / free.latency_s - 1
  local text = ("runtime %s: "):format(runtime)
  if slower > 5e-4 then
    text = text .. ("%s slower than the free optimum"):format(percent(slower))
  elseif slower < -5e-4 then
    text = text .. ("%s faster than the free optimum, which loses less quality"):format(percent(-slower))
  else
    text = text .. "as fast as the free optimum"
  end
  return text .. (" (%.3g s and omega %.3g against %.3g s and %.3g), which it cannot launch"):format(best.latency_s,
    best.omega, free.latency_s, free.omega)
end

--- Plans `problem`, whose field runtime is set. `solve(problem, options)` plans without that constraint.
function M.plan(problem, opt, solve)
  local runtime = problem.runtime
  local started, limit_s = core.clock(), opt.time_limit_s or 60
  local state = { proven = true, left = function() return math.max(0, limit_s - (core.clock() - started)) end }
  local free, why = solve(problem, opt)
  if not free then return nil, why end
  local first = M.obstacles(free, runtime)
  if #first == 0 then
    return free:with_note(("runtime %s: the free optimum can be launched as it is"):format(runtime))
  end
  local layout, no_layout = layouts.of(free)
  if not layout then return nil, no_layout end -- an abstract instance has none
  for _, narrower in ipairs(narrow(problem, runtime)) do improve(narrower, runtime, opt, solve, state) end
  if state.best then
    local plan = state.best:with_note(note_of(runtime, free, state.best))
    return state.proven and plan or plan:with_note("runtime: not all orders of devices that can be launched were tried")
  end
  if state.why and state.why.code ~= "infeasible" then return nil, state.why end
  return nil, core.why("infeasible", ("%s can launch no plan of this problem: %s"):format(runtime,
    state.obstacle or table.concat(first, "; ")))
end

return M
