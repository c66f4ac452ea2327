-- Files, as far as Lua's own library leaves something to say.
local M = {}

--- Whether something can be read at `path`.
function M.exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

return M
