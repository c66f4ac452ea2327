-- Published perplexities of models in FP8 (E4M3) that the folder of measured data has not, one row per number:
-- { source, generation, model, 10^9 parameters, method, perplexity in 16 bits, in FP8, per }. WikiText-2 everywhere;
-- `per` is what the perplexity is of, a token or a word. Methods, by where the scales are:
--   fp8_weights      weights alone
--   fp8_activations  weights by output channel, activations by token, found while running: checkpoints called
--                    FP8-dynamic, and nearly what vLLM makes while it loads (its weights have a scale per tensor)
--   fp8_tensor       one scale per tensor, of activations found while running
--   fp8_static       one scale per tensor, of activations from a calibration text; some with an FP8 KV cache as well

local torchao_hf = "pytorch/ao, benchmarks/_models/README.md"
local torchao_h100 = "pytorch/ao, torchao/quantization/README.md, NVIDIA H100"
local quark = "AMD Quark, WikiText-2 tables of its examples (A100)"
local card = "model card of amd/%s, FP8 KV cache too"

return {
  { torchao_hf, "llama-3", "llama-3.1-8b", 8, "fp8_weights", 7.33, 7.37, "word" },
  { torchao_hf, "llama-3", "llama-3.1-8b", 8, "fp8_activations", 7.33, 7.41, "word" },
  { torchao_hf, "llama-3", "llama-3.1-8b", 8, "fp8_tensor", 7.33, 7.42, "word" },
  { torchao_hf, "llama-3", "llama-3.2-3b", 3.2, "fp8_weights", 9.26, 9.31, "word" },
  { torchao_hf, "llama-3", "llama-3.2-3b", 3.2, "fp8_activations", 9.26, 9.33, "word" },
  { torchao_hf, "llama-3", "llama-3.2-3b", 3.2, "fp8_tensor", 9.26, 9.35, "word" },
  { torchao_h100, "llama-3", "llama-3.1-8b", 8, "fp8_weights", 7.54, 7.60, "word" },
  { torchao_h100, "llama-3", "llama-3.1-8b", 8, "fp8_activations", 7.54, 7.61, "word" },
  { torchao_h100, "llama-3", "llama-3.1-8b", 8, "fp8_tensor", 7.54, 7.62, "word" },
  { card:format "Llama-3.1-8B-Instruct-FP8-KV", "llama-3", "llama-3.1-8b-instruct", 8, "fp8_static", 7.2169, 7.2752,
    "token" },
  { card:format "Llama-3.1-405B-Instruct-FP8-KV", "llama-3", "llama-3.1-405b-instruct", 405, "fp8_static", 1.8561,
    1.8951, "token" },
  { quark, "llama-2", "llama-2-7b", 7, "fp8_static", 5.47, 5.54, "token" },
  { quark, "llama-2", "llama-2-7b", 7, "fp8_static", 5.47, 5.51, "token" },
  { quark, "qwen-1.5", "qwen1.5-0.5b", 0.5, "fp8_static", 14.8, 15.57, "token" },
  { quark, "qwen-1.5", "qwen1.5-0.5b", 0.5, "fp8_static", 14.8, 15.35, "token" },
  { quark, "qwen-1.5", "qwen1.5-7b", 7.7, "fp8_static", 7.95, 8.06, "token" },
  { quark, "qwen-1.5", "qwen1.5-7b", 7.7, "fp8_static", 7.95, 8.01, "token" },
  { quark, "opt", "opt-125m", 0.125, "fp8_static", 27.65, 28.11, "token" },
  { quark, "opt", "opt-125m", 0.125, "fp8_static", 27.65, 28.0, "token" },
  { quark, "opt", "opt-13b", 13, "fp8_static", 10.12, 10.24, "token" },
}
