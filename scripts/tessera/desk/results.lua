-- ts.results "name": the stored rows of an experiment, for scripts that look at them or that sweep on their own.

local core = require "tessera.core"
local host = require "tessera.host"
local store = require "tessera.store"
local options = require "tessera.options"
local origin = require "tessera.desk.origin"
local rows = require "tessera.desk.rows"
local rows_diff = require "tessera.desk.rows_diff"
local sheet = require "tessera.desk.sheet"

local path = "ts.results"

local read = options.card {
  name = path,
  doc = "Stored rows of an experiment. A script that sweeps by itself asks has(point) and calls add(point, row): what "
    .. "it has done is kept, with the script's hash, commit, seed and machine, however it ends. Methods: has(point), "
    .. "add(point, row), rows{ key = value or {values}, run =, status =, meta = }, runs(), count(), diff(run, file or "
    .. "other).",
  parameters = { { "name", "string", "Of the experiment" } },
  returns = "tessera.Results",
  options = {
    { name = "db", type = "string", doc = "File of results; default: that of --results, or results.db" },
    { name = "seed", type = "integer", default = 0, min = -2 ^ 53, max = 2 ^ 53, doc = "To remember with the rows" },
    { name = "continue", type = "choice", default = "same_script", choices = { "same_script", "always", "never" },
      doc = "Whether add goes on with the newest run: where the script has not changed since, always, or never" },
  },
}

core.document_object {
  name = "tessera.Results", doc = "The stored rows of one experiment.",
  fields = {
    { "name", "string", "Of the experiment" },
    { "db", "string", "File of results" },
  },
  methods = {
    { "has", "(point: table): boolean", "Whether the run that add goes on with has a row of this point" },
    { "add", "(point: table, row: table)", "Stores what came of a point; then that survives power loss too" },
    { "rows", "(options: table?): table[]", "Rows that match key = value or { values }; run =, status =, meta =" },
    { "runs", "(): table[]", "Runs of the experiment, oldest first" },
    { "count", "(options: table?): integer", "Rows that match" },
    { "diff", "(other: any): table", "What differs from another run, file or object" },
  },
}

local fail = core.refuse

local private = setmetatable({}, { __mode = "k" })

local function of(results, method)
  if not private[results] then
    fail("results:" .. method, "call it with a colon, on what ts.results gave")
  end
  return private[results]
end

local Results = {}

-- The open file; nil where there is none yet.
local function opened(state)
  state.store = state.store or store.open(state.db, { read_only = true, optional = true })
  return state.store
end

-- Durable: a script that sweeps by itself may take hours for a row.
local function writable(state)
  if not state.writable then
    if state.store then state.store:close() end
    state.store, state.writable = store.open(state.db, { durable = true }), true
  end
  return state.store
end

local function runs_of(state)
  local file = opened(state)
  return file and file:runs { experiment = state.name } or {}
end

local function own_origin(state)
  state.origin = state.origin or origin.of(origin.script_path())
  return state.origin
end

