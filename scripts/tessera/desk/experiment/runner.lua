-- `tessera run` of an experiment: chooses the points, runs those that are not stored, stores their rows, and says what
-- came of it.

local core = require "tessera.core"
local host = require "tessera.host"
local store = require "tessera.store"
local terminal = require "tessera.terminal"
local workers = require "tessera.workers"
local assumptions = require "tessera.desk.experiment.assumptions"
local claims = require "tessera.desk.experiment.claims"
local grid = require "tessera.desk.experiment.grid"
local lock = require "tessera.desk.experiment.lock"
local point = require "tessera.desk.experiment.point"
local progress = require "tessera.desk.experiment.progress"
local runs = require "tessera.desk.experiment.runs"
local shards = require "tessera.desk.experiment.shards"
local show = require "tessera.desk.experiment.show"
local sweep = require "tessera.desk.experiment.sweep"
local text_of = require "tessera.files".text
local verdict = require "tessera.desk.experiment.verdict"

local M = {}

local interrupted_status = 130

-- With --json, all rows of all experiments of one command line.
local json_rows = {}

local function say(text) terminal.err:write(text, "\n") end

-- The points that are asked for: { index, point, key, text }, in order.
local function chosen_items(experiment, options, shard)
  local points = options.quick and experiment.quick_points or experiment.points
  local items, index_of = {}, {}
  for i, p in ipairs(points) do index_of[p] = i - 1 end
  if options.where then points = grid.select(points, grid.where(options.where, experiment.keys, points)) end
  if #points == 0 then
    core.raise("usage", "--where: no point has all these values together", "--where")
  end
  for i, p in ipairs(points) do
    local key = store.key(p)
    items[i] = { index = index_of[p], point = p, key = key, text = grid.text(p, experiment.keys) }
  end
  return shards.part(items, shard)
end

