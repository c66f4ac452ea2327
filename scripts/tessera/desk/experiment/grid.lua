-- The points of an experiment: the cells of its grid, in a fixed order.

local core = require "tessera.core"
local options = require "tessera.options"
local sorted_keys = require "tessera.sorted_keys"

local M = {}

--- Points of one grid; an experiment of more takes days, and a list of more does not fit what a script may have.
M.max_points = 1000000

local fail = core.refuse

local function check_key(key, path)
  if type(key) ~= "string" or not key:find "^[%a_][%w_]*$" then
    fail(path, ("the key %s is no name of letters, digits and '_'"):format(tostring(key)))
  end
  if key == "point" or key == "status" or key == "error" then
    fail(path, ("'%s' is what rows call something else; choose another name"):format(key))
  end
end

local function check_value(value, path)
  local kind = type(value)
  if kind == "number" then
    if value ~= value or value == math.huge or value == -math.huge then
      fail(path, ("%s is not a finite number"):format(tostring(value)))
    end
  elseif kind ~= "string" and kind ~= "boolean" then
    fail(path, ("a string, a number or a boolean belongs here, not a %s%s"):format(kind, kind == "table"
      and "; give it a name, and look the table up by that name in `run`" or ""))
  end
end

-- A list of different values.
local function check_values(values, path)
  options.list(values, path, "a list of values")
  if #values == 0 then fail(path, "the list of values is empty") end
  local seen = {}
  for i, value in ipairs(values) do
    check_value(value, ("%s[%d]"):format(path, i))
    if seen[value] then fail(path, ("%s is there twice"):format(tostring(value))) end
    seen[value] = true
  end
end

-- Before any point is made: every combination of a thousand values of three keys would not fit any memory.
local function check_count(count, path)
  if count <= M.max_points then return end
  local shown = count < 1e15 and ("%.0f"):format(count) or count < math.huge and ("%.3g"):format(count)
    or "more than 1e308"
  fail(path, ("it has %s points, at most %d belong to one grid; list fewer values, or make several grids of it"):format(
    shown, M.max_points))
end

