-- The measured losses that levels are fitted to, from the folder of measured data: one row per published number.
--
-- A row: generation, family, model, params_b, method, bitwidth, nats (the rise of the loss, ln of the perplexity's
-- ratio), source. `method` is the class that a plan's bitwidth is assumed to be of:
--   gptq     one scale per 128 weights, calibrated: GPTQ, AWQ, OmniQuant, AutoRound
--   rtn      one scale per 128 weights, to the nearest
--   channel  GPTQ with one scale per output channel
--   w8, int8   8-bit weights alone (by divergence: the perplexity moves by chance), and with activations in INT8
--   fp8_*    as fp8_rows.lua names them
-- and names of llama.cpp's types, which link families that nobody measured otherwise. All nats are of a token: what is
-- printed of a word is divided by its tokens.
--
-- Left out: SpinQuant's table (one decimal), perplexities that fell (noise, without a logarithm),
-- rounding to nearest by channel (it diverges on OPT and Llama-3-70B), and baselines that are themselves near 4 bits
-- (GLM-4.5 and 4.7, DeepSeek).

local families = require "quality.fit.families"
local fp8_rows = require "quality.fit.fp8_rows"
local csv = require "fidelity.fit.csv"
local measured = require "lib.measured"

local M = {}

-- Median of ln ratio over divergence where both are above 0.003 nats, as units.lua finds it.
M.rise_per_divergence = 0.87

local calibrated = {
  GPTQ = true, AWQ = true, ["GPTQ-R"] = true, AutoRound = true, ["AutoRound-1k"] = true, OmniQuant = true,
  ["AWQ-HQQ"] = true,
}
local with_activations = {
  SmoothQuant = "int8", ["SmoothQuant-O1"] = "int8", ["SmoothQuant-O2"] = "int8", ["SmoothQuant-O3"] = "int8",
  ["INT8-dynamic"] = "int8", ["FP8-rowwise"] = "fp8_activations",
}
local gguf = { Q4_0 = "q4_0", Q4_K_S = "q4_k_s", Q4_K_M = "q4_k_m", Q3_K_M = "q3_k_m", Q3_K_S = "q3_k_s" }

-- The class and bitwidth of a row of weight_ppl.csv, or nil where it is of none.
local function class_of(row)
  local wbits, abits = tonumber(row.wbits), tonumber(row.abits)
  if abits == 8 and wbits == 8 then return with_activations[row.method], 8 end
  if row.source == "spinquant" then return nil end
  if abits ~= 16 or (row.kvbits or "16") ~= "16" and row.kvbits ~= "" then return nil end
  if gguf[row.method] then return gguf[row.method], 4 end
  if wbits ~= 3 and wbits ~= 4 then return nil end
  if row.group == "128" then
    if calibrated[row.method] then return "gptq", wbits end
    if row.method == "RTN" or row.method == "HQQ" then return "rtn", wbits end
  elseif row.group == "channel" and row.method == "GPTQ" then
    return "channel", wbits
  end
end

