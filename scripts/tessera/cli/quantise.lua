-- `tessera quantise`: a quantised copy of a model on disk, as ts.quantise_model writes it.

local core = require "tessera.core"
local group_size = require "tessera.models.group_size"
local host = require "tessera.host"
local lm = require "tessera.lm"
local on_disk = require "tessera.cli.on_disk"
local weights = require "tessera.weights"
local ts = require "tessera"

local M = {}

-- Writes the vocabulary of a GGUF file into a folder; why not, where no tokenizer.json can be made of it, or nothing
-- here reads vocabularies.
local function write_tokenizer(path, folder)
  local ok, problem = pcall(lm.write_gguf_tokenizer, path, folder)
  if ok then return nil end
  if problem.code ~= "unsupported" then error(problem, 0) end
  return core.error_text(problem)
end

-- Quantises a GGUF file: as a folder that lies beside --out until that is written. And why it has no tokenizer, where
-- the file has one.
local function of_gguf(options)
  if type(options.out) ~= "string" then core.raise("usage", "say where to write: --out FOLDER", "--out") end
  local folder = options.out .. ".from-gguf"
  host.make_folder(folder)
  local path = options.model
  local made, no_tokenizer
  local ok, problem = pcall(function()
    weights.unpack_gguf(path, folder)
    no_tokenizer = write_tokenizer(path, folder)
    options.model = folder
    made = ts.quantise_model(options)
  end)
  for _, name in ipairs { "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    "generation_config.json" } do
    os.remove(folder .. "/" .. name)
  end
  os.remove(folder)
  if not ok then error(problem, 0) end
  return made, no_tokenizer
end

--- @param given table the flags; names: the model's folder
function M.main(given)
  local path = on_disk.path(given, "tessera quantise", 1)
  if (given.bitwidths == nil) == (given.plan == nil) then
    core.raise("usage", "give either --bitwidths or --plan", "--bitwidths")
  end
  local options = { model = path }
  for name, value in pairs(given) do
    if name ~= "names" then options[name] = value end
  end
  if given.bitwidths and #given.bitwidths == 1 then options.bitwidths = given.bitwidths[1] end
  if given.plan then options.plan = ts.load_plan(given.plan) end
  if not given.group_size and (given.granularity or "group") == "group" then
    local known, model = pcall(ts.model, path)
    options.group_size = known and group_size(model) or nil
  end
  local made, no_tokenizer
  if path:lower():find "%.gguf$" then
    made, no_tokenizer = of_gguf(options)
  else
    made = ts.quantise_model(options)
  end
  if host.json then
    host.set_result(made:to_table())
  else
    print(made)
    if no_tokenizer then print("  no tokenizer was written: " .. no_tokenizer) end
    local size = options.group_size
    if size ~= given.group_size then print(("  groups of %d input channels"):format(size)) end
  end
  return 0
end

return M
