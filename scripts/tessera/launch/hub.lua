-- Ids of Hugging Face: which checkpoint a model's name stands for, how many bits an id's name tells, and which copies
-- of an id are published at other bits. Names as on https://huggingface.co.

local core = require "tessera.core"

local M = {}

-- What a base model's instruction-tuned sibling is called, where that is not the same checkpoint.
local tuned = {
  { "^(meta%-llama/Llama%-3%.[12]%-%d+B)$", "%1-Instruct" },
  { "^(meta%-llama/Meta%-Llama%-3%-%d+B)$", "%1-Instruct" },
  { "^(meta%-llama/Llama%-2%-%d+b)%-hf$", "%1-chat-hf" },
  { "^(codellama/CodeLlama%-%d+b)%-hf$", "%1-Instruct-hf" },
  { "^(Qwen/Qwen2%.5%-[%d.]+B)$", "%1-Instruct" },
  { "^(Qwen/Qwen2%-[%w.%-]+B)$", "%1-Instruct" },
  { "^(Qwen/Qwen1%.5%-[%w.%-]+B)$", "%1-Chat" },
  { "^(google/gemma%-%d%-%d+b)$", "%1-it" },
  { "^(google/gemma%-3%-%d+b)%-pt$", "%1-it" },
  { "^(deepseek%-ai/deepseek%-coder%-[%d.]+b)%-base$", "%1-instruct" },
  { "^(HuggingFaceTB/SmolLM2%-[%d.]+B)$", "%1-Instruct" },
  { "^(01%-ai/Yi%-%d+B)$", "%1-Chat" },
  { "^(mistralai/Mistral%-.+)%-Base%-(%d+)$", "%1-Instruct-%2" },
  { "^(mistralai/Mi[sx]tral%-[%dx]+B)(%-v0%.%d)$", "%1-Instruct%2" },
  { "^(tiiuae/falcon%-%d+b)$", "%1-instruct" },
  { "^(deepseek%-ai/DeepSeek%-V2[%w%-]*)$", "%1-Chat" },
}

-- Published copies, by the pattern of the id that they were made from; %s is the captured size. int: weights alone in
-- groups of 128 (GPTQ, AWQ, compressed-tensors), w8a8: INT8 weights and activations, fp8: FP8 weights and activations,
-- of several the copy with a scale per token: static scales lose more than plans say of FP8.
local copies = {
  {
    pattern = "^meta%-llama/M?e?t?a?%-?Llama%-3%.1%-(%d+B)%-Instruct$",
    int = { [4] = "RedHatAI/Meta-Llama-3.1-%s-Instruct-quantized.w4a16",
      [8] = "RedHatAI/Meta-Llama-3.1-%s-Instruct-quantized.w8a16" },
    w8a8 = "RedHatAI/Meta-Llama-3.1-%s-Instruct-quantized.w8a8",
    fp8 = "RedHatAI/Meta-Llama-3.1-%s-Instruct-FP8-dynamic",
  },
  {
    pattern = "^meta%-llama/Llama%-3%.3%-(70B)%-Instruct$",
    int = { [4] = "RedHatAI/Llama-3.3-%s-Instruct-quantized.w4a16" },
    w8a8 = "RedHatAI/Llama-3.3-%s-Instruct-quantized.w8a8", fp8 = "RedHatAI/Llama-3.3-%s-Instruct-FP8-dynamic",
  },
  {
    pattern = "^Qwen/Qwen2%.5%-([%d.]+B)%-Instruct$",
    int = { [4] = "Qwen/Qwen2.5-%s-Instruct-GPTQ-Int4", [8] = "Qwen/Qwen2.5-%s-Instruct-GPTQ-Int8" },
  },
  { pattern = "^Qwen/Qwen3%-(%d+B)$", int = { [4] = "Qwen/Qwen3-%s-AWQ" }, fp8 = "Qwen/Qwen3-%s-FP8" },
  { pattern = "^Qwen/Qwen3%-(%d+B%-A%d+B)$", int = { [4] = "Qwen/Qwen3-%s-GPTQ-Int4" }, fp8 = "Qwen/Qwen3-%s-FP8" },
}

-- Models whose own weights are quantised: bits, and what they are called.
local quantised_at_birth = {
  { pattern = "^deepseek%-ai/DeepSeek%-V3", bitwidth = 8, name = "FP8" },
  { pattern = "^deepseek%-ai/DeepSeek%-R1$", bitwidth = 8, name = "FP8" },
  { pattern = "^deepseek%-ai/DeepSeek%-V4", bitwidth = 4, name = "FP8 with FP4 experts" },
  { pattern = "^openai/gpt%-oss", bitwidth = 4, name = "MXFP4" },
}

local function is_id(text) return text and text:find "^[%w%-_][%w%-_.]*/[%w%-_.]+$" ~= nil end
M.is_id = is_id

