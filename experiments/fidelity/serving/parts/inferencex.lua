-- How InferenceX launched TensorRT-LLM, by its scripts (benchmarks/*_trt*.sh of github.com/SemiAnalysisAI/InferenceX,
-- and the copies of InferenceMAX of autumn 2025): what the columns `dp` and `ep` of runs leave out.
--
-- Until November 2025 the scripts themselves chose expert parallelism and data-parallel attention, by lengths and by
-- how many requests are under way, and the table says ep 1 of all their runs. From December on both are said.
-- DeepSeek-R1 was run with drafts (MTP) on two days: only their faster runs are marked.

local M = {}

local first_said = "2025-12-01"
local drafted_on = { ["2026-01-14"] = true, ["2026-02-06"] = true }

-- Tokens of a prompt and of an answer, by [TP]: requests under way from which on experts are spread, or parts of the
-- group have requests of their own.
local b200_deepseek = {
  ["1024 1024"] = { [4] = { spread = 33, apart = 256 }, [8] = { spread = 9, apart = 256 } },
  ["1024 8192"] = { [4] = { spread = 33, apart = 256 }, [8] = { spread = 17, apart = 256 } },
  ["8192 1024"] = { [4] = { spread = 33, apart = 33 }, [8] = { spread = 33, apart = 33 } },
}

local function chosen(r, tp, at_once)
  if r.model == "gpt-oss-120b" then return true, false end -- --ep_size=$TP
  if r.system == "h200_sxm" then return true, at_once > (r.isl == "8192" and 32 or 64) end
  local from = b200_deepseek[r.isl .. " " .. r.osl][tp]
  return at_once >= from.spread, at_once >= from.apart
end

--- Whether drafts made a run faster that is not marked.
function M.is_drafted(r) return r.model == "deepseek-r1" and drafted_on[r.measured] or false end

--- GPUs of an engine, those that experts are spread over, and parts with requests of their own.
function M.split(r)
  local said_dp = tonumber(r.dp ~= "" and r.dp or 1)
  local gpus, at_once = tonumber(r.tp) * said_dp, tonumber(r.concurrency)
  if r.backend ~= "trtllm" or not (r.model == "gpt-oss-120b" or r.model == "deepseek-r1") then
    return gpus, tonumber(r.ep), said_dp
  end
  if r.measured >= first_said and r.model ~= "gpt-oss-120b" then return gpus, tonumber(r.ep), said_dp end
  local spread, apart = chosen(r, gpus, at_once)
  return gpus, spread and gpus or 1, apart and gpus or 1
end

--- Tokens of a step of DeepSeek's servers, of all parts: a prompt and a token of each request, rounded to 64, and from
--- 2026 on 8,192 at least.
function M.step_tokens(r)
  local gpus, _, parts = M.split(r)
  local seats = tonumber(r.concurrency)
  if r.system == "h200_sxm" and parts > 1 and r.measured < first_said then seats = math.floor(seats / gpus) end
  local tokens = math.floor((seats + tonumber(r.isl) + 127) / 64) * 64
  return parts * math.max(r.measured >= "2026" and 8192 or 0, tokens)
end

-- Of a step's tokens, and steps: batch_wait_max_tokens_ratio, batch_wait_timeout_iters; and
-- attention_dp_config.timeout_iters.
local llama_wait_ratio, llama_wait_steps, parts_wait_steps = 0.9, 20, 60

--- How long TensorRT-LLM held prompts back, by its scripts, as an engine's options: { steps, tokens or parts }; nil.
function M.prefill_wait(r, step_tokens)
  if r.backend ~= "trtllm" then return nil end
  local gpus, _, parts = M.split(r)
  if parts > 1 then return { steps = parts_wait_steps, parts = parts } end
  local is_llama = r.model:find "llama" and gpus < 8 and r.isl == "1024" and r.osl == "1024"
  return is_llama and { steps = llama_wait_steps, tokens = math.ceil(llama_wait_ratio * step_tokens) } or nil
end

return M
