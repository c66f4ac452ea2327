-- `tessera plan`: a plan from the command line, beside the Uniform baseline.

local ts = require "tessera"

local M = {}

local problem_options = {
  "objective", "theta", "theta_unit", "bitwidths", "memory", "kernel_set", "kv_bitwidth", "allow_empty_stage",
}
local plan_options = { "planner", "device_order", "prefill_micro_batch_size", "decode_micro_batch_size", "time_limit_s", "gap" }

local function pick(from, names)
  local result = {}
  for _, name in ipairs(names) do result[name] = from[name] end
  return result
end

local function settings(problem, given)
  local w = problem.workload
  local text = ("%s on %s\n%d requests of %d prompt and %d output tokens, bitwidths %s, objective %s, theta %g, "
    .. "memory %s, kernels %s\n"):format(problem.model.name, problem.cluster.name, w.batch_size, w.prompt_tokens,
    w.output_tokens, table.concat(problem.bitwidths, " "), problem.objective, problem.theta, problem.memory,
    problem.kernel_set)
  local defaults = {}
  for _, name in ipairs { "batch_size", "prompt_tokens", "output_tokens", "bitwidths", "objective", "theta", "memory", "kernel_set" } do
    if given[name] == nil then defaults[#defaults + 1] = "--" .. name:gsub("_", "-") end
  end
  if #defaults > 0 then text = text .. "by default: " .. table.concat(defaults, " ") .. "\n" end
  return text
end

--- Returns the plan (or nil, why), and the text to show beside it.
function M.plan(given)
  local description = pick(given, problem_options)
  description.model = given.model
  description.cluster = given.cluster
  description.workload = ts.workload {
    prompt_tokens = given.prompt_tokens, output_tokens = given.output_tokens, batch_size = given.batch_size,
    chunk_tokens = given.chunk_tokens,
  }
  if given.quality then description.quality = { at_least = given.quality } end
  local problem = ts.problem(description)
  local plan, why = ts.plan(problem, pick(given, plan_options))
  if not plan then return nil, why, settings(problem, given) end
  local text = settings(problem, given)
  if plan.planner ~= "uniform" then
    local uniform, no = ts.plan(problem, { planner = "uniform" })
    if uniform then
      text = text .. ("Uniform: %.2f s, %.1f tok/s at %g bits; this plan is %.2f times as fast\n"):format(
        uniform.latency_s, uniform.throughput_tok_s, uniform.mean_bitwidth, uniform.latency_s / plan.latency_s)
    else
      text = text .. "Uniform: " .. no.message .. "\n"
    end
  end
  return plan, nil, text
end

return M
