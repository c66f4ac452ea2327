-- `tessera view`: a step log as the page that `tessera serve` has at /.

local core = require "tessera.core"
local host = require "tessera.host"
local view = require "tessera.serving.view"

local M = {}

--- @param given table the flags; names: the log
function M.main(given)
  if #given.names ~= 1 then core.raise("usage", "name one step log: tessera view LOG", "tessera view") end
  local path = given.names[1]
  local out = given.out or path:gsub("%.json$", "") .. ".html"
  if out == path then core.raise("usage", "it would take the log's place", "--out") end
  local replay = view.view(path, out)
  if host.json then
    replay.out = out
    host.set_result(replay)
  else
    print(("wrote %s: %d steps, %d requests%s"):format(out, replay.num_steps, replay.num_requests,
      replay.identical and "" or "; the simulator decides otherwise: " .. replay.first_difference))
  end
  return 0
end

return M
