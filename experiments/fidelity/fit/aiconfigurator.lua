-- GEMM latencies that ai-dynamo/aiconfigurator measured with TensorRT-LLM: a CSV per GPU, a row per (dtype, m, n, k).
-- Shapes of the untouched split are in the samples, and in no fit.

local ts = require "tessera"
local measured = require "lib.measured"
local csv, untouched = require "fidelity.fit.csv", require "fidelity.fit.untouched"

local M = {}

M.source = "ai-dynamo/aiconfigurator (Apache-2.0), TensorRT-LLM"

-- Our device -> folder of the source.
M.folders = { ["A100-80G"] = "a100_sxm", ["H200-141G"] = "h200_sxm" }

-- Which dtypes belong to a kernel set: 16, 8 and 4 bit.
M.dtypes = {
  modern = { "bfloat16", "int8_wo", "int4_wo" },
  modern_w8a8 = { "bfloat16", "sq", "int4_wo" },
  modern_fp8 = { "bfloat16", "fp8", "fp8_block", "int4_wo" },
}

-- The samples of a device by dtype, or nil and why.
function M.gemm(device)
  local path, why = measured.path(("aiconfigurator/%s/gemm_perf.csv"):format(M.folders[device]))
  if not path then return nil, why end
  local by_dtype = {}
  for row in csv.rows(path) do
    local samples = by_dtype[row.gemm_dtype] or {}
    by_dtype[row.gemm_dtype] = samples
    samples[#samples + 1] = {
      op = "gemm", dtype = row.gemm_dtype, m = tonumber(row.m), n = tonumber(row.n), k = tonumber(row.k),
      latency_s = tonumber(row.latency) * 1e-3, -- the file has milliseconds
      source = ("%s %s"):format(M.source, row.version),
    }
  end
  return by_dtype
end

-- A device's GEMM parts of all dtypes, pairs of n and k held out; nil and why without the data.
function M.profile(device)
  local by_dtype, why = M.gemm(device)
  if not by_dtype then return nil, why end
  local samples = {}
  for _, dtype in ipairs { "bfloat16", "int8_wo", "int4_wo", "sq", "fp8", "fp8_block" } do
    for _, sample in ipairs((untouched.split(by_dtype[dtype] or {}))) do samples[#samples + 1] = sample end
  end
  return ts.fit_profile {
    device = device, kernel_set = "modern", samples = samples, method = "operator", hold_out = { "n", "k" },
  }
end

return M
