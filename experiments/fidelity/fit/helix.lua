-- FP16 layers of LLaMA-1 30B under vLLM, as Helix measured them on Google Cloud: the layer parts of the profiles of
-- kernel set `vllm` (T4, V100, L4, A100 with 40 GB), and of `modern` where nothing newer is measured (T4, V100, L4).
--
-- The tables have one axis, tokens of a prompt batch or requests of a decode step. What they leave open is assumed:
-- requests are those of Helix's trace, 763 tokens in and 232 out on average, so a prompt batch holds prompts of 763
-- tokens and a decode step sees 763 + 232 / 2 tokens of context. With that decode reads its keys and values at 80 to
-- 95 % of the peak bandwidth on all four GPUs, which speaks for it. Above 100 requests, and for all prompts, times are
-- whole milliseconds.
--
-- On A100 it measured Llama-2-70B as well, whose 64 query heads share 8 of keys and values: what further heads of a
-- group take. No profile is fitted to that; the share of a read in kernel sets `vllm_v0` and `vllm_2024` is.
--
-- local fit = require "fidelity.fit.helix"; fit.profile("T4-16G", "vllm")

local ts = require "tessera"
local measured = require "lib.measured"

local M = {}

local prompt_tokens, context_tokens = 763, 879
local folders = { ["T4-16G"] = "t4", ["V100-16G"] = "v100", L4 = "l4", ["A100-40G"] = "a100" }
local files = { prefill = "prompt_bs2time.csv", decode = "decode_bs2time.csv" }

M.devices = { "T4-16G", "V100-16G", "L4", "A100-40G" }
M.phases = { "prefill", "decode" }
-- The machines had V100s with 16 GB; the board with 32 GB has the same chip and bandwidth.
M.same_chip = { ["V100-16G"] = "V100-32G" }

local function batch_of(sample, phase)
  if phase == "decode" then return sample.batch_size, 1, context_tokens end
  return math.max(1, sample.tokens / prompt_tokens), math.min(sample.tokens, prompt_tokens), 0
end

local function read(path, why, phase, options)
  if not path then return nil, why end
  options.format, options.warn = "helix", false
  local samples = ts.read_profile_data(path, options)
  for _, sample in ipairs(samples) do
    sample.batch_size, sample.tokens, sample.context_tokens = batch_of(sample, phase)
  end
  return samples
end

-- The rows of a table, in its order, or nil and why. `device`: say they are of this one, with the same chip.
function M.samples(gpu, phase, kernel_set, device)
  local path, why = measured.path("helix/llama1_30b/" .. folders[gpu] .. "/" .. files[phase])
  return read(path, why, phase, { device = device or gpu, kernel_set = kernel_set or "vllm", model = "llama-30b" })
end

-- Decode of Llama-2-70B on A100-40G, likewise.
function M.grouped_samples()
  local path, why = measured.path "helix/llama2_70b/a100/decode_bs2time.csv"
  return read(path, why, "decode", { device = "A100-40G", kernel_set = "vllm_2024", model = "llama-2-70b" })
end

-- One device's layer parts, or nil and why.
function M.profile(gpu, kernel_set, device)
  local all = {}
  for _, phase in ipairs(M.phases) do
    local samples, why = M.samples(gpu, phase, kernel_set, device)
    if not samples then return nil, why end
    for _, sample in ipairs(samples) do all[#all + 1] = sample end
  end
  return ts.fit_profile {
    device = device or gpu, kernel_set = kernel_set or "vllm", samples = all, method = "operator", folds = 3,
    source = "Helix (ASPLOS 2025), LLaMA-1 30B per layer, vLLM; prompts of 763 and contexts of 879 tokens assumed"
      .. (device and device ~= gpu and "; measured on " .. gpu .. ", the same chip" or ""),
  }
end

return M
