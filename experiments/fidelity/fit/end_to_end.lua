-- What published runs of whole servers say of one step: decode steps at low load, first tokens without a queue, and
-- batches of long prompts. Nothing is fitted to these rows but the host's share of a step, in datasets/kernel_sets
-- (vllm: the H100 runs of inference-sim; vllm_v0: AccelMark's A800, V100S and T4); `fitted` says which rows those are.
--
-- local rows = require "fidelity.fit.end_to_end".rows()

local measured = require "lib.measured"
local csv = require "fidelity.fit.csv"
local quantile = require "fidelity.fit.errors".quantile

local M = {}

local function round(x) return math.max(1, math.floor(x + 0.5)) end

-- One row: what ran, and `measured`, in seconds or output tokens per second.
local function row(fields)
  fields.bitwidth = fields.bitwidth or 16
  fields.kernel_set = fields.kernel_set or "vllm"
  fields.cluster = fields.cluster or ("%dx%s"):format(fields.tensor_parallel, fields.device)
  return fields
end

local readers = {}

-- AccelMark (Apache-2.0): one request at a time, prompts of ShareGPT (median 197, mean 236 tokens), answers of about
-- 220; suite D: 28,000 tokens in. vLLM 0.7.3 is the V0 engine.
local accelmark_devices = {
  ["NVIDIA A100-SXM4-80GB"] = "A100-80G", ["NVIDIA A800-SXM4-80GB"] = "A800-80G",
  ["NVIDIA GeForce RTX 3090"] = "RTX-3090", ["NVIDIA GeForce RTX 4090"] = "RTX-4090",
  ["NVIDIA H100 80GB HBM3"] = "H100-80G", ["NVIDIA L4"] = "L4", ["NVIDIA RTX A6000"] = "A6000",
  ["Tesla T4"] = "T4-16G", ["Tesla V100S-PCIE-32GB"] = "V100S-32G",
}
local accelmark_models = {
  ["meta-llama/Meta-Llama-3-8B-Instruct"] = "llama-3-8b", ["meta-llama/Llama-3.1-8B-Instruct"] = "llama-3.1-8b",
  ["Qwen/Qwen2.5-0.5B-Instruct"] = "qwen2.5-0.5b", ["meta-llama/Meta-Llama-3-70B-Instruct"] = "llama-3-70b",
  ["mistralai/Mixtral-8x7B-Instruct-v0.1"] = "mixtral-8x7b",
}
local fitted_to = { ["A800-80G"] = true, ["V100S-32G"] = true, ["T4-16G"] = true }

function readers.accelmark(path, add)
  for r in csv.rows(path "accelmark/online.csv") do
    local device = accelmark_devices[r.chip]
    local v0 = r.version:match "^0%.[0-8]%." ~= nil
    if r.scenario == "interactive" and device then
      local long = r.suite == "suite_D"
      add {
        source = "AccelMark", version = "vLLM " .. r.version:match "^[%d.]+", kind = "decode step", device = device,
        tensor_parallel = tonumber(r.tp), model = accelmark_models[r.model], kernel_set = v0 and "vllm_v0" or "vllm",
        batch_size = 1, prompt_tokens = long and 28000 or 236, output_tokens = 220,
        measured = tonumber(r.tpot_ms_p50) * 1e-3, fitted = v0 and fitted_to[device] or false,
      }
    end
  end
end

-- inference-sim on H100 SXM, V1 engine, at rates below saturation: by Little's law rate x time in the system sequences
-- are served together. Prompts are of one system prompt and mostly cached.
local blis_models = {
  ["meta-llama/Llama-2-7b-hf"] = "llama-2-7b", ["codellama/CodeLlama-34b-Instruct-hf"] = "codellama-34b",
  ["mistralai/Mixtral-8x7B-v0.1"] = "mixtral-8x7b", ["meta-llama/Llama-3.1-8B-Instruct"] = "llama-3.1-8b",
  ["Qwen/Qwen3-14B"] = "qwen3-14b",
}
local blis_prompts = { codegen = 590, general = 575, roleplay = 785 }

function readers.inference_sim_ground_truth(path, add)
  for r in csv.rows(path "serving/blis_ground_truth.csv") do
    local rate, prompt = tonumber(r.documented_rate), blis_prompts[r.workload]
    local served = rate and prompt and rate * tonumber(r.e2e_mean_ms) * 1e-3
    -- The runs of Llama-2-7B contradict those of blis_vllm_stages: their answers were retokenised.
    if served and r.stage ~= "-1" and served <= 64 and r.model ~= "meta-llama/Llama-2-7b-hf" then
      add {
        source = "inference-sim", version = "vLLM V1", kind = "decode step", device = "H100-80G",
        tensor_parallel = tonumber(r.tp), model = blis_models[r.model], batch_size = round(served),
        prompt_tokens = prompt, output_tokens = 247, measured = tonumber(r.itl_mean_ms) * 1e-3,
        fitted = not r.model:find "Mixtral",
      }
    end
  end
end

function readers.inference_sim_stages(path, add)
  for r in csv.rows(path "serving/blis_vllm_stages.csv") do
    local served = tonumber(r.achieved_rate) * tonumber(r.e2e_mean_s)
    if r.workload ~= "reasoning" and served <= 64 and tonumber(r.tpot_derived_s) then
      add {
        source = "inference-sim, stages", version = "vLLM V1", kind = "decode step", device = "H100-80G",
        tensor_parallel = tonumber(r.tp), model = blis_models[r.model], batch_size = round(served),
        prompt_tokens = round(tonumber(r.prompt_len_mean)), output_tokens = round(tonumber(r.output_len_median)),
        measured = tonumber(r.tpot_derived_s), fitted = false,
      }
    end
  end
end

-- Kubernetes' inference-perf on one H100: 204 tokens in, 64 out. Above 31 requests/s prompts take most of the steps.
function readers.inference_perf(path, add)
  for r in csv.rows(path "serving/kubecon2025_techniques.csv") do
    if r.config == "baseline" and (tonumber(r.requested_rate) or 99) < 32 then
      add {
        source = "inference-perf", version = "vLLM " .. r.vllm, kind = "decode step", device = "H100-80G",
        tensor_parallel = 1, model = "llama-3-8b",
        batch_size = round(tonumber(r.achieved_rate) * tonumber(r.e2e_mean_s)), prompt_tokens = 204,
        output_tokens = 64, measured = tonumber(r.tpot_derived_s), fitted = false,
      }
    end
  end
end

-- GPUStack's performance lab: steps at fixed concurrency, and batches of long prompts sent at once. Their throughput is
-- in tokens that come out, but nearly all work goes in.
local gpustack_devices = { ["h100-latency"] = "H100-80G", h100 = "H100-80G", a100 = "A100-80G", h200 = "H200-141G" }
local gpustack_models = {
  ["qwen3-8b"] = "qwen3-8b", ["qwen3-14b"] = "qwen3-14b", ["gpt-oss-20b"] = "gpt-oss-20b",
  ["gpt-oss-120b"] = "gpt-oss-120b", ["deepseek-r1"] = "deepseek-v3",
}
-- Weights as the served checkpoint has them: gpt-oss has 4 bits, DeepSeek 8.
local served_bits = { ["gpt-oss-20b"] = 4, ["gpt-oss-120b"] = 4, ["deepseek-v3"] = 8 }

function readers.gpustack(path, add)
  for r in csv.rows(path "serving/gpustack_vllm_bench.csv") do
    local command, model, completed = r.serving_cmd, gpustack_models[r.model_dir], tonumber(r.completed)
    local device = gpustack_devices[r.hw]
    local plain = command:match "^%s*vllm serve" and not command:find "spec" and not command:find "-pp "
      and not command:find "AWQ" and not command:find "FP8"
    if plain and model and device and completed then
      local bits = served_bits[model] or 16
      local common = {
        source = "GPUStack", version = "vLLM", device = device, model = model, bitwidth = bits,
        tensor_parallel = tonumber(command:match "%-tp (%d+)" or 1), kernel_set = bits == 8 and "vllm_fp8" or "vllm",
        prompt_tokens = round(tonumber(r.total_input_tokens) / completed),
        output_tokens = round(tonumber(r.total_output_tokens) / completed), fitted = false,
      }
      local concurrency = tonumber(r.max_concurrency) or tonumber(r.concurrency)
      if concurrency and concurrency <= 16 then
        common.kind, common.batch_size = "decode step", concurrency
        common.measured = tonumber(r.median_tpot_ms) * 1e-3
        add(common)
      elseif not concurrency and common.prompt_tokens >= 1900 and common.prompt_tokens <= 4000 and bits == 16
        and model == "qwen3-14b" then
        common.kind, common.batch_size = "long prompts", 32
        common.measured = tonumber(r.output_throughput)
        add(common)
      end
    end
  end
end

-- surajssd/llm-k8s: Azure ND96asr_v4, 8 x A100-40G, ShareGPT (213 tokens in and out), vLLM of late 2024: V0.
function readers.nd96(path, add)
  for r in csv.rows(path "serving/llama70b_tp_pp_vllm.csv") do
    if r.config == "01_tp8_pp1" and r.qps ~= "inf" then
      local seconds = (tonumber(r.mean_ttft_ms) + 212 * tonumber(r.mean_tpot_ms)) * 1e-3
      add {
        source = "llm-k8s", version = "vLLM V0", kind = "decode step", device = "A100-40G", tensor_parallel = 8,
        model = "llama-3.3-70b", kernel_set = "vllm_v0", batch_size = round(tonumber(r.request_throughput) * seconds),
        prompt_tokens = 213, output_tokens = 213, measured = tonumber(r.median_tpot_ms) * 1e-3, fitted = false,
      }
    end
  end
end

-- TensorRT-LLM's own page, one prompt on A100 or H100: milliseconds without decimals.
local trtllm_models = { ["GPT-J 6B"] = "gpt-j-6b", ["LLaMA 7B"] = "llama-2-7b", ["LLaMA 70B"] = "llama-2-70b" }
local trtllm_sets = { FP16 = "modern", FP8 = "modern_fp8" }

function readers.trtllm(path, add)
  for r in csv.rows(path "a6000/trtllm_2023.csv") do
    if r.metric == "first_token_ms" and trtllm_models[r.model] then
      add {
        source = "TensorRT-LLM", version = r.version, kind = "first token",
        device = r.gpu == "H100" and "H100-80G" or "A100-80G", tensor_parallel = tonumber(r.tp),
        model = trtllm_models[r.model], kernel_set = trtllm_sets[r.precision],
        bitwidth = r.precision == "FP8" and 8 or 16, batch_size = 1,
        prompt_tokens = math.min(tonumber(r.input_len), 2047), output_tokens = 1,
        measured = tonumber(r.value) * 1e-3, fitted = false,
      }
    end
  end
end

-- All rows, by source and in the order of the tables, or nil and why. Repeats of a run are one row, at their median.
function M.rows()
  local here, why = measured.folder()
  if not here then return nil, why end
  local names, rows, runs, seen = {}, {}, {}, {}
  for name in pairs(readers) do names[#names + 1] = name end
  table.sort(names)
  local function add(fields)
    local r = row(fields)
    r.run = ("%s, %s, %d in, %d at once"):format(r.source, r.cluster, r.prompt_tokens, r.batch_size)
    local key = table.concat({ r.run, r.model, r.kind, r.version, r.bitwidth, r.output_tokens }, "|")
    if not seen[key] then
      seen[key], rows[#rows + 1], runs[r] = r, r, {}
    end
    table.insert(runs[seen[key]], r.measured)
  end
  local function path(file)
    local found, missing = measured.path(file)
    return found or error(missing.message, 0)
  end
  for _, name in ipairs(names) do readers[name](path, add) end
  for r, values in pairs(runs) do
    table.sort(values)
    r.measured = quantile(values, 0.5)
  end
  return rows
end

return M
