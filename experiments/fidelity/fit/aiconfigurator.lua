-- GEMM latencies that ai-dynamo/aiconfigurator measured with TensorRT-LLM: a CSV per GPU, a row per (dtype, m, n, k).

local ts = require "tessera"
local measured = require "tessera.measured"

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

local function split(line)
  local fields = {}
  for field in (line:gsub("\r$", "") .. ","):gmatch "([^,]*)," do fields[#fields + 1] = field end
  return fields
end

-- The samples of a device by dtype, or nil and why.
function M.gemm(device)
  local path, why = measured.path(("aiconfigurator/%s/gemm_perf.csv"):format(M.folders[device]))
  if not path then return nil, why end
  local by_dtype, column = {}, nil
  for line in io.lines(path) do
    local fields = split(line)
    if not column then
      column = {}
      for i, name in ipairs(fields) do column[name] = i end
    else
      local dtype = fields[column.gemm_dtype]
      local samples = by_dtype[dtype] or {}
      by_dtype[dtype] = samples
      samples[#samples + 1] = {
        op = "gemm", dtype = dtype,
        m = tonumber(fields[column.m]), n = tonumber(fields[column.n]), k = tonumber(fields[column.k]),
        latency_s = tonumber(fields[column.latency]) * 1e-3, -- the file has milliseconds
        source = ("%s %s"):format(M.source, fields[column.version]),
      }
    end
  end
  return by_dtype
end

-- A device's GEMM parts of all dtypes, pairs of n and k held out; nil and why without the data.
function M.profile(device)
  local by_dtype, why = M.gemm(device)
  if not by_dtype then return nil, why end
  local samples = {}
  for _, dtype in ipairs { "bfloat16", "int8_wo", "int4_wo", "sq", "fp8", "fp8_block" } do
    for _, sample in ipairs(by_dtype[dtype] or {}) do samples[#samples + 1] = sample end
  end
  return ts.fit_profile {
    device = device, kernel_set = "modern", samples = samples, method = "operator", hold_out = { "n", "k" },
  }
end

return M
