-- Runs points and stores what came of each: in worker processes, or in this one.

local core = require "tessera.core"
local host = require "tessera.host"
local workers = require "tessera.workers"
local point = require "tessera.desk.experiment.point"

local M = {}

-- Points that end within this time are stored in one transaction; a kill may cost them, as it costs those under way.
local together_s = 0.05

-- Without its last lines nobody knows what a dead process was about to say.
local function last_lines(log, count)
  local lines = {}
  for line in log:gmatch "[^\n]+" do lines[#lines + 1] = line end
  return table.concat(lines, "\n", math.max(1, #lines - count + 1))
end

-- What a pool's event says, as the row that point.run would have made.
local function row_of_event(event)
  if event.outcome == "done" then return core.from_json(event.text) end
  local message = event.message
  local said = last_lines(event.log, 5)
  if said ~= "" and event.outcome ~= "time_limit" then message = message .. "; it last printed: " .. said end
  return { status = event.outcome, error = message, inputs = {} }
end

-- What the watchdog of a stuck worker says on its way out, the row's message says as well.
local function without_watchdog(log)
  if log == "" then return log end
  return (log:gsub("tessera: point [^\n]- past its time limit of [^\n]*\n", ""))
end

local function show_log(progress, item, log)
  if log == "" then return end
  for line in log:gmatch "[^\n]+" do progress.note(("[%s] %s"):format(item.text, line)) end
end

-- Ctrl-C once: what no worker has begun is left; what runs ends and is stored.
local function stop(pool, progress)
  local left = pool:withdraw()
  progress.note(("stopping: %d points under way end and are stored, %d are left; Ctrl-C again ends at once"):format(
    pool:num_open(), left))
end

local function in_workers(items, settings, progress, keep)
  local pool = workers.start {
    jobs = settings.jobs, time_limit_s = settings.time_limit_s, memory_bytes = settings.memory_bytes,
    setup = core.to_json(settings),
  }
  for i, item in ipairs(items) do pool:submit(i, item.message) end
  local stopped, finished, first_at = false, {}, 0
  while pool:num_open() > 0 or #finished > 0 do
    for _, event in ipairs(pool:wait(together_s)) do
      local item = items[event.id]
      local row = row_of_event(event)
      row.duration_s, row.log = event.duration_s, without_watchdog(event.log)
      show_log(progress, item, row.log)
      if #finished == 0 then first_at = core.clock() end
      finished[#finished + 1] = { item, row }
    end
    if #finished > 0 and (pool:num_open() == 0 or core.clock() - first_at >= together_s) then
      keep(finished)
      finished = {}
    end
    progress.redraw()
    if host.interrupted() and not stopped then
      stopped = true
      stop(pool, progress)
    end
  end
  pool:close()
end

local function in_this_process(experiment, items, settings, progress, keep)
  core.start_read_log()
  core.take_read_log()
  host.forget_loaded_files() -- the script is no input of its first point
  for _, item in ipairs(items) do
    progress.redraw(true)
    local started = core.clock()
    -- In a worker process os.exit ends that process, which costs its point; here it would end the sweep.
    local row = host.without_exit(point.run, experiment, item, settings)
    if host.interrupted() then break end -- solvers look at Ctrl-C: what they answered then is no result
    row = core.from_json(point.encode(row))
    row.duration_s, row.log = core.clock() - started, ""
    keep { { item, row } }
  end
end

--- Runs the items ({ index, point, text, seed, message }) and calls keep with lists of { item, row } as they end.
--- Where Ctrl-C stopped it, host.interrupted() stays true and the rest has not run.
function M.run(experiment, items, settings, progress, keep)
  host.poll_interrupts(true)
  local ok, err = pcall(function()
    if settings.jobs == 0 then
      in_this_process(experiment, items, settings, progress, keep)
    else
      in_workers(items, settings, progress, keep)
    end
  end)
  progress.finish()
  if not host.interrupted() then host.poll_interrupts(false) end
  if not ok then error(err, 0) end
end

return M
