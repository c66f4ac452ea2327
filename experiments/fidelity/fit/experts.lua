-- What the experts of a layer take, measured by ai-dynamo/aiconfigurator: the fused kernels of TensorRT-LLM on A100 and
-- H200, and of vLLM also on the RTX PRO 6000 (server edition). A time is that of gate, up, activation and down for all
-- rows. The tables give the inner size of a whole expert, which tensor parallelism then cuts: weights are read at the
-- memory's rate only so.
--
-- With experts spread over devices it is the time of one of them, `num_tokens` being the tokens of all. Loads under
-- "power_law_*" are drawn at random, the device with the most rows comes first and is the one that is measured; under
-- "balanced" experts take turns.
--
-- local experts = require "fidelity.fit.experts"; experts.profile "h200_vllm"

local ts = require "tessera"
local measured = require "lib.measured"
local csv = require "fidelity.fit.csv"
local parts = require "fidelity.fit.parts"

local M = {}

M.source = "ai-dynamo/aiconfigurator (Apache-2.0)"
M.dtypes = { "bfloat16", "fp8", "fp8_block", "int4_wo", "nvfp4", "w4a16_mxfp4", "w4a8_mxfp4_mxfp8" }

-- Nemotron's experts have no gate in the newer tables: two matrices, not three.
local ungated = {
  ["2048x5120"] = true, ["2688x1856"] = true, ["8192x5120"] = true, ["1024x2688"] = true,
}

-- By name: the table, the device, the dtypes, and what of the table does not count.
--
-- `rows_on_first`: where there are fewer rows than experts, an older version of the tool gives all of them to the
-- experts of the first device, which no router does.
-- `ungated`: hidden and inner sizes of experts without a gate.
-- `tuned`: of Triton's kernel, the dtype and block shape by which vLLM looks for a configuration tuned for how many
-- experts a device has, and of which inner size. Without one it takes a guess at them: 1.5 to 2 times as long on A100.
-- `kernels`: of a dtype with several, the one that vLLM chooses for experts that are not spread over devices; false:
-- none.
-- `also`: of a dtype that was measured of few shapes, or of another kernel, other points of the same kernel: MXFP4
-- with activations of 16 bits has a scale for 32 weights where INT4 has one for 128, 4.25 bits for 4.1. FlashInfer's
-- kernels are TensorRT-LLM's. MXFP4 under vLLM on H200 is Marlin, which runs where Triton's kernels for gpt-oss are not
-- there or not asked for; it expands INT4 as it does MXFP4, and of that experts like DeepSeek's were measured, of MXFP4
-- a layer of 896 of which a token picks 16: fitted with it, steps of few requests of gpt-oss come out 0.25 ms shorter.
-- MXFP4 under TensorRT-LLM on H200 is OpenAI's Triton kernels, which its servers of gpt-oss are told to run and vLLM's
-- table has; TensorRT-LLM's own, CUTLASS, take a third longer with prompts and two thirds longer with one row.
--
-- Left out: FP8 of one scale per tensor under vLLM on H200, which takes 8 times as long as its weights take to be
-- read, whatever the size, and longer than BF16, so that nobody serves with it. NVFP4 under TensorRT-LLM on B200: the
-- kernels called min_latency, which are the faster ones at every size.
M.sources = {
  a100_trtllm = {
    path = "a100_sxm/moe_perf.csv", device = "A100-80G", runtime = "TensorRT-LLM 1.0.0", dtypes = { "bfloat16" },
    rows_on_first = true,
  },
  h200_trtllm = {
    path = "h200_sxm/moe_perf.csv", device = "H200-141G", runtime = "TensorRT-LLM 1.2.0rc5",
    dtypes = { "bfloat16", "fp8", "fp8_block", "int4_wo", "w4a16_mxfp4" }, rows_on_first = true,
    kernels = { w4a16_mxfp4 = false },
    also = {
      int4_wo = { source = "h200_cutlass", dtype = "w4a16_mxfp4" },
      w4a16_mxfp4 = { source = "h200_triton", dtype = "w4a16_mxfp4" },
    },
  },
  h200_cutlass = { path = "h200_sxm/moe_perf.csv", runtime = "TensorRT-LLM 1.2.0rc5", rows_on_first = true },
  h200_triton = {
    path = "h200_sxm/vllm_0.24.0/moe_perf.csv", runtime = "vLLM 0.24.0, OpenAI's Triton kernels",
    kernels = { w4a16_mxfp4 = "vllm_gptossmxfp4moe_triton_oaitritonmxfp4expertsmonolithic" },
  },
  b200_trtllm = {
    path = "b200_sxm/moe_perf.csv", device = "B200-180G", runtime = "TensorRT-LLM 1.3.0rc20",
    dtypes = { "fp8", "fp8_block", "nvfp4", "w4a16_mxfp4", "w4a8_mxfp4_mxfp8" }, ungated = ungated,
    kernels = { nvfp4 = "moe_torch_flow_min_latency" },
  },
  a100_vllm = {
    path = "a100_sxm/vllm_0.14.0/moe_perf.csv", device = "A100-80G", runtime = "vLLM 0.14.0, Triton",
    dtypes = { "bfloat16" }, rows_on_first = true, tuned = { bfloat16 = "bfloat16" },
  },
  h200_vllm = {
    path = "h200_sxm/vllm_0.24.0/moe_perf.csv", device = "H200-141G", runtime = "vLLM 0.24.0, Triton, INT4 Marlin",
    dtypes = { "bfloat16", "fp8_block", "int4_wo", "w4a16_mxfp4" }, ungated = ungated,
    tuned = { bfloat16 = "bfloat16", fp8_block = "fp8_w8a8 128x128" },
    kernels = {
      fp8_block = "vllm_fp8moe_triton_tritonexperts",
      w4a16_mxfp4 = false,
    },
    also = { w4a16_mxfp4 = { source = "h200_vllm", dtype = "int4_wo" } },
  },
  b200_vllm = {
    path = "b200_sxm/vllm_0.24.0/moe_perf.csv", device = "B200-180G", runtime = "vLLM 0.24.0, FlashInfer",
    dtypes = { "bfloat16", "fp8", "fp8_block", "nvfp4", "w4a16_mxfp4", "w4a8_mxfp4_mxfp8" }, ungated = ungated,
    kernels = { w4a16_mxfp4 = "vllm_gptossmxfp4moe_flashinfer_trtllm_mxfp4_bf16_trtllmmxfp4expertsmonolithic" },
    also = { w4a8_mxfp4_mxfp8 = { source = "b200_trtllm", dtype = "w4a8_mxfp4_mxfp8" } },
  },
  rtx_pro_6000_vllm = {
    path = "rtx_pro_6000_server/vllm_0.24.0/moe_perf.csv", device = "RTX-PRO-6000",
    runtime = "vLLM 0.24.0, FlashInfer CUTLASS, INT4 Marlin",
    dtypes = { "bfloat16", "fp8", "int4_wo", "w4a16_mxfp4" }, ungated = ungated,
    also = {
      int4_wo = { source = "rtx_pro_6000_vllm", dtype = "w4a16_mxfp4" },
      w4a16_mxfp4 = { source = "rtx_pro_6000_vllm", dtype = "int4_wo" },
    },
  },
}

