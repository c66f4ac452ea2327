-- Kernels that vLLM runs, measured by ai-dynamo/aiconfigurator one by one: products, attention of prompts and of
-- decode, experts, sums, on A100 (vLLM 0.14.0), H200 and RTX PRO 6000 (0.24.0): the profiles of kernel set `vllm`.
-- Where vLLM chooses between kernels, the tables have the one that it chose for the size. Products with weights of 4
-- and 8 bits are in none: Marlin's are those of 16 bits by the ratios of the kernel set, Machete's another runtime's.
--
-- local vllm = require "fidelity.fit.vllm"; vllm.samples("H200-141G", "decode")

local ts = require "tessera"
local measured = require "lib.measured"
local csv, parts = require "fidelity.fit.csv", require "fidelity.fit.parts"
local untouched = require "fidelity.fit.untouched"
local collectives, experts = require "fidelity.fit.collectives", require "fidelity.fit.experts"

local M = {}

M.devices = { "A100-80G", "H200-141G", "RTX-PRO-6000" }
M.kinds = { "gemm", "prefill", "decode" }

local folders = {
  ["A100-80G"] = "a100_sxm/vllm_0.14.0", ["H200-141G"] = "h200_sxm/vllm_0.24.0",
  ["RTX-PRO-6000"] = "rtx_pro_6000_server/vllm_0.24.0",
}
local files = {
  gemm = "gemm_perf.csv", prefill = "context_attention_perf.csv", decode = "generation_attention_perf.csv",
}
-- The same in the tables of sums and of experts.
local tables = { ["A100-80G"] = "a100_vllm", ["H200-141G"] = "h200_vllm", ["RTX-PRO-6000"] = "rtx_pro_6000_vllm" }
-- What our models have words for: NVFP4 has none yet.
local dtypes = { bfloat16 = true, fp8 = true, fp8_block = true }

function M.source(device)
  return "ai-dynamo/aiconfigurator (Apache-2.0), vLLM " .. folders[device]:match "vllm_(.*)"
end

-- Columns that are the same in all rows were left out of the tables.
local function product(row)
  return {
    op = "gemm", dtype = row.gemm_dtype or "bfloat16", m = tonumber(row.m), n = tonumber(row.n), k = tonumber(row.k),
  }
end

local function attention(row, phase)
  return {
    op = "attention", phase = phase, dtype = "bfloat16", kv_dtype = row.kv_cache_dtype or "bfloat16",
    batch_size = tonumber(row.batch_size), tokens = tonumber(row.isl or 1), context_tokens = tonumber(row.step or 0),
    num_heads = tonumber(row.num_heads), num_kv_heads = tonumber(row.num_key_value_heads),
    head_dim = tonumber(row.head_dim or 128), window = math.max(0, tonumber(row.window_size or 0)),
  }
end

-- The samples of a kind ("gemm", "prefill", "decode") on a device, or nil and why.
function M.samples(device, kind)
  local path, why = measured.path(("aiconfigurator/%s/%s"):format(folders[device], files[kind]))
  if not path then return nil, why end
  local samples, source = {}, M.source(device)
  for row in csv.rows(path) do
    local sample = kind == "gemm" and product(row) or attention(row, kind)
    if dtypes[sample.dtype] then
      sample.latency_s = tonumber(row.latency) * 1e-3 -- the file has milliseconds
      sample.source = source
      samples[#samples + 1] = sample
    end
  end
  return samples
end

-- What is held out of a kind's fit: whole matrices, whole geometries of heads.
local heads = { "num_heads", "num_kv_heads" }
M.hold_out = { gemm = { "n", "k" }, prefill = heads, decode = heads }

-- A device's parts of a kind, without the shapes of the untouched split, or nil and why.
function M.profile(device, kind)
  local samples, why = M.samples(device, kind)
  if not samples then return nil, why end
  return ts.fit_profile {
    device = device, kernel_set = "vllm", samples = untouched.split(samples), method = "operator",
    hold_out = M.hold_out[kind],
  }
end

-- Products with weights of 4 and 8 bits on Hopper as TensorRT-LLM runs them: no table has those of Machete, which vLLM
-- runs there, and both are CUTLASS's for mixed inputs. Another runtime's kernels are no measurement of these.
local function weight_only(device)
  return parts.edited(ts.profile { device = device, kernel_set = "modern" }, function(json)
    local kept = {}
    for _, part in ipairs(json.parts) do
      if part.op == "gemm" and part.dtype:match "_wo$" then
        part.provenance, part.held_out, part.beyond, part.num_points = "modelled", nil, nil, 0
        if not part.source:match "^carried" then part.source = part.source .. "; taken for vLLM's" end
        kept[#kept + 1] = part
      end
    end
    json.parts, json.kernel_set = kept, "vllm"
  end)
end

-- A device's profile under kernel set `vllm`, or nil and why.
function M.operators(device)
  local found = {}
  for _, kind in ipairs(M.kinds) do
    local profile, why = M.profile(device, kind)
    if not profile then return nil, why end
    found[#found + 1] = profile
  end
  local links, why = collectives.profiles(tables[device])
  if not links then return nil, why end
  for _, profile in ipairs(links) do found[#found + 1] = profile end
  found[#found + 1] = experts.profile(tables[device])
  if device == "H200-141G" then found[#found + 1] = weight_only(device) end
  return parts.documented(parts.merged(device, "vllm", found), "Operators of vLLM; a layer is their sum",
    M.source(device))
end

return M
