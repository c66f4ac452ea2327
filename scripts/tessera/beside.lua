-- ts.beside(plan): what people run today on the same problem, so that every plan stands beside it.

local bits_by_layers = require "tessera.bits_by_layers"
local budget = require "tessera.budget"
local core = require "tessera.core"
local options = require "tessera.options"
local planners = require "tessera.planners"
local timer = require "tessera.timer"

local shown = { "vllm_even", "memory_split", "flops_split", "best_homogeneous" }

local read = options.reader("ts.beside", {
  time_limit_s = { type = "number", default = 2, min = 0, max = 1e7, doc = "For all baselines together (s)" },
})

core.document {
  name = "ts.beside",
  doc = "What people run today on the plan's problem: vllm_even, memory_split, flops_split and best_homogeneous, each "
    .. "as { planner, status, latency_s, throughput_tok_s, bits, omega, mean_bitwidth, speedup, speedup_equal_quality, "
    .. "note }; speedup is its latency over the plan's, speedup_equal_quality its latency over that of the fastest "
    .. "plan found that loses no more quality than it does (the search held to its omega, theta 0). Where one has no "
    .. "plan, status is infeasible or time_limit and note says why.",
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
  local planner = #held.constraints > 0 and "ilp" or "exact" -- the exact search cannot keep side constraints
  local found = planners.plan(held, { planner = planner, time_limit_s = time_limit_s })
  local latency_s = found and found.latency_s
  if plan.omega <= baseline.omega then latency_s = math.min(latency_s or math.huge, plan.latency_s) end
  return latency_s
end

-- What a baseline says of itself; how sure its prices are is said of the plan, and holds for all.
local function own_notes(baseline)
  local list = {}
  for _, note in ipairs(baseline.notes) do
    if not note:find "^latencies outside" then list[#list + 1] = note end
  end
  return table.concat(list, "; ")
end

local function row_of(name, plan, baseline, why, time_limit_s)
  if not baseline then
    local prefix = why.code == "infeasible" and "does not fit: " or ""
    return { planner = name, status = why.code, note = prefix .. why.message }
  end
  local held_s = latency_at_quality(plan, baseline, time_limit_s)
  return {
    planner = name, status = baseline.status, latency_s = baseline.latency_s,
    throughput_tok_s = baseline.throughput_tok_s, bits = bits_by_layers(baseline), omega = baseline.omega,
    mean_bitwidth = baseline.mean_bitwidth, speedup = baseline.latency_s / plan.latency_s,
    speedup_equal_quality = held_s and baseline.latency_s / held_s, note = own_notes(baseline),
  }
end

return function(plan, opt)
  budget.object(plan, "tessera.Plan", "ts.beside.plan")
  local limit_s = read(opt).time_limit_s
  local problem, rows, clock = plan:problem(), {}, timer(limit_s)
  if problem.runtime then problem = problem:with { runtime = "tessera" } end -- baselines are what they are
  for i, name in ipairs(shown) do
    local num_left = 2 * (#shown - i + 1) -- a baseline and a search each
    local baseline, why = planners.plan(problem, { planner = name, time_limit_s = clock.left() / num_left })
    rows[i] = row_of(name, plan, baseline, why, clock.left() / (num_left - 1))
  end
  return rows
end
