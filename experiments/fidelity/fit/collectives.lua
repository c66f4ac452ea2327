-- What transfers over the links of a node take. Sums, measured by ai-dynamo/aiconfigurator: kernels of TensorRT-LLM,
-- and of vLLM inside CUDA graphs, over NVSwitch (A100, H200) and over PCIe 5.0 (RTX PRO 6000, server edition), and
-- NCCL's sums, gathers, scatters and exchanges over NVSwitch. Vidur: what a GPU sends to another, on A100.

local ts = require "tessera"
local measured = require "lib.measured"
local csv, parts = require "fidelity.fit.csv", require "fidelity.fit.parts"

local M = {}

M.source = "ai-dynamo/aiconfigurator (Apache-2.0)"

-- By name: the table of sums, the rows of it that count, and the device. Sums of `nccl_from` bytes or more take NCCL:
-- TensorRT-LLM's of that size take as long as NCCL's in the table of that, and vLLM's buffer is full. Those of vLLM do
-- too where more than two devices have PCIe alone.
local mib = 2 ^ 20
M.sources = {
  a100_trtllm = {
    path = "a100_sxm/custom_allreduce_perf.csv", device = "A100-80G", runtime = "TensorRT-LLM 1.0.0",
    nccl_from = 2 * mib, nccl = "a100_sxm/nccl_perf.csv", pairs = true,
  },
  h200_trtllm = {
    path = "h200_sxm/custom_allreduce_perf.csv", device = "H200-141G", runtime = "TensorRT-LLM 1.2.0rc5",
    nccl_from = 8 * mib, nccl = "h200_sxm/nccl_perf.csv",
  },
  b200_trtllm = {
    path = "b200_sxm/custom_allreduce_perf.csv", device = "B200-180G", runtime = "TensorRT-LLM 1.2.0rc5",
    nccl_from = 8 * mib, nccl = "b200_sxm/nccl_perf.csv",
  },
  a100_vllm = {
    path = "a100_sxm/vllm_0.14.0/custom_allreduce_perf.csv", backend = "vllm_graph", device = "A100-80G",
    runtime = "vLLM 0.14.0", nccl_from = 8 * mib, nccl = "a100_sxm/nccl_perf.csv", pairs = true,
  },
  h200_vllm = {
    path = "h200_sxm/vllm_0.24.0/custom_allreduce_perf.csv", backend = "vllm_graph", device = "H200-141G",
    runtime = "vLLM 0.24.0", nccl_from = 8 * mib, nccl = "h200_sxm/nccl_perf.csv",
  },
  b200_vllm = {
    path = "b200_sxm/vllm_0.24.0/custom_allreduce_perf.csv", backend = "vllm_graph", device = "B200-180G",
    runtime = "vLLM 0.24.0", nccl_from = 8 * mib, nccl = "b200_sxm/nccl_perf.csv",
  },
  rtx_pro_6000_vllm = {
    path = "rtx_pro_6000_server/vllm_0.24.0/custom_allreduce_perf.csv", backend = "vllm_graph", device = "RTX-PRO-6000",
    runtime = "vLLM 0.24.0", nccl_from = 8 * mib, most_devices = 2,
  },
}

-- What is fitted, each with the op of its samples and the method.
M.kernels = { "custom", "nccl", "all_gather", "reduce_scatter", "all_to_all", "send_recv" }
local ops = { custom = "all_reduce", nccl = "all_reduce" }

function M.op_of(kernel) return ops[kernel] or kernel end
function M.method_of(kernel) return kernel == "custom" and "all_reduce" or "nccl" end
function M.device(name) return ts.device(M.sources[name].device) end

-- The sums of a source, all of them. Its sizes are numbers of 16-bit elements.
local function sums(source, path)
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

