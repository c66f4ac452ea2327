-- ts.max_batch(problem, options): the largest batch for which any plan fits, and the best plan for it.

local core = require "tessera.core"
local options = require "tessera.options"
local planners = require "tessera.planning.planners"
local budget = require "tessera.planning.budget"

local path = "ts.max_batch"

local read = options.card {
  name = path,
  doc = "The largest batch for which any plan fits the devices and keeps the quality floor, and the best plan for it. "
    .. "Exact: memory grows with the batch, so feasibility is bisected, each answer proven. A floor that names a "
    .. "baseline is that of the problem's own batch. Or nil and why: infeasible, time_limit.",
  parameters = { { "problem", "tessera.Problem", "Of a model, not of an instance file, whose batch is fixed" } },
  returns = "integer?, tessera.Plan|tessera.Error",
  options = {
    { name = "max_batch_size", type = "integer", unit = "requests", default = 4096, min = 1, max = 1e5,
      doc = "Larger batches are not looked at" },
    { name = "prefill_micro_batch_size", type = "integer", unit = "requests", min = 1, max = 1e5,
      doc = "Held fixed; default: searched" },
    { name = "decode_micro_batch_size", type = "integer", unit = "requests", min = 1, max = 1e5,
      doc = "Held fixed; default: searched" },
    { name = "time_limit_s", type = "number", unit = "s", default = 60, min = 0, max = 1e6,
      doc = "Of all solves together" },
  },
}

local function fields_of(workload)
  local fields = {}
  for _, name in ipairs { "name", "prompt_tokens", "output_tokens", "max_prompt_tokens", "max_output_tokens",
    "chunk_tokens", "source" } do fields[name] = workload[name] end
  return fields
end

-- Activations are least in micro-batches of one request, and nothing else that has to fit depends on them.
local function probe_options(problem, opt)
  local prefill, decode = opt.prefill_micro_batch_size, opt.decode_micro_batch_size
  -- Under the papers' objective the decode size follows from the batch.
  if not decode and problem.objective ~= "paper" then decode = prefill or 1 end
  return { prefill_micro_batch_size = prefill or 1, decode_micro_batch_size = decode, gap = 1 }
end

return function(problem, given)
  budget.object(problem, "tessera.Problem", path .. " problem")
  local opt = read(given)
  if not problem.workload then
    core.raise("invalid_argument", path .. " problem: an instance file gives latencies and memory for its own batch "
      .. "only; give a model, a cluster and a workload", path)
  end
  local clock = budget.new(opt.time_limit_s)
  problem = planners.resolve_floor(problem)
  local workload = fields_of(problem.workload)
  local function at(batch_size)
    workload.batch_size = batch_size
    return problem:with { workload = workload, theta = problem.theta }
  end
  local least = math.max(opt.prefill_micro_batch_size or 1, opt.decode_micro_batch_size or 1)
  local why, undecided
  local function fits(batch_size)
    local plan
    plan, why = clock.solve(at(batch_size), probe_options(problem, opt))
    if not plan and why.code ~= "infeasible" then undecided = why end
    return plan ~= nil
  end
  if least > opt.max_batch_size or not fits(least) then
    return nil, undecided or why or core.why("infeasible", ("%s: micro-batches of %d requests are more than "
      .. "max_batch_size = %d"):format(path, least, opt.max_batch_size))
  end
  local low, high = least, least -- low fits; high does not, or is the limit
  while high < opt.max_batch_size and low == high and not undecided do
    high = math.min(2 * low, opt.max_batch_size)
    if fits(high) then low = high end
  end
  while high - low > 1 and not undecided do
    local middle = math.floor((low + high) / 2)
    if fits(middle) then low = middle else high = middle end
  end
  if undecided then
    return nil, core.why(undecided.code, ("%s: %d requests fit, %d were not decided; raise time_limit_s"):format(
      path, low, high))
  end
  local plan, reason = clock.solve(at(low), { prefill_micro_batch_size = opt.prefill_micro_batch_size,
    decode_micro_batch_size = opt.decode_micro_batch_size, replicas = 1 })
  if not plan then return nil, reason end
  if low < opt.max_batch_size then return low, plan end
  return low, plan:with_note(("max_batch_size = %d was the limit, not memory"):format(low))
end
