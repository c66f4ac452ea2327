-- Options that are declared in Lua: those of the library's functions, and what planners written in Lua declare as
-- `options`. The engine reads them, by the rules of its own.

local core = require "tessera.core"
local sorted_keys = require "tessera.sorted_keys"

local M = {}

local fail = core.refuse

--- plain(value, path, what): checks that a value is a table with fields of its own, `what` in words: "a list of rows".
M.plain = core.check_plain

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

--- A number from `least` to `most`, both left out: any that is one. `hint`: what to do where there is none.
function M.number(value, path, least, most, hint)
  if type(value) ~= "number" or value ~= value then
    fail(path, ("a number belongs here, not %s%s"):format(type(value) == "number" and "nan" or "a " .. type(value),
      hint or ""))
  end
  if value < (least or -math.huge) or value > (most or math.huge) then
    core.raise("out_of_range", ("%s: %g is outside [%g, %g]"):format(path, value, least, most), path)
  end
  return value
end

-- What a planner or a heuristic may declare.
local declared = { number = true, integer = true, boolean = true, string = true, any = true }

local spec_fields = { type = "string", default = "any", min = "number", max = "number", doc = "string" }

--- Checks the specification of one option: { type =, default =, min =, max =, doc = }.
function M.check_spec(name, spec, path)
  if type(name) ~= "string" then fail(path, ("an option has a name, got the key %s"):format(tostring(name))) end
  path = path .. "." .. name
  if type(spec) ~= "table" or not declared[spec.type] then
    fail(path, "give { type = \"number\" | \"integer\" | \"boolean\" | \"string\" | \"any\", default =, doc = }")
  end
  for field, value in pairs(spec) do
    local expected = spec_fields[field]
    if not expected then fail(path, ("unknown field '%s'"):format(tostring(field))) end
    if expected ~= "any" and type(value) ~= expected then
      fail(path .. "." .. field, ("a %s belongs here, not a %s"):format(expected, type(value)))
    end
  end
  if spec.min and spec.max and spec.min > spec.max then fail(path, "min is above max") end
  if spec.default ~= nil then M.reader(path, { default = spec }) { default = spec.default } end
end

local function finite(bound) return bound and math.abs(bound) < math.huge and bound or nil end

-- As the engine wants it. A string of `bytes` need not be UTF-8.
local function for_engine(name, spec)
  local lua_type = spec.bytes and "string" or spec.lua_type or spec.type == "any" and "any" or nil
  return {
    name = name, type = spec.bytes and "any" or spec.type, lua_type = lua_type, doc = spec.doc or "", unit = spec.unit,
    min = finite(spec.min), max = finite(spec.max), choices = spec.choices, required = spec.required,
  }
end

--- What reads tables of these options, { [name] = spec } or a list of specs with names: reader(given, path) checks
--- them by the engine's rules and returns a new table of every option, given or default. Errors name `path`.
function M.reader(own_path, specs)
  local list, defaults, tables = {}, {}, {}
  for _, key in ipairs(sorted_keys(specs)) do
    local spec = specs[key]
    local name = spec.name or key
    list[#list + 1], defaults[name] = for_engine(name, spec), spec.default
    if spec.type == "table" then tables[#tables + 1] = name end
  end
  local read = core.option_reader({ name = own_path, doc = "", options = list }, defaults)
  if #tables == 0 then return read end
  return function(given, path)
    local result = read(given, path)
    for _, name in ipairs(tables) do
      if result[name] ~= nil then M.plain(result[name], ("%s.%s"):format(path or own_path, name), "a table") end
    end
    return result
  end
end

--- Documents a function of the library by the list `card.options` and returns what reads a table of them: one list
--- feeds help, editors and checks.
function M.card(card)
  core.document(card)
  return M.reader(card.name, card.options)
end

--- Options of the table called `name` ("ts.plan") among the flags of a verb.
function M.of_flags(given, name)
  local options = {}
  for _, option in ipairs(core.options_of(name)) do options[option.name] = given[option.name] end
  return options
end

return M