-- Those of the runtime's own kernel, or those of NCCL, which it falls back to.
local function chosen(source, samples, kernel)
  local kept = {}
  for _, sample in ipairs(samples) do
    local own = sample.bytes < source.nccl_from and sample.num_devices <= (source.most_devices or 8)
    if own == (kernel == "custom") then
      if not own then sample.name = "nccl" end
      kept[#kept + 1] = sample
    end
  end
  return kept
end

-- NCCL's table; the mean of repeats. Rows of 8-bit elements take as long as those of 16 bits with as many bytes.
local function of_nccl(path, kernel)
  local op, words = M.op_of(kernel), { all_to_all = "alltoall" }
  local samples, known = {}, {}
  for row in csv.rows(path) do
    if row.op_name == (words[op] or op) and row.nccl_dtype == "half" then
      local key = row.num_gpus .. " " .. row.message_size
      local entry = known[key]
      if not entry then
        entry = { sum = 0, count = 0, sample = {
          op = op, dtype = op == "all_reduce" and "bfloat16" or nil, name = op == "all_reduce" and "nccl" or nil,
          num_devices = tonumber(row.num_gpus), bytes = 2 * tonumber(row.message_size),
          source = ("%s, NCCL %s"):format(M.source, row.version),
        } }
        known[key] = entry
        samples[#samples + 1] = entry.sample
      end
      entry.sum, entry.count = entry.sum + tonumber(row.latency) * 1e-3, entry.count + 1
      entry.sample.latency_s = entry.sum / entry.count
    end
  end
  return samples
end

-- Two A100 on one node; its sizes are bytes.
local function pairs_of(path)
  local samples = {}
  for row in csv.rows(path) do
    if row.devices_per_node == "2" then
      samples[#samples + 1] = {
        op = "send_recv", num_devices = 2, bytes = tonumber(row.size),
        latency_s = tonumber(row["time_stats.send_recv.median"]) * 1e-3, source = "microsoft/vidur (MIT)",
      }
    end
  end
  return samples
end

-- The samples of a kernel by a source, all sums where none is given; nil and why.
function M.samples(name, kernel)
  local source = M.sources[name]
  local none = { code = "no_data", message = ("%s has no %s"):format(name, kernel or "sums") }
  local own_sums = not kernel or kernel == "custom" or (kernel == "nccl" and not source.nccl)
  local file = own_sums and "aiconfigurator/" .. source.path
    or kernel == "send_recv" and (source.pairs and "vidur/a100_pairwise_nvlink_send_recv.csv")
    or kernel ~= "send_recv" and source.nccl and "aiconfigurator/" .. source.nccl
  if not file then return nil, none end
  local path, why = measured.path(file)
  if not path then return nil, why end
  if not own_sums then return kernel == "send_recv" and pairs_of(path) or of_nccl(path, kernel) end
  local samples = sums(source, path)
  return kernel and chosen(source, samples, kernel) or samples
end

local function fitted(name, samples, method)
  return ts.fit_profile {
    device = M.device(name), kernel_set = "modern", samples = samples, method = method, hold_out = { "bytes" },
  }
end

-- The device's part for a kernel, each size left out in turn; nil and why without the data. What is measured of the
-- runtime's own kernel ends where it hands over.
function M.profile(name, kernel)
  local samples, why = M.samples(name, kernel)
  if not samples then return nil, why end
  local profile = fitted(name, samples, M.method_of(kernel))
  if kernel ~= "custom" then return profile end
  return parts.edited(profile, function(json) json.parts[1].range.bytes[2] = M.sources[name].nccl_from - 1 end)
end

-- All that is known of a device under a runtime, transfers of A100's pairs by data sheet where there are none; nil and
-- why without the data.
function M.profiles(name)
  local found = {}
  for _, kernel in ipairs(M.kernels) do
    local profile, why = M.profile(name, kernel)
    if profile then
      found[#found + 1] = profile
    elseif why.code ~= "no_data" then
      return nil, why
    end
  end
  if M.device(name).nvlink_bytes_per_s and not M.sources[name].pairs then
    local donor, why = M.profile("a100_vllm", "send_recv")
    if not donor then return nil, why end
    found[#found + 1] = ts.profile { device = M.device(name), kernel_set = "modern", donor = donor }
  end
  return found
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
  return fitted("h200_vllm", samples, "all_reduce")
end

return M
