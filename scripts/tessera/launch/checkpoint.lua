-- The weights that a pipeline is to serve: as published, a published quantised copy of them, FP8 made while loading, or
-- a copy that `tessera quantise` makes; always of the checkpoint that the model's name stands for.

local core = require "tessera.core"
local group_size = require "tessera.models.group_size"
local hub = require "tessera.launch.hub"
local schemes = require "tessera.launch.schemes"

local M = {}

-- Runs of layers: "16,16,8,8".
local function list_of(bitwidths) return table.concat(bitwidths, ",") end

local function refuse(message, ...) core.refuse("plan:export.checkpoint", message:format(...)) end

-- Bits of a weight by the config.json of a folder on this machine: 16 without quantization_config; nil where the folder
-- is not here, or layers differ.
local function bits_of_folder(folder)
  if core.file_kind(folder .. "/config.json") ~= "file" then return nil end
  local format, bits = core.stored_format(folder)
  return bits or not format and 16 or nil
end

-- Bits of a weight of what was named, as far as they are known here.
local function bits_of(name)
  local born = hub.birth_of(name)
  return bits_of_folder(name) or hub.bits_of_name(name) or (born and born.bitwidth)
end

-- Formats of checkpoints that vLLM does not load, with what does.
local others = {
  gguf = "GGUF, which llama.cpp runs (--launch llama.cpp --checkpoint FILE.gguf)",
  mlx = "in the format of MLX, which runs on Apple's GPUs",
  exl2 = "EXL2, which ExLlamaV2 runs", exl3 = "EXL3, which ExLlamaV3 runs",
}

-- Which of these a name tells; nil where none.
local function of_others(name)
  if hub.is_gguf(name) then return others.gguf end
  if hub.is_folder(name) then return nil end
  local format = core.model_id(name).format or core.model_id(name:match("[^/]*$"):gsub(":.*", "")).format
  return format and others[format:match "^%w+"]
end

-- A checkpoint that was named outright, by --checkpoint or as the model: it is served as it is, or not at all.
local function named(engine, name, bits, note, way_out)
  local _, uniform = schemes.bitwidths(engine)
  if bits == 16 and uniform == 8 and engine.kernel_set.eight_bit == "fp8" and not hub.is_gguf(name) then
    return { kind = "online", id = name, quantization = "fp8", note = note .. "; vLLM makes FP8 of it while it loads" }
  end
  if bits and bits ~= uniform then
    refuse("%s has weights of %g bits, and the plan has %s: %s", name, bits, schemes.text(engine), way_out(bits))
  end
  return { kind = "given", id = name, note = note }
end

--- What --checkpoint names. @raise where its bits are known and not the plan's
function M.given(engine, name)
  local bits = bits_of(name)
  if name:find "^%-" or name:find "%c" then
    refuse("'%s' is neither an id of Hugging Face nor a path", (name:gsub("%c", "?")))
  end
  return named(engine, name, bits, bits and "as given" or "as given; its bitwidths have to be the plan's",
    function(of)
      return ("plan with --bitwidths %g, name a checkpoint with the plan's bits, or leave --checkpoint out"):format(of)
    end)
end

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
    { "--group-size", tostring(group_size(layout.model)) } }
  return {
    kind = "quantise", base = id, options = options, key = list_of(engine.bitwidths),
    note = ("`tessera quantise` makes it from %s, by rounding to nearest; --method gptq or awq with --statistics lose "
      .. "less (`tessera man statistics`)"):format(id or layout.model.name),
  }
end

-- Weights as published, where they are what the plan has; nil where not.
local function as_published(layout, engine, id, birth)
  local _, uniform = schemes.bitwidths(engine)
  if birth and math.min(unpack(engine.bitwidths)) >= birth.bitwidth then
    return { kind = "as_published", id = id, note = ("the weights as published, which are %s; layers that the plan has "
      .. "at more than %d bits are served so too"):format(birth.name, birth.bitwidth) }
  end
  if uniform == 16 then
    return { kind = "as_published", id = id or layout.model.name,
      note = id and "the weights as published" or "the plan's model says not where its weights are; give --checkpoint" }
  end
end

--- { kind = "given" | "as_published" | "public" | "online" | "quantise", id =, quantization =, note = }. `given` is
--- what the user says. @raise where a checkpoint was named whose bits are not the plan's
function M.choose(layout, engine, given)
  local id, typed = given or hub.id_of(layout.model), hub.typed(layout.model)
  local typed_id = typed and hub.id_within(typed)
  local name = id or typed_id and typed
  local other = name and of_others(name)
  if other then
    local source = not given and hub.made_from(layout.model)
    refuse("%s is %s; for vLLM name the model that it was made from%s", name, other,
      source and " (--model " .. source .. ")" or "")
  end
  if given then return M.given(engine, given) end
  if not id and typed then
    refuse("'%s' is a checkpoint whose id is not known here; name the model as %s, or give --checkpoint", typed,
      typed_id or "OWNER/NAME")
  end
  local bits, format = id and hub.bits_of_name(id), nil
  if hub.is_folder(id) then bits, format = layout.model.checkpoint_bits, layout.model.checkpoint_format end
  if bits and bits < 16 or format then
    return named(engine, id, bits, "the copy that was named", function(of)
      return ("plan with --bitwidths %g, or name the model that it was made from"):format(of)
    end)
  end
  local _, uniform = schemes.bitwidths(engine)
  local kind = engine.kernel_set.eight_bit
  local birth = hub.birth_of(id)
  local published = as_published(layout, engine, id, birth)
  if published then return published end
  local can_make = uniform == 8 and kind == "fp8"
  local is_named = can_make and hub.is_id(typed) -- an id of the hub that vLLM makes FP8 of itself
  local copy = uniform and not is_named and hub.copy_of(id, uniform, uniform == 8 and kind or "int")
  if copy then
    return { kind = "public", id = copy, note = ("a published copy of %s at this bitwidth; look whether its card says "
      .. "what you need"):format(id) }
  end
  if can_make then
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
