-- `tessera plot NAME`: the plots of an experiment's newest run, or one that the flags describe, on the terminal or as
-- files.

local core = require "tessera.core"
local flags = require "tessera.cli.flags"
local host = require "tessera.host"
local plot = require "tessera.desk.plot"
local selection = require "tessera.cli.selection"
local specs = require "tessera.desk.report.specs"
local store = require "tessera.store"
local stored_rows = require "tessera.desk.stored_rows"

local M = {}

local function fail(flag, text) core.raise("usage", ("%s: %s"):format(flag, text), flag) end

-- The flags that describe a plot; without --kind none of them means anything.
local own = { "x", "y", "by", "facet", "value", "title", "log_x", "log_y" }

-- What is to be drawn: of the flags, of the declaration, or what suits the rows.
local function wanted(run, list, given)
  if given.kind then
    local spec = { kind = given.kind, over = run.declaration.over }
    for _, name in ipairs(own) do spec[name] = given[name] end
    return { spec }
  end
  for _, name in ipairs(own) do
    if given[name] ~= nil and name ~= "facet" then
      fail(flags.name(name), "it describes a plot of your own; say --kind too")
    end
  end
  local found = specs.of(run, list)
  for _, spec in ipairs(found) do
    spec.facet, spec.over = given.facet or spec.facet, given.over or spec.over
  end
  if #found == 0 then
    core.raise("not_found", ("no column of %s has numbers, so there is nothing to draw"):format(run.experiment),
      run.experiment)
  end
  return found
end

local function drawn(spec, list)
  local copy = { rows = list }
  for key, value in pairs(spec) do copy[key] = value end
  return plot(copy)
end

-- "llmpq-table4-2": the experiment, and which of several.
local function path_of(folder, run, i, count, format)
  local name = run.experiment:gsub("[^%w._-]", "-")
  return ("%s/%s%s.%s"):format(folder, name, count > 1 and "-" .. i or "", format)
end

local function save(plots, run, given)
  local folder = given.out:gsub("(.)/+$", "%1")
  host.make_folder(folder)
  local paths = {}
  for i, picture in ipairs(plots) do
    paths[i] = path_of(folder, run, i, #plots, given.format or "svg")
    picture:save(paths[i])
  end
  if host.json then return host.set_result(paths) end
  for _, path in ipairs(paths) do print("wrote " .. path) end
end

local function show(plots, given)
  if given.format then fail("--format", "it is that of files; say where with --out DIR") end
  if host.json then fail("--json", "a plot is no data; tessera results NAME --json has its rows") end
  for i, picture in ipairs(plots) do
    if i > 1 then print "" end
    print(picture)
  end
end

--- @param given table names, results, run, out, format, kind, x, y, by, facet, value, title, log_x, log_y, where
function M.main(given)
  if #given.names ~= 1 then fail("tessera plot", ("one experiment belongs here, got %d"):format(#given.names)) end
  local file = store.open(given.results or "results.db", { read_only = true })
  local run = selection.run(file, given.names[1], given.run)
  local all = stored_rows.rows(file, run, {})
  local list = selection.where(all, given.where)
  if #all > 0 and #list == 0 then fail("--where", selection.why_none(all, given.where)) end
  local plots = {}
  local against = selection.point(all, given.against, "--against")
  run.declaration.over = given.over or run.declaration.over
  for i, spec in ipairs(wanted(run, list, given)) do
    if against then spec.against, spec.y_label = against, spec.y and ("%s - %s"):format(spec.y,
      table.concat(given.against, " ")) end
    plots[i] = drawn(spec, list)
  end
  file:close()
  if given.out then return save(plots, run, given) end
  return show(plots, given)
end

return M
