-- What is recommended for an offline batch where nothing else is said but the model and the GPUs: twenty clusters, from
-- one GPU to 64 mixed ones, each planned for vLLM and exported.
--
--   tessera run experiments/recommended/clusters.lua
--
-- The batch is 32 requests of 512 and 100 tokens. `layout` names the pipelines: stages, mean bitwidth of the layers and
-- requests. `speedup_equal_quality` is the least over what people run today.
-- What an expert would say to each: README.md beside this file.
local ts = require "tessera"
local core = require "tessera.core"

local cases = {
  { "1xT4-16G", "qwen2.5-7b" },
  { "1xL4", "llama-3.1-8b" },
  { "1xRTX-3090", "qwen3-8b" },
  { "1xRTX-5090", "qwen2.5-14b" },
  { "1xA100-80G", "qwen3-30b-a3b" },
  { "1xH200-141G", "qwen3-30b-a3b" },
  { "2xRTX-4090", "qwen2.5-14b" },
  { "(2xRTX-3090+1xRTX-4090)", "qwen2.5-32b" },
  { "4xT4-16G", "opt-30b" },
  { "2xA100-80G", "llama-3.3-70b" },
  { "8xV100-32G", "llama-3.3-70b" },
  { "8xH200-141G", "llama-3.1-8b" },
  { "8xH200-141G", "llama-3.3-70b" },
  { "2x(8xH200-141G)", "deepseek-v3" },
  { "4xA100-40G+4xL40S", "mixtral-8x7b" },
  { "2xA100-80G+4xL4", "llama-3.3-70b" },
  { "2xA100-80G+4xL4+4xT4-16G", "llama-3.3-70b" },
  { "8xA100-80G+4xL4+4xT4-16G", "llama-3.1-8b" },
  { "16xA100-80G+16xL4+16xT4-16G+16xV100-32G", "llama-3.3-70b" },
  { "1xRTX-PRO-6000", "gpt-oss-120b" },
}

local names, by_name = {}, {}
for i, case in ipairs(cases) do
  names[i] = ("%s on %s"):format(case[2], case[1])
  by_name[names[i]] = case
end

-- "2 of 4xH200-141G, 8.0 bits, 16 requests": neighbours that are alike once.
local function layout_of(plan)
  local parts, counts = {}, {}
  for _, pipeline in ipairs(plan.pipelines) do
    local devices = {}
    for i, stage in ipairs(pipeline.stages) do devices[i] = stage.device end
    local text = ("%s, %.1f bits, %d requests"):format(table.concat(devices, " > "), pipeline.mean_bitwidth,
      pipeline.batch_size)
    if parts[#parts] == text then
      counts[#parts] = counts[#parts] + 1
    else
      parts[#parts + 1] = text
      counts[#parts] = 1
    end
  end
  for i, text in ipairs(parts) do parts[i] = counts[i] > 1 and ("%d of %s"):format(counts[i], text) or text end
  return table.concat(parts, "; ")
end

local function least_speedup(plan)
  local least
  for _, row in ipairs(ts.beside(plan)) do
    if row.speedup_equal_quality then least = math.min(least or math.huge, row.speedup_equal_quality) end
  end
  return least
end

return ts.experiment {
  name = "recommended/clusters",
  doc = "What is recommended for a batch on twenty clusters, launched on vLLM",
  grid = { case = names },
  quick = { case = { names[1], names[8], names[12], names[16], names[20] } },
  columns = { "layout", "kv_bitwidth", "left_out", "latency_s", "throughput_tok_s", "perplexity_increase", "plan_s",
    "engines", "speedup_equal_quality", "note" },
  notes = {
    "plan_s: wall time of ts.plan, other work on the machine included",
    "perplexity_increase: ratio, the middle of its band",
    "engines: servers that the launch files start; left_out: devices that run nothing",
  },

  run = function(point, context)
    local cluster, model = unpack(by_name[point.case])
    local problem = ts.problem { model = model, cluster = cluster, runtime = "vllm" }
    local started_s = core.clock()
    local plan, why = ts.plan(problem)
    local plan_s = core.clock() - started_s
    if not plan then return { status = why.code, note = why.message, plan_s = plan_s } end
    local folder = ("%s/%s"):format(context.output_dir, point.case:gsub("[^%w.]+", "-"))
    local written, why_not = plan:export("vllm", folder, { overwrite = true, unlike_engines = true })
    return {
      status = plan.status, layout = layout_of(plan), kv_bitwidth = plan.kv_bitwidth, left_out = #plan.unused_devices,
      latency_s = plan.latency_s, throughput_tok_s = plan.throughput_tok_s, plan_s = plan_s,
      perplexity_increase = plan.quality.perplexity_increase.mid, provenance = plan.provenance,
      engines = written and #ts.load_launch(folder).engines or 0,
      speedup_equal_quality = least_speedup(plan), note = why_not and why_not.message,
    }
  end,

  check = function(t)
    -- One server for each pipeline, of which none of these has more than eight.
    t:expect_all { column = "engines", at_least = 1, at_most = 8 }
    -- Nothing that people run is faster at its own quality, and what they run with tensor parallelism is not far off.
    t:expect_all { column = "speedup_equal_quality", at_least = 1, at_most = 3 }
  end,
}
