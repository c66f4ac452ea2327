-- A GPU left out: which tables of products and of attention there are, by runtime, and which other GPUs' forms its 20
-- points may scale. Shapes of the untouched split are in none of the samples.
--
-- Every GPU with a table by operator takes part: A100, H200 and RTX PRO 6000 by dtype, under TensorRT-LLM and vLLM;
-- A6000, 3090 and 4090 in BF16. V100, T4, L4 and the A100 with 40 GB have tables of whole layers only:
-- experiments/fidelity/helix.lua leaves these out.
--
-- local left_out = require "fidelity.fit.left_out"
-- left_out.samples("trtllm", "H200-141G", "gemm", "fp8_block")

local ts = require "tessera"
local function source(name) return require("fidelity.fit." .. name) end
local aiconfigurator, attention, vllm, consumer = source "aiconfigurator", source "attention", source "vllm",
  source "consumer"
local untouched = source "untouched"

local M = {}

M.devices = {
  trtllm = { "A100-80G", "H200-141G" }, vllm = { "A100-80G", "H200-141G", "RTX-PRO-6000" },
  llmservingsim = consumer.devices,
}
M.sources = { "trtllm", "vllm", "llmservingsim" }

-- Most that a donor is fitted to, and that errors are taken over: enough for either.
local most = 3000