-- Devices that share the experts, beyond which the tables say little of planning.
local most_devices = 8

function M.device(name) return ts.device(M.sources[name].device) end

local function routing_of(row)
  return row.distribution == "balanced" and 0 or tonumber(row.distribution:match "^power_law_(.*)$")
end

local function counts(source, row, dtype)
  local tokens, top_k, num_experts = tonumber(row.num_tokens), tonumber(row.topk), tonumber(row.num_experts)
  local num_devices = tonumber(row.moe_ep_size)
  if num_devices > most_devices then return false end
  if source.ungated and source.ungated[row.hidden_size .. "x" .. row.inter_size] then return false end
  local kernel = source.kernels and source.kernels[dtype]
  if kernel ~= nil and row.kernel_source ~= kernel then return false end
  return not (source.rows_on_first and num_devices > 1 and routing_of(row) > 0 and tokens * top_k <= num_experts)
end

local function sample_of(row, source, dtype)
  return {
    op = "experts", dtype = dtype, tokens = tonumber(row.num_tokens), hidden_size = tonumber(row.hidden_size),
    inner_size = tonumber(row.inter_size) / tonumber(row.moe_tp_size), num_experts = tonumber(row.num_experts),
    top_k = tonumber(row.topk), routing = routing_of(row), num_devices = tonumber(row.moe_ep_size),
    latency_s = tonumber(row.latency) * 1e-3, -- the file has milliseconds
    source = ("%s, %s"):format(M.source, source.runtime),
  }
end

