-- Reading many stored rows, with a bar on the terminal while that takes long.

local host = require "tessera.host"
local new_bar = require "tessera.bar"

local M = {}

--- Calls work(note), where note(done, total, text) draws the bar; nothing is drawn but on a terminal, nor with --json.
function M.with_bar(work)
  local draw, clear = new_bar()
  if host.json then draw = nil end
  local function note(done, total, text)
    if draw then draw(math.min(done, total), math.max(total, 1), text) end
  end
  local results = { pcall(work, note) }
  if draw then clear() end
  if not results[1] then error(results[2], 0) end
  return unpack(results, 2)
end

--- file:rows(run.id, options).
function M.rows(file, run, options)
  return M.with_bar(function(note)
    local total = math.min(run.num_points, options.limit or math.huge)
    options.progress = function(count)
      note(count, total, ("run %d: %d of %d rows read"):format(run.id, count, total))
    end
    return file:rows(run.id, options)
  end)
end

return M
