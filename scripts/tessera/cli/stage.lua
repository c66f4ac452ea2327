-- `tessera stage`: a worker that somebody started, by hand or with a launcher.

local core = require "tessera.core"
local host = require "tessera.host"
local ranks = require "tessera.runtime.ranks"
local runtime = require "tessera.run"
local terminal = require "tessera.terminal"

local M = {}

--- Serves a run until its master lets go. @param given table the flags
function M.serve(given)
  local here = ranks.here()
  local rank = given.rank or here and here.rank
  local connect = given.connect or here and ("%s:%d"):format(here.host, here.port)
  if not rank then core.raise("usage", "say which worker it is: --rank 1", "tessera stage") end
  if not connect then core.raise("usage", "say where its master listens: --connect HOST:PORT", "tessera stage") end
  local options = { rank = rank, connect = connect, host = given.host, secret_file = given.secret_file,
    parent = given.parent, local_ranks = given.local_ranks or here and here.local_size }
  local secret = os.getenv "TESSERA_RUN_SECRET" or ""
  local why = runtime.serve_stage(options, secret, host.version.version .. " " .. host.version.commit)
  if why == "" then return 0 end
  -- The master that started it says so itself.
  if not given.parent then terminal.err:write(("tessera stage: rank %d: %s\n"):format(rank, why)) end
  return 1
end

function M.main(given) return M.serve(given) end

return M
