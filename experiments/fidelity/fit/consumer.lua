-- Operators on GPUs that people own, RTX A6000, 3090 and 4090, as LLMServingSim profiled Llama-3.1-8B on them: BF16
-- products on all three, attention on A6000 and 4090 and of prompts on 3090. The profiles of these boards under `vllm`
-- and `modern`.
--
-- A6000 and 3090 were profiled with eager PyTorch, each operator alone and without launch gaps: products are cuBLAS's,
-- which vLLM calls too; norms and the rotary embedding are eager and are left out. The 4090 was traced in vLLM. What
-- lies between the operators stays with the kernel set's layer overhead on all three.
--
-- So the A6000's decode is a kernel that vLLM does not run: a block per query head that reads its context whole, 32
-- tokens at a time. One request of 32,000 tokens leaves 52 of 84 multiprocessors idle there, and none in vLLM, which
-- splits contexts. Its table holds the model of such kernels; what serves for A6000 and 3090, of whose decode nothing
-- was measured, is the 4090's. Of the 3090 there are prompts without a context.
--
-- The column `kv` of the A6000's decode is of the whole batch: 160 sequences at kv 128 take what no work takes, 2.7 us,
-- and 128 sequences of 2048 tokens each would be read at 13 times the peak bandwidth. So a sequence's context is kv
-- over batch, and rows with less than a token each are left out. Left out as well:
-- - its chunks of a prompt over a context: the prompt-only rows agree with no reading of that column there;
-- - rtx3090_gpt3-6.7b_layers.csv: an LM head of 1.3 us would read its weights at 300 TB/s;
-- - the 4090's steps that mix prompts and decode: an attention part prices one phase.
--
-- local consumer = require "fidelity.fit.consumer"; consumer.profile("A6000", "vllm")

local ts = require "tessera"
local measured = require "lib.measured"
local csv, parts = require "fidelity.fit.csv", require "fidelity.fit.parts"
local untouched = require "fidelity.fit.untouched"

local M = {}

M.devices = { "A6000", "RTX-3090", "RTX-4090" }
M.kernel_sets = { "vllm", "modern", "modern_w8a8", "modern_fp8" }
M.source = "casys-kaist/LLMServingSim (MIT), Llama-3.1-8B"

-- Widths of a product of Llama-3.1-8B, n and k, and which of them tensor parallelism divides.
local products = {
  q_proj = { 4096, 4096, "n" }, k_proj = { 1024, 4096, "n" }, v_proj = { 1024, 4096, "n" },
  qkv_proj = { 6144, 4096, "n" }, o_proj = { 4096, 4096, "k" }, gate_proj = { 14336, 4096, "n" },
  up_proj = { 14336, 4096, "n" }, gate_up_proj = { 28672, 4096, "n" }, down_proj = { 4096, 14336, "k" },
  lm_head = { 128256, 4096, "n" },
}
local num_heads, num_kv_heads, head_dim = 32, 8, 128

-- File, tensor parallelism, column of the size, column of the time.
local layer_files = {
  A6000 = { { "a6000_llama-3.1-8b_tp1_layers.csv", 1 }, { "a6000_llama-3.1-8b_tp2_layers.csv", 2 } },
  ["RTX-3090"] = { { "rtx3090_llama-3.1-8b_tp1_layers.csv", 1 }, { "rtx3090_llama-3.1-8b_tp2_layers.csv", 2 } },
  ["RTX-4090"] = { { "rtx4090_llama-3.1-8b_dense.csv", 1 }, { "rtx4090_llama-3.1-8b_per_sequence.csv", 1 } },
}

-- Calls give the layer, its tokens and seconds, and the degree of tensor parallelism of its file.
local function layer_rows(device)
  local rows = {}
  for _, file in ipairs(layer_files[device]) do
    local path, why = measured.path("a6000/" .. file[1])
    if not path then return nil, why end
    for row in csv.rows(path) do
      rows[#rows + 1] = {
        layer = row.layer, tokens = tonumber(row.tokens or row.sequences), degree = file[2],
        latency_s = tonumber(row.latency_us or row.time_us) * 1e-6,
      }
    end
  end
  return rows
end

