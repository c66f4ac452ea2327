-- What a word of the command line means: a path that exists, a name that ships, or the Hugging Face id of what does.

local checkpoint = require "tessera.launch.checkpoint"
local core = require "tessera.core"
local ts = require "tessera"

local M = {}

-- Without what a fine-tuned copy of the same shape has at its end.
local function stem(id)
  id = id:lower()
  local before
  repeat
    before = id
    for _, suffix in ipairs { "-instruct", "-chat", "-it", "-hf", "-base" } do
      if id:sub(-#suffix) == suffix then id = id:sub(1, -#suffix - 1) end
    end
  until id == before
  return id
end

-- The sheet of an id: its own, else that of the same name but for "-Instruct" and the like.
local function by_id(id)
  local alike
  for _, name in ipairs(core.names "models") do
    local own = checkpoint.base_id(core.from_json(core.read_file(core.data_file("models", name))))
    if own and own:lower() == id:lower() then return name end
    if own and stem(own) == stem(id) then alike = alike or name end
  end
  return alike
end

--- A model: a .gguf file, a config.json or the folder that holds it, a name, or a Hugging Face id of a model that
--- ships.
function M.model(name)
  if name:find "%.gguf$" then return ts.weights(name):model() end
  if name:find "%.json$" or name:find "[/\\]" and core.file_kind(name) then return ts.model { config = name } end
  if not name:find "^[%w%-_.]+/[%w%-_.]+$" then
    return name:find "[/\\]" and ts.model { config = name } or ts.model(name)
  end
  local found = by_id(name)
  if found then return ts.model(found) end
  core.raise("not_found", ("there is no file %s, and no model with this Hugging Face id ships%s; download its "
    .. "config.json and give that"):format(name, core.did_you_mean(name:match "/(.*)$":lower(), core.names "models")),
    "--model")
end

return M
