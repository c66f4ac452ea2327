-- What a model has beside the layers that are planned: encoders of pictures and sound, which plans of text load and
-- never run, and layers that guess tokens further on, which drafts run.

local core = require "tessera.core"

local function tower_line(name, tower)
  if tower.parameters == 0 then
    return ("%s: text is planned; its %s tower of a size that its configuration does not say is not counted, so leave "
      .. "room for it\n"):format(name, tower.name)
  end
  return ("%s: text is planned; its %s tower, about %.2g billion parameters, is counted: %s of each GPU under a "
    .. "server\n"):format(name, tower.name, tower.parameters / 1e9, core.format_bytes(tower.parameters * 2))
end

local function next_token_line(name, model)
  return ("%s: %d next-token layer%s (MTP), about %.3g billion parameters, not counted: servers load such layers only "
    .. "where they draft with them\n"):format(name, model.next_token_layers, model.next_token_layers == 1 and "" or "s",
    model.next_token_parameters / 1e9)
end

--- Lines that say what a model has beside its layers and who counts it; "" of others. Encoders of a GGUF file's model
--- lie in a file of their own.
return function(model)
  local name, lines = model.checkpoint or model.name, {}
  local in_file = (model.checkpoint_format or ""):find "^gguf" ~= nil
  for i, tower in ipairs(not in_file and model.towers or {}) do lines[i] = tower_line(name, tower) end
  if model.next_token_layers > 0 then lines[#lines + 1] = next_token_line(name, model) end
  return table.concat(lines)
end
