-- Where other people's measurements are: the folder in TESSERA_MEASURED, else `shared/measured` beside the project.
-- They are read from there and never shipped; experiments on them say `no_data` where they are absent. Each file is one
-- of a declared data set.

local data_sets = require "tessera.desk.data_sets"
local exists = require "tessera.files".exists

local M = {}

-- The folder, or nil and why: for scripts that read several of its files or none.
function M.folder()
  local folder, variable = data_sets.root "measured"
  if exists(folder .. "/README.md") then return folder end
  return nil, {
    code = "no_data",
    message = ("the measured data are not here (%s); set %s to their folder"):format(folder, variable),
  }
end

-- The path of one of its files, or nil and why.
function M.path(name) return data_sets.path("measured", name) end

-- The path of an instance with a known answer, or nil and why.
function M.instance(name) return data_sets.path("instances", name) end

return M