-- The run that this script goes on with, or nil.
local function run_to_continue(state)
  local all = runs_of(state)
  local newest = all[#all]
  if not newest or state.continue == "never" then return nil end
  if state.continue == "always" then return newest.id end
  return newest.script_hash == own_origin(state).script_hash and newest.seed == state.seed and newest.id or nil
end

local function load_keys(state)
  if state.keys then return end
  state.run = state.run or run_to_continue(state)
  state.keys, state.failed = {}, {}
  if state.run then state.keys, state.failed = opened(state):keys(state.run) end
end

local function check_point(point, where)
  if type(point) ~= "table" then fail(where, ("a point is a table of named values, not a %s"):format(type(point))) end
  for key in pairs(point) do
    if type(key) ~= "string" then fail(where, "a point's values have names, got the key " .. tostring(key)) end
  end
  return store.key(point)
end

--- Whether the run that this script adds to has the point, and it did not fail.
function Results:has(point)
  local state, key = of(self, "has"), check_point(point, "results:has")
  load_keys(state)
  return state.keys[key] ~= nil and not state.failed[key]
end

local function start(state)
  local description = { experiment = state.name, seed = state.seed, declaration = { name = state.name } }
  for name, value in pairs(own_origin(state)) do description[name] = value end
  state.run = state.store:start_run(description)
end

--- Stores what came of a point: { status =, column = value, ... }, or { error = "message" } where it failed.
function Results:add(point, row)
  local state, key = of(self, "add"), check_point(point, "results:add")
  if type(row) ~= "table" then fail("results:add", ("a row is a table of columns, not a %s"):format(type(row))) end
  local file = writable(state)
  load_keys(state)
  if not state.run then start(state) end
  local columns = {}
  for name, value in pairs(row) do columns[name] = value end
  columns.status, columns.error = nil, nil
  local status = row.status or (row.error and "failed") or "done"
  local from = own_origin(state)
  file:add(state.run, { point = point, status = status, columns = columns, error = row.error, started_at = os.time(),
    script_hash = from.script_hash, git_commit = from.git_commit, seed = state.seed, machine = from.machine,
    build = from.build })
  state.keys[key], state.failed[key] = status, row.error and true or nil
end

--- The runs of the experiment, oldest first.
function Results:runs() return runs_of(of(self, "runs")) end

local function shown_run(state, wanted)
  local all = runs_of(state)
  if wanted == nil then return state.run or (all[#all] and all[#all].id) end
  for _, run in ipairs(all) do
    if run.id == wanted then return run.id end
  end
  local ids = {}
  for i, run in ipairs(all) do ids[i] = tostring(run.id) end
  fail("results.run", ("%s has no run %s%s"):format(state.name, tostring(wanted),
    #ids > 0 and "; it has " .. table.concat(ids, ", ") or " at all"))
end

--- Rows of the run that this script adds to, or else of the newest, or of `run =`; every other name is a condition.
function Results:rows(given)
  local state = of(self, "rows")
  given = given or {}
  if type(given) ~= "table" then fail("results:rows", "conditions are a table, not a " .. type(given)) end
  local conditions = {}
  for name, value in pairs(given) do conditions[name] = value end
  conditions.run, conditions.meta = nil, nil
  local run = shown_run(state, given.run)
  if not run then return {} end
  return rows.where(opened(state):rows(run, { meta = given.meta }), conditions, "results:rows")
end

--- How many rows `rows(given)` has.
function Results:count(given) return #Results.rows(self, given) end

-- What `diff` compares with: rows and their name.
local function other_rows(self, other)
  local state = of(self, "diff")
  if type(other) == "number" then return self:rows { run = other }, "run " .. other end
  if other ~= nil and private[other] then return other:rows(), tostring(other) end
  if type(other) == "string" then
    local file = private[require "tessera.desk.results" (state.name, { db = other })]
    if not opened(file) then core.raise("not_found", ("results:diff: there is no file '%s'"):format(other), other) end
    local run = shown_run(file)
    return run and file.store:rows(run) or {}, other
  end
  fail("results:diff", ("a run's number, a results file or other results belong here, not a %s"):format(type(other)))
end

--- What differs between these rows and those of another run, of another file, or of other results, which come first:
--- only_old, only_new, changed, num_same.
function Results:diff(other)
  local old, old_name = other_rows(self, other)
  local new_name = tostring(self)
  return setmetatable(rows_diff.compare(old, self:rows()), {
    __tostring = function(result) return rows_diff.text(result, old_name, new_name) end,
  })
end

local function summary(self)
  local state = private[self]
  local all = runs_of(state)
  local run = shown_run(state)
  for _, found in ipairs(all) do
    if found.id == run then
      return ("results %s in %s: run %d, %d rows, %d failed"):format(state.name, state.db, run, found.num_points,
        found.num_failed)
    end
  end
  return ("results %s in %s: no rows yet"):format(state.name, state.db)
end

local shown_rows = 20

local function full(self)
  local list = self:rows()
  if #list == 0 then return summary(self) end
  local page = rows.sheet(list)
  local more = #page.lines > shown_rows and ("... %d more"):format(#page.lines - shown_rows) or ""
  for l = #page.lines, shown_rows + 1, -1 do page.lines[l] = nil end
  return ((summary(self) .. "\n" .. sheet.table(page) .. more):gsub("\n$", ""))
end

local shell = {
  __index = function(self, name)
    if Results[name] then return Results[name] end
    if name == "name" or name == "db" then return private[self][name] end
    local known = { "name", "db" }
    for method in pairs(Results) do known[#known + 1] = method end
    table.sort(known)
    fail("results", ("'%s' does not exist%s"):format(tostring(name), core.did_you_mean(tostring(name), known)))
  end,
  __newindex = function(_, name) fail("results", ("read-only: cannot set '%s'"):format(tostring(name))) end,
  __tostring = summary,
  __full = full,
  __metatable = "tessera.Results",
}

local function default_db() return host.run_options and host.run_options.results or "results.db" end

return function(name, given)
  if type(name) ~= "string" or name == "" then fail(path, "the name of an experiment belongs here") end
  local opt = read(given)
  local self = setmetatable({}, shell)
  private[self] = { name = name, db = opt.db or default_db(), seed = opt.seed, continue = opt.continue }
  return self
end