--- Bits of a weight that the name of an id or file tells; nil where it tells none.
function M.bits_of_name(name) return core.model_id(name:match "[^/]*$").bits end

-- The id that a model's sheet names.
local function sheet_id(model) return (model.source or ""):match "^https://huggingface%.co/([%w%-_.]+/[%w%-_.]+)" end

-- What was trained before instructions: the sheet's, but for families whose plain name is the tuned one's; nil where
-- the sheet names the tuned one.
local function base_id(id)
  if id:find "^Qwen/Qwen3%-" then return id .. "-Base" end
  return core.model_id(id).tuning ~= "instruct" and id or nil
end

--- The instruction-tuned sibling of a base model; the id itself where it has none.
function M.tuned_id(id)
  for _, rule in ipairs(tuned) do
    local found, count = id:gsub(rule[1], rule[2])
    if count == 1 then return found end
  end
  return id
end

--- The name as it was typed, where that is more than the name of the shape; of a folder its path. Else nil.
function M.typed(model) return model.checkpoint end

--- Whether a name is that of a GGUF file.
function M.is_gguf(name) return name ~= nil and name:lower():find "%.gguf$" ~= nil end

--- Whether what was typed is a folder on this machine.
function M.is_folder(typed) return typed ~= nil and typed:sub(1, 1) == "/" end

local function squeezed(name) return (name:lower():gsub("^meta%-", ""):gsub("[^%w]", "")) end

-- Whether a name without an owner is that of a sheet ("llama3.1:8b-instruct-q8_0"), and not of another checkpoint of
-- the same shape ("deepseek-r1:8b", which is Qwen3-8B's).
local function is_name_of(typed, sheet)
  local a, b = squeezed(typed), squeezed(sheet)
  return a:sub(1, #b) == b or b:sub(1, #a) == a
end

--- The checkpoint that a model's name stands for: the folder or the id as it was typed, else the instruction-tuned one
--- of the sheet, unless the name ends in -base; nil where none is known.
function M.id_of(model)
  local id, typed = sheet_id(model), M.typed(model)
  if M.is_folder(typed) then return typed end
  local wants_base = typed and typed:lower():find "%-base$"
  local known = id and M.tuned_id(id)
  if id and wants_base then known = base_id(id) end
  if not is_id(typed) then return (not typed or is_name_of(typed, model.name)) and known or nil end
  for _, own in ipairs { id, known } do
    if own:lower() == typed:lower() then return own end -- as the hub spells it
  end
  return typed
end

--- OWNER/NAME in what was typed with a host before it or a tag or revision after it; nil where there is none.
function M.id_within(typed)
  local id = typed:gsub("^https?://", ""):gsub("^h[%w]+%.co/", ""):gsub("[:@].*$", "")
  return is_id(id) and id or nil
end

--- What clients call the model: the id or the name as it was typed, as servers answer to what they were started with;
--- the model's own name where a file or folder was named, or nothing else.
function M.served_name(model)
  local typed = M.typed(model)
  if not typed or M.is_folder(typed) or M.is_gguf(typed) then return model.name end
  return M.id_within(typed) or typed
end

--- The id that a copy of another format was made from, as far as its name is that of the model's sheet; else nil.
function M.made_from(model)
  local id, typed = sheet_id(model), M.typed(model)
  if not id or not typed or not is_name_of(typed:match "[^/]*$", model.name) then return nil end
  return core.model_id(typed).tuning == "instruct" and M.tuned_id(id) or id
end

--- The published copy of an id at `bitwidth`; kind int, w8a8 or fp8. nil where none is known.
function M.copy_of(id, bitwidth, kind)
  for _, entry in ipairs(copies) do
    local size = id and id:match(entry.pattern)
    local name = size and entry[kind]
    if type(name) == "table" then name = name[bitwidth] end
    if name then return name:format(size) end
  end
end

-- Checkpoints whose own limit is below that of the sheet's sibling, by their config.json.
local contexts = {
  { "^Qwen/Qwen2%.5%-.+%-Instruct", 32768 }, { "^Qwen/Qwen2%-.+%-Instruct", 32768 }, { "^Qwen/Qwen3%-.+%-Base", 32768 },
}

--- The longest request that a model's checkpoint is made for.
function M.context_tokens(model)
  local id = M.id_of(model) or ""
  for _, entry in ipairs(contexts) do
    if id:find(entry[1]) then return math.min(entry[2], model.max_context_tokens) end
  end
  return model.max_context_tokens
end

--- { bitwidth =, name = } of a model whose published weights are quantised; nil where they are of 16 bits.
function M.birth_of(id)
  for _, entry in ipairs(quantised_at_birth) do
    if id and id:find(entry.pattern) then return entry end
  end
end

return M
