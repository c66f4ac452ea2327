-- What `tessera list` says of a script that declares an experiment.

local core = require "tessera.core"
local host = require "tessera.host"

local M = {}

local limit_s = 5

--- { doc, num_points } of the experiment that the script returns; { error } where it cannot be told; nil for a script
--- that returns something else.
function M.of(path)
  local ok, answer
  local in_time = host.limited(limit_s, "script " .. path, function()
    ok, answer = pcall(function() return host.load_script(path)() end)
  end)
  if not in_time then return { error = ("it ran for %g s and returned nothing"):format(limit_s) } end
  if not ok then return { error = (core.error_text(answer):gsub("\n.*", "")) } end
  if getmetatable(answer) ~= "tessera.Experiment" or type(answer.points) ~= "table" then return nil end
  return { doc = answer.doc, num_points = #answer.points }
end

return M
