-- The cost models on iServe's own GPUs: a token of 7B and 13B models on an A6000 in FP16 and at 4 bits (llm-awq's
-- table: transformers, and its own kernel), and AccelMark's requests one at a time under vLLM 0.7.3 on one and eight
-- A6000 that PCIe joins. Target: 15 %, never pooled over runtimes.
--
-- AccelMark calls the engine in its own process, where V0 hands out the tokens of a step while the next one runs: a
-- time per token is added to the first token, as fidelity/serving/accelmark does for its online runs.
--
-- FP16 and 4 bits by `modern` (its 4-bit rule is read off the A100's table, 16 bits are LLMServingSim's A6000's), vLLM
-- by `vllm_v0`, whose host was fitted to runs on A800, V100S and T4: nothing was fitted to these rows.
local csv = require "fidelity.fit.csv"
local measured = require "lib.measured"
local ts = require "tessera"

local path, why = measured.path "parallelism/latency_by_shape.csv"
local online, why_not = measured.path "accelmark/online.csv"
local lengths = measured.path "accelmark/requests_standard.csv"

local models = { ["LLaMA-2-7B"] = "llama-2-7b", ["Vicuna-7B"] = "llama-2-7b", ["Vicuna-13B"] = "llama-2-13b",
  ["MPT-7B"] = "mpt-7b" }
local suites = { suite_A = "llama-3-8b", suite_B = "llama-3-70b" }

-- By name: { model, cluster, kernel set, scheme, TP, prompt, "tpot" or "ttft", seconds }.
local cases, names = {}, {}
local function add(name, case) names[#names + 1], cases[name] = name, case end

for row in path and csv.rows(path) or function() end do
  if row.gpu == "A6000" and models[row.model] then
    local scheme = row.weights == "fp16" and "fp16" or "gptq4"
    add(("%s, %s, %s"):format(row.runtime, row.model, scheme), { models[row.model], "1xA6000", "modern", scheme, 1, 4,
      "tpot", tonumber(row.latency_s) })
  end
end

local function median_length()
  local list = {}
  for row in csv.rows(lengths) do list[#list + 1] = tonumber(row.input_tokens) end
  table.sort(list)
  return list[math.ceil(#list / 2)]
end

for row in online and lengths and csv.rows(online) or function() end do
  local counts = row.chip == "NVIDIA RTX A6000" and row.scenario == "interactive" and suites[row.suite]
  if counts then
    local tp = tonumber(row.tp)
    for _, metric in ipairs { "tpot", "ttft" } do
      add(("vLLM, %s, TP %d, %s"):format(suites[row.suite], tp, metric), { suites[row.suite], tp .. "xA6000", "vllm_v0",
        "fp16", tp, median_length(), metric, tonumber(row[metric .. "_ms_p50"]) / 1000 })
    end
  end
end

local function predicted_s(model, cluster, kernel_set, scheme, tp, prompt, metric)
  local map = ts.fingerprint {
    model = model, cluster = cluster, kernel_set = kernel_set, latency_method = "L1", prompt_tokens = prompt,
    output_tokens = metric == "tpot" and prompt > 100 and { 1, 256 } or { 1, 2 },
    configurations = ts.configurations { num_gpus = tp, tensor_parallel = { tp }, pipeline_parallel = { 1 },
      schemes = { scheme } },
  }
  local row = map:estimates({ output_tokens = 1 })[1]
  return metric == "tpot" and row.tpot_s or row.latency_s + row.tpot_s
end

return ts.experiment {
  name = "iserve/a6000",
  doc = "A token and a first token on A6000, predicted and measured",
  grid = { case = #names > 0 and names or { "none" } },
  quick = { case = { names[1] or "none" } },
  columns = { "predicted_s", "measured_s", "error_ratio" },

  run = function(point)
    if why or why_not then return { status = (why or why_not).code, message = (why or why_not).message } end
    local case = cases[point.case]
    local seconds = predicted_s(unpack(case, 1, 7))
    return { predicted_s = seconds, measured_s = case[8], error_ratio = seconds / case[8] - 1 }
  end,

  check = function(t)
    if why or why_not then return t:skip("not checked: " .. (why or why_not).message) end
    for _, name in ipairs(names) do
      t:expect_all { column = "error_ratio", at_least = -0.15, at_most = 0.15, where = { case = name } }
    end
  end,
}