-- One sample for each product: operators of one shape (q and o, k and v, gate and up) are repeats, whose mean counts.
local function products_of(rows)
  local samples, known = {}, {}
  for _, row in ipairs(rows) do
    local widths = products[row.layer]
    if widths then
      local n = widths[3] == "n" and widths[1] / row.degree or widths[1]
      local k = widths[3] == "k" and widths[2] / row.degree or widths[2]
      local key = ("%d %d %d"):format(row.tokens, n, k)
      local sample = known[key]
      if not sample then
        sample = { op = "gemm", dtype = "bfloat16", m = row.tokens, n = n, k = k, latency_s = 0, repeats = 0 }
        known[key], samples[#samples + 1] = sample, sample
      end
      sample.latency_s = (sample.latency_s * sample.repeats + row.latency_s) / (sample.repeats + 1)
      sample.repeats = sample.repeats + 1
    end
  end
  for _, sample in ipairs(samples) do sample.repeats = nil end
  return samples
end

local function attention(phase, degree, batch_size, tokens, context_tokens, latency_s)
  return {
    op = "attention", phase = phase, dtype = "bfloat16", kv_dtype = "bfloat16", batch_size = batch_size,
    tokens = tokens, context_tokens = context_tokens, num_heads = num_heads / degree,
    num_kv_heads = num_kv_heads / degree, head_dim = head_dim, window = 0, latency_s = latency_s,
  }
end

local attention_of = {}

-- Prompts alone, from the layers.
local function prompts(device)
  local rows, why = layer_rows(device)
  if not rows then return nil, why end
  local samples = {}
  for _, row in ipairs(rows) do
    if row.layer == "attn" then
      samples[#samples + 1] = attention("prefill", row.degree, 1, row.tokens, 0, row.latency_s)
    end
  end
  return samples
end

attention_of["RTX-3090"] = function() return prompts "RTX-3090" end

-- Decode from the table of attention, where points stand twice: the first counts.
function attention_of.A6000(phase)
  if phase == "prefill" then return prompts "A6000" end
  local samples, known = {}, {}
  for degree = 1, 2 do
    local path, why = measured.path(("a6000/a6000_llama-3.1-8b_tp%d_attention.csv"):format(degree))
    if not path then return nil, why end
    for row in csv.rows(path) do
      local sequences = tonumber(row.batch)
      local context_tokens = math.floor(tonumber(row.kv) / sequences)
      local key = ("%d %d %d"):format(degree, sequences, context_tokens)
      if row.phase == "decode" and context_tokens > 0 and not known[key] then
        known[key] = true
        samples[#samples + 1] = attention(
          phase, degree, sequences, 1, context_tokens, tonumber(row.median_ms) * 1e-3)
      end
    end
  end
  return samples
end

attention_of["RTX-4090"] = function(phase)
  local path, why = measured.path "a6000/rtx4090_llama-3.1-8b_attention.csv"
  if not path then return nil, why end
  local samples = {}
  for row in csv.rows(path) do
    local chunk, sequences, seconds = tonumber(row.prefill_chunk), tonumber(row.n_decode), tonumber(row.time_us) * 1e-6
    if phase == "prefill" and sequences == 0 and chunk > 0 then
      samples[#samples + 1] = attention(phase, 1, 1, chunk, tonumber(row.kv_prefill), seconds)
    elseif phase == "decode" and chunk == 0 and sequences > 0 then
      samples[#samples + 1] = attention(phase, 1, sequences, 1, tonumber(row.kv_decode), seconds)
    end
  end
  return samples
end

-- All samples of a kind ("gemm", "prefill", "decode"), or nil and why.
function M.samples(device, kind)
  if kind == "gemm" then
    local rows, why = layer_rows(device)
    if not rows then return nil, why end
    return products_of(rows)
  end
  if kind == "decode" and device == "RTX-3090" then
    return nil, { code = "no_data", message = "nobody measured the attention of decode on " .. device }
  end
  return attention_of[device](kind)
end

-- What is held out of a kind's fit. Only the geometry of one model was measured: of attention it is whole lengths of
-- prompts and contexts together.
M.hold_out = {
  gemm = { "n", "k" }, prefill = { "tokens", "context_tokens" }, decode = { "batch_size", "context_tokens" },
}

-- A fit of one kind on a device, or nil and why. Nothing that is kept back is among the samples.
local function fit_of(device, kind)
  local samples, why = M.samples(device, kind)
  if not samples then return nil, why end
  return ts.fit_profile {
    device = device, kernel_set = "vllm", samples = untouched.split(samples), method = "operator",
    hold_out = M.hold_out[kind], folds = 5, source = M.source,
  }
end

-- What vLLM decodes with on A6000 and 3090, as traced on the 4090, by data sheet.
local function carried_decode(device)
  local donor, why = fit_of("RTX-4090", "decode")
  if not donor then return nil, why end
  return ts.profile { device = device, kernel_set = "vllm", donor = donor }
end

-- The parts of a device that serve, or nil and why.
function M.fitted(device)
  local found = {}
  for _, kind in ipairs { "gemm", "prefill", "decode" } do
    local make = kind == "decode" and device ~= "RTX-4090" and carried_decode or fit_of
    local profile, why = make(device, kind)
    if not profile then return nil, why end
    found[#found + 1] = profile
  end
  return found
end

-- A device's profile under a kernel set from its fitted parts, or nil and why.
function M.profile(device, kernel_set, fitted)
  local own = parts.merged(device, kernel_set, fitted)
  if device ~= "RTX-4090" then
    return parts.documented(own,
      "Products and prompts' attention in BF16; decode's is the RTX 4090's, by data sheet; other bitwidths by the "
      .. "kernel rules' ratios", M.source)
  elseif kernel_set == "vllm" then
    return parts.documented(own, "Products and attention in BF16; other bitwidths by the kernel rules' ratios",
      M.source)
  end
  local whole, why = require "fidelity.fit.ada".with_products(own, device, kernel_set)
  if not whole then return nil, why end
  return parts.documented(whole, "Products and attention in BF16; other dtypes are the L40S's, by data sheet", M.source)
end

-- All of them by file name, without ".json", or nil and why.
function M.profiles()
  local profiles = {}
  for _, device in ipairs(M.devices) do
    local fitted, why = M.fitted(device)
    if not fitted then return nil, why end
    for _, kernel_set in ipairs(M.kernel_sets) do
      profiles[device .. "." .. kernel_set], why = M.profile(device, kernel_set, fitted)
      if why then return nil, why end
    end
  end
  return profiles
end

return M
