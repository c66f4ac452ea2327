-- Which stored run a sweep goes on with, and what it says of itself.

local core = require "tessera.core"
local host = require "tessera.host"
local origin = require "tessera.desk.origin"
local store = require "tessera.store"
local terminal = require "tessera.terminal"

local M = {}

-- "helpers/own.lua" where it lies below the script's folder: the same wherever the folder is.
local function relative(path, folder)
  if path:sub(1, #folder) == folder then return path:sub(#folder + 1) end
  return path
end

--- The hash of a script and of all Lua files that it has loaded, the library's own left out.
function M.script_hash(files)
  local folder = files[1]:match "^(.*/)" or ""
  local others = {}
  for i = 2, #files do others[i - 1] = relative(files[i], folder) .. "\n" .. store.sha256(origin.content(files[i])) end
  table.sort(others)
  table.insert(others, 1, store.sha256(origin.content(files[1])))
  return store.sha256(table.concat(others, "\n"))
end

--- What store:start_run wants to know. `files`: the script, then what it has loaded.
function M.spec(experiment, files, options, shard)
  local spec = origin.of(files[1])
  spec.script_hash = M.script_hash(files)
  if experiment.set then spec.script_hash = store.sha256(spec.script_hash .. "\n" .. experiment.identity) end
  spec.experiment, spec.seed, spec.quick = experiment.name, experiment.seed, options.quick or false
  spec.shard = shard and shard.text or nil
  spec.declaration = {
    name = experiment.name, doc = experiment.doc, keys = experiment.keys, columns = experiment.columns,
    over = experiment.over, points = options.quick and #experiment.quick_points or #experiment.points,
    plots = experiment.plots, notes = experiment.notes,
    paper = experiment.paper, paper_source = experiment.paper and experiment.paper.source,
    time_limit_s = experiment.time_limit_s, set = experiment.set, of = experiment.of,
  }
  return spec
end

--- The newest run with rows (the newest, if none has any) of the same kind, or nil. Empty ones are what a sweep left
--- that was killed at its start.
function M.newest(file, experiment, quick)
  local newest
  for _, run in ipairs(file:runs { experiment = experiment.name }) do
    local counts = run.num_points > 0 or not newest or newest.num_points == 0
    if run.quick == (quick or false) and counts then newest = run end
  end
  return newest
end

local function ask(message)
  terminal.err:write(message, "\n  [f] start a new run   [m] go on, mixing rows of both scripts   [s] stop: ")
  local answer = (io.read "*l" or ""):lower():sub(1, 1)
  return answer
end

-- What to do where the script has changed since the run: "new" or "mix".
local function decide(run, options)
  if options.mix then return "mix" end
  local message = ("%s changed since run %d, which has %d rows"):format(options.set
    and "the script or what --set changes has" or "the script has", run.id, run.num_points)
  if host.terminal("stdin").is_terminal and host.terminal("stderr").is_terminal and not host.json then
    local answer = ask("tessera: " .. message)
    if answer == "f" then return "new" end
    if answer == "m" then return "mix" end
    host.stop("stopped: " .. message)
  end
  core.raise("invalid_argument", message .. "; --fresh starts a new run (the stored rows stay), --mix goes on and "
    .. "marks every row with the script that made it", "tessera run")
end

--- The run to add to, as { id, script_hash, is_new }.
function M.choose(file, experiment, spec, options)
  local run = not options.fresh and M.newest(file, experiment, options.quick) or nil
  if run and run.script_hash ~= spec.script_hash and run.num_points > 0 and decide(run, options) == "new" then
    run = nil
  end
  if run and (run.num_points > 0 or run.script_hash == spec.script_hash) then
    return { id = run.id, script_hash = run.script_hash, is_new = false }
  end
  local id = file:start_run(spec)
  if not options.fresh then
    -- Another part of the same sweep may have started its run at the same moment: the older one counts.
    for _, other in ipairs(file:runs { experiment = experiment.name }) do
      if other.id < id and other.num_points == 0 and other.script_hash == spec.script_hash
        and other.quick == spec.quick then
        return { id = other.id, script_hash = spec.script_hash, is_new = true }
      end
    end
  end
  return { id = id, script_hash = spec.script_hash, is_new = true }
end

return M
