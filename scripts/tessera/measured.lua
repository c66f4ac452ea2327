-- Where other people's measurements are: the folder in TESSERA_MEASURED, else `shared/measured` beside the project.
-- They are read from there and never shipped; experiments on them say `no_data` where the folder is absent.

local core = require "tessera.core"
local exists = require "tessera.files".exists
local host = require "tessera.host"

local M = {}

-- The folder, or nil and why.
function M.folder()
  local named = os.getenv "TESSERA_MEASURED"
  local folder = named and named ~= "" and named or host.installation.datasets_dir .. "/../../shared/measured"
  if exists(folder .. "/README.md") then return folder end
  return nil, {
    code = "no_data",
    message = "the measured data are not here (" .. folder .. "); set TESSERA_MEASURED to their folder",
  }
end

-- The path of one of its files, or nil and why.
function M.path(name)
  if name:sub(1, 1) == "/" or name:find("..", 1, true) then
    core.raise("invalid_argument", ("'%s' is no path below the measured data"):format(name), "measured.path")
  end
  local folder, why = M.folder()
  if not folder then return nil, why end
  local path = folder .. "/" .. name
  if exists(path) then return path end
  return nil, { code = "no_data", message = path .. " is not there" }
end

return M
