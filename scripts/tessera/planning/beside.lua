-- ts.beside(plan): what people run today on the same problem, so that every plan stands beside it.
--
-- Rows of vLLM: as it comes, at the highest bitwidth that fits; at the plan's own mean bits; and with tensor
-- parallelism, at the degree that suits it best, at the highest bitwidth and at 8 bits: what most people run on a node.

local bits_by_layers = require "tessera.planning.bits_by_layers"
local budget = require "tessera.planning.budget"
local core = require "tessera.core"
local device_types = require "tessera.planning.device_types"
local options = require "tessera.options"
local planners = require "tessera.planning.planners"
local solver = require "tessera.solver"
local timer = require "tessera.planning.timer"

local rules = { "memory_split", "flops_split" }

local read = options.reader("ts.beside", {
  time_limit_s = { type = "number", default = 2, min = 0, max = 1e7, doc = "For all baselines together (s)" },
  problem = { type = "any", lua_type = "tessera.Problem", doc = "That was planned; default: plan:problem()" },
})

core.document {
  name = "ts.beside",
  doc = "What people run today on the plan's problem: best_homogeneous, the whole search on devices of each type "
    .. "alone, whose speedup is the gain of mixing; vllm_even, the same at the plan's own mean bits "
    .. "(vllm_even_4bit), with tensor parallelism where devices of a node are alike (vllm_tp8, and at 8 bits "
    .. "vllm_tp8_fp8, _w8a8 or _8bit), memory_split and flops_split. Each is { planner, status, "
    .. "latency_s, throughput_tok_s, bits, omega, mean_bitwidth, speedup_equal_quality, speedup, note }; "
    .. "speedup_equal_quality is its latency over that of the fastest plan found that loses no more quality than it "
    .. "does (the search held to its omega, theta 0), speedup its latency over the plan's. Where one has no plan, "
    .. "status is infeasible or time_limit and note says why.",
  parameters = {
    { "plan", "tessera.Plan", "Any plan" },
    { "options?", "{ time_limit_s: number, problem: tessera.Problem }", "For all of them together; default 2. "
      .. "problem: the one that was planned, where more of it was open" },
  },
  returns = "table[]",
}

-- Seconds of the fastest plan that is found with no larger omega than the baseline's, nil where none is; and whether
-- that is proven to be the fastest.
local function latency_at_quality(plan, baseline, time_limit_s)
  local held = plan:problem():with { runtime = "tessera", theta = 0,
    quality = { max_omega = baseline.omega * (1 + 1e-9) } }
  local known_s = plan.omega <= baseline.omega and plan.latency_s or math.huge
  -- With theta 0 the steady objective is the latency, so that only plans below the known one are of interest.
  local cutoff = held.objective == "steady" and known_s < math.huge and known_s or nil
  local found, why = planners.plan(held, { time_limit_s = time_limit_s, cutoff = cutoff })
  if found then return math.min(found.latency_s, known_s), found.status == "optimal" end
  local is_settled = why.code == "infeasible" and cutoff ~= nil
  return (is_settled or known_s < math.huge) and known_s or nil, is_settled
end

