-- The weights that a pipeline is to serve: as published, a published quantised copy of them, FP8 made while loading, or
-- a copy that `tessera quantise` makes.

local schemes = require "tessera.launch.schemes"

local M = {}

-- Published copies, by the pattern of the name of what they were made from; %1 is the captured size. Names as on
-- https://huggingface.co. int: weights alone, in groups of 128 (GPTQ or compressed-tensors), w8a8: INT8 weights and
-- activations, fp8: FP8 weights and activations. `instruct`: of the instruction-tuned model, not of the base.
local public = {
  {
    pattern = "^meta%-llama/Llama%-3%.1%-(%d+B)$", instruct = true,
    int = { [4] = "RedHatAI/Meta-Llama-3.1-%s-Instruct-quantized.w4a16",
      [8] = "RedHatAI/Meta-Llama-3.1-%s-Instruct-quantized.w8a16" },
    w8a8 = "RedHatAI/Meta-Llama-3.1-%s-Instruct-quantized.w8a8", fp8 = "RedHatAI/Meta-Llama-3.1-%s-Instruct-FP8",
  },
  {
    pattern = "^meta%-llama/Llama%-3%.3%-(70B)%-Instruct$",
    int = { [4] = "RedHatAI/Llama-3.3-%s-Instruct-quantized.w4a16" },
    w8a8 = "RedHatAI/Llama-3.3-%s-Instruct-quantized.w8a8", fp8 = "RedHatAI/Llama-3.3-%s-Instruct-FP8-dynamic",
  },
  {
    pattern = "^Qwen/Qwen2%.5%-([%d.]+B)$", instruct = true,
    int = { [4] = "Qwen/Qwen2.5-%s-Instruct-GPTQ-Int4", [8] = "Qwen/Qwen2.5-%s-Instruct-GPTQ-Int8" },
  },
  { pattern = "^Qwen/Qwen3%-([%d.]+B)$", int = { [4] = "Qwen/Qwen3-%s-AWQ" }, fp8 = "Qwen/Qwen3-%s-FP8" },
}

-- Models whose own weights are quantised: bits, and what they are called.
local quantised_at_birth = {
  { pattern = "^deepseek%-ai/DeepSeek%-V3", bitwidth = 8, name = "FP8" },
  { pattern = "^openai/gpt%-oss", bitwidth = 4, name = "MXFP4" },
}

local function birth_of(id)
  for _, entry in ipairs(quantised_at_birth) do
    if id and id:find(entry.pattern) then return entry end
  end
end

--- The Hugging Face id that a model's sheet names; nil where it names none.
function M.base_id(model) return (model.source or ""):match "^https://huggingface%.co/([%w%-_.]+/[%w%-_.]+)" end

local function published(id, bitwidth, kind)
  for _, entry in ipairs(public) do
    local size = id and id:match(entry.pattern)
    if size then
      local name = entry[kind]
      if type(name) == "table" then name = name[bitwidth] end
      if name then return name:format(size), entry.instruct end
    end
  end
end

-- Runs of layers: "16,16,8,8".
local function list_of(bitwidths) return table.concat(bitwidths, ",") end

-- What `tessera quantise` makes of the model's own files. `key` tells copies apart.
local function made(layout, engine, id, kind)
  if kind == "w8a8" then
    return {
      kind = "quantise", base = id, key = "w8a8", options = { { "--bitwidths", "8" }, { "--method", "smoothquant" },
        { "--statistics", "statistics.safetensors" } },
      note = "`tessera quantise` makes it by SmoothQuant, for which it needs statistics.safetensors of the model's "
        .. "inputs in this folder (`tessera man statistics`)",
    }
  end
  local options = { { "--bitwidths", list_of(engine.bitwidths) }, { "--granularity", "group" },
    { "--group-size", "128" } }
  return {
    kind = "quantise", base = id, options = options, key = list_of(engine.bitwidths),
    note = ("`tessera quantise` makes it from %s, by rounding to nearest; --method gptq or awq with --statistics lose "
      .. "less (`tessera man statistics`)"):format(id or layout.model.name),
  }
end

--- { kind = "given" | "as_published" | "public" | "online" | "quantise", id =, quantization =, note = }. `given` is
--- what the user says.
function M.choose(layout, engine, given)
  local id = M.base_id(layout.model)
  local _, uniform = schemes.bitwidths(engine)
  local kind = engine.kernel_set.eight_bit
  if given then return { kind = "given", id = given, note = "as given; its bitwidths have to be the plan's" } end
  local birth = birth_of(id)
  if birth and math.min(unpack(engine.bitwidths)) >= birth.bitwidth then
    return { kind = "as_published", id = id, note = ("the weights as published, which are %s; layers that the plan has "
      .. "at more than %d bits are served so too"):format(birth.name, birth.bitwidth) }
  end
  if uniform == 16 then
    return { kind = "as_published", id = id or layout.model.name,
      note = id and "the weights as published" or "the plan's model says not where its weights are; give --checkpoint" }
  end
  local name, instruct = nil, nil
  if uniform then name, instruct = published(id, uniform, uniform == 8 and kind or "int") end
  if name then
    return { kind = "public", id = name, note = ("published at this bitwidth%s; look whether its card says what you "
      .. "need"):format(instruct and " (of the instruction-tuned model)" or "") }
  end
  if uniform == 8 and kind == "fp8" then
    return { kind = "online", id = id or layout.model.name, quantization = "fp8",
      note = "vLLM makes FP8 of the published weights while it loads them" }
  end
  local weights = made(layout, engine, id, uniform == 8 and kind or "int")
  if birth then
    weights.note = ("%s; published in %s, which has to be expanded to 16 bits first"):format(weights.note, birth.name)
  end
  return weights
end

return M
