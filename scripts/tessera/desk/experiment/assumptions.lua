-- `tessera run NAME --set theta=10 --as mine`: an experiment with some of its assumptions changed. A name of the grid
-- gets other values; a name of ts.problem's options is given to every problem that the papers' modules make at a point.
-- Either stands in the point, so that rows say it; the experiment has another name and makes no claims.

local core = require "tessera.core"
local files = require "tessera.files"
local host = require "tessera.host"
local sorted_keys = require "tessera.sorted_keys"
local grid = require "tessera.desk.experiment.grid"

local M = {}

local function fail(text) core.raise("usage", "--set: " .. text, "--set") end

local known_options

-- The options of ts.problem by name.
local function problem_options()
  if known_options then return known_options end
  local found = {}
  for _, option in ipairs(host.cards().options["ts.problem"].options) do found[option.name] = option end
  known_options = found
  return found
end

local function makes_problems()
  for name in pairs(package.loaded) do
    if name:find "lib/papers/" then return true end
  end
  return false
end

-- Names in order with the texts of their values, of the words "name=text" and further texts.
local function parse(words)
  local names, texts = {}, {}
  for _, word in ipairs(words) do
    local name, text = word:match "^([^=]*)=(.*)$"
    if name == "" or not (name or names[#names]) then fail(("'%s' is not name=value"):format(word)) end
    if name and not texts[name] then
      names[#names + 1], texts[name] = name, {}
    end
    if name and names[#names] ~= name then fail(("'%s' is set in two places; give it once"):format(name)) end
    table.insert(texts[names[#names]], text or word)
  end
  return names, texts
end

local function number_of(text, name)
  local value = tonumber(text)
  if not value or value ~= value or math.abs(value) == math.huge then
    fail(("%s = '%s': a number belongs here"):format(name, text))
  end
  return value
end

local function boolean_of(text, name)
  if text ~= "true" and text ~= "false" then fail(("%s = '%s': true or false belongs here"):format(name, text)) end
  return text == "true"
end

-- A value of a key of the grid: of the kind of those that it has.
local function grid_value(points, name, text)
  local kinds = {}
  for _, point in ipairs(points) do kinds[type(point[name])] = true end
  if kinds.number and (not kinds.string or tonumber(text)) then return number_of(text, name) end
  if kinds.boolean and not kinds.string then return boolean_of(text, name) end
  return text
end

-- What an option's type says of its value: "number", "boolean", "text", "list" (3+4+8), or nil where no word can be it.
local function kind_of(option)
  local type_text = option.type
  if type_text:find("integer[]", 1, true) or type_text:find("number[]", 1, true) then return "list" end
  if type_text == "number" or type_text == "integer" then return "number" end
  if type_text == "boolean" then return "boolean" end
  if type_text == "string" or type_text:find '^"' or type_text:find("|string", 1, true) then return "text" end
end

-- A value of an option of ts.problem as it stands in the point.
local function option_value(option, text)
  local kind = kind_of(option)
  if not kind then
    fail(("%s is a table, which no word can be; copy the experiment: tessera examples NAME"):format(option.name))
  end
  if kind == "boolean" then return boolean_of(text, option.name) end
  if kind == "number" then return number_of(text, option.name) end
  if kind ~= "list" then return text end
  for part in (text .. "+"):gmatch "(.-)%+" do number_of(part, option.name) end
  return tonumber(text) or text
end

-- The same as ts.problem takes it.
local function given_value(option, value)
  if kind_of(option) ~= "list" then return value end
  local list = {}
  for part in (tostring(value) .. "+"):gmatch "(.-)%+" do list[#list + 1] = tonumber(part) end
  return list
end

-- Every point with each of the values in place of what it has; points that were the same but for that become one.
local function with_values(points, name, values)
  local found, seen = {}, {}
  for _, point in ipairs(points) do
    local rest = {}
    for key, value in pairs(point) do
      if key ~= name then rest[key] = value end
    end
    local place = core.to_json(rest)
    for _, value in ipairs(seen[place] and {} or values) do
      local changed = { [name] = value }
      for key, other in pairs(rest) do changed[key] = other end
      found[#found + 1] = changed
    end
    seen[place] = true
  end
  if #found > grid.max_points then fail(("%d points, at most %d"):format(#found, grid.max_points)) end
  return found
end

local function values_of(experiment, options, name, texts)
  local values, seen = {}, {}
  local in_grid = experiment.points[1][name] ~= nil
  for i, text in ipairs(texts) do
    values[i] = in_grid and grid_value(experiment.points, name, text) or option_value(options[name], text)
    if seen[values[i]] then fail(("%s = %s is there twice"):format(name, text)) end
    seen[values[i]] = true
  end
  return values
end

local function check_name(experiment, options, name)
  if experiment.points[1][name] ~= nil or options[name] then return end
  local known, others = { unpack(experiment.keys) }, sorted_keys(options)
  for _, option in ipairs(others) do known[#known + 1] = option end
  local near = core.did_you_mean(name, known)
  fail(("%s has no '%s' to change; its grid has %s; %s%s"):format(experiment.name, name,
    table.concat(experiment.keys, ", "), #others > 0 and "its problems have " .. table.concat(others, ", ")
      or "its problems are its own, not of the papers' settings (lib.papers), and are changed in a copy of it",
    near:find "did you mean" and near or ""))
end

local function text_of(names, set)
  local parts = {}
  for i, name in ipairs(names) do
    local words = {}
    for k, value in ipairs(set[name]) do words[k] = tostring(value) end
    parts[i] = name .. " = " .. table.concat(words, ", ")
  end
  return table.concat(parts, "; ")
end

-- "splitquant/table6-theta-10" where --as says nothing.
local function name_of(experiment, given, text)
  local function refuse(why) core.raise("usage", ("--as: '%s' is %s"):format(given, why), "--as") end
  local derived = (experiment.name .. "-" .. text:gsub("[^%w_]+", "-")):sub(1, 100):gsub("%W+$", "")
  local name = given or derived
  if #name > 100 or not name:find "^[%w][%w_./-]*$" or name:find("..", 1, true) or name:sub(-1) == "/" then
    refuse "no name: letters, digits, '_', '-', '.' and '/', at most 100"
  end
  if name == experiment.name then refuse "the experiment itself, whose rows are of its own assumptions" end
  return name
end

local function without(columns, names)
  if not columns then return nil end
  local left_out, found = {}, {}
  for _, name in ipairs(names) do left_out[name] = true end
  for _, name in ipairs(columns) do
    if not left_out[name] then found[#found + 1] = name end
  end
  return found
end

-- What tells this set of assumptions from every other, contents of files that it names included.
local function identity(set)
  local parts = { core.to_json(set) }
  for _, name in ipairs(sorted_keys(set)) do
    for _, value in ipairs(set[name]) do
      if type(value) == "string" and core.file_kind(value) == "file" then
        parts[#parts + 1] = require("tessera.store").sha256(files.text(value) or "")
      end
    end
  end
  return table.concat(parts, "\n")
end

-- Its notes; one that speaks of what is changed says that it does not hold here.
local function notes_of(experiment, names)
  local notes = {}
  for i, note in ipairs(experiment.notes or {}) do
    notes[i] = note
    for _, name in ipairs(names) do
      local word = "%f[%w]" .. name:gsub("_", "[_ -]") .. "%f[%W]"
      if note:lower():find(word) then notes[i] = ("of %s, not of this run: %s"):format(experiment.name, note) end
    end
  end
  return notes
end

--- The experiment as --set and --as change it; itself where they are not given.
function M.changed(experiment, options)
  if options.as and not options.set then core.raise("usage", "--as: it belongs to --set", "--as") end
  if not options.set then return experiment end
  local names, texts = parse(options.set)
  local of_problem, set, parameters = makes_problems() and problem_options() or {}, {}, {}
  local points, quick_points, keys = experiment.points, experiment.quick_points, { unpack(experiment.keys) }
  for _, name in ipairs(names) do
    check_name(experiment, of_problem, name)
    set[name] = values_of(experiment, of_problem, name, texts[name])
    if experiment.points[1][name] == nil then
      parameters[#parameters + 1], keys[#keys + 1] = name, name
    end
    points, quick_points = with_values(points, name, set[name]), with_values(quick_points, name, set[name])
  end
  local text = text_of(names, set)
  local note = ("changed by --set: %s; all else is that of %s, whose claims are about its own assumptions and are not "
    .. "checked; its notes follow"):format(text, experiment.name)
  return setmetatable({
    name = name_of(experiment, options.as, text), keys = keys, points = points, quick_points = quick_points,
    columns = without(experiment.columns, parameters), notes = { note, unpack(notes_of(experiment, names)) },
    doc = ("%s (changed: %s)"):format(experiment.doc, text), set = set, of = experiment.name, parameters = parameters,
    changes = note, identity = identity(set),
  }, { __index = function(_, name) return name ~= "check" and experiment[name] or nil end })
end

local current -- { name = value } of the point that runs
local taken = {}

--- Calls run() while every problem of the papers' modules receives the parameters of the point; what run returns, and
--- the names that no problem has received.
function M.receive(point, parameters, run)
  current, taken = {}, {}
  for _, name in ipairs(parameters) do current[name] = point[name] end
  local results = { run() }
  current = nil
  local left = {}
  for _, name in ipairs(parameters) do
    if not taken[name] then left[#left + 1] = name end
  end
  return left, unpack(results, 1, 4)
end

--- What a problem of the papers is given, changed as --set says.
function M.apply(given)
  if not current or next(current) == nil then return given end
  local options = problem_options()
  for name, value in pairs(current) do
    given[name], taken[name] = given_value(options[name], value), true
  end
  return given
end

return M
