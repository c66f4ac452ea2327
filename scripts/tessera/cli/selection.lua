-- Which run and rows the flags --where, --failed, --columns, --sort and --limit ask for.

local core = require "tessera.core"
local rows = require "tessera.desk.rows"
local sorted_keys = require "tessera.sorted_keys"

local M = {}

local function fail(flag, text) core.raise("usage", ("%s: %s"):format(flag, text), flag) end

--- The words of --where (or another flag), split at commas: { "planner=exact", "uniform", "model=opt-30b" } is
--- { planner = { "exact", "uniform" }, model = { "opt-30b" } }.
function M.conditions_of(words, flag)
  local conditions, name = {}, nil
  for _, word in ipairs(words or {}) do
    local key, value = word:match "^([^=]*)=(.*)$"
    if key == "" or not (key or name) then
      fail(flag or "--where", ("'%s' is not of the form key=value"):format(word))
    end
    if key then
      name = key
      conditions[name] = conditions[name] or {}
    end
    table.insert(conditions[name], key and value or word)
  end
  return conditions
end

-- Refuses names that no row has.
local function check_columns(found, names, flag)
  if not names or #names == 0 then return end
  local known = {}
  for _, some in ipairs { rows.keys(found), rows.columns(found), { "status", "error" } } do
    for _, name in ipairs(some) do
      known[name], known[#known + 1] = true, name
    end
  end
  for _, name in ipairs(names) do
    if #found > 0 and not known[name] then
      fail(flag, ("no row has a column '%s'%s"):format(name, core.did_you_mean(name, known)))
    end
  end
end

local function less(a, b)
  if type(a) == "number" and type(b) == "number" then return a < b end
  if type(a) == type(b) then return tostring(a) < tostring(b) end
  return type(a) == "number" -- numbers before words
end

local most_shown = 12

-- "no row has batch = 5: there are 1, 2, 4"
local function values_text(all, name, wanted)
  local seen, values = {}, {}
  for _, row in ipairs(all) do
    local value = rows.value(row, name)
    if value ~= nil and not seen[value] then
      seen[value], values[#values + 1] = true, value
    end
  end
  table.sort(values, less)
  local words = {}
  for i = 1, math.min(#values, most_shown) do words[i] = type(values[i]) == "table" and "..." or tostring(values[i]) end
  return ("no row has %s = %s: there are %s%s"):format(name, table.concat(wanted, " or "), table.concat(words, ", "),
    #values > most_shown and (" and %d more"):format(#values - most_shown) or "")
end

--- Why no row of `all` fits the words of --where: the conditions that none fits, with what values there are.
function M.why_none(all, words)
  local conditions, texts = M.conditions_of(words), {}
  for _, name in ipairs(sorted_keys(conditions)) do
    if #rows.where(all, { [name] = conditions[name] }) == 0 then
      texts[#texts + 1] = values_text(all, name, conditions[name])
    end
  end
  return #texts > 0 and table.concat(texts, "; ") or ("none of the %d rows fits"):format(#all)
end

--- The rows that fit the words of --where.
function M.where(found, words)
  local conditions = M.conditions_of(words)
  check_columns(found, sorted_keys(conditions), "--where")
  return rows.where(found, conditions)
end

--- The words of a flag such as --against as values of a point, { planner = "uniform", batch = 4 }, of the kinds that
--- the rows have; nil where the flag is not given.
function M.point(all, words, flag)
  if not words then return nil end
  local point = {}
  for name, texts in pairs(M.conditions_of(words, flag)) do
    if #texts > 1 then fail(flag, ("one value of %s belongs here, got %d"):format(name, #texts)) end
    check_columns(all, { name }, flag)
    for _, row in ipairs(rows.where(all, { [name] = texts })) do point[name] = row.point[name] end
    if #all > 0 and point[name] == nil then fail(flag, values_text(all, name, texts)) end
  end
  return point
end

-- Rows without the column come last either way; equal ones keep their order.
local function sort(found, column)
  local descending = column:sub(1, 1) == "-"
  local name = descending and column:sub(2) or column
  check_columns(found, { name }, "--sort")
  local place = {}
  for i, row in ipairs(found) do place[row] = i end
  table.sort(found, function(a, b)
    local x, y = rows.value(a, name), rows.value(b, name)
    if x ~= nil and y ~= nil and x ~= y then
      if descending then x, y = y, x end
      if less(x, y) then return true end
      if less(y, x) then return false end
    elseif (x == nil) ~= (y == nil) then
      return y == nil
    end
    return place[a] < place[b]
  end)
end

--- Whether all rows have to be read to know which ones are asked for, and that they have the columns.
function M.needs_all(given) return (given.where or given.sort or given.columns) ~= nil end

--- The rows of `all` that are asked for, in the order that is asked for.
function M.select(all, given)
  check_columns(all, given.columns, "--columns")
  local found = {}
  for _, row in ipairs(M.where(all, given.where)) do
    if not given.failed or rows.failed(row) then found[#found + 1] = row end
  end
  if given.sort then sort(found, given.sort) end
  for i = #found, (given.limit or math.huge) + 1, -1 do found[i] = nil end
  return found
end

local function names_of(file)
  local names, seen = {}, {}
  for _, run in ipairs(file:runs()) do
    if not seen[run.experiment] then names[#names + 1] = run.experiment end
    seen[run.experiment] = true
  end
  table.sort(names)
  return names
end

--- The run of an experiment that is asked for (the newest), and all of its runs.
function M.run(file, name, wanted)
  local runs = file:runs { experiment = name }
  if #runs == 0 then
    core.raise("not_found", ("%s has no experiment '%s'%s"):format(file.path, name,
      core.did_you_mean(name, names_of(file))), name)
  end
  if not wanted then return runs[#runs], runs end
  local ids = {}
  for i, run in ipairs(runs) do
    if run.id == wanted then return run, runs end
    ids[i] = tostring(run.id)
  end
  core.raise("not_found", ("%s in %s has no run %s; it has %s"):format(name, file.path, tostring(wanted),
    table.concat(ids, ", ")), "--run")
end

return M
