-- How the papers compare indicators: theta is adjusted until the plans take about as long (SplitQuant VI-E, LLM-PQ
-- 6.5), and then what the plans lose is compared.

local gptq_errors = require "lib.papers.gptq_errors"
local plan_bitwidths = require "tessera.planning.plan_bitwidths"
local planners = require "tessera.planning.planners"

local M = {}

local latency_ratio = 1.1 -- over the fastest plan

--- The plan of the largest theta whose latency is at most 1.1 of the fastest plan's, by bisection on a logarithmic
--- scale in `num_steps` (default 8), and that theta.
function M.plan(problem, num_steps)
  local function plan_with(theta)
    return assert(planners.plan(problem:with { theta = theta }, { planner = "exact", time_limit_s = 20 }))
  end
  local limit_s = latency_ratio * plan_with(0).latency_s
  local low, high, best = -3, 5, nil
  for _ = 1, num_steps or 8 do
    local middle = (low + high) / 2
    local plan = plan_with(10 ^ middle)
    if plan.latency_s <= limit_s then low, best = middle, plan else high = middle end
  end
  return best or plan_with(10 ^ low), 10 ^ low
end

--- The measured GPTQ error of a plan; nil without the data.
function M.gptq_error(plan, model)
  return gptq_errors.of(plan_bitwidths(plan), model)
end

--- The claim that on each of the clusters the plan of the measured sensitivity loses less than the random one's. The
--- papers say so of their own indicators; columns `gptq_error` by `indicator` = "random" and "gptq_error".
function M.expect_informed(t, clusters)
  for _, cluster in ipairs(clusters) do
    t:expect_that {
      text = "the measured sensitivity's plan loses less than the random one's",
      where = { cluster = cluster, indicator = { "random", "gptq_error" } },
      note = "the plan minimises the GPTQ error, and is judged by it",
      holds = function(at)
        local random, informed = at { indicator = "random" }.gptq_error, at { indicator = "gptq_error" }.gptq_error
        return informed < random, ("GPTQ error %.3g against %.3g"):format(informed, random)
      end,
    }
  end
end

return M
