-- MLPerf Inference v4.1, server: Llama-2-70B and Mixtral-8x7B on H100 under TensorRT-LLM in FP8, at Poisson rates just
-- below what the system sustains, and Llama-2-70B under vLLM 0.5.2.
--
-- Known: rate, tokens per request out (rate of tokens over rate of requests), GPUs. Assumed: TensorRT-LLM's batching
-- is vllm_v1's without chunks, 1,024 seats, 8,192 tokens a step, 4-byte-aligned FP8 weights and FP8 KV cache (kernel
-- set modern_fp8), a replica per two GPUs; prompts lognormal with cv 0.9, mean 294 tokens for OpenOrca (Llama) and 500
-- for the mix of three data sets (Mixtral), answers with cv 0.8, both at most 1,024. GPT-J runs four beams, which is
-- not modelled. Nothing is fitted to these runs. Of several submissions on the same GPUs the first is taken.
--
-- All rates are 85 to 98 % of what the same system does offline: latencies are steep there, an error of a few per cent
-- in a step is one of tens of per cent in a queue. Every row counts as below the knee, as all of them passed.
local measured = require "lib.measured"

local runs = require "fidelity.serving.parts.runs"

local models = {
  ["llama2-70b-99"] = { name = "llama-2-70b", prompt = 294 },
  ["llama2-70b-99.9"] = { name = "llama-2-70b", prompt = 294 },
  ["mixtral-8x7b"] = { name = "mixtral-8x7b", prompt = 500 },
}
local devices = {
  ["NVIDIA H100-SXM-80GB"] = "H100-80G", ["NVIDIA H100-PCIe-80GB"] = "H100-PCIe", ["NVIDIA H100-NVL-94GB"] = "H100-NVL",
}
local gpus_per_replica, simulated_s, warm_up_s = 2, 120, 120

local function rows()
  local table_rows, why = runs.read(measured.path "serving/mlperf_v4.1_server.csv")
  if not table_rows then return nil, why end
  local list, seen = {}, {}
  for _, r in ipairs(table_rows) do
    local model, device, nodes = models[r.model], devices[r.accelerator], tonumber(r.nodes) or 1
    if model and device then
      local rate, vllm = tonumber(r.scheduled_qps), r.framework:find "vLLM" ~= nil
      local gpus = tonumber(r.n_accel) * nodes
      local name = ("%s, %dx%s, %s, %g/s"):format(r.submitter, gpus, device, r.model, rate)
      local system = ("%dx%s, %s, %s"):format(gpus, device, model.name, r.framework:match "^%S+")
      local known = seen[system]
      seen[system] = true
      local replica_gpus = vllm and gpus or gpus_per_replica
      if not known then list[#list + 1] = {
        run = name, case = vllm and "vLLM 0.5.2" or "TensorRT-LLM", below_knee = true,
        deployment = {
          model = model.name, bitwidths = { 8 }, kv_bitwidth = vllm and 16 or 8,
          kernel_set = vllm and "vllm_fp8" or "modern_fp8", cluster = ("%dx%s"):format(gpus, device),
          tensor_parallel = replica_gpus, router = "least_requests",
          engine = {
            scheduler = vllm and "vllm_v0" or "vllm_v1", max_num_seqs = vllm and 256 or 1024, max_model_len = 2048,
            max_num_batched_tokens = 8192, enable_chunked_prefill = false, enable_prefix_caching = false,
            runtime_version = vllm and "0.5.2" or nil,
          },
        },
        traffic = {
          rate_per_s = rate, arrivals = "poisson", num_requests = math.floor(rate * (simulated_s + warm_up_s)),
          prompt_tokens = { distribution = "lognormal", mean = model.prompt, cv = 0.9, min = 4, max = 1024 },
          output_tokens = {
            distribution = "lognormal", mean = r.tokens_per_s / r.completed_qps, cv = 0.8, min = 4, max = 1024,
          },
        },
        serve = { record = false, warm_up_s = warm_up_s },
        measured = { e2e = r.e2e_mean_ms / 1e3, ttft = r.ttft_mean_ms / 1e3, tpot = r.tpot_mean_ms / 1e3 },
      } end
    end
  end
  return list
end

local because = "vendors ran next to saturation, each with settings of its own that are not in the table; with FP8 "
  .. "products on H100 at the rates of H200's, most simulated systems have more to spare and queue less"

return runs.experiment {
  stated = false, -- settings of each vendor's own
  name = "mlperf", doc = "MLPerf Inference v4.1, server: Llama-2-70B and Mixtral-8x7B on H100",
  rows = rows, quick = 3,
  groups = { { metrics = { e2e = true, tpot = true, ttft = true }, differs = {
    e2e = { why = because, here = { 0.37, 0.58 } }, tpot = { why = because, here = { 0.28, 0.47 } },
    ttft = { why = because, here = { 0.45, 0.75 } },
  } } },
}
