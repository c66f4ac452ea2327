-- ts.schemes(): how the weights of a model may be stored, and its KV cache (iServe, section 1: FP16, INT8, INT4 and
-- GPTQ4, each with the cache at 16 or 8 bits, and four prunings, of which the paper names two).

local core = require "tessera.core"

local M = {}

core.document {
  name = "ts.schemes",
  doc = "The schemes of iServe's configurations: name, doc, bitwidth, kv_bitwidth, and of some pruning: method, "
    .. "ratio, perplexity_increase. For cost models: kernels (the scheme of a kernel set's rules), stored_bitwidth, "
    .. "pruned_ratio.",
  returns = "table[]",
}

-- Of the weights that a scheme stores: what kernel sets call them, their bits as stored, and what they have lost.
local function scheme(name, bitwidth, kv_bitwidth, doc, pruning)
  return { name = name, bitwidth = bitwidth, kv_bitwidth = kv_bitwidth, doc = doc, pruning = pruning,
    kernels = name:gsub("_kv8$", ""), stored_bitwidth = bitwidth, pruned_ratio = 0 }
end

-- Half of the weights are zeros, and where the others were takes a bit for each: 9 of 16 bits.
local function sparse(name, increase, doc)
  local card = scheme(name, 16, 16, doc, { method = name, ratio = 0.5, perplexity_increase = increase })
  card.stored_bitwidth = 9
  return card
end

local function structured(name, ratio, doc)
  local card = scheme(name, 16, 16, doc, { method = "structured", ratio = ratio })
  card.pruned_ratio = ratio
  return card
end

local cards = {
  scheme("fp16", 16, 16, "Weights and KV cache in 16 bits"),
  scheme("fp16_kv8", 16, 8, "Weights in 16 bits, KV cache in 8"),
  scheme("int8", 8, 16, "Integers of 8 bits, one scale per output channel"),
  scheme("int8_kv8", 8, 8, "The same, KV cache in 8 bits"),
  scheme("int4", 4, 16, "Integers of 4 bits, one scale per output channel"),
  scheme("int4_kv8", 4, 8, "The same, KV cache in 8 bits"),
  scheme("gptq4", 4, 16, "GPTQ, integers of 4 bits, a scale for each 128 weights"),
  scheme("gptq4_kv8", 4, 8, "The same, KV cache in 8 bits"),
  -- Perplexity of Llama-2-70B, 13B and 7B over that of the whole, less 1 (locuslab/wanda, MIT, README.md).
  sparse("wanda_2_4", { low = 5.16 / 3.12 - 1, mid = 8.27 / 4.57 - 1, high = 11.02 / 5.12 - 1 },
    "Wanda, two of four weights kept, stored with their places: 9 of 16 bits"),
  sparse("wanda_4_8", { low = 4.47 / 3.12 - 1, mid = 6.55 / 4.57 - 1, high = 7.97 / 5.12 - 1 },
    "Wanda, four of eight weights kept; ours, as the paper does not name its third"),
  structured("llm_pruner_25", 0.25, "Structures removed, a quarter of the weights of the layers"),
  structured("llm_pruner_50", 0.5, "Half of them; ours, as the paper does not name its fourth"),
}
local by_name, names = {}, {}
for i, card in ipairs(cards) do by_name[card.name], names[i] = card, card.name end

M.names = names

local function copied(card)
  local copy = {}
  for key, value in pairs(card) do copy[key] = value end
  local pruning = card.pruning
  copy.pruning = pruning and { method = pruning.method, ratio = pruning.ratio,
    perplexity_increase = pruning.perplexity_increase and { low = pruning.perplexity_increase.low,
      mid = pruning.perplexity_increase.mid, high = pruning.perplexity_increase.high } } or nil
  return copy
end

function M.list()
  local list = {}
  for i, card in ipairs(cards) do list[i] = copied(card) end
  return list
end

--- The card of a scheme. @raise not_found with the nearest name
function M.find(name, path)
  local card = type(name) == "string" and by_name[name]
  if card then return card end
  core.raise("not_found", ("%s: no scheme is called '%s'%s"):format(path, tostring(name),
    core.did_you_mean(tostring(name), names)), path)
end

return M