local function add(rows, generation, row)
  if not generation or not row.nats or row.nats <= 0 then return end
  row.generation, row.family = generation.name, generation.family
  rows[#rows + 1] = row
end

-- Nats of a token from those of what a perplexity was printed of.
local function of_token(nats, is_of_word, generation)
  if not nats or not is_of_word then return nats end
  return nats / assert(generation.tokens_per_word, generation.name)
end

local function add_perplexities(rows, path)
  for row in csv.rows(path) do
    local method, bitwidth = class_of(row)
    local params_b, generation = tonumber(row.params_b), families.of(row.family)
    if method and params_b and generation then
      add(rows, generation, {
        model = row.model, params_b = params_b, method = method, bitwidth = bitwidth,
        nats = of_token(tonumber(row.ln_ratio), row.dataset:find "word$", generation),
        source = row.source, metric = row.dataset,
      })
    end
  end
end

local function add_fp8(rows)
  for _, row in ipairs(fp8_rows) do
    local source, name, model, params_b, method, base, value, per = unpack(row)
    local generation = families.named(name)
    add(rows, generation, {
      model = model, params_b = params_b, method = method, bitwidth = 8,
      nats = of_token(math.log(value / base), per == "word", generation), source = source, metric = "wikitext2",
    })
  end
end

local uniform_types = {
  q4_0 = "q4_0", q4_K = "q4_k", q4_k_r4 = "q4_k", q3_K = "q3_k", q3_k_r4 = "q3_k", iq4_nl = "iq4", iq4_xs = "iq4",
  q8_0 = "w8",
}

local function baselines(path)
  local list = {}
  for row in csv.rows(path) do list[row.model] = row end
  return list
end

-- Total parameters that a name says (10^9): the number before the first "B".
local function params_of(model) return tonumber(model:match "%-([%d.]+)B") end

local function add_divergences(rows, path, base)
  for row in csv.rows(path) do
    local method, known = uniform_types[row.qtype], base[row.model]
    local is_fine = known and (known.baseline_qtype == "bf16" or known.baseline_qtype == "q8_0")
    -- q8_0 against itself says nothing of 8 bits.
    if method == "w8" and known and known.baseline_qtype ~= "bf16" then is_fine = false end
    if method and is_fine and row.measured == "1" and params_of(row.model) then
      add(rows, families.of(nil, row.model), {
        model = row.model, params_b = params_of(row.model), method = method, bitwidth = method == "w8" and 8 or 4,
        nats = tonumber(row.kld) * M.rise_per_divergence, source = "ik_llama.cpp", metric = "kld",
      })
    end
  end
end

local llamacpp_types = {
  q4_0 = "q4_0", iq4_NL = "iq4", iq4_XS = "iq4", q4_K_S = "q4_k_s", q4_K_M = "q4_k_m", q3_K_M = "q3_k_m",
  q3_K_S = "q3_k_s", q8_0 = "w8",
}
local llamacpp_models = { ["llama-3-8b"] = { "llama3", 8 }, ["llama-2-7b"] = { "llama2", 7 } }

local function add_llamacpp(rows, path)
  for row in csv.rows(path) do
    local known, method = llamacpp_models[row.model], llamacpp_types[row.qtype]
    if known and method then
      local nats = method == "w8" and tonumber(row.kld) * M.rise_per_divergence or tonumber(row.ln_ratio)
      add(rows, families.of(known[1]), {
        model = row.model, params_b = known[2], method = method, bitwidth = method == "w8" and 8 or 4, nats = nats,
        source = "llama.cpp", metric = "wikitext2",
      })
    end
  end
end

-- Paths of the tables of whole models, by name; or nil and why there are no data.
local function tables()
  local found = {}
  for _, name in ipairs { "weight_ppl", "uniform_kld", "tensor_kld_baselines", "llamacpp_kld" } do
    local path, why = measured.path("quality/" .. name .. ".csv")
    if not path then return nil, why end
    found[name] = path
  end
  return found
end

--- Rows by table: weights (integers alone), int8 (with activations), fp8 (either); or nil and why there are no data.
function M.rows()
  local at, why = tables()
  if not at then return nil, why end
  local all, found = {}, { weights = {}, int8 = {}, fp8 = {} }
  add_perplexities(all, at.weight_ppl)
  add_divergences(all, at.uniform_kld, baselines(at.tensor_kld_baselines))
  add_llamacpp(all, at.llamacpp_kld)
  add_fp8(all)
  for _, row in ipairs(all) do
    local list = found[row.method:match "^fp8" or row.method] or found.weights
    list[#list + 1] = row
  end
  return found
end

--- ln(ratio of perplexities) over divergence, where both come from one run and are above 0.003 nats.
function M.rises_per_divergence()
  local at, why = tables()
  if not at then return nil, why end
  local found, base = {}, baselines(at.tensor_kld_baselines)
  local function take(model, kld, rise)
    if kld and rise and kld > 0.003 and kld < 0.5 and rise > 0.003 then
      found[#found + 1] = { family = model, value = rise / kld }
    end
  end
  for row in csv.rows(at.llamacpp_kld) do
    if llamacpp_models[row.model] then take(row.model, tonumber(row.kld), tonumber(row.ln_ratio)) end
  end
  for row in csv.rows(at.uniform_kld) do
    local known = base[row.model]
    if row.measured == "1" and known and known.baseline_qtype == "bf16" and tonumber(row.ppl) then
      take(row.model, tonumber(row.kld), math.log(tonumber(row.ppl) / tonumber(known.ppl)))
    end
  end
  return found
end

local kv_classes = { [8] = 8, [8.5] = 8, [4] = 4, [4.5] = 4, [4.33] = 4, [3] = 3, [3.33] = 3, [3.5] = 3, [2] = 2,
  [2.33] = 2 }

--- Rises of the loss by keys and values alone, both at 8, 4, 3 or 2 bits: { family, model, bitwidth, nats, source }.
function M.kv_rows()
  local path, why = measured.path "quality/kv_cache.csv"
  if not path then return nil, why end
  local rows = {}
  for row in csv.rows(path) do
    local k, v, base, value = tonumber(row.k_bits), tonumber(row.v_bits), tonumber(row.base), tonumber(row.value)
    -- 5,120 tokens are too few: exllamav2's table.
    local few = row.source == "exllamav2"
    if row.metric == "ppl" and k and k == v and kv_classes[k] and base and value and value > base and not few then
      rows[#rows + 1] = {
        family = row.model:match "^[%a]+", model = row.model, bitwidth = kv_classes[k], nats = math.log(value / base),
        source = row.source,
      }
    end
  end
  return rows
end

-- Averages of several tasks, and MMLU: single tasks scatter too much to say anything of a plan.
local averages = {
  avg11 = true, ["avg5-zeroshot"] = true, ["avg8-zeroshot"] = true, ["openllm-v1"] = true, ["openllm-v2"] = true,
  mmlu = true, avg12 = true,
}

--- Recoveries of accuracy of the classes that `rows` have: { generation, family, model, method, bitwidth, recovery }.
function M.accuracy_rows()
  local path, why = measured.path "quality/weight_accuracy.csv"
  if not path then return nil, why end
  local rows = {}
  for row in csv.rows(path) do
    local method, bitwidth = class_of(row)
    local recovery, generation = tonumber(row.recovery), families.of(row.family)
    if method and recovery and generation and averages[row.metric] and bitwidth < 8 then
      rows[#rows + 1] = {
        generation = generation.name, family = generation.family, model = row.model, method = method,
        bitwidth = bitwidth, recovery = recovery, metric = row.metric, source = row.source,
      }
    end
  end
  return rows
end

return M
