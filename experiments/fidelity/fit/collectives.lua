-- What sums over the GPUs of a node take, measured by ai-dynamo/aiconfigurator: custom all-reduce kernels of
-- TensorRT-LLM, and of vLLM inside CUDA graphs, over NVSwitch (A100, H200) and over PCIe 5.0 (RTX PRO 6000, server
-- edition).

local ts = require "tessera"
local measured = require "tessera.measured"
local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."
local csv = dofile(folder .. "/csv.lua")

local M = {}

M.source = "ai-dynamo/aiconfigurator (Apache-2.0)"

-- By name: the table, the rows of it that count, and the device.
M.sources = {
  a100_trtllm = { path = "a100_sxm/custom_allreduce_perf.csv", device = "A100-80G", runtime = "TensorRT-LLM 1.0.0" },
  h200_trtllm = {
    path = "h200_sxm/custom_allreduce_perf.csv", device = "H200-141G", runtime = "TensorRT-LLM 1.2.0rc5",
  },
  a100_vllm = {
    path = "a100_sxm/vllm_0.14.0/custom_allreduce_perf.csv", backend = "vllm_graph", device = "A100-80G",
    runtime = "vLLM 0.14.0",
  },
  h200_vllm = {
    path = "h200_sxm/vllm_0.24.0/custom_allreduce_perf.csv", backend = "vllm_graph", device = "H200-141G",
    runtime = "vLLM 0.24.0",
  },
  rtx_pro_6000_vllm = {
    path = "rtx_pro_6000_server/vllm_0.24.0/custom_allreduce_perf.csv", backend = "vllm_graph", device = "RTX-PRO-6000",
    runtime = "vLLM 0.24.0",
  },
}

function M.device(name) return ts.device(M.sources[name].device) end

-- The samples of a source, or nil and why. Its sizes are numbers of 16-bit elements.
function M.samples(name)
  local source = M.sources[name]
  local path, why = measured.path("aiconfigurator/" .. source.path)
  if not path then return nil, why end
  local samples = {}
  for row in csv.rows(path) do
    if not source.backend or row.backend == source.backend then
      samples[#samples + 1] = {
        op = "all_reduce", dtype = "bfloat16", num_devices = tonumber(row.num_gpus),
        bytes = 2 * tonumber(row.message_size),
        latency_s = tonumber(row.latency) * 1e-3, -- the file has milliseconds
        source = ("%s, %s"):format(M.source, source.runtime),
      }
    end
  end
  return samples
end

-- The device's part for sums, each size left out in turn; nil and why without the data.
function M.profile(name)
  local samples, why = M.samples(name)
  if not samples then return nil, why end
  return ts.fit_profile {
    device = M.device(name), kernel_set = "modern", samples = samples, method = "all_reduce", hold_out = { "bytes" },
  }
end

-- One fit for both GPUs on NVSwitch: the A100's buffers as large as its slower links make them.
function M.joint_nvlink()
  local samples, why = M.samples "h200_vllm"
  if not samples then return nil, why end
  local slower = M.device("h200_vllm").nvlink_bytes_per_s / M.device("a100_vllm").nvlink_bytes_per_s
  for _, sample in ipairs(M.samples "a100_vllm") do
    sample.bytes = sample.bytes * slower
    samples[#samples + 1] = sample
  end
  return ts.fit_profile {
    device = "H200-141G", kernel_set = "modern", samples = samples, method = "all_reduce", hold_out = { "bytes" },
  }
end

return M
