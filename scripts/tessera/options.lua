-- Checks a table of options against a specification: what planners written in Lua declare as `options`.
-- The same rules as in C++: unknown keys, types and ranges are errors that name the option.

local core = require "tessera.core"

local raw_metatable = debug.getmetatable -- which a sandbox takes away later

local M = {}

local function fail(path, text) core.raise("invalid_argument", path .. ": " .. text, path) end

--- Checks that a value is a table with fields of its own: `what` it is in words, "a list of rows". A table that answers
--- by a metatable would say another thing each time that it is asked.
function M.plain(value, path, what)
  if type(value) ~= "table" then fail(path, ("%s belongs here, not a %s"):format(what, type(value))) end
  local meta = raw_metatable(value)
  if meta and rawget(meta, "__index") then
    fail(path, ("%s belongs here, not a table that answers by a metatable"):format(what))
  end
end

--- Checks that a value is a list: a plain table whose keys are 1 .. n;
--- check_item(item, path) looks at each item.
function M.list(value, path, what, check_item)
  M.plain(value, path, what)
  local length, count = #value, 0
  for key in pairs(value) do
    if type(key) ~= "number" then
      fail(path, ("%s belongs here, but it has the key '%s'"):format(what, tostring(key)))
    end
    if key % 1 ~= 0 or key < 1 or key > length then fail(path, "the list has gaps") end
    count = count + 1
  end
  if count ~= length then fail(path, "the list has gaps") end
  for i = 1, check_item and length or 0 do check_item(value[i], ("%s[%d]"):format(path, i)) end
end

--- An item check for `list`: of this Lua type.
function M.item_of(item_type)
  return function(item, path)
    if type(item) ~= item_type then fail(path, ("a %s belongs here, not a %s"):format(item_type, type(item))) end
  end
end

local checks = {}

function checks.number(value, spec, path)
  if type(value) == "table" then fail(path, "a number belongs here, not a table") end
  if type(value) ~= "number" or value ~= value or value == math.huge or value == -math.huge then
    fail(path, ("%s is not a finite number"):format(tostring(value)))
  end
  if (spec.min and value < spec.min) or (spec.max and value > spec.max) then
    fail(path, ("%g is outside [%s, %s]"):format(value, tostring(spec.min or "-inf"), tostring(spec.max or "inf")))
  end
end

function checks.integer(value, spec, path)
  checks.number(value, spec, path)
  if value ~= math.floor(value) or math.abs(value) > 2 ^ 53 then
    fail(path, ("%s is not an integer"):format(tostring(value)))
  end
end

function checks.boolean(value, _, path)
  if type(value) ~= "boolean" then fail(path, "true or false belongs here, not a " .. type(value)) end
end

function checks.string(value, _, path)
  if type(value) ~= "string" then fail(path, "a string belongs here, not a " .. type(value)) end
end

-- What functions of the library take besides: tables that they check themselves, and things of any type.
local reads = setmetatable({}, { __index = checks })

function reads.table(value, _, path) M.plain(value, path, "a table") end

function reads.any() end

function reads.choice(value, spec, path)
  checks.string(value, spec, path)
  for _, choice in ipairs(spec.choices) do
    if value == choice then return end
  end
  fail(path, ("'%s' is none of '%s'%s"):format(value, table.concat(spec.choices, "', '"),
    core.did_you_mean(value, spec.choices)))
end

function reads.integers(value, _, path)
  M.list(value, path, "a list of integers", function(item, at) checks.integer(item, {}, at) end)
end

local spec_fields = { type = "string", default = "any", min = "number", max = "number", doc = "string" }

--- Checks the specification of one option: { type =, default =, min =, max =, doc = }.
function M.check_spec(name, spec, path)
  if type(name) ~= "string" then fail(path, ("an option has a name, got the key %s"):format(tostring(name))) end
  path = path .. "." .. name
  if type(spec) ~= "table" or not checks[spec.type] then
    fail(path, "give { type = \"number\" | \"integer\" | \"boolean\" | \"string\", default =, doc = }")
  end
  for field, value in pairs(spec) do
    local expected = spec_fields[field]
    if not expected then fail(path, ("unknown field '%s'"):format(tostring(field))) end
    if expected ~= "any" and type(value) ~= expected then
      fail(path .. "." .. field, ("a %s belongs here, not a %s"):format(expected, type(value)))
    end
  end
  if spec.min and spec.max and spec.min > spec.max then fail(path, "min is above max") end
  if spec.default ~= nil then checks[spec.type](spec.default, spec, path .. ".default") end
end

--- Returns a new table with every option of `specs`, given or default.
function M.read(given, specs, path)
  local known, result = {}, {}
  for name in pairs(specs) do known[#known + 1] = name end
  table.sort(known)
  for name, value in pairs(given) do
    local spec = specs[name]
    if not spec then
      fail(path, ("unknown option '%s'%s"):format(tostring(name), core.did_you_mean(tostring(name), known)))
    end
    reads[spec.type](value, spec, path .. "." .. name)
    result[name] = value
  end
  for name, spec in pairs(specs) do
    if result[name] == nil then result[name] = spec.default end
  end
  return result
end

--- Documents a function of the library by the list `card.options` and returns what reads a table of them: one list
--- feeds help, editors and checks.
function M.card(card)
  core.document(card)
  local specs = {}
  for _, spec in ipairs(card.options) do specs[spec.name] = spec end
  return function(given)
    if given == nil then given = {} end
    if type(given) ~= "table" then fail(card.name, "its options are a table, not a " .. type(given)) end
    local result = M.read(given, specs, card.name)
    for _, spec in ipairs(card.options) do
      if spec.required and result[spec.name] == nil then
        fail(card.name .. "." .. spec.name, "missing; " .. spec.doc)
      end
    end
    return result
  end
end

return M
