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
M.dtypes = { "bfloat16", "fp8", "fp8_block", "int4_wo" }

-- Nemotron's experts have no gate in the newer tables: two matrices, not three.
local ungated = { ["2048x5120"] = true, ["2688x1856"] = true }

-- By name: the table, the device, the dtypes, and what of the table does not count.
--
-- `rows_on_first`: where there are fewer rows than experts, an older version of the tool gives all of them to the
-- experts of the first device, which no router does.
-- `ungated`: hidden and inner sizes of experts without a gate.
-- `kernels`: of a dtype with several, the one that vLLM chooses for experts that are not spread over devices.
--
-- Left out: FP8 of one scale per tensor under vLLM on H200, which takes 8 times as long as its weights take to be
-- read, whatever the size, and longer than BF16, so that nobody serves with it; and MXFP4 and NVFP4, no dtypes here.
M.sources = {
  a100_trtllm = {
    path = "a100_sxm/moe_perf.csv", device = "A100-80G", runtime = "TensorRT-LLM 1.0.0", dtypes = { "bfloat16" },
    rows_on_first = true,
  },
  h200_trtllm = {
    path = "h200_sxm/moe_perf.csv", device = "H200-141G", runtime = "TensorRT-LLM 1.2.0rc5",
    dtypes = { "bfloat16", "fp8", "fp8_block" }, rows_on_first = true,
  },
  -- vLLM has tuned this kernel for some shapes on A100 and not for others, which take 1.5 to 2 times as long. Nothing
  -- of a shape says which, and the fit lies between.
  a100_vllm = {
    path = "a100_sxm/vllm_0.14.0/moe_perf.csv", device = "A100-80G", runtime = "vLLM 0.14.0, Triton",
    dtypes = { "bfloat16" }, rows_on_first = true,
  },
  h200_vllm = {
    path = "h200_sxm/vllm_0.24.0/moe_perf.csv", device = "H200-141G", runtime = "vLLM 0.24.0, Triton, INT4 Marlin",
    dtypes = { "bfloat16", "fp8_block", "int4_wo" }, ungated = ungated,
    kernels = { fp8_block = "vllm_fp8moe_triton_tritonexperts" },
  },
  rtx_pro_6000_vllm = {
    path = "rtx_pro_6000_server/vllm_0.24.0/moe_perf.csv", device = "RTX-PRO-6000",
    runtime = "vLLM 0.24.0, FlashInfer CUTLASS, INT4 Marlin", dtypes = { "bfloat16", "fp8", "int4_wo" },
    ungated = ungated,
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
  if kernel and row.kernel_source ~= kernel then return false end
  return not (source.rows_on_first and num_devices > 1 and routing_of(row) > 0 and tokens * top_k <= num_experts)
end

-- The samples of a source by dtype, or nil and why.
function M.samples(name)
  local source = M.sources[name]
  local path, why = measured.path("aiconfigurator/" .. source.path)
  if not path then return nil, why end
  local by_dtype = {}
  for _, dtype in ipairs(source.dtypes) do by_dtype[dtype] = {} end
  for row in csv.rows(path) do
    local dtype = row.moe_dtype or "bfloat16"
    local samples = by_dtype[dtype]
    if samples and counts(source, row, dtype) then
      samples[#samples + 1] = {
        op = "experts", dtype = dtype, tokens = tonumber(row.num_tokens), hidden_size = tonumber(row.hidden_size),
        inner_size = tonumber(row.inter_size) / tonumber(row.moe_tp_size), num_experts = tonumber(row.num_experts),
        top_k = tonumber(row.topk), routing = routing_of(row), num_devices = tonumber(row.moe_ep_size),
        latency_s = tonumber(row.latency) * 1e-3, -- the file has milliseconds
        source = ("%s, %s"):format(M.source, source.runtime),
      }
    end
  end
  return by_dtype
end

-- What is held out together: all of a model's shapes. INT4 was measured of one model, by its inner sizes.
M.held_out = {
  bfloat16 = { "hidden_size", "num_experts", "top_k" }, fp8 = { "hidden_size", "num_experts", "top_k" },
  fp8_block = { "hidden_size", "num_experts", "top_k" }, int4_wo = { "inner_size" },
}

-- The parts of a source for experts, one for each dtype, as a profile of its device; nil and why without the data.
function M.profile(name)
  local by_dtype, why = M.samples(name)
  if not by_dtype then return nil, why end
  local device, profiles = M.sources[name].device, {}
  for _, dtype in ipairs(M.sources[name].dtypes) do
    profiles[#profiles + 1] = ts.fit_profile {
      device = device, kernel_set = "modern", samples = by_dtype[dtype], method = "experts",
      hold_out = M.held_out[dtype],
    }
  end
  return parts.merged(device, "modern", profiles)
end

return M
