-- SplitQuant's evaluation on vLLM (its Table IV and Fig. 9): Uniform, Het and SplitQuant for a queue of requests.
--
-- vLLM pages the KV cache and admits as many requests as it holds, 256 at most. That is modelled as batches of the
-- largest size that fits, one after the other; with the whole batch of 256 held at once, as eq. (12) has it, the
-- largest models and their caches fit at no bitwidth. A bitwidth fits where one request fits.
--
-- A setting: { model, cluster, prompt_tokens, output_tokens, tensor_parallel, chunk_tokens (nil: prompts whole) }.

local assumptions = require "tessera.desk.experiment.assumptions"
local core = require "tessera.core"
local indicator = require "tessera.indicator"
local max_batch = require "tessera.planning.max_batch"
local planners = require "tessera.planning.planners"
local solver = require "tessera.solver"

local M = {}

--- Requests that vLLM runs at once, at most (Sec. VI-A).
M.max_requests = 256

--- What the papers' vLLM has kernels for.
M.bitwidths = { 4, 8, 16 }

local search_s = 20 -- of one plan

local function problem_of(setting, batch_size, changes)
  local fields = {
    preset = "splitquant", model = setting.model, cluster = setting.cluster, kernel_set = "vllm",
    memory = "physical", bitwidths = M.bitwidths, theta = 0,
    tensor_parallel = setting.tensor_parallel, workload = {
      prompt_tokens = setting.prompt_tokens, output_tokens = setting.output_tokens, batch_size = batch_size,
      chunk_tokens = setting.chunk_tokens,
    },
  }
  for key, value in pairs(changes or {}) do fields[key] = value end
  return solver.problem(assumptions.apply(fields))
end

-- The plan of a baseline for the largest batch that fits, and the batch; nil and why where not one request does.
local function largest(plan_at)
  local low, high = 1, M.max_requests
  local best, why = plan_at(low)
  if not best then return nil, why end
  while low < high do
    local middle = math.ceil((low + high) / 2)
    local plan = plan_at(middle)
    if plan then low, best = middle, plan else high = middle - 1 end
  end
  return best, low
end

--- Uniform and Het run at the highest bitwidth at which one request fits: the plan, its batch and the bitwidth, or nil
--- and why.
function M.baseline(setting, planner)
  local why
  for i = #M.bitwidths, 1, -1 do
    local plan, batch_size = largest(function(size)
      return planners.plan(problem_of(setting, size, { bitwidths = { M.bitwidths[i] } }), { planner = planner })
    end)
    if plan then return plan, batch_size, M.bitwidths[i] end
    why = batch_size
  end
  return nil, why
end

-- Omega of all layers at one bitwidth, in the units of plans.
local function omega_at(setting, bitwidth)
  local model = core.model(setting.model)
  local constant, at, at_four = indicator.new { model = model, bitwidths = M.bitwidths }, 0, 0
  for layer = 0, model.num_layers - 1 do
    at, at_four = at + constant:omega(layer, bitwidth), at_four + constant:omega(layer, 4)
  end
  return at / at_four
end

--- SplitQuant's plan, with at least the quality of one bitwidth throughout: of the largest batch and of smaller ones,
--- which leave room for more bits, the fastest; and its batch, or nil and why.
function M.splitquant(setting, bitwidth)
  local quality = { max_omega = omega_at(setting, bitwidth) * (1 + 1e-6) }
  local most, best = max_batch(problem_of(setting, M.max_requests, { quality = quality }),
    { max_batch_size = M.max_requests, time_limit_s = search_s })
  if not most then return nil, best end
  local best_size = most
  for _, share in ipairs { 0.75, 0.5, 0.25 } do
    local size = math.ceil(share * most)
    local plan = planners.plan(problem_of(setting, size, { quality = quality }), { time_limit_s = search_s })
    if plan and plan.throughput_tok_s > best.throughput_tok_s then best, best_size = plan, size end
  end
  return best, best_size
end

return M
