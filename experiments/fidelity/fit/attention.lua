-- Attention of TensorRT-LLM on A100, H200 and B200, as aiconfigurator's tables have it: the attention parts of the
-- profiles of kernel set `modern`.
--
-- One caution on decode with grouped queries: 64 sequences of 4096 tokens on an A100 (8 KV heads) would stream
-- 3.2 TB/s, 1.6 times the data sheet, H200 likewise; per-head kernels reach 0.85 of it. The benchmark's keys and values
-- seem to share memory, so half of the reads hit the L2 cache. The fit follows the table; a served model may be up to
-- 1.6 times slower there. On B200 670 of 10,138 points are above the data sheet, up to 1.65 times, all with more keys
-- and values than its L2 cache of 126 MB holds: the same. No point of vLLM's table is, and no product of either.
--
-- local fit = require "fidelity.fit.attention"; fit.samples("A100-80G", "decode")

local ts = require "tessera"
local measured = require "lib.measured"
local untouched = require "fidelity.fit.untouched"

local M = {}

local aiconfigurator = require "fidelity.fit.aiconfigurator"
local csv = require "fidelity.fit.csv"

local files = { prefill = "context_attention_perf.csv", decode = "generation_attention_perf.csv" }
local phases = { "prefill", "decode" }

-- Whose parts fidelity/attention and its targets judge; B200's say their held-out errors in the profile.
M.devices = { "A100-80G", "H200-141G" }
-- Where attention to latents was measured: DeepSeek's, 1 to 128 of its heads on a GPU.
M.latent_devices = { ["H200-141G"] = true }
local latent_files = { prefill = "context_mla_perf.csv", decode = "generation_mla_perf.csv" }
local latent = { head_dim = 192, width = 512, rope_width = 64 }
M.length_of = { prefill = "tokens", decode = "context_tokens" }

-- All points of a phase on a device, or nil and why.
function M.samples(device, phase)
  local path, why = measured.path("aiconfigurator/" .. aiconfigurator.folders[device] .. "/" .. files[phase])
  if not path then return nil, why end
  return (ts.read_profile_data(path, { format = "aiconfigurator", device = device, kernel_set = "modern" }))
end

local function source_of(device) return aiconfigurator.source .. " " .. aiconfigurator.versions[device] end

-- Points of attention to latents, with the sizes that prices ask by (latent_query of the engine), or nil and why.
function M.latent_samples(device, phase)
  local path, why = measured.path("aiconfigurator/" .. aiconfigurator.folders[device] .. "/" .. latent_files[phase])
  if not path then return nil, why end
  local samples, decode = {}, phase == "decode"
  for row in csv.rows(path) do
    local heads = tonumber(row.num_heads)
    samples[#samples + 1] = {
      op = "attention", name = "latent", phase = phase, dtype = "bfloat16", kv_dtype = row.kv_cache_dtype,
      batch_size = tonumber(row.batch_size), tokens = decode and 1 or tonumber(row.isl),
      context_tokens = decode and tonumber(row.step) or 0, num_heads = heads, num_kv_heads = decode and 1 or heads,
      head_dim = decode and (latent.width + latent.rope_width) / 2 or latent.head_dim, window = 0,
      latency_s = tonumber(row.latency) * 1e-3, source = source_of(device),
    }
  end
  return samples
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
      source = source_of(device),
    }
    if M.latent_devices[device] then
      local latents, problem = M.latent_samples(device, phase)
      if not latents then return nil, problem end
      profiles[#profiles + 1] = ts.fit_profile {
        device = device, kernel_set = "modern", samples = latents, method = "operator", hold_out = { "num_heads" },
      }
    end
  end
  return profiles
end

return M