-- Every combination of the values; the last key changes fastest.
local function cells(grid, keys, path)
  local count = 1
  for _, key in ipairs(keys) do count = count * #grid[key] end
  check_count(count, path)
  local points = {}
  for index = 0, count - 1 do
    local point, rest = {}, index
    for k = #keys, 1, -1 do
      local values = grid[keys[k]]
      point[keys[k]] = values[rest % #values + 1]
      rest = math.floor(rest / #values)
    end
    points[index + 1] = point
  end
  return points
end

-- Points that a script listed: all with the same keys, no two alike.
local function listed(grid, path)
  options.list(grid, path, "a list of points")
  check_count(#grid, path)
  local keys, seen = sorted_keys(grid[1]), {}
  for i, point in ipairs(grid) do
    local at = ("%s[%d]"):format(path, i)
    if type(point) ~= "table" then fail(at, "a point belongs here, { key = value, ... }, not a " .. type(point)) end
    for key, value in pairs(point) do
      check_key(key, at)
      check_value(value, at .. "." .. key)
      if grid[1][key] == nil then fail(at, ("it has the key '%s', which the first point has not"):format(key)) end
    end
    for _, key in ipairs(keys) do
      if point[key] == nil then fail(at, ("it has no '%s', which the first point has"):format(key)) end
    end
    local name = core.to_json(point)
    if seen[name] then fail(at, "the same point is there twice: " .. M.text(point)) end
    seen[name] = true
  end
  if #keys == 0 then fail(path, "a point without keys") end
  return keys, grid
end

--- Keys in order and points in order, of { key = { values } } or of a list of points.
function M.expand(grid, path)
  options.plain(grid, path, "{ key = { value, ... }, ... }, or a list of points,")
  if next(grid) == nil then fail(path, "give { key = { value, ... }, ... }, or a list of points") end
  if type(grid[1]) == "table" then return listed(grid, path) end
  if grid[1] ~= nil then fail(path .. "[1]", "a point belongs here, { key = value, ... }, not a " .. type(grid[1])) end
  for key, values in pairs(grid) do
    check_key(key, path)
    check_values(values, path .. "." .. key)
  end
  local keys = sorted_keys(grid)
  return keys, cells(grid, keys, path)
end

--- The points of `quick`: the grid with other values for some keys; of listed points, those with these values.
function M.quick(grid, quick, path)
  local keys, points = M.expand(grid, "ts.experiment.grid")
  if quick == nil then return points end
  options.plain(quick, path, "a table { key = { values } }")
  for key, values in pairs(quick) do
    if type(key) ~= "string" or points[1][key] == nil then
      fail(path, ("the grid has no key '%s'%s"):format(tostring(key), core.did_you_mean(tostring(key), keys)))
    end
    check_values(values, path .. "." .. key)
  end
  if type(grid[1]) == "table" then
    local chosen = M.select(points, quick)
    if #chosen == 0 then fail(path, "no point of the grid has these values") end
    return chosen
  end
  local changed = {}
  for key, values in pairs(grid) do changed[key] = quick[key] or values end
  return cells(changed, keys, path)
end

--- The points that have one of the wanted values for every key of { key = value or { value, ... } }.
function M.select(points, wanted)
  local chosen = {}
  for _, point in ipairs(points) do
    local fits = true
    for key, values in pairs(wanted) do
      local found = false
      for _, value in ipairs(type(values) == "table" and values or { values }) do
        found = found or point[key] == value
      end
      fits = fits and found
    end
    if fits then chosen[#chosen + 1] = point end
  end
  return chosen
end

local function fail_where(text) core.raise("usage", "--where: " .. text, "--where") end

-- The values that a word of --where means: all that read like it, 1 and "1" alike. Numbers are shown with 14 digits;
-- a word with more of them means the one number that it is.
local function meant(values, text)
  local number, exact, alike = tonumber(text), {}, {}
  local shown = number and tostring(number)
  for value in pairs(values) do
    local is_number = type(value) == "number"
    if is_number and value == number then exact[1] = value end
    if tostring(value) == text or (is_number and tostring(value) == shown) then alike[#alike + 1] = value end
  end
  return #exact > 0 and number ~= tonumber(shown) and exact or alike
end

local function texts_of(values)
  local seen = {}
  for value in pairs(values) do seen[tostring(value)] = true end
  return sorted_keys(seen)
end

--- { key = { values } } of the words of --where, "key=value" and further values; checked against the points.
function M.where(words, keys, points)
  local wanted, key = {}, nil
  local known = {}
  for _, name in ipairs(keys) do known[name] = {} end
  for _, point in ipairs(points) do
    for name, value in pairs(point) do known[name][value] = true end
  end
  for _, word in ipairs(words) do
    local name, text = word:match "^([^=]*)=(.*)$"
    if name then key = name end
    text = text or word
    if not key then fail_where(("'%s' is not key=value"):format(word)) end
    if not known[key] then
      fail_where(("the experiment has no key '%s'%s"):format(key, core.did_you_mean(key, keys)))
    end
    local values = meant(known[key], text)
    if #values == 0 then
      fail_where(("no point has %s = '%s'%s"):format(key, text, core.did_you_mean(text, texts_of(known[key]))))
    end
    wanted[key] = wanted[key] or {}
    for _, value in ipairs(values) do table.insert(wanted[key], value) end
  end
  return wanted
end

--- "cluster=llmpq-1 planner=exact"
function M.text(point, keys)
  local parts = {}
  for i, key in ipairs(keys or sorted_keys(point)) do parts[i] = key .. "=" .. tostring(point[key]) end
  return table.concat(parts, " ")
end

--- ts.grid { key = { values } }: the list of points, for scripts that loop themselves.
function M.points(grid)
  local _, points = M.expand(grid, "ts.grid")
  return points
end

core.document {
  name = "ts.grid", doc = "Every combination of the values, in order of the sorted keys, the last changing fastest.",
  parameters = { { "grid", "table<string, any[]>", "Lists of strings, numbers or booleans by key" } },
  returns = "table[]",
}

return M
