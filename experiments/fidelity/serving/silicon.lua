-- Closed loops on H100 and H200 (SemiAnalysis' InferenceX and NVIDIA's aiconfigurator): Llama-3.1-70B in FP8 and
-- Qwen3-32B in 16 bits under vLLM, Llama-3.1-70B in FP8 under TensorRT-LLM, 4 to 128 requests under way.
--
-- Known: lengths, requests under way, GPUs. InferenceX: random tokens, 10 requests for each that is under way, lengths
-- even from 0.8 of the nominal on, seats as many as requests, 8,192 tokens a step (TensorRT-LLM: 16,384 and no chunks),
-- no prefix cache, FP8 KV cache, vLLM 0.10.2 decides ahead. aiconfigurator: vLLM 0.12, lengths as nominal; how its loop
-- starts is unknown, so its TTFT is left out. TensorRT-LLM ran checkpoints with static scales (modern_fp8_static); in
-- vLLM all are priced as those that find them while running. Below the knee: the KV cache holds all that is under way
-- (TTFT below 2 s). What a step of a group costs for each request where it is decided late, 45 us, was chosen by the
-- runs in 16 bits: they judge the rest of their prices, not that. Nothing else is fitted to these runs.
local measured = require "lib.measured"

local runs = require "fidelity.serving.parts.runs"

local systems = { h100_sxm = "H100-80G", h200_sxm = "H200-141G" }
local models = {
  ["llama-3.1-70b"] = { precision = "fp8", bitwidth = 8, kv_bitwidth = 8 },
  ["qwen3-32b"] = { precision = "bf16", bitwidth = 16, kv_bitwidth = 16 },
}

local function case_of(r)
  return ("%s, %s, %s"):format(systems[r.system], r.backend == "vllm" and "vLLM" or "TensorRT-LLM",
    models[r.model].precision == "fp8" and "FP8" or "16 bits")
end

local function lengths_of(r, nominal)
  if r.harness ~= "inferencex" then return nominal end
  return { distribution = "uniform", min = math.floor(0.8 * nominal), max = nominal }
end

local function row_of(r)
  local tp, at_once, model = tonumber(r.tp), tonumber(r.concurrency), models[r.model]
  local vllm, inferencex = r.backend == "vllm", r.harness == "inferencex"
  local isl, osl = tonumber(r.isl), tonumber(r.osl)
  local ttft = tonumber(r.ttft_mean_ms) / 1e3
  return {
    run = ("%s, TP %d, %d to %d tokens, %d at once"):format(case_of(r), tp, isl, osl, at_once), case = case_of(r),
    below_knee = ttft < 2,
    deployment = {
      model = r.model, bitwidths = { model.bitwidth }, kv_bitwidth = model.kv_bitwidth,
      kernel_set = vllm and "vllm_fp8" or "modern_fp8_static", cluster = ("%dx%s"):format(tp, systems[r.system]),
      tensor_parallel = tp,
      engine = {
        scheduler = "vllm_v1", max_num_seqs = at_once, max_num_batched_tokens = vllm and 8192 or 16384,
        enable_chunked_prefill = vllm, enable_prefix_caching = false, max_model_len = isl + osl,
        async_scheduling = inferencex,
      },
    },
    traffic = {
      arrivals = "closed", concurrency = at_once, num_requests = 10 * at_once,
      prompt_tokens = lengths_of(r, isl), output_tokens = lengths_of(r, osl),
    },
    measured = { tpot = r.tpot_mean_ms / 1e3, ttft = inferencex and ttft or nil },
  }
end

local function rows()
  local table_rows, why = runs.read(measured.path "silicon/runs.csv")
  if not table_rows then return nil, why end
  local list, seen = {}, {}
  for _, r in ipairs(table_rows) do
    local model = models[r.model]
    local is_ours = systems[r.system] and model and model.precision == r.precision and r.mode == "agg"
      and r.backend ~= "sglang" and r.copy == "0"
    if is_ours then
      local row = row_of(r)
      if not seen[row.run] then list[#list + 1] = row end -- of one run on several days the first
      seen[row.run] = true
    end
  end
  return list
end

return runs.experiment {
  name = "silicon", doc = "Llama-3.1-70B in FP8 and Qwen3-32B in 16 bits, closed loops on H100 and H200",
  rows = rows, quick = 6,
  groups = {
    { name = "H100, vLLM, FP8", keep = function(row) return row.case:find "H100.*FP8" end,
      metrics = { tpot = true, ttft = true } },
    { name = "H100, vLLM, 16 bits", keep = function(row) return row.case:find "16 bits" end,
      metrics = { tpot = true } },
    { name = "H200, TensorRT-LLM, FP8", keep = function(row) return row.case:find "H200" end,
      metrics = { tpot = true, ttft = true } },
  },
}
