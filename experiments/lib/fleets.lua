-- Fleets of named models that the experiments share: GPUs by class of nodes, models with demands and limits.
local M = {}

local function model(name, shape, rate_per_s, prompt_tokens, output_tokens, ttft_s, tpot_s)
  return { name = name, model = shape, slo = { ttft_s = { p99 = ttft_s }, tpot_s = { p99 = tpot_s } },
    traffic = { rate_per_s = rate_per_s, prompt_tokens = prompt_tokens, output_tokens = output_tokens } }
end

-- 64 GPUs of four types, three models; 1,024 of eight on 200 nodes, ten models.
M.small = {
  cluster = "3x(8xA100-40G)+2x(8xH100-80G)+4x(4xL4)+2x(4xL40S)",
  models = {
    model("chat", "llama-3.1-8b", 60, 800, 250, 2, 0.05), model("code", "qwen2.5-14b", 10, 1500, 200, 3, 0.06),
    model("large", "llama-3.3-70b", 3, 600, 300, 4, 0.1),
  },
}
M.large = {
  cluster = "24x(8xH100-80G)+24x(8xA100-80G)+24x(8xA100-40G)+20x(8xL40S)+40x(4xL4)+20x(4xA10G)+24x(1xV100-32G)"
    .. "+24x(1xT4-16G)",
  models = {
    model("chat", "llama-3.1-8b", 600, 800, 250, 2, 0.05), model("code", "qwen2.5-14b", 100, 1500, 200, 3, 0.06),
    model("large", "llama-3.3-70b", 30, 600, 300, 4, 0.1), model("rag", "qwen2.5-32b", 20, 3000, 150, 5, 0.1),
    model("small", "qwen2.5-3b", 300, 500, 100, 1, 0.05), model("draft", "llama-3.2-1b", 400, 200, 60, 1, 0.05),
    model("moe", "qwen3-30b-a3b", 60, 1000, 300, 3, 0.06), model("gemma", "gemma-2-9b", 50, 700, 200, 2, 0.08),
    model("mixture", "mixtral-8x7b", 30, 900, 200, 3, 0.08), model("middle", "qwen2.5-7b", 100, 1000, 150, 2, 0.06),
  },
}

local function copy(value)
  if type(value) ~= "table" then return value end
  local result = {}
  for key, item in pairs(value) do result[key] = copy(item) end
  return result
end

-- Options of ts.plan_fleet, each model's demand times what `factor(m)` says.
function M.options(fleet, factor)
  local options = copy(fleet)
  for m, each in ipairs(options.models) do
    each.traffic.rate_per_s = each.traffic.rate_per_s * (factor and factor(m) or 1)
  end
  return options
end

return M