-- At most `count` of a list, evenly.
function M.thinned(list, count)
  local result, stride = {}, math.ceil(#list / (count or most))
  for i = 1, #list, stride do result[#result + 1] = list[i] end
  return result
end

local function kernel_set(runtime, dtype)
  if runtime ~= "trtllm" then return "vllm" end
  return dtype:match "^fp8" and "modern_fp8" or dtype == "sq" and "modern_w8a8" or "modern"
end
M.kernel_set = kernel_set

local function by_dtype(samples)
  local found = {}
  for _, sample in ipairs(samples) do
    found[sample.dtype] = found[sample.dtype] or {}
    table.insert(found[sample.dtype], sample)
  end
  return found
end

local tables = {}

-- { [dtype] = samples } of a device's products, or nil and why.
local function products(runtime, device)
  local key = runtime .. " " .. device
  if tables[key] then return tables[key] end
  local found, why
  if runtime == "trtllm" then
    found, why = aiconfigurator.gemm(device)
  else
    local samples
    samples, why = (runtime == "vllm" and vllm or consumer).samples(device, "gemm")
    found = samples and by_dtype(samples)
  end
  tables[key] = found
  return found, why
end

-- Attention of 16 bits over the whole context, head size 128: what all of them were measured with.
local function attention_of(runtime, device, phase)
  local key = table.concat({ runtime, device, phase }, " ")
  if tables[key] then return tables[key] end
  local all, why
  if runtime == "trtllm" then
    all, why = attention.samples(device, phase)
  else
    all, why = (runtime == "vllm" and vllm or consumer).samples(device, phase)
  end
  if not all then return nil, why end
  local found = {}
  for _, sample in ipairs(all) do
    local kv = sample.kv_dtype or sample.dtype
    local is_plain = sample.dtype == "bfloat16" and (kv == "" or kv == "bfloat16") and (sample.window or 0) == 0
    if is_plain and sample.head_dim == 128 then found[#found + 1] = sample end
  end
  tables[key] = found
  return found
end

-- The samples of a device's products of a dtype, or of attention (op "prefill", "decode"), that fits may see, and those
-- that are kept back; nil and why.
function M.samples(runtime, device, op, dtype)
  if op ~= "gemm" then
    local found, why = attention_of(runtime, device, op)
    if not found then return nil, why end
    return untouched.split(found)
  end
  local found, why = products(runtime, device)
  if not found then return nil, why end
  if not found[dtype] then return nil, { code = "no_data", message = device .. " has no table of " .. dtype } end
  return untouched.split(found[dtype])
end

local least_for_a_form = 1000 -- points; the RTX PRO 6000's block FP8 has 518 of two matrices

-- Where forms come from: the other GPUs of the source, in the dtype, else in 16 bits; BF16 products that vLLM calls for
-- GPUs that PyTorch was profiled on, whose products are the same library's.
local function donors_of(runtime, device, op, dtype)
  local list = {}
  for _, other in ipairs(M.devices[runtime]) do
    local of_dtype = other ~= device and M.samples(runtime, other, op, dtype)
    local is_thin = op == "gemm" and runtime ~= "llmservingsim" and of_dtype and #of_dtype < least_for_a_form
    if other ~= device and (of_dtype or op == "gemm") then
      list[#list + 1] = { runtime, other, of_dtype and not is_thin and dtype or "bfloat16" }
    end
  end
  if runtime == "llmservingsim" then list[#list + 1] = { "vllm", "A100-80G", "bfloat16" } end
  return list
end

local forms = {}

-- A device's model, fitted once. `samples`: of these, default: those that fits may see.
function M.form(runtime, device, op, dtype, target_set, samples)
  local key = table.concat({ runtime, device, op, dtype, target_set }, " ")
  if not forms[key] then
    forms[key] = ts.fit_profile {
      device = device, kernel_set = target_set, method = "operator", folds = 2,
      samples = M.thinned(samples or (M.samples(runtime, device, op, dtype))),
      hold_out = op == "gemm" and { "n", "k" } or { "num_heads", "num_kv_heads", "batch_size" },
    }
  end
  return forms[key]
end

local num_points = 20
local most_candidates = 1500 -- of a table: sizes to choose from

-- The 20 samples to measure by a design of ts.calibration_points, which looks at no time.
function M.designed(samples, device, design)
  local candidates, list = M.thinned(samples, most_candidates), {}
  local by_size = {}
  local function key(sample)
    if sample.op == "gemm" then return ("%d %d %d"):format(sample.m, sample.n, sample.k) end
    return ("%d %d %d %d %d"):format(
      sample.batch_size, sample.tokens, sample.context_tokens, sample.num_heads, sample.num_kv_heads)
  end
  for _, sample in ipairs(candidates) do by_size[key(sample)] = sample end
  for i, point in ipairs(ts.calibration_points {
    device = device, count = num_points, design = design, candidates = candidates,
  }) do
    list[i] = by_size[key(point)]
  end
  return list
end

-- Calibrated on `few`: of all donors the one that predicts each of them best without it. Returns the profile, its
-- errors, and the donor's name.
function M.calibrate(runtime, device, op, dtype, few)
  local set = kernel_set(runtime, dtype)
  local best, best_errors, name
  for _, donor in ipairs(donors_of(runtime, device, op, dtype)) do
    local profile, errors = ts.calibrate {
      device = device, kernel_set = set, samples = few, method = "operator",
      donor = M.form(donor[1], donor[2], op, donor[3], set),
    }
    if not best or errors.after.mean < best_errors.after.mean then
      best, best_errors = profile, errors
      name = errors.donor and ("%s %s"):format(donor[2], donor[3]) or "none"
    end
  end
  return best, best_errors, name
end

local function predicted_s(profile, sample)
  if sample.op == "gemm" then
    return (profile:gemm_s { dtype = sample.dtype, m = sample.m, n = sample.n, k = sample.k })
  end
  return (profile:attention_s {
    phase = sample.phase, dtype = sample.dtype, batch_size = sample.batch_size, tokens = sample.tokens,
    context_tokens = sample.context_tokens, num_heads = sample.num_heads, num_kv_heads = sample.num_kv_heads,
    head_dim = sample.head_dim,
  })
end

-- The errors of a profile on samples, sorted. `skip`: a set of samples that it was calibrated on.
function M.errors(profile, samples, skip)
  local errors = {}
  for _, sample in ipairs(samples) do
    if not (skip and skip[sample]) then
      errors[#errors + 1] = math.abs(predicted_s(profile, sample) / sample.latency_s - 1)
    end
  end
  table.sort(errors)
  return errors
end

return M
