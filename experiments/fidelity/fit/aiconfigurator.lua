-- GEMM latencies that ai-dynamo/aiconfigurator measured with TensorRT-LLM: a CSV per GPU, a row per (dtype, m, n, k).
-- Shapes of the untouched split are in the samples, and in no fit.
--
-- Products in FP8 were timed with the scale of their activations found and applied. Checkpoints with static scales have
-- that done inside the kernel before: fp8_static is fp8 less what both took alone, as the source's own mode of that
-- name.

local ts = require "tessera"
local measured = require "lib.measured"
local csv, untouched = require "fidelity.fit.csv", require "fidelity.fit.untouched"

local M = {}

M.source = "ai-dynamo/aiconfigurator (Apache-2.0), TensorRT-LLM"

-- Our device -> folder of the source.
M.folders = { ["A100-80G"] = "a100_sxm", ["H200-141G"] = "h200_sxm", L40S = "l40s" }
local version = "1.0.0" -- where a table has no column that says it

-- Where quantising activations was timed apart.
M.has_static = { ["H200-141G"] = true }

-- Which dtypes belong to a kernel set: 16, 8 and 4 bit.
M.dtypes = {
  modern = { "bfloat16", "int8_wo", "int4_wo" },
  modern_w8a8 = { "bfloat16", "sq", "int4_wo" },
  modern_fp8 = { "bfloat16", "fp8", "fp8_static", "fp8_block", "int4_wo" },
}

-- [m k] what finding and applying the scale of m x k activations takes (ms); nil where nobody timed it.
local function quantising(folder)
  local all = {}
  for _, name in ipairs { "computescale", "scale_matrix" } do
    local path = measured.path(("aiconfigurator/%s/%s_perf.csv"):format(folder, name))
    if not path then return nil end
    for row in csv.rows(path) do
      local key = row.m .. " " .. row.k
      all[key] = (all[key] or 0) + tonumber(row.latency)
    end
  end
  return all
end

-- The samples of a device by dtype, or nil and why.
function M.gemm(device)
  local path, why = measured.path(("aiconfigurator/%s/gemm_perf.csv"):format(M.folders[device]))
  if not path then return nil, why end
  local by_dtype, scales_ms = {}, M.has_static[device] and quantising(M.folders[device])
  local function add(dtype, row, latency_ms)
    local samples = by_dtype[dtype] or {}
    by_dtype[dtype] = samples
    samples[#samples + 1] = {
      op = "gemm", dtype = dtype, m = tonumber(row.m), n = tonumber(row.n), k = tonumber(row.k),
      latency_s = latency_ms * 1e-3, source = ("%s %s"):format(M.source, row.version or version),
    }
  end
  for row in csv.rows(path) do
    add(row.gemm_dtype, row, tonumber(row.latency))
    local scale_ms = row.gemm_dtype == "fp8" and scales_ms and scales_ms[row.m .. " " .. row.k]
    if scale_ms then add("fp8_static", row, tonumber(row.latency) - scale_ms) end
  end
  return by_dtype
end

-- A device's GEMM parts of all dtypes, pairs of n and k held out; nil and why without the data.
function M.profile(device)
  local by_dtype, why = M.gemm(device)
  if not by_dtype then return nil, why end
  local samples = {}
  for _, dtype in ipairs { "bfloat16", "int8_wo", "int4_wo", "sq", "fp8", "fp8_static", "fp8_block" } do
    for _, sample in ipairs((untouched.split(by_dtype[dtype] or {}))) do samples[#samples + 1] = sample end
  end
  return ts.fit_profile {
    device = device, kernel_set = "modern", samples = samples, method = "operator", hold_out = { "n", "k" },
  }
end

return M
