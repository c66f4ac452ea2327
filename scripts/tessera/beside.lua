-- ts.beside(plan): what people run today on the same problem, so that every plan stands beside it.

local budget = require "tessera.budget"
local core = require "tessera.core"
local options = require "tessera.options"
local planners = require "tessera.planners"
local timer = require "tessera.timer"

local shown = { "vllm_even", "memory_split", "flops_split", "best_homogeneous" }

local read = options.reader("ts.beside", {
  time_limit_s = { type = "number", default = 0.4, min = 0, max = 1e7, doc = "For all baselines together (s)" },
})

core.document {
  name = "ts.beside",
  doc = "What people run today on the plan's problem: vllm_even, memory_split, flops_split and best_homogeneous, each "
    .. "as { planner, status, latency_s, throughput_tok_s, omega, mean_bitwidth, speedup, note }; speedup is its "
    .. "latency over the plan's. Where one has no plan, status is infeasible or time_limit and note says why.",
  parameters = {
    { "plan", "tessera.Plan", "Any plan" },
    { "options?", "{ time_limit_s: number }", "For all of them together; default 0.4" },
  },
  returns = "table[]",
}

local function row_of(name, plan, baseline, why)
  if not baseline then
    local prefix = why.code == "infeasible" and "does not fit: " or ""
    return { planner = name, status = why.code, note = prefix .. why.message }
  end
  return {
    planner = name, status = baseline.status, latency_s = baseline.latency_s,
    throughput_tok_s = baseline.throughput_tok_s, omega = baseline.omega, mean_bitwidth = baseline.mean_bitwidth,
    speedup = baseline.latency_s / plan.latency_s, note = table.concat(baseline.notes, "; "),
  }
end

return function(plan, opt)
  budget.object(plan, "tessera.Plan", "ts.beside.plan")
  local limit_s = read(opt).time_limit_s
  local problem, rows, clock = plan:problem(), {}, timer(limit_s)
  for i, name in ipairs(shown) do
    local baseline, why = planners.plan(problem, { planner = name, time_limit_s = clock.left() / (#shown - i + 1) })
    rows[i] = row_of(name, plan, baseline, why)
  end
  return rows
end
