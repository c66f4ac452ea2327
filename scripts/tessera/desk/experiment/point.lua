-- One point of an experiment: runs it and turns whatever came of it into what is stored. The same in a worker process
-- and in the process of the sweep itself.

local core = require "tessera.core"
local host = require "tessera.host"
local trace = require "tessera.desk.experiment.trace"
local store = require "tessera.store"
local assumptions = require "tessera.desk.experiment.assumptions"

local M = {}

--- Longer rows are refused: they belong into a file in context.output_dir.
M.max_bytes = 16 * 2 ^ 20

local artefact_kinds = { ["tessera.Plan"] = "plan", ["tessera.Run"] = "timeline", ["tessera.Served"] = "served" }

local function stored(kind, value)
  if kind == "served" then return require("tessera.desk.picture.served").data(value) end
  return value:to_table()
end

--- The seed of a point: of the experiment's seed and the point's key alone, whatever else runs and in which order.
function M.seed(experiment_seed, key)
  return tonumber(store.sha256(("%d\n%s"):format(experiment_seed, key)):sub(1, 12), 16)
end

-- What the script did wrong, without the way through the library.
local function failure(message, traceback)
  return { status = "failed", error = message, traceback = traceback }
end

local function handler(err)
  local message = core.error_text(err)
  local memory = type(err) == "table" and rawget(err, "code") == "out_of_memory"
  return { message = message, traceback = trace(), memory = memory }
end

local function too_long(bytes)
  return failure(("run returned %.1f MiB; a row holds at most %d MiB, put more into a file in context.output_dir")
    :format(bytes / 2 ^ 20, M.max_bytes / 2 ^ 20))
end

-- Splits what `run` returned into columns and artefacts.
local function split(answer)
  local row = { columns = {}, artefacts = {} }
  for name, value in pairs(answer) do
    if type(name) ~= "string" then
      return failure(("run returned the key %s; columns have names"):format(tostring(name)))
    end
    if name == "point" or name == "error" or name == "meta" then
      return failure(("run returned a column '%s', a name that rows use themselves; choose another"):format(name))
    end
    local kind = type(value) == "userdata" and artefact_kinds[getmetatable(value)]
    if kind then
      row.artefacts[#row.artefacts + 1] = { name = name, kind = kind, value = stored(kind, value) }
      if kind == "plan" then row.provenance, row.error_ratio = value.provenance, value.error end
    elseif type(value) == "string" and #value > M.max_bytes then
      return too_long(#value)
    elseif name ~= "status" then
      row.columns[name] = value
    end
  end
  table.sort(row.artefacts, function(a, b) return a.name < b.name end)
  row.status = answer.status == nil and "done" or answer.status
  if type(row.status) ~= "string" or row.status == "" then
    return failure(("run returned the status %s; it is a word"):format(tostring(answer.status)))
  end
  return row
end

local function row_of(answer, why)
  if answer == nil and type(why) == "table" and type(why.code) == "string" then
    return { status = why.code, columns = { note = tostring(why.message) }, artefacts = {} }
  end
  if type(answer) ~= "table" then
    return failure(("run must return a table of columns, not a %s"):format(type(answer)))
  end
  return split(answer)
end

-- Files that were read since the last point: data files, and Lua files loaded late.
local function inputs()
  local paths = core.take_read_log()
  for _, path in ipairs(host.loaded_files()) do paths[#paths + 1] = path end
  host.forget_loaded_files()
  return paths
end

local function memory_message(limit_bytes)
  if not limit_bytes then
    return "not enough memory" .. (host.sandboxed and "; --sandbox-memory-gib allows more" or "")
  end
  return ("not enough memory: the limit of a worker is %.2f GiB (--memory-limit-gib), of which its script may have "
    .. "three quarters"):format(limit_bytes / 2 ^ 30)
end

-- The folder for files is made when it is asked for.
local function context_of(item, settings)
  return setmetatable({ seed = item.seed, quick = settings.quick, point_index = item.index }, {
    __index = function(_, name)
      if name ~= "output_dir" then return nil end
      host.make_folder(settings.output_dir)
      return settings.output_dir
    end,
  })
end

local planned = { done = true, optimal = true, feasible = true }

-- A row that says nothing of what was to be changed would pass for one that does.
local function checked(row, not_received)
  if #not_received == 0 or not planned[row.status] then return row end
  return failure(("--set %s: no problem of this point has taken it: the experiment makes its problems in another way; "
    .. "copy it and change it there (tessera examples NAME)"):format(table.concat(not_received, ", ")))
end

--- Runs the point: { status, columns, artefacts, provenance, error_ratio, inputs } or, where it failed, { status,
--- error, traceback, inputs }. `item`: point and seed; `settings`: time_limit_s, memory_bytes, quick, output_dir and
--- parameters: names in the point that are for its problems, and not for the script.
function M.run(experiment, item, settings)
  math.randomseed(item.seed)
  require("tessera.planning.planners").stopped_by = nil
  local context = context_of(item, settings)
  local point = {}
  for key, value in pairs(item.point) do point[key] = value end
  local parameters = settings.parameters or {}
  for _, name in ipairs(parameters) do point[name] = nil end
  local ok, answer, why, not_received
  local in_time = host.limited(settings.time_limit_s, ("point %s"):format(item.text), function()
    not_received, ok, answer, why = assumptions.receive(item.point, parameters, function()
      return xpcall(experiment.run, handler, point, context)
    end)
  end)
  if not ok then
    collectgarbage() -- what filled the memory is in nobody's hands any more
    -- Where memory ran out, or the handler itself failed, the handler has not answered.
    if type(answer) ~= "table" then answer = { message = tostring(answer), memory = answer == "not enough memory" } end
  end
  local row
  if not in_time then
    row = failure(("stopped at its time limit of %g s"):format(settings.time_limit_s))
    row.status = "time_limit"
  elseif ok then
    row = checked(row_of(answer, why), not_received)
  elseif answer.memory then
    row = failure(memory_message(settings.memory_bytes), answer.traceback)
    row.status = "out_of_memory"
  else
    row = failure(answer.message, answer.traceback)
  end
  -- A row that rests on a plan that was cut short may come out otherwise next time.
  if row.columns and row.columns.stopped_by == nil then
    row.columns.stopped_by = require("tessera.planning.planners").stopped_by
  end
  row.inputs = inputs()
  return row
end

--- The row as JSON; a failed row in its place where it cannot be written, or is too long.
function M.encode(row)
  local ok, text = pcall(core.to_json, row, "row")
  if ok and #text <= M.max_bytes then return text end
  local failed = ok and too_long(#text)
    or failure((tostring(text):gsub("^row%.columns%.", "what run returned cannot be stored: ")))
  failed.inputs = row.inputs
  return core.to_json(failed)
end

return M
