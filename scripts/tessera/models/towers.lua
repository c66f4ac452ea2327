-- What a model of a folder has beside its text decoder: encoders of pictures and sound, which plans of text leave out.

local core = require "tessera.core"

local towers = { { "vision_config", "vision" }, { "audio_config", "audio" } }

-- Encoders whose feed-forward networks have a gate, so three matrices: transformers, modeling_*.py of each.
local gated = { pixtral = true, qwen2_5_vl = true, qwen2_5_omni = true }

-- Parameters of a transformer's layers by its configuration, four matrices of attention and the network in each; nil
-- where it does not say its sizes.
local function parameters_of(config, model_type)
  local depth = config.num_hidden_layers or config.depth or config.num_layers
  local width, ffn = config.hidden_size or config.embed_dim, config.intermediate_size
  if not ffn and width and config.mlp_ratio then ffn = width * config.mlp_ratio end
  if type(depth) ~= "number" or type(width) ~= "number" or type(ffn) ~= "number" then return nil end
  local num_matrices = (gated[config.model_type] or gated[model_type]) and 3 or 2
  return depth * width * (4 * width + num_matrices * ffn)
end

--- Lines that say which encoders a folder's config.json has and about what they take; "" of others.
return function(folder)
  local path = folder .. "/config.json"
  if core.file_kind(path) ~= "file" then return "" end
  local ok, config = pcall(function() return core.from_json(core.read_file(path)) end)
  if not ok or type(config) ~= "table" then return "" end
  local lines = {}
  for _, tower in ipairs(towers) do
    local own = config[tower[1]]
    if type(own) == "table" then
      local parameters = parameters_of(own, config.model_type)
      local size = parameters and ("about %.2g billion parameters, %s in 16 bits"):format(parameters / 1e9,
        core.format_bytes(parameters * 2)) or "a size that its configuration does not say"
      lines[#lines + 1] = ("%s: text is planned; its %s tower of %s is not counted, so leave room for it\n")
        :format(folder, tower[2], size)
    end
  end
  return table.concat(lines)
end
