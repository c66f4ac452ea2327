-- Attention of TensorRT-LLM on A100 and H200, as aiconfigurator's tables have it: the attention parts of the profiles
-- of kernel set `modern`.
--
-- One caution on decode with grouped queries: 64 sequences of 4096 tokens on an A100 (8 KV heads) would stream
-- 3.2 TB/s, 1.6 times the data sheet, H200 likewise; per-head kernels reach 0.85 of it. The benchmark's keys and values
-- seem to share memory, so half of the reads hit the L2 cache. The fit follows the table; a served model may be up to
-- 1.6 times slower there.
--
-- local fit = require "fidelity.fit.attention"; fit.samples("A100-80G", "decode")

local ts = require "tessera"
local measured = require "lib.measured"
local untouched = require "fidelity.fit.untouched"

local M = {}

local folders = { ["A100-80G"] = "a100_sxm", ["H200-141G"] = "h200_sxm" }
local files = { prefill = "context_attention_perf.csv", decode = "generation_attention_perf.csv" }
local phases = { "prefill", "decode" }

M.devices = { "A100-80G", "H200-141G" }
M.length_of = { prefill = "tokens", decode = "context_tokens" }

-- All points of a phase on a device, or nil and why.
function M.samples(device, phase)
  local path, why = measured.path("aiconfigurator/" .. folders[device] .. "/" .. files[phase])
  if not path then return nil, why end
  return (ts.read_profile_data(path, { format = "aiconfigurator", device = device, kernel_set = "modern" }))
end

-- { "bfloat16" = samples, "bfloat16, fp8 KV" = samples, ... } and the names in order.
function M.by_dtype(samples)
  local parts, names = {}, {}
  for _, sample in ipairs(samples) do
    local kv = sample.kv_dtype
    local name = sample.dtype .. (kv and kv ~= "" and kv ~= sample.dtype and ", " .. kv .. " KV" or "")
    if not parts[name] then parts[name], names[#names + 1] = {}, name end
    table.insert(parts[name], sample)
  end
  table.sort(names)
  return parts, names
end

-- A device's attention parts, whole batch sizes held out, without the geometries of the untouched split; nil and why
-- without the data.
function M.profiles(device)
  local profiles = {}
  for _, phase in ipairs(phases) do
    local samples, why = M.samples(device, phase)
    if not samples then return nil, why end
    profiles[#profiles + 1] = ts.fit_profile {
      device = device, kernel_set = "modern", samples = untouched.split(samples), method = "operator",
      hold_out = { "batch_size" },
      source = "ai-dynamo/aiconfigurator (Apache-2.0), TensorRT-LLM "
        .. (device == "A100-80G" and "1.0.0" or "1.2.0rc5"),
    }
  end
  return profiles
end

return M
