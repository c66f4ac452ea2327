-- Three models through a day: a fleet for each hour, beside one for the peak. Rates by the hour of a production day
-- over their mean: ServeGen (Alibaba, Apache-2.0, github.com/alibaba/ServeGen), classes m-small, m-mid and m-large, the
-- third of 14 days, sums over all clients.
local ts = require "tessera"

local day = {
  chat = { 0.76, 0.60, 0.63, 0.62, 0.60, 0.63, 0.84, 0.91, 1.11, 1.43, 1.37, 1.23,
    1.06, 0.90, 0.89, 0.94, 1.03, 1.19, 1.03, 1.16, 1.33, 1.36, 1.28, 1.09 },
  code = { 0.74, 0.90, 1.06, 1.03, 0.96, 0.80, 0.68, 0.76, 1.09, 0.97, 1.22, 1.44,
    0.95, 1.16, 1.02, 1.15, 1.20, 1.08, 0.85, 0.96, 1.05, 1.17, 1.12, 0.63 },
  large = { 0.95, 0.96, 0.94, 0.91, 0.88, 0.97, 1.07, 1.06, 0.99, 0.93, 1.00, 1.06,
    1.10, 1.02, 1.00, 0.99, 1.01, 0.98, 1.02, 1.04, 1.03, 0.97, 1.05, 1.08 },
}

local function model(name, shape, rate_per_s, prompt_tokens, output_tokens, ttft_s, tpot_s)
  return { name = name, model = shape, num_requests = 300,
    slo = { ttft_s = { p99 = ttft_s }, tpot_s = { p99 = tpot_s } },
    traffic = { rate_per_s = rate_per_s, prompt_tokens = prompt_tokens, output_tokens = output_tokens } }
end

local models = {
  model("chat", "llama-3.1-8b", 60, 800, 250, 2, 0.05), model("code", "qwen2.5-14b", 10, 1500, 200, 3, 0.06),
  model("large", "llama-3.3-70b", 3, 600, 300, 4, 0.1),
}
local periods = {}
for hour = 1, 24 do
  periods[hour] = { demand_per_s = {} }
  for _, each in ipairs(models) do
    periods[hour].demand_per_s[each.name] = day[each.name][hour] * each.traffic.rate_per_s
  end
end

-- switch_usd: what a replica costs that starts or stops, minutes of its GPUs and somebody's attention.
local plan = assert(ts.plan_fleet { cluster = "3x(8xA100-40G)+2x(8xH100-80G)+4x(4xL4)+2x(4xL40S)", models = models,
  periods = periods, switch_usd = 1, gap = 0.02, time_limit_s = 200 })
print(plan)
