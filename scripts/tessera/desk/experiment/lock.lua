-- One sweep at a time of the same points of a run: a file beside the results that says who is at it, locked while that
-- process lives.

local core = require "tessera.core"
local host = require "tessera.host"
local store = require "tessera.store"

local M = {}

-- The points that flags choose, as a name.
local function selection(options, shard)
  local where = { unpack(options.where or {}) }
  return store.sha256(core.to_json { where = where, shard = shard and shard.text or "" }):sub(1, 12)
end

--- Calls work() while no other process sweeps the same points of the run in this file of results. Parts (--shard) and
--- other choices of points go on beside.
function M.with(database, run, options, shard, work)
  local path = ("%s-run%d-%s.lock"):format(database, run.id, selection(options, shard))
  local ours, holder = host.lock_file(path)
  if not ours then
    core.raise("invalid_argument", ("%s: another sweep of these points is under way: %s. Wait for it, or give this one "
      .. "a file of its own (--results FILE; tessera results --merge joins them); --shard 0/2 and --shard 1/2 share "
      .. "the points"):format(database, holder ~= "" and holder or "it has locked " .. path), database)
  end
  local results = { pcall(work) }
  host.unlock_file(path)
  if not results[1] then error(results[2], 0) end
  return unpack(results, 2, 4)
end

return M
