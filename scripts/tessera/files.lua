-- Files, as far as Lua's own library leaves something to say.

local core = require "tessera.core"

local M = {}

--- Whether something can be read at `path`.
function M.exists(path) return core.file_kind(path) ~= nil end

--- Text of a file of any length; nil where there is none that can be read. A pipe is none: its text went to whoever
--- read it first. Not for data that a point reads, which core.read_file keeps account of.
function M.text(path)
  local file = core.file_kind(path) == "file" and io.open(path, "rb")
  if not file then return nil end
  local text = file:read "*a"
  file:close()
  return text
end

return M
