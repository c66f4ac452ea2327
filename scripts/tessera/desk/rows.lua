-- Rows of results, as experiments give them and reports read them: { point = { planner = "exact" }, status = "optimal",
-- throughput_tok_s = 12.5 }; a point that failed has `error` in place of columns.

local core = require "tessera.core"
local published = require "tessera.desk.published"

local M = {}

local own_fields = { point = true, status = true, error = true, meta = true }

--- What a row says under this name: a returned column, or a key of its point.
function M.value(row, name)
  local value = row[name]
  if value == nil and type(row.point) == "table" then value = row.point[name] end
  return value
end

--- Whether the point failed; an infeasible one did not.
function M.failed(row) return type(row.error) == "string" end

-- The names in `declared` that occur, then the others: row by row as they appear, sorted within each. `fields_of`: the
-- table of a row whose names these are; those in `left_out` are none.
local function ordered(list, fields_of, left_out, declared)
  local known, names = {}, {}
  for _, row in ipairs(list) do
    local new
    for name in pairs(fields_of(row)) do
      if not known[name] and not left_out[name] then
        new = new or {}
        known[name], new[#new + 1] = true, name
      end
    end
    if new then
      table.sort(new)
      for _, name in ipairs(new) do names[#names + 1] = name end
    end
  end
  local result, taken = {}, {}
  for _, name in ipairs(declared or {}) do
    if known[name] and not taken[name] then
      taken[name], result[#result + 1] = true, name
    end
  end
  for _, name in ipairs(names) do
    if not taken[name] then result[#result + 1] = name end
  end
  return result
end

local nothing = {}

--- Names of the point's values.
function M.keys(list, declared)
  return ordered(list, function(row) return row.point or nothing end, nothing, declared)
end

--- Names of the returned columns, without status, error and meta.
function M.columns(list, declared) return ordered(list, function(row) return row end, own_fields, declared) end

-- What people type is text: "4", "0.10" and "true" mean what is stored as a number or as true.
local function matches(value, wanted)
  if value == wanted then return true end
  if type(value) == "number" then return tonumber(wanted) == value end
  if type(value) == "boolean" then return tostring(value) == wanted end
  if type(value) == "table" and type(wanted) == "table" then
    local store = require "tessera.store"
    return store.key { value = value } == store.key { value = wanted }
  end
  return false
end

local function matches_any(value, wanted)
  if matches(value, wanted) then return true end
  if type(wanted) ~= "table" then return false end
  for _, choice in ipairs(wanted) do
    if matches(value, choice) then return true end
  end
  return false
end

--- The rows whose values are as wanted: { planner = "exact", bitwidth = { 4, 8 } }. A name that no row has is an
--- error that names `path`.
function M.where(list, conditions, path)
  path = path or "rows.where"
  local known = {}
  for _, names in ipairs(next(conditions) == nil and {} or { M.keys(list), M.columns(list), { "status" } }) do
    for _, name in ipairs(names) do
      known[name], known[#known + 1] = true, name
    end
  end
  for name in pairs(conditions) do
    if #list > 0 and not known[name] then
      core.raise("invalid_argument", ("%s: no row has a '%s'%s"):format(path, tostring(name),
        core.did_you_mean(tostring(name), known)), path)
    end
  end
  local found = {}
  for _, row in ipairs(list) do
    local fits = true
    for name, wanted in pairs(conditions) do fits = fits and matches_any(M.value(row, name), wanted) end
    if fits then found[#found + 1] = row end
  end
  return found
end

local meta_columns = {
  { "script", function(meta) return meta.script_hash:sub(1, 12) end },
  { "commit", function(meta) return meta.git_commit:sub(1, 12) end },
  { "seed", function(meta) return meta.seed end },
  { "host", function(meta) return meta.machine.host end },
  { "started_at", function(meta) return meta.started_at > 0 and M.time_text(meta.started_at) or nil end },
  { "duration_s", function(meta) return meta.duration_s end },
  { "provenance", function(meta) return meta.provenance end },
  { "error_ratio", function(meta) return meta.error_ratio end },
}

--- "2026-11-21 22:10:05 UTC" for seconds since 1970.
function M.time_text(time_s) return os.date("!%Y-%m-%d %H:%M:%S UTC", time_s) end

-- Name and getter of each column of a sheet.
local function getters(list, opt)
  local found = {}
  local function add(name, get) found[#found + 1] = { name, get } end
  local function add_value(name) add(name, function(row) return M.value(row, name) end) end
  if opt.columns then
    for _, name in ipairs(opt.columns) do add_value(name) end
  else
    for _, key in ipairs(M.keys(list, opt.keys)) do add(key, function(row) return row.point[key] end) end
    add_value "status"
    for _, name in ipairs(opt.others or M.columns(list, opt.declared)) do
      add(name, function(row) return row[name] end)
    end
  end
  if opt.error then add("error", function(row) return row.error end) end
  for _, column in ipairs(opt.meta and meta_columns or {}) do
    add(column[1], function(row) return row.meta and column[2](row.meta) end)
  end
  return found
end

-- Half widths of the means of columns, as ts.repeated has them beside each, by the number of a column and by line.
-- Where all columns are shown they need none of their own.
local function take_halves(list, found, all)
  local halves, is_half = {}, {}
  for _, getter in ipairs(found) do is_half[getter[1] .. "_half"] = true end
  for c = #found, 1, -1 do
    if all and is_half[found[c][1]] then table.remove(found, c) end
  end
  for c, getter in ipairs(found) do
    local name = getter[1] .. "_half"
    for l, row in ipairs(list) do
      if type(row[name]) == "number" and getter[2](row) == row[getter[1]] then
        halves[c] = halves[c] or {}
        halves[c][l] = row[name]
      end
    end
  end
  return halves
end

--- Rows as a sheet (see tessera.desk.sheet): point keys first, then status and columns, or exactly `columns`. `keys`
--- and `declared`: names whose order comes first; `others`: the names behind status, all of them; `error`: also the
--- failures' messages; `meta`: also where rows come from; `spread`: means of ts.repeated carry their half widths.
function M.sheet(list, opt)
  local found = getters(list, opt or {})
  local half = opt and opt.spread and take_halves(list, found, not opt.columns) or nil
  local result = { columns = {}, lines = {}, half = half,
    num_keys = not (opt and opt.columns) and #M.keys(list) or nil }
  for c, getter in ipairs(found) do result.columns[c] = getter[1] end
  for c, name in ipairs(result.columns) do
    local kind = published.split(name)
    if kind then
      result.headings, result.percent = result.headings or {}, result.percent or {}
      result.headings[c] = published.heading(name, result.columns)
      result.percent[c] = kind == "diff" or nil
    end
  end
  for l, row in ipairs(list) do
    local line = {}
    for c, getter in ipairs(found) do line[c] = getter[2](row) end
    result.lines[l] = line
  end
  return result
end

return M
