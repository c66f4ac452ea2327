-- --launch and what belongs to it, for every verb that writes what starts servers.

local core = require "tessera.core"
local flags = require "tessera.cli.flags"
local limits = require "tessera.launch.limits"

local M = {}

--- Refuses flags that miss --launch, and --launch without a folder.
function M.check(given)
  if given.launch and not given.out then
    core.raise("usage", "--launch writes a folder; name it with --out", "--out")
  end
  for _, name in ipairs { "out", "runtime_version", "checkpoint", "unlike_engines", "overwrite", "as" } do
    if given[name] and not given.launch then
      core.raise("usage", flags.name(name) .. " belongs to --launch", flags.name(name))
    end
  end
end

--- Whether servers start in containers, which have no proxy before pools of prefill and decode.
function M.in_containers(given) return given.launch ~= nil and given.as ~= nil and given.as ~= "shell" end

--- Options of an export.
function M.options(given)
  return { version = given.runtime_version, checkpoint = given.checkpoint, unlike_engines = given.unlike_engines,
    overwrite = given.overwrite, as = given.as }
end

--- Where it was written and what its servers take.
function M.written_text(written)
  return ("%s: %s\n%s"):format(written.folder, table.concat(written.files, " "),
    written.limits and "takes " .. limits.text(written.limits) .. "\n" or "")
end

return M