-- What a baseline says of itself; how sure its prices are is said of the plan, and holds for all.
local function own_notes(baseline)
  local list = {}
  for _, note in ipairs(baseline.notes) do
    if not note:find "^latencies outside" then list[#list + 1] = note end
  end
  return list
end

-- `entry`: { name, its plan or nil, why, what is to be said of it instead of its own notes }
local function row_of(entry, plan, at_quality, time_limit_s)
  local name, baseline, why, note = entry[1], entry[2], entry[3], entry[4]
  if not baseline then
    local prefix = why.code == "infeasible" and "does not fit: " or ""
    return { planner = name, status = why.code, note = prefix .. why.message }
  end
  local key = ("%.9g"):format(baseline.omega)
  at_quality[key] = at_quality[key] or { latency_at_quality(plan, baseline, time_limit_s) }
  local held_s, is_proven = at_quality[key][1], at_quality[key][2]
  local notes = note and { note } or own_notes(baseline)
  if not held_s then
    notes[#notes + 1] = "not compared at equal quality: no plan of its omega was found in the time that was left"
  elseif not is_proven then
    notes[#notes + 1] = "at equal quality at least so much: the search for a faster plan was not done in time"
  end
  return {
    planner = name, status = baseline.status, latency_s = baseline.latency_s,
    throughput_tok_s = baseline.throughput_tok_s, bits = bits_by_layers(baseline), omega = baseline.omega,
    mean_bitwidth = baseline.mean_bitwidth, speedup_equal_quality = held_s and baseline.latency_s / held_s,
    speedup = baseline.latency_s / plan.latency_s, note = table.concat(notes, "; "),
  }
end

-- What a set of kernels calls 8 bits.
local function name_of_8_bits(kernel_set)
  return kernel_set:match "fp8" or kernel_set:match "w8a8" or "8bit"
end

-- vLLM's plan of least latency over the degrees of tensor parallelism, and that degree, on the devices that make whole
-- groups; nil where no two devices make a group that holds the model.
local function with_tensor_parallelism(problem, clock)
  local best, best_degree
  local degree, num_gpus = 2, #problem.cluster.devices
  while degree <= num_gpus do
    local ok, other = pcall(problem.with, problem, { tensor_parallel = degree, theta = 0 })
    local plan = ok and planners.plan(other, { planner = "vllm_even", time_limit_s = clock.left() / 8 })
    if plan and plan.stages[1].device:find "^%d+x" and (not best or plan.latency_s < best.latency_s) then
      best, best_degree = plan, degree
    end
    degree = 2 * degree
  end
  return best, best_degree
end

-- Those of vLLM: { name, plan or nil, why }. `own_bitwidth`: the one nearest to the plan's mean.
local function of_vllm(problem, own_bitwidth, clock)
  local function even(bitwidth)
    local settings = bitwidth and problem:with { bitwidths = { bitwidth }, theta = 0 } or problem
    return planners.plan(settings, { planner = "vllm_even", time_limit_s = clock.left() / 8 })
  end
  local as_it_comes, why = even()
  local list = { { "vllm_even", as_it_comes, why } }
  local is_known = not as_it_comes or math.abs(as_it_comes.mean_bitwidth - own_bitwidth) < 1e-6
  if is_known or not problem.tensor_parallel then return list end
  list[2] = { ("vllm_even_%dbit"):format(own_bitwidth), even(own_bitwidth) }
  return list
end

local function of_groups(problem, clock)
  if not problem.tensor_parallel then return {} end -- an instance has no devices to group
  local list = {}
  local best, degree = with_tensor_parallelism(problem, clock)
  if best then list[1] = { ("vllm_tp%d"):format(degree), best } end
  local has_8_bits = false
  for _, bitwidth in ipairs(problem.bitwidths) do has_8_bits = has_8_bits or bitwidth == 8 end
  if best and math.abs(best.mean_bitwidth - 8) > 1e-6 and has_8_bits then
    local plan, own = with_tensor_parallelism(problem:with { bitwidths = { 8 } }, clock)
    if plan then
      list[#list + 1] = { ("vllm_tp%d_%s"):format(own, name_of_8_bits(problem.kernel_set)), plan }
    end
  end
  return list
end

local function nearest(bitwidths, mean)
  local best = bitwidths[1]
  for _, bitwidth in ipairs(bitwidths) do
    if math.abs(bitwidth - mean) < math.abs(best - mean) then best = bitwidth end
  end
  return best
end

-- The best plan on devices of one type, by the search that made the plan: degrees, replicas, bits and all. A plan and
-- what it leaves out, or nil and why. Of a cluster of one type that is the plan itself.
local function on_one_type(problem, plan, limit_s)
  local types = device_types(problem.cluster)
  if #types == 1 then return plan, nil, types[1].name .. " is the only type" end
  local clock, best, best_type, words, late = timer(limit_s), nil, nil, {}, false
  for i, own in ipairs(types) do
    local found, why = planners.plan(solver.on_devices(problem, own.devices),
      { time_limit_s = clock.left() / (#types - i + 1) })
    if found then
      words[own] = ("%.4g s alone"):format(found.latency_s)
      if not best or found.objective < best.objective then best, best_type = found, own end
    else
      late = late or why.code ~= "infeasible"
      words[own] = why.code == "infeasible" and "does not fit alone" or "no plan alone in time"
    end
  end
  local list = {}
  if not best then
    for i, own in ipairs(types) do list[i] = ("%s: %s"):format(own.name, words[own]) end
    return nil, core.why(late and "time_limit" or "infeasible", "on no type alone; " .. table.concat(list, "; "))
  end
  list[1] = ("%d x %s alone"):format(#best_type.devices, best_type.name)
  for _, own in ipairs(types) do
    if own ~= best_type then
      list[#list + 1] = ("%d x %s left out (%s)"):format(#own.devices, own.name, words[own])
    end
  end
  return best, nil, table.concat(list, "; ")
end

return function(plan, opt)
  budget.object(plan, "tessera.Plan", "ts.beside.plan")
  local given = read(opt)
  local problem, rows, clock = plan:problem(), {}, timer(given.time_limit_s)
  local asked = given.problem and budget.object(given.problem, "tessera.Problem", "ts.beside.problem") or problem
  if problem.runtime then problem = problem:with { runtime = "tessera" } end -- baselines are what they are
  local each = problem.tensor_parallel and problem:with { tensor_parallel = 1, use_all_devices = true } or problem
  local found = {}
  if asked.cluster then
    found[1] = { "best_homogeneous", on_one_type(asked, plan, 0.4 * clock.left()) }
  else -- an instance has no devices to plan anew on
    found[1] = { "best_homogeneous", planners.plan(each, { planner = "best_homogeneous",
      time_limit_s = 0.4 * clock.left() }) }
  end
  for _, entry in ipairs(of_vllm(each, nearest(problem.bitwidths, plan.mean_bitwidth), clock)) do
    found[#found + 1] = entry
  end
  for _, entry in ipairs(of_groups(problem, clock)) do found[#found + 1] = entry end
  for _, name in ipairs(rules) do
    found[#found + 1] = { name, planners.plan(each, { planner = name, time_limit_s = 0.1 * clock.left() }) }
  end
  local at_quality = {} -- by omega: rows of the same bits are held to the same
  for k = 1, #found do
    local i = k % #found + 1 -- the first is the hardest to hold to its quality: it has what the others leave
    rows[i] = row_of(found[i], plan, at_quality, clock.left() / (#found - k + 1))
  end
  return rows
end
