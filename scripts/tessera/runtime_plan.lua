-- Plans for a runtime: only what it can launch is searched, and a note says what that costs against the free optimum.
--
-- The free optimum is found first: where the runtime can launch it, it is the answer. Else the problem is planned with
-- each degree of tensor parallelism alone, with the bitwidths and KV bitwidths that the runtime has kernels for; where
-- the best order of devices cannot be launched, the orders that can are tried one by one.

local core = require "tessera.core"
local layouts = require "tessera.launch.layout"
local obstacles = require "tessera.launch.obstacles"
local schemes = require "tessera.launch.schemes"
local vllm = require "tessera.launch.vllm_versions"

local M = {}

local most_orders = 5000 -- of devices, looked at
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
local function bitwidth_sets(problem, runtime, layout)
  if runtime == "llama.cpp" then return { common(problem.bitwidths, { 3, 4, 8, 16 }) } end
  local kind, sets = "int", {}
  for _, engine in ipairs(layout.engines) do
    local own = schemes.of_8_bit(layout, engine)
    if own ~= "int" then kind = own end
  end
  for _, allowed in ipairs(kind == "int" and { { 4, 8, 16 } } or { { 8 }, { 4, 16 } }) do
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

-- Problems in which all that is left open can be launched but for the order of devices.
local function narrow(problem, runtime, layout)
  local degrees = runtime == "llama.cpp" and common(problem.tensor_parallel, { 1 }) or problem.tensor_parallel
  local kv, problems = kv_bitwidths(problem, runtime), {}
  local sets = bitwidth_sets(problem, runtime, layout)
  for _, degree in ipairs(degrees) do
    for _, bitwidths in ipairs(sets) do
      for _, kv_bitwidth in ipairs(kv) do
        problems[#problems + 1] = narrowed(problem, { tensor_parallel = degree, bitwidths = bitwidths,
          kv_bitwidth = kv_bitwidth })
      end
    end
  end
  return problems
end

-- Whether the nodes of an order of devices ("2xT4-16G@a") come one after the other.
local function is_contiguous(order)
  local seen, last = {}, nil
  for _, name in ipairs(order) do
    local node = name:match "@(.*)$"
    if node ~= last and seen[node] then return false end
    seen[node], last = true, node
  end
  return true
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
  local ok, orders = pcall(problem.device_orders, problem, most_orders)
  if not ok or #orders >= most_orders then state.proven = false end
  for _, order in ipairs(ok and orders or {}) do
    if state.left() <= 0 then
      state.proven = false
      return
    end
    if is_contiguous(order) then try { device_order = order } end
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
  if not layout then return nil, no_layout end
  for _, narrower in ipairs(narrow(problem, runtime, layout)) do improve(narrower, runtime, opt, solve, state) end
  if state.best then
    local plan = state.best:with_note(note_of(runtime, free, state.best))
    return state.proven and plan or plan:with_note("runtime: not all orders of devices that can be launched were tried")
  end
  if state.why and state.why.code ~= "infeasible" then return nil, state.why end
  return nil, core.why("infeasible", ("%s can launch no plan of this problem: %s"):format(runtime,
    state.obstacle or table.concat(first, "; ")))
end

return M
