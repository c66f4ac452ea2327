-- The runs of silicon/runs.csv as the experiments of this folder replay them: what ran, and how it was launched.

local measured = require "lib.measured"

local inferencex = require "fidelity.serving.parts.inferencex"
local runs = require "fidelity.serving.parts.runs"

local M = {}

M.systems = { h100_sxm = "H100-80G", h200_sxm = "H200-141G", b200_sxm = "B200-180G" }
local models = { ["deepseek-r1"] = "deepseek-v3" }

-- Of TensorRT-LLM's client and server for a prompt of DeepSeek-R1, whose tokenizer is Python's.
local deepseek_api_s = 0.06

-- What ran, by system, backend, model and precision as the table has them. Where `fits_long_from_tp` is, prompts of
-- 8,192 tokens on so many GPUs or more, 4 and 8 at once, say what moves for a token beside experts' kernels.
M.cases = {
  ["h100_sxm vllm llama-3.1-70b fp8"] = { name = "H100, vLLM, FP8", kernel_set = "vllm_fp8", bits = 8, kv = 8 },
  ["h100_sxm vllm qwen3-32b bf16"] = { name = "H100, vLLM, 16 bits", kernel_set = "vllm", bits = 16, kv = 16 },
  ["h100_sxm vllm gpt-oss-120b fp4"] = {
    name = "H100, vLLM, gpt-oss", kernel_set = "vllm", bits = 4, kv = 16, fits_long_from_tp = 1,
  },
  ["h200_sxm trtllm llama-3.1-70b fp8"] = {
    name = "H200, TensorRT-LLM, FP8", kernel_set = "modern_fp8_static", bits = 8, kv = 8,
  },
  ["h200_sxm trtllm gpt-oss-120b fp4"] = {
    name = "H200, TensorRT-LLM, gpt-oss", kernel_set = "modern", bits = 4, kv = 16, step_tokens = 20000,
    fits_long_from_tp = 4,
  },
  ["h200_sxm trtllm deepseek-r1 fp8"] = {
    name = "H200, TensorRT-LLM, DeepSeek", kernel_set = "modern_fp8_block", bits = 8, kv = 8, step_tokens = "prompt",
    api_s = deepseek_api_s, fits_long_from_tp = 4,
  },
  ["b200_sxm vllm llama-3.1-70b fp8"] = { name = "B200, vLLM, FP8", kernel_set = "vllm_fp8", bits = 8, kv = 8 },
  ["b200_sxm vllm gpt-oss-120b fp4"] = { name = "B200, vLLM, gpt-oss", kernel_set = "vllm", bits = 4, kv = 8 },
  ["b200_sxm trtllm llama-3.1-70b fp4"] = {
    name = "B200, TensorRT-LLM, NVFP4", kernel_set = "modern_fp4", bits = 4, kv = 8,
  },
  ["b200_sxm trtllm deepseek-r1 fp4"] = {
    name = "B200, TensorRT-LLM, DeepSeek", kernel_set = "modern_fp4", bits = 4, kv = 8, step_tokens = "prompt",
    api_s = deepseek_api_s,
  },
}

--- Options of a traffic whose lengths are as a run's.
function M.lengths(r, nominal)
  if r.harness ~= "inferencex" then return nominal end
  return { distribution = "uniform", min = math.floor(0.8 * nominal), max = nominal }
end

local function step_tokens_of(r, case)
  if r.backend == "vllm" then return 8192 end
  if case.step_tokens ~= "prompt" then return case.step_tokens or 16384 end
  return inferencex.step_tokens(r)
end

local function split_words(spread, parts)
  return (spread > 1 and (", EP %d"):format(spread) or "") .. (parts > 1 and ", DP attention" or "")
end

local function is_fitted_load(case, at_once) return at_once <= 8 or case.api_s ~= nil and at_once == 32 end

-- By what moves for a prompt's token beside experts' kernels.
local function is_fitted_long(case, isl, tp, at_once)
  return case.fits_long_from_tp ~= nil and isl == 8192 and tp >= case.fits_long_from_tp and at_once <= 8
end

-- By launches of prompts' layers under TensorRT-LLM; by the clocks that B200 settles at.
local function is_fitted(case, vllm, isl, tp, at_once)
  if is_fitted_long(case, isl, tp, at_once) then return true end
  if vllm then return case.name == "B200, vLLM, FP8" and tp == 1 end
  return isl == 1024 and tp >= 4 and is_fitted_load(case, at_once)
end

local function row_of(r, case)
  local tp, spread, parts = inferencex.split(r)
  local at_once, vllm, by_inferencex = tonumber(r.concurrency), r.backend == "vllm", r.harness == "inferencex"
  local isl, osl = tonumber(r.isl), tonumber(r.osl)
  local ttft = tonumber(r.ttft_mean_ms) / 1e3
  local waits = inferencex.prefill_wait(r, step_tokens_of(r, case))
  return {
    run = ("%s, TP %d%s, %d to %d tokens, %d at once"):format(case.name, tp, split_words(spread, parts), isl, osl,
      at_once),
    case = case.name,
    below_knee = ttft < 2, fitted = is_fitted(case, vllm, isl, tp, at_once),
    deployment = {
      api_s = case.api_s,
      model = models[r.model] or r.model, bitwidths = { case.bits }, kv_bitwidth = case.kv,
      kernel_set = case.kernel_set, cluster = ("%dx%s"):format(tp, M.systems[r.system]), tensor_parallel = tp,
      expert_parallel = spread, attention_data_parallel = parts,
      engine = {
        scheduler = "vllm_v1", max_num_seqs = at_once, max_num_batched_tokens = step_tokens_of(r, case),
        enable_chunked_prefill = vllm, enable_prefix_caching = false, max_model_len = isl + osl,
        kv_allocation = case.step_tokens == "prompt" and "maximum" or nil, -- TensorRT-LLM evicts nobody
        async_scheduling = by_inferencex,
        prefill_wait_steps = waits and waits.steps, prefill_wait_tokens = waits and waits.tokens,
        prefill_wait_parts = waits and waits.parts,
      },
    },
    traffic = {
      arrivals = "closed", concurrency = at_once, num_requests = 10 * at_once,
      prompt_tokens = M.lengths(r, isl), output_tokens = M.lengths(r, osl),
    },
    measured = { tpot = r.tpot_mean_ms / 1e3, ttft = by_inferencex and ttft or nil },
  }
end

--- The table as it is; nil and why.
function M.table_rows() return runs.read(measured.path "silicon/runs.csv") end

--- The runs with prefill and decode in one engine; nil and why.
function M.rows()
  local table_rows, why = M.table_rows()
  if not table_rows then return nil, why end
  local list, seen = {}, {}
  for _, r in ipairs(table_rows) do
    local case = M.cases[("%s %s %s %s"):format(r.system, r.backend, r.model, r.precision)]
    local is_plain = r.mode == "agg" and r.copy == "0" and r.note ~= "perhaps_mtp" and not inferencex.is_drafted(r)
      and (r.harness == "inferencex" or r.ep == "1")
    if case and is_plain then
      local row = row_of(r, case)
      if not seen[row.run] then list[#list + 1] = row end -- of one run on several days the first
      seen[row.run] = true
    end
  end
  return list
end

return M
