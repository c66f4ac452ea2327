-- ts.schemes(): how the weights of a model may be stored, and its KV cache (iServe, section 1: FP16, INT8, INT4 and
-- GPTQ4, each with the cache at 16 or 8 bits, and four prunings, of which the paper names two).

local core = require "tessera.core"

local M = {}

core.document {
  name = "ts.schemes",
  doc = "The schemes of iServe's configurations: name, doc, bitwidth, kv_bitwidth, and of some pruning: method, ratio.",
  returns = "table[]",
}

local function scheme(name, bitwidth, kv_bitwidth, doc, pruning)
  return { name = name, bitwidth = bitwidth, kv_bitwidth = kv_bitwidth, doc = doc, pruning = pruning }
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
  scheme("wanda_2_4", 16, 16, "Wanda, two of four weights kept, stored with their places: 9 of 16 bits",
    { method = "wanda_2_4", ratio = 0.5 }),
  scheme("wanda_4_8", 16, 16, "Wanda, four of eight weights kept; ours, as the paper does not name its third",
    { method = "wanda_4_8", ratio = 0.5 }),
  scheme("llm_pruner_25", 16, 16, "Structures removed, a quarter of the weights of the layers",
    { method = "structured", ratio = 0.25 }),
  scheme("llm_pruner_50", 16, 16, "Half of them; ours, as the paper does not name its fourth",
    { method = "structured", ratio = 0.5 }),
}
local by_name, names = {}, {}
for i, card in ipairs(cards) do by_name[card.name], names[i] = card, card.name end

M.names = names

local function copied(card)
  local copy = {}
  for key, value in pairs(card) do copy[key] = value end
  copy.pruning = card.pruning and { method = card.pruning.method, ratio = card.pruning.ratio } or nil
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
