-- What a decoder layer does between its products, on A100: norms, rotary embedding, activation and residual additions,
-- launches included, from Vidur's table of LLaMA-2 7B (kernels of Sarathi-Serve). All of a layer in one sample, by the
-- bytes that they move together: the element-wise part of the profile of A100-80G under `modern`.

local ts = require "tessera"
local measured = require "lib.measured"
local parts = require "fidelity.fit.parts"

local M = {}

-- How often a layer runs each.
local times = { input_layernorm = 1, post_attention_layernorm = 1, attn_rope = 1, mlp_act = 1, add = 2 }

-- One sample per row of the table (tokens, tensor parallelism), or nil and why.
function M.samples()
  local path, why = measured.path "vidur/a100_llama-2-7b_mlp.csv"
  if not path then return nil, why end
  local layers, layer = {}, nil
  local kernels = ts.read_profile_data(path,
    { format = "vidur", device = "A100-80G", kernel_set = "modern", warn = false })
  for _, kernel in ipairs(kernels) do
    if kernel.name == "input_layernorm" then -- the first of a row
      layer = { op = "elementwise", device = "A100-80G", kernel_set = "modern", bytes = 0, latency_s = 0 }
      layers[#layers + 1] = layer
    end
    local count = kernel.op == "elementwise" and times[kernel.name] or 0
    if layer and count > 0 then
      layer.bytes = layer.bytes + count * kernel.bytes
      layer.latency_s = layer.latency_s + count * kernel.latency_s
    end
  end
  return layers
end

-- The profile of A100-80G with this part alone, or nil and why.
function M.profile()
  local samples, why = M.samples()
  if not samples then return nil, why end
  return ts.fit_profile {
    device = "A100-80G", kernel_set = "modern", samples = samples, method = "bandwidth", hold_out = { "bytes" },
    source = "Vidur (MIT), LLaMA-2 7B layer: two norms, rotary embedding, activation, two residual additions",
  }
end

-- What a layer takes between its products however few bytes move, under TensorRT-LLM on Hopper: it adds residuals
-- within norms and turns queries and keys within attention, so that three kernels are left of Vidur's six, in CUDA
-- graphs. Fitted on a grid of 1 us to time per token of Llama-3.1-70B in FP8 on 4 and 8 H200, 1,024 tokens in, 4 and
-- 8 at once (silicon/runs.csv), which the claims of fidelity/serving/silicon leave out: 11 % long with the A100's
-- 16.6 us, 2.7 % off with 8.
local fused_latency_s = 8e-6

-- The part of another device with that.
function M.fused(profile)
  return parts.edited(profile, function(json)
    for _, part in ipairs(json.parts) do
      part.coefficients.latency_s = fused_latency_s
      part.source = part.source .. "; 8 us however few bytes, fitted to runs of TensorRT-LLM"
    end
  end)
end

return M
