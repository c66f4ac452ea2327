-- Paths in a page that others read: where a file lies in the installation, or its name; not on whose disk.

local host = require "tessera.host"

local M = {}

-- "/home/me/tessera/", in which experiments and datasets lie.
local function root() return host.installation.experiments_dir:match "^(.*/)[^/]+/?$" or "" end

--- "experiments/llmpq/table4.lua"; "mine.lua" for "/home/me/mine.lua"; a path from the working folder as it is.
function M.shown(path)
  local folder = root()
  if folder ~= "" and path:sub(1, #folder) == folder then return path:sub(#folder + 1) end
  if path:sub(1, 1) == "/" then return path:match "[^/]+$" or path end
  return path
end

--- Text that names files, as tracebacks do.
function M.within(text)
  local folder = root()
  if folder == "" then return text end
  return (text:gsub(folder:gsub("%p", "%%%0"), ""))
end

return M
