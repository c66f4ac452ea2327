-- Which published models are of one generation, which generations of one family, and how a model's description tells.
--
-- A generation shares data, recipe and tokenizer and differs in size; a family is one maker's line of generations. An
-- architecture is neither: SmolLM2 and Yi are of Llama's, and say `llama` in their config.json, but their vocabularies
-- tell them apart.

local M = {}

-- `tokens_per_word` is of WikiText-2's test split, for harnesses that print the perplexity of a word: its tokens as
-- GPTQ counts them less the 4 % that the harness' own spelling saves, over its 241,211 words.
-- `model_types` and, where one type has several, `vocabulary` (tokens, both ends included) and `context` (trained
-- tokens) are what a config.json says; `column` is the word of the measured tables.
M.generations = {
  { name = "opt", family = "opt", column = "opt", model_types = { "opt" }, tokens_per_word = 1.15 },
  { name = "bloom", family = "bloom", column = "bloom", model_types = { "bloom" } },
  { name = "falcon", family = "falcon", column = "falcon", model_types = { "falcon" } },
  { name = "llama-1", family = "llama", column = "llama1", model_types = { "llama" }, vocabulary = { 32000, 32016 },
    context = { 1, 2048 } },
  { name = "llama-2", family = "llama", column = "llama2", model_types = { "llama" }, vocabulary = { 32000, 32016 },
    context = { 2049, 1e9 } },
  { name = "llama-3", family = "llama", column = "llama3", model_types = { "llama" }, vocabulary = { 128256, 128258 },
    tokens_per_word = 1.15 },
  { name = "yi", family = "yi", column = "yi", model_types = { "llama" }, vocabulary = { 64000, 64000 } },
  { name = "phi-2", family = "phi", column = "phi2", model_types = { "phi" } },
  { name = "phi-3", family = "phi", column = "phi3", model_types = { "phi3" }, vocabulary = { 32000, 100352 } },
  { name = "phi-4", family = "phi", column = "phi4", model_types = { "phi3" }, vocabulary = { 200000, 200100 } },
  { name = "qwen-1.5", family = "qwen", model_types = { "qwen2_moe" } },
  { name = "qwen-2", family = "qwen", model_types = { "qwen2" } },
  { name = "qwen-3", family = "qwen", column = "qwen3", model_types = { "qwen3", "qwen3_moe" } },
  { name = "qwen-3.5", family = "qwen", column = "qwen3.5", model_types = { "qwen3_5", "qwen3_5_moe", "qwen3_next" } },
  { name = "gemma-2", family = "gemma", model_types = { "gemma2" } },
  { name = "gemma-3", family = "gemma", model_types = { "gemma3", "gemma3_text" } },
  { name = "mistral", family = "mistral", model_types = { "mistral" } },
  { name = "mixtral", family = "mistral", model_types = { "mixtral" } },
}

local by_column = {}
for _, generation in ipairs(M.generations) do
  if generation.column then by_column[generation.column] = generation end
end

local by_name = {}
for _, generation in ipairs(M.generations) do by_name[generation.name] = generation end

--- The generation of a name of this file.
function M.named(name) return by_name[name] end

--- The generation of a measured table's word, or of the name of a model of the divergence tables; or nil.
function M.of(column, model)
  if column then return by_column[column] end
  if model:find "^Qwen3%-" then return by_column["qwen3"] end
  return model:find "^Qwen3%.%d%-" and by_column["qwen3.5"] or nil
end

return M
