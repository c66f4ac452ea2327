-- Kernels that vLLM runs, measured by ai-dynamo/aiconfigurator one by one: products, attention of prompts and of
-- decode, experts, sums, on A100 (vLLM 0.14.0), H200, B200, RTX PRO 6000 (0.24.0): the profiles of kernel set `vllm`.
-- Where vLLM chooses between kernels, the tables have the one that it chose for the size. Products with weights of 4
-- and 8 bits are in none: Marlin's are those of 16 bits by the ratios of the kernel set, Machete's another runtime's.
--
-- local vllm = require "fidelity.fit.vllm"; vllm.samples("H200-141G", "decode")

local ts = require "tessera"
local measured = require "lib.measured"
local csv, parts = require "fidelity.fit.csv", require "fidelity.fit.parts"
local untouched = require "fidelity.fit.untouched"
local aiconfigurator = require "fidelity.fit.aiconfigurator"
local collectives, experts = require "fidelity.fit.collectives", require "fidelity.fit.experts"

local M = {}

-- Whose parts fidelity/vllm and its targets judge; B200's say their held-out errors in the profile.
M.devices = { "A100-80G", "H200-141G", "RTX-PRO-6000" }
M.fitted = { "A100-80G", "H200-141G", "B200-180G", "RTX-PRO-6000" }
M.kinds = { "gemm", "prefill", "decode" }

local folders = {
  ["A100-80G"] = "a100_sxm/vllm_0.14.0", ["H200-141G"] = "h200_sxm/vllm_0.24.0",
  ["B200-180G"] = "b200_sxm/vllm_0.24.0", ["RTX-PRO-6000"] = "rtx_pro_6000_server/vllm_0.24.0",
}
local files = {
  gemm = "gemm_perf.csv", prefill = "context_attention_perf.csv", decode = "generation_attention_perf.csv",
}
-- The same in the tables of sums and of experts.
local tables = {
  ["A100-80G"] = "a100_vllm", ["H200-141G"] = "h200_vllm", ["B200-180G"] = "b200_vllm",
  ["RTX-PRO-6000"] = "rtx_pro_6000_vllm",
}

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

-- B200's FP8 products with one row were timed before they were warm: 130 of 172 take over 1.25 times as long as those
-- with more rows, most of them over 1.8 times, of other rows and dtypes a few.
local disturbed = { ["B200-180G"] = true }
local much_longer = 1.8

local function undisturbed(samples)
  local shapes, kept = {}, {}
  for _, sample in ipairs(samples) do
    local key = sample.n .. " " .. sample.k
    shapes[key] = shapes[key] or {}
    table.insert(shapes[key], sample)
  end
  for _, sample in ipairs(samples) do
    local least_s = math.huge
    for _, other in ipairs(shapes[sample.n .. " " .. sample.k]) do
      if other.dtype == sample.dtype and other.m > sample.m then least_s = math.min(least_s, other.latency_s) end
    end
    if sample.latency_s <= much_longer * least_s then kept[#kept + 1] = sample end
  end
  return kept
end

-- The FP8 products of checkpoints with static scales, which vLLM's compiler fuses with the kernel before on Blackwell.
local function with_static_scales(device, samples)
  local less = aiconfigurator.without_scales.fp8
  local scales_ms = aiconfigurator.quantising(folders[device], less.tables)
  local found = {}
  for _, sample in ipairs(samples) do
    local alone_ms = sample.dtype == "fp8" and scales_ms and scales_ms[sample.m .. " " .. sample.k]
    local left_s = alone_ms and aiconfigurator.left_of(sample.latency_s, alone_ms * 1e-3)
    if left_s then
      local copy = {}
      for key, value in pairs(sample) do copy[key] = value end
      copy.dtype, copy.latency_s = less.dtype, left_s
      found[#found + 1] = copy
    end
  end
  return found
end

-- The samples of a kind ("gemm", "prefill", "decode") on a device, or nil and why.
function M.samples(device, kind)
  local path, why = measured.path(("aiconfigurator/%s/%s"):format(folders[device], files[kind]))
  if not path then return nil, why end
  local samples, source = {}, M.source(device)
  for row in csv.rows(path) do
    local sample = kind == "gemm" and product(row) or attention(row, kind)
    sample.latency_s = tonumber(row.latency) * 1e-3 -- the file has milliseconds
    sample.source = source
    samples[#samples + 1] = sample
  end
  if kind == "gemm" and disturbed[device] then
    samples = undisturbed(samples)
    for _, sample in ipairs(with_static_scales(device, samples)) do samples[#samples + 1] = sample end
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

-- Attention to latents, and on Hopper products with weights of 4 and 8 bits, as TensorRT-LLM runs them: no table has
-- those of vLLM, whose Machete is CUTLASS's kernel for mixed inputs as well. Another runtime's kernels are no
-- measurement of these.
local function of_tensorrt_llm(device)
  local function is_taken(part)
    return device == "H200-141G" and part.op == "gemm" and part.dtype:match "_wo$" or part.name == "latent"
  end
  local profile, has_one = ts.profile { device = device, kernel_set = "modern" }, false
  for _, part in ipairs(profile.parts) do has_one = has_one or is_taken(part) end
  if not has_one then return nil end
  return parts.edited(profile, function(json)
    local kept = {}
    for _, part in ipairs(json.parts) do
      if is_taken(part) then
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
  found[#found + 1] = of_tensorrt_llm(device)
  return parts.documented(parts.merged(device, "vllm", found), "Operators of vLLM; a layer is their sum",
    M.source(device))
end

return M
