-- What a model has beside its text decoder: encoders of pictures and sound, which plans of text load and never run.

local core = require "tessera.core"

--- Lines that say which encoders a model has and what they take of every GPU of a server; "" of others.
return function(model)
  local lines = {}
  for _, tower in ipairs(model.towers or {}) do
    local name = model.checkpoint or model.name
    if tower.parameters > 0 then
      lines[#lines + 1] = ("%s: text is planned; its %s tower, about %.2g billion parameters, is counted: %s of each "
        .. "GPU under a server\n"):format(name, tower.name, tower.parameters / 1e9,
        core.format_bytes(tower.parameters * 2))
    else
      lines[#lines + 1] = ("%s: text is planned; its %s tower of a size that its configuration does not say is not "
        .. "counted, so leave room for it\n"):format(name, tower.name)
    end
  end
  return table.concat(lines)
end