-- Splits items into those to run and counts of those that are stored.
local function open_items(items, status_of, failed_keys, retry_failed)
  local open, stored, failed = {}, 0, 0
  for _, item in ipairs(items) do
    if not status_of[item.key] or (failed_keys[item.key] and retry_failed) then
      open[#open + 1] = item
    else
      stored = stored + 1
      if failed_keys[item.key] then failed = failed + 1 end
    end
  end
  return open, stored, failed
end

local function plural(count, word) return ("%d %s%s"):format(count, word, count == 1 and "" or "s") end

local function header(experiment, items, open, stored, failed, shard)
  local text = ("%s: %s"):format(experiment.name, plural(#items, "point"))
  if shard then
    text = text .. (" (part %s%s)"):format(shard.text, shard.by and ", as " .. shard.by .. " says" or "")
  end
  if stored > 0 then
    text = text .. (", %d stored"):format(stored)
    if failed > 0 then text = text .. (" (%d failed: --retry-failed runs them again)"):format(failed) end
  end
  return text .. (", %d to run"):format(#open)
end

local function dry_run(experiment, items, options, database, shard)
  local status_of, failed_keys = {}, {}
  local stored = store.open(database, { read_only = true, optional = true })
  if stored then
    local run = not options.fresh and runs.newest(stored, experiment, options.quick)
    if run then status_of, failed_keys = stored:keys(run.id) end
    stored:close()
  end
  local open, num_stored, failed = open_items(items, status_of, failed_keys, options.retry_failed)
  local is_open = {}
  for _, item in ipairs(open) do is_open[item] = true end
  if host.json then
    for _, item in ipairs(items) do
      json_rows[#json_rows + 1] = { point = item.point, status = status_of[item.key] or "not run",
        would_run = is_open[item] or false }
    end
    return
  end
  for _, item in ipairs(items) do
    local what = is_open[item] and "would run" or "stored: " .. status_of[item.key]
    terminal.say(("%-10s  %s\n"):format(what, item.text))
  end
  terminal.say(header(experiment, items, open, num_stored, failed, shard), "\n")
end

local function settings_of(experiment, options, files, database, num_open)
  local jobs = options.jobs or math.max(1, store.machine().num_cores or 1)
  -- A worker cannot read a pipe again.
  if files[1] == "/dev/stdin" or core.file_kind(files[1]) == "pipe" then jobs = 0 end
  if jobs > 0 then jobs = math.min(jobs, math.max(num_open, 1)) end
  local memory_bytes -- of a worker: this process has no limit that a point could have for itself
  if jobs > 0 then
    memory_bytes = options.memory_limit_gib and options.memory_limit_gib * 2 ^ 30
      or 0.9 * workers.machine_memory_bytes() / jobs
    memory_bytes = math.floor(math.max(memory_bytes, 2 ^ 26))
  elseif options.memory_limit_gib then
    core.raise("invalid_argument", "--memory-limit-gib: it limits worker processes, and here the points run in this "
      .. "one" .. (host.sandboxed and "; --sandbox-memory-gib limits it" or "; leave --jobs 0 out"), "run")
  end
  return {
    script = files[1], arguments = host.arguments, run_options = options, quick = options.quick or false, jobs = jobs,
    time_limit_s = options.point_time_limit_s or experiment.time_limit_s,
    memory_bytes = memory_bytes, parameters = experiment.parameters,
    output_dir = (database:match "^(.+)%.[^./]+$" or database) .. "-files/" .. experiment.name,
  }
end

-- Reads a file once per sweep; its SHA-256.
local function hasher()
  local known = {}
  local folders = host.installation
  return function(path)
    if not known[path] then
      local text = text_of(path)
      local name = path
      local parent = folders.datasets_dir:match "^(.*/)[^/]*$" or ""
      if path:sub(1, #parent) == parent then name = path:sub(#parent + 1) end
      known[path] = { path = name, sha256 = text and store.sha256(text) or "" }
    end
    return known[path]
  end
end

-- What is stored of an item and what came of it.
local function record_of(item, row, script_hash, hash)
  local inputs = {}
  for i, path in ipairs(row.inputs or {}) do inputs[i] = hash(path) end
  return {
    point = item.point, status = row.status, columns = row.columns, order = item.index, seed = item.seed,
    script_hash = script_hash, started_at = os.time() - row.duration_s, duration_s = row.duration_s, inputs = inputs,
    error = row.error, traceback = row.traceback, log = row.log, provenance = row.provenance,
    error_ratio = row.error_ratio, artefacts = row.artefacts,
  }
end

-- The records whose points have no row that counts: another sweep, of other flags, may have had some of them too.
local function without_stored(file, run, records)
  local status_of, failed_keys = file:keys(run.id)
  local left = {}
  for _, record in ipairs(records) do
    local key = store.key(record.point)
    if not status_of[key] or failed_keys[key] then left[#left + 1] = record end
  end
  return left
end

local function add_all(file, run, records, bar)
  local ok, problem = pcall(file.add_all, file, run.id, records)
  if ok then return end
  local left = without_stored(file, run, records)
  if #left == #records then error(problem, 0) end
  file:add_all(run.id, left)
  bar.note(("%s stored by another sweep meanwhile; its rows are kept"):format(#records - #left == 1 and "1 point was"
    or ("%d points were"):format(#records - #left)))
end

-- What keeps finished points: stores their rows, then counts them.
local function keeper(file, run, spec, bar)
  local hash = hasher()
  local script_hash = spec.script_hash ~= run.script_hash and spec.script_hash or nil
  return function(finished)
    local records = {}
    for i, pair in ipairs(finished) do records[i] = record_of(pair[1], pair[2], script_hash, hash) end
    add_all(file, run, records, bar)
    for _, pair in ipairs(finished) do
      local item, row = pair[1], pair[2]
      local stored = { point = item.point, status = row.status, error = row.error }
      for name, value in pairs(row.columns or {}) do stored[name] = value end
      bar.add(stored)
    end
  end
end

local function rows_of(file, run, items)
  local wanted, found = {}, {}
  for _, item in ipairs(items) do wanted[item.key] = true end
  for _, row in ipairs(file:rows(run.id, { meta = true })) do
    if wanted[store.key(row.point)] then found[#found + 1] = row end
  end
  return found
end

local function print_rows(list)
  for _, row in ipairs(list) do
    local copy = {}
    for name, value in pairs(row) do
      if name ~= "meta" then copy[name] = value end
    end
    json_rows[#json_rows + 1] = copy
  end
end

local function say_wrapped(text) terminal.say(terminal.wrapped(text)) end

-- What is shown at the end, of a brief one only what went wrong; the exit status.
local function conclude(experiment, file, run, items, options, database)
  local list = rows_of(file, run, items)
  if host.json then print_rows(list) end
  if not host.json and not run.brief then
    show.rows(experiment, list, terminal.say)
    show.notes(experiment, say_wrapped)
  end
  local failed = show.failures(experiment, list, database, say_wrapped)
  local checked = {}
  if experiment.check then checked = claims.check(experiment, file:rows(run.id), options.quick) end
  local not_true = show.claims(run.brief and verdict.failed(checked) or checked, say_wrapped)
  local stored = {}
  for i, claim in ipairs(checked) do
    stored[i] = { text = claim.text, status = claim.status, passed = verdict.passed(claim.status),
      numbers = claim.numbers, lines = claim.lines, checked = claim.checked, skipped = claim.skipped,
      not_reproduced = claim.not_reproduced, here = claim.here ~= nil and verdict.text(claim.here) or nil,
      note = claim.note }
  end
  if experiment.check then file:set_claims(run.id, stored) end
  return (failed > 0 or not_true > 0) and 1 or 0
end

local function sweep_items(experiment, options, files, items, shard, database, brief)
  if experiment.check then claims.refuse_mistakes(experiment, options.quick) end
  local file = store.open(database)
  local spec = runs.spec(experiment, files, options, shard)
  local run = runs.choose(file, experiment, spec, options)
  run.brief = brief
  local status_of, failed_keys = file:keys(run.id)
  local open, stored, failed = open_items(items, status_of, failed_keys, options.retry_failed)
  local settings = settings_of(experiment, options, files, database, #open)
  local how = settings.jobs == 0 and "in this process" or "with " .. plural(settings.jobs, "worker")
  say(header(experiment, items, open, stored, failed, shard) .. (#open > 0 and " " .. how or "")
    .. ("; %s, run %d"):format(database, run.id))
  for _, item in ipairs(open) do
    item.seed = point.seed(experiment.seed, item.key)
    item.message = core.to_json { index = item.index, point = item.point, seed = item.seed, text = item.text }
  end
  local bar = progress.new(#open, experiment)
  if #open > 0 then
    lock.with(database, run, options, shard, function()
      sweep.run(experiment, open, settings, bar, keeper(file, run, spec, bar))
    end)
  end
  local status
  if host.interrupted() then
    say(("%s: stopped, %d of %d points are stored in %s; the same command goes on"):format(experiment.name,
      stored + bar.done, #items, database))
    status = interrupted_status
  else
    if #open > 0 then
      local elapsed = bar.elapsed_s()
      say(("%s in %s"):format(plural(bar.done, "point"), progress.duration(elapsed)))
    end
    status = conclude(experiment, file, run, items, options, database)
  end
  file:close()
  return status, run.id
end

--- The file of results that the flags of `tessera run` name.
function M.database(options)
  return shards.path(options.results or "results.db", shards.choose(options.shard))
end

--- Sweeps the experiment as the flags of `tessera run` say: 0; 1 where a point or a claim failed; 130 after Ctrl-C; and
--- the id of the run. `how.brief`: of what came out only failures are printed.
function M.sweep(experiment, options, how)
  experiment = assumptions.changed(experiment, options)
  local files = host.loaded_files()
  local shard = shards.choose(options.shard)
  local database = M.database(options)
  local items = chosen_items(experiment, options, shard)
  if experiment.changes then say(("%s: %s"):format(experiment.name, experiment.changes)) end
  if options.quick and not experiment.quick then
    say(("%s: it declares no `quick`, so all of its points run"):format(experiment.name))
  end
  local status, run_id = 0, nil
  if options.dry_run then
    dry_run(experiment, items, options, database, shard)
  else
    status, run_id = sweep_items(experiment, options, files, items, shard, database, how and how.brief)
  end
  if host.json then host.set_result(json_rows) end
  return status, run_id
end

--- The same for one experiment alone: the status.
function M.run(experiment, options) return (M.sweep(experiment, options)) end

return M