-- Adds the points of `dtypes` [dtype of the table] = lists.
local function add_samples(source, lists)
  local path, why = measured.path("aiconfigurator/" .. source.path)
  if not path then return nil, why end
  for row in csv.rows(path) do
    local dtype = row.moe_dtype or "bfloat16"
    local list = lists[dtype]
    if list and counts(source, row, dtype) then list[#list + 1] = sample_of(row, source, list.dtype or dtype) end
  end
  return true
end

-- The samples of a source by dtype, or nil and why.
function M.samples(name)
  local source, by_dtype = M.sources[name], {}
  for _, dtype in ipairs(source.dtypes) do by_dtype[dtype] = {} end
  local done, why = add_samples(source, by_dtype)
  if not done then return nil, why end
  for dtype, other in pairs(source.also or {}) do
    local more = { dtype = dtype }
    done, why = add_samples(M.sources[other.source], { [other.dtype] = more })
    if not done then return nil, why end
    for _, sample in ipairs(more) do table.insert(by_dtype[dtype], sample) end
  end
  return by_dtype
end

-- What is held out together: all of a model's shapes. INT4 and MXFP4 were measured of one or two models, by their inner
-- sizes.
local model = { "hidden_size", "num_experts", "top_k" }
M.held_out = {
  bfloat16 = model, fp8 = model, fp8_block = model, nvfp4 = model, int4_wo = { "inner_size" },
  w4a16_mxfp4 = { "inner_size", "num_devices" }, w4a8_mxfp4_mxfp8 = { "inner_size", "num_devices" },
}

-- Ours -> as vLLM 0.27.1 names the files of its configurations (vllm/fused_moe_tuned.csv).
local files = {
  ["A100-80G"] = "NVIDIA_A100-SXM4-80GB", ["A100-40G"] = "NVIDIA_A100-SXM4-40GB",
  ["A800-80G"] = "NVIDIA_A800-SXM4-80GB",
  ["H200-141G"] = "NVIDIA_H200", ["H100-80G"] = "NVIDIA_H100_80GB_HBM3", ["H20-96G"] = "NVIDIA_H20",
}

-- What is tuned by words of `tuned` above on all our devices: a list of { device =, num_experts =, inner_sizes = }.
local function tuned_list(words)
  local path, why = measured.path "vllm/fused_moe_tuned.csv"
  if not path then return nil, why end
  local found = {} -- [device] [num_experts] inner sizes
  for row in csv.rows(path) do
    for device, file in pairs(files) do
      local own = row.dtype .. (row.block_shape and row.block_shape ~= "" and " " .. row.block_shape or "")
      if row.device_name == file and own == words then
        local experts = found[device] or {}
        found[device] = experts
        local number = tonumber(row.num_experts)
        experts[number] = experts[number] or {}
        table.insert(experts[number], tonumber(row.inner_size_per_device))
      end
    end
  end
  local list = {}
  for device, experts in pairs(found) do
    for number, sizes in pairs(experts) do
      table.sort(sizes)
      list[#list + 1] = { device = device, num_experts = number, inner_sizes = sizes }
    end
  end
  table.sort(list, function(a, b)
    if a.device ~= b.device then return a.device < b.device end
    return a.num_experts < b.num_experts
  end)
  return list
end

-- Samples of kernels that are not tuned, and of those that are; the second are none of a dtype without a list.
function M.split(name, dtype, samples)
  local source, plain, tuned = M.sources[name], {}, {}
  local words = source.tuned and source.tuned[dtype]
  if not words then return samples, tuned, {} end
  local list, why = tuned_list(words)
  if not list then return nil, why end
  local is_tuned = {}
  for _, entry in ipairs(list) do
    for _, size in ipairs(entry.device == source.device and entry.inner_sizes or {}) do
      is_tuned[entry.num_experts .. " " .. size] = true
    end
  end
  for _, sample in ipairs(samples) do
    local key = sample.num_experts / sample.num_devices .. " " .. sample.inner_size
    table.insert(is_tuned[key] and tuned or plain, sample)
  end
  return plain, tuned, list
end

-- The parts of a source for experts, one for each dtype and one more for what is tuned of it, as a profile of its
-- device; nil and why without the data.
function M.profile(name)
  local by_dtype, why = M.samples(name)
  if not by_dtype then return nil, why end
  local device, profiles = M.sources[name].device, {}
  local function fit(dtype, samples)
    return ts.fit_profile {
      device = device, kernel_set = "modern", samples = samples, method = "experts", hold_out = M.held_out[dtype],
    }
  end
  for _, dtype in ipairs(M.sources[name].dtypes) do
    local plain, tuned, list = M.split(name, dtype, by_dtype[dtype])
    if not plain then return nil, tuned end
    profiles[#profiles + 1] = fit(dtype, plain)
    if #tuned > 0 then
      profiles[#profiles + 1] = parts.edited(fit(dtype, tuned), function(json)
        local part = json.parts[1]
        part.name, part.tuned = "tuned", list
        part.source = part.source .. "; tuned by the files that vLLM 0.27.1 ships"
      end)
    end
  end
  return parts.merged(device, "modern", profiles)
end

return M
