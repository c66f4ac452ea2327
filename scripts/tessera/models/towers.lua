-- What a model of a folder has beside its text decoder: encoders of pictures and sound, which plans of text leave out.

local core = require "tessera.core"

local towers = { { "vision_config", "vision" }, { "audio_config", "audio" } }

-- Encoders whose feed-forward networks have a gate, so three matrices: transformers, modeling_*.py of each.
local gated = { glm4v = true, ovis2 = true, pixtral = true, qwen2_5_vl = true, qwen2_5_omni = true }

-- The first of several spellings of a size.
local function size_of(config, ...)
  for _, key in ipairs { ... } do
    if type(config[key]) == "number" then return config[key] end
  end
end

-- Matrices of what joins places of a picture into `out` features of the text: two, and in GLM a gated network.
local function merger(config, width, out, is_glm)
  local merge = config.spatial_merge_size
  if not merge or not out then return 0 end
  local joined = width * merge ^ 2
  if is_glm then return joined * out + out ^ 2 + 3 * out * (config.intermediate_size or 0) end
  return joined ^ 2 + joined * out
end

-- Parameters of a transformer's layers by its configuration, four matrices of attention and the network in each, and of
-- what hands its outputs to the text; nil where it does not say its sizes.
local function parameters_of(config, model_type)
  local depth = size_of(config, "num_hidden_layers", "depth", "num_layers")
  local width, ffn = size_of(config, "embed_dim", "hidden_size"), size_of(config, "intermediate_size")
  local out = size_of(config, "out_hidden_size") or config.embed_dim and size_of(config, "hidden_size")
  if not ffn and width and config.mlp_ratio then ffn = width * config.mlp_ratio end
  if not depth or not width or not ffn then return nil end
  local kind = (config.model_type or model_type or ""):gsub("_vision$", ""):gsub("_moe$", "")
  local is_glm = kind == "glm4v" and out ~= nil
  local num_matrices = (gated[kind] or gated[model_type]) and 3 or 2
  return depth * width * (4 * width + num_matrices * (is_glm and out or ffn)) + merger(config, width, out, is_glm)
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
