-- ts.beside(plan): what people run today on the same problem, so that every plan stands beside it.
--
-- Rows of vLLM: as it comes, at the highest bitwidth that fits; at the plan's own mean bits; and with tensor
-- parallelism, at the degree that suits it best, at the highest bitwidth and at 8 bits: what most people run on a node.

local bits_by_layers = require "tessera.planning.bits_by_layers"
local budget = require "tessera.planning.budget"
local core = require "tessera.core"
local options = require "tessera.options"
local planners = require "tessera.planning.planners"
local timer = require "tessera.planning.timer"

local rules = { "memory_split", "flops_split", "best_homogeneous" }

local read = options.reader("ts.beside", {
  time_limit_s = { type = "number", default = 2, min = 0, max = 1e7, doc = "For all baselines together (s)" },
})

core.document {
  name = "ts.beside",
  doc = "What people run today on the plan's problem: vllm_even, the same at the plan's own mean bits "
    .. "(vllm_even_4bit), with tensor parallelism where devices of a node are alike (vllm_tp8, and at 8 bits "
    .. "vllm_tp8_fp8, _w8a8 or _8bit), memory_split, flops_split and best_homogeneous. Each is { planner, status, "
    .. "latency_s, throughput_tok_s, bits, omega, mean_bitwidth, speedup_equal_quality, speedup, note }; "
    .. "speedup_equal_quality is its latency over that of the fastest plan found that loses no more quality than it "
    .. "does (the search held to its omega, theta 0), speedup its latency over the plan's. Where one has no plan, "
    .. "status is infeasible or time_limit and note says why.",
  parameters = {
    { "plan", "tessera.Plan", "Any plan" },
    { "options?", "{ time_limit_s: number }", "For all of them together; default 2" },
  },
  returns = "table[]",
}

-- Seconds of the fastest plan that is found with no larger omega than the baseline's; nil where none is.
local function latency_at_quality(plan, baseline, time_limit_s)
  local held = plan:problem():with { runtime = "tessera", theta = 0,
    quality = { max_omega = baseline.omega * (1 + 1e-9) } }
  local known_s = plan.omega <= baseline.omega and plan.latency_s or math.huge
  -- With theta 0 the steady objective is the latency, so that only plans below the known one are of interest.
  local cutoff = held.objective == "steady" and known_s < math.huge and known_s or nil
  local found, why = planners.plan(held, { time_limit_s = time_limit_s, cutoff = cutoff })
  if found then return math.min(found.latency_s, known_s) end
  local is_settled = why.code == "infeasible" and cutoff
  return (is_settled or known_s < math.huge) and known_s or nil
end

-- What a baseline says of itself; how sure its prices are is said of the plan, and holds for all.
local function own_notes(baseline)
  local list = {}
  for _, note in ipairs(baseline.notes) do
    if not note:find "^latencies outside" then list[#list + 1] = note end
  end
  return list
end

local function row_of(name, plan, baseline, why, at_quality, time_limit_s)
  if not baseline then
    local prefix = why.code == "infeasible" and "does not fit: " or ""
    return { planner = name, status = why.code, note = prefix .. why.message }
  end
  local key = ("%.9g"):format(baseline.omega)
  if at_quality[key] == nil then at_quality[key] = latency_at_quality(plan, baseline, time_limit_s) or false end
  local held_s, notes = at_quality[key] or nil, own_notes(baseline)
  if not held_s then
    notes[#notes + 1] = "not compared at equal quality: no plan of its omega was found in the time that was left"
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

return function(plan, opt)
  budget.object(plan, "tessera.Plan", "ts.beside.plan")
  local limit_s = read(opt).time_limit_s
  local problem, rows, clock = plan:problem(), {}, timer(limit_s)
  if problem.runtime then problem = problem:with { runtime = "tessera" } end -- baselines are what they are
  local each = problem.tensor_parallel and problem:with { tensor_parallel = 1, use_all_devices = true } or problem
  local found = of_vllm(each, nearest(problem.bitwidths, plan.mean_bitwidth), clock)
  for _, entry in ipairs(of_groups(problem, clock)) do found[#found + 1] = entry end
  for i, name in ipairs(rules) do
    -- Splits take milliseconds, the last a search for each type of device; the rest is for one at each row's quality.
    local baseline, why = planners.plan(each, { planner = name,
      time_limit_s = (i < #rules and 0.1 or 0.6) * clock.left() })
    found[#found + 1] = { name, baseline, why }
  end
  local at_quality = {} -- by omega: rows of the same bits are held to the same
  for i, entry in ipairs(found) do
    rows[i] = row_of(entry[1], plan, entry[2], entry[3], at_quality, clock.left() / (#found - i + 1))
  end
  return rows
end
