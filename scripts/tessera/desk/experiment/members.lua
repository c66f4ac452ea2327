-- `tessera run` of a collection: its experiments one after the other, each in few lines, then one report of them all
-- and a summary: how near the published numbers are, and how many claims hold.

local core = require "tessera.core"
local host = require "tessera.host"
local report = require "tessera.desk.report"
local runner = require "tessera.desk.experiment.runner"
local sheet = require "tessera.desk.sheet"
local store = require "tessera.store"
local terminal = require "tessera.terminal"
local summary = require "tessera.desk.report.summary"

local M = {}

local interrupted_status = 130

local function say(text) terminal.err:write(text, "\n") end

-- The experiment that a script returns; nil where it returns something else; nil and why where it raises an error.
local function load(path)
  host.forget_loaded_files()
  local ok, answer = pcall(function() return host.load_script(path)() end)
  if not ok and host.interrupted() then error(answer, 0) end
  if not ok then return nil, tostring(answer) end
  if getmetatable(answer) == "tessera.Experiment" then return answer end
end

-- Sweeps all; the worst exit status, ids of the runs, and what went wrong by script.
local function sweep(collection, options)
  local worst, ids, broken = 0, {}, {}
  for _, path in ipairs(collection.paths) do
    local experiment, why = load(path)
    if why then
      broken[#broken + 1] = ("%s: %s"):format(path, why)
      worst = math.max(worst, 1)
    end
    if experiment then
      local status, run_id = runner.sweep(experiment, options, { brief = true })
      worst, ids[#ids + 1] = math.max(worst, status), run_id
      if status == interrupted_status then break end
    end
  end
  return worst, ids, broken
end

local function print_summary(collection, ids, database, out)
  local file, lines = store.open(database, { read_only = true }), {}
  for i, id in ipairs(ids) do lines[i] = summary.of(file:run(id), file:rows(id, { meta = true })) end
  file:close()
  terminal.say("\n", collection.doc ~= "" and collection.doc .. "\n\n" or "", sheet.table(summary.sheet(lines)))
  for _, name in ipairs(collection.empty) do terminal.say(("left out: %s holds no script\n"):format(name)) end
  local done = report.write { results = database, runs = ids, out = out }
  terminal.say(("wrote %s: %d experiments, %d rows, %.0f kB\n"):format(done.out, done.experiments, done.points,
    done.bytes / 1000))
end

--- Sweeps the experiments of the collection as the flags of `tessera run` say, each with the same. 0; 1 where a point,
--- a claim or a whole script failed; 130 after Ctrl-C.
function M.run(collection, options)
  if options.where then
    core.raise("usage", "--where: the experiments of a collection have different keys; run one of them", "--where")
  end
  if options.set then
    core.raise("usage", "--set: the experiments of a collection have different assumptions; run one of them", "--set")
  end
  local started = core.clock()
  local status, ids, broken = sweep(collection, options)
  for _, line in ipairs(broken) do say("tessera: " .. line) end
  if options.dry_run or host.json or status == interrupted_status or #ids == 0 then return status end
  local database = runner.database(options)
  print_summary(collection, ids, database, (database:match "^(.*/)" or "") .. collection.name .. ".html")
  say(("%d experiments in %.0f s"):format(#ids, core.clock() - started))
  return status
end

return M
