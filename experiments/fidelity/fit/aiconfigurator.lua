-- GEMM latencies that ai-dynamo/aiconfigurator measured with TensorRT-LLM: a CSV per GPU, a row per (dtype, m, n, k).
-- Shapes of the untouched split are in the samples, and in no fit.
--
-- Products in FP8 were timed with the scale of their activations found and applied. Checkpoints with static scales have
-- that done inside the kernel before: fp8_static is fp8 less what both took alone, as the source's own mode of that
-- name. B200's table has rows of that name which take as long as fp8, 10 us more than BF16 at every small size: just
-- what both take alone, so these find and apply scales as well, and are left out. Of NVFP4 the checkpoints have the
-- scale of a tensor, and quantising is one pass, as applying a scale is: nvfp4 is less that.

local ts = require "tessera"
local measured = require "lib.measured"
local csv, untouched = require "fidelity.fit.csv", require "fidelity.fit.untouched"

local M = {}

M.source = "ai-dynamo/aiconfigurator (Apache-2.0), TensorRT-LLM"

-- Our device -> folder of the source.
M.folders = {
  ["A100-80G"] = "a100_sxm", ["H200-141G"] = "h200_sxm", ["B200-180G"] = "b200_sxm", L40S = "l40s",
}
M.versions = { ["A100-80G"] = "1.0.0", ["H200-141G"] = "1.2.0rc5", ["B200-180G"] = "1.2.0rc5", L40S = "1.0.0" }

-- Where quantising activations was timed apart.
M.has_static = { ["H200-141G"] = true, ["B200-180G"] = true }

-- A server times several libraries' products when it starts and takes the fastest; a table has those of one. NVFP4
-- under TensorRT-LLM takes 14 us at a depth of 4,096 and 22 at 8,192 however few columns there are, and 9 and 13 by the
-- kernels that vLLM chose: at each size the faster of both.
M.tuned = { ["B200-180G"] = { dtype = "nvfp4", folder = "b200_sxm/vllm_0.24.0" } }

-- Which dtypes belong to a kernel set: 16, 8 and 4 bit.
M.dtypes = {
  modern = { "bfloat16", "int8_wo", "int4_wo" },
  modern_w8a8 = { "bfloat16", "sq", "int4_wo" },
  modern_fp8 = { "bfloat16", "fp8", "fp8_static", "fp8_block", "int4_wo", "nvfp4" },
}
-- Of all of them, in the order of a profile's parts.
M.all_dtypes = { "bfloat16", "int8_wo", "int4_wo", "sq", "fp8", "fp8_static", "fp8_block", "nvfp4" }

-- Of which dtype quantising is taken off, what it becomes, and the tables of what quantising is.
M.without_scales = {
  fp8 = { dtype = "fp8_static", tables = { "computescale", "scale_matrix" } },
  nvfp4 = { dtype = "nvfp4", tables = { "scale_matrix" } },
}

-- [m k] what the steps of quantising m x k activations take (ms); nil where nobody timed them.
function M.quantising(folder, tables)
  local all = {}
  for _, name in ipairs(tables) do
    local path = measured.path(("aiconfigurator/%s/%s_perf.csv"):format(folder, name))
    if not path then return nil end
    for row in csv.rows(path) do
      local key = row.m .. " " .. row.k
      all[key] = (all[key] or 0) + tonumber(row.latency)
    end
  end
  return all
end

-- What is left of a product's time without quantising (the same unit), or nil where that is all of it: of few columns
-- the two are measured alike.
function M.left_of(latency, quantising)
  local left = quantising and latency - quantising
  return left and left > 0.01 * latency and left or nil
end

-- [m n k] the products of a dtype in another runtime's table, less quantising (ms).
local function products_of(folder, dtype)
  local path, why = measured.path(("aiconfigurator/%s/gemm_perf.csv"):format(folder))
  if not path then return nil, why end
  local scales_ms, found = M.quantising(folder, M.without_scales[dtype].tables), {}
  for row in csv.rows(path) do
    local scale_ms = row.gemm_dtype == dtype and scales_ms and scales_ms[row.m .. " " .. row.k]
    local left_ms = scale_ms and M.left_of(tonumber(row.latency), scale_ms)
    if left_ms then found[row.m .. " " .. row.n .. " " .. row.k] = left_ms end
  end
  return found
end

-- The samples of a device by dtype, or nil and why.
function M.gemm(device)
  local path, why = measured.path(("aiconfigurator/%s/gemm_perf.csv"):format(M.folders[device]))
  if not path then return nil, why end
  local by_dtype, scales_ms = {}, {}
  for dtype, less in pairs(M.has_static[device] and M.without_scales or {}) do
    scales_ms[dtype] = M.quantising(M.folders[device], less.tables)
  end
  local tuned, others_ms = M.tuned[device], nil
  if tuned then
    others_ms, why = products_of(tuned.folder, tuned.dtype)
    if not others_ms then return nil, why end
  end
  local function add(dtype, row, latency_ms)
    if tuned and dtype == tuned.dtype then
      latency_ms = math.min(latency_ms, others_ms[row.m .. " " .. row.n .. " " .. row.k] or latency_ms)
    end
    local samples = by_dtype[dtype] or {}
    by_dtype[dtype] = samples
    samples[#samples + 1] = {
      op = "gemm", dtype = dtype, m = tonumber(row.m), n = tonumber(row.n), k = tonumber(row.k),
      latency_s = latency_ms * 1e-3, source = ("%s %s"):format(M.source, M.versions[device]),
    }
  end
  for row in csv.rows(path) do
    local less, scale_ms = M.without_scales[row.gemm_dtype], scales_ms[row.gemm_dtype]
    local only_less = less and less.dtype == row.gemm_dtype
    if row.gemm_dtype ~= "fp8_static" and not only_less then add(row.gemm_dtype, row, tonumber(row.latency)) end
    local left_ms = scale_ms and M.left_of(tonumber(row.latency), scale_ms[row.m .. " " .. row.k])
    if left_ms then add(less.dtype, row, left_ms) end
  end
  return by_dtype
end

-- A device's GEMM parts of all dtypes, pairs of n and k held out; nil and why without the data.
function M.profile(device)
  local by_dtype, why = M.gemm(device)
  if not by_dtype then return nil, why end
  local samples = {}
  for _, dtype in ipairs(M.all_dtypes) do
    for _, sample in ipairs((untouched.split(by_dtype[dtype] or {}))) do samples[#samples + 1] = sample end
  end
  return ts.fit_profile {
    device = device, kernel_set = "modern", samples = samples, method = "operator", hold_out = { "n", "k" },
  }
end

return M
