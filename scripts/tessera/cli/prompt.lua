-- What the prompt adds to Lua: describe, time, reload, help on methods, and completion inside calls.

local core = require "tessera.core"
local host = require "tessera.host"
local terminal = require "tessera.terminal"

local M = {}

local function shorten(text, limit)
  text = text:gsub("\n.*", " ..."):gsub("%c", "?")
  return #text > limit and text:sub(1, limit - 3) .. "..." or text
end

local function short(value)
  local kind = type(value)
  if kind == "number" then return ("%.10g"):format(value) end
  if kind == "string" then return shorten(("%q"):format(value), 40) end
  if kind == "table" and getmetatable(value) == nil then
    local count = 0
    for _ in pairs(value) do count = count + 1 end
    if count == 0 then return "{}" end
    return #value == count and ("a list of %d"):format(count) or ("a table of %d"):format(count)
  end
  return shorten(tostring(value), 40)
end

-- Type and name of a method of the engine's objects.
local function method_of(f)
  for name, metatable in pairs(debug.getregistry()) do
    local members = type(name) == "string" and name:find "^tessera%." and type(metatable) == "table"
      and rawget(metatable, "__members")
    for member, value in pairs(members or {}) do
      if value == f and member ~= "to_table" then return name, member end
    end
  end
end

local function method_text(type_name, method)
  local topic = type_name:match "%.(%w+)$":lower() .. ":" .. method
  local cards = host.cards()
  if cards.options[topic] then return host.help(topic) end
  for _, card in ipairs(cards.objects[type_name] and cards.objects[type_name].methods or {}) do
    if card.name == method then return ("%s%s  [%s]\n  %s\n"):format(topic, card.type, type_name, card.doc) end
  end
end

--- Help on a method: the function itself, or a text like "plan:save" or "tessera.Plan:save". nil where it is none.
function M.method_help(wanted)
  if type(wanted) == "function" then
    local type_name, method = method_of(wanted)
    return type_name and method_text(type_name, method)
  end
  local owner, method = tostring(wanted):match "^([%w_.]+)[:.]([%w_]+)$"
  if not owner then return nil end
  for type_name in pairs(host.cards().objects) do
    if type_name:lower() == owner:lower() or type_name:lower() == "tessera." .. owner:lower() then
      return method_text(type_name, method)
    end
  end
end

local function describe_object(value, type_name, card)
  print(("%s: %s"):format(type_name, card.doc))
  local width = 0
  for _, field in ipairs(card.fields) do width = math.max(width, #field.name) end
  for _, field in ipairs(card.fields) do
    local ok, content = pcall(function() return value[field.name] end)
    local shown = ok and content ~= nil and short(content) or "-"
    print(("  %-" .. width .. "s  %-24s  %s"):format(field.name, shown, field.doc))
  end
  for _, method in ipairs(card.methods) do
    print(("  :%s%s\n      %s"):format(method.name, method.type, method.doc))
  end
end

local function describe_table(value)
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  print(("a table with %d items in sequence and %d keys in all"):format(#value, #keys))
  table.sort(keys, function(a, b)
    if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then return a < b end
    return type(a) < type(b)
  end)
  for i, key in ipairs(keys) do
    if i > 20 then return print(("  ... %d more"):format(#keys - 20)) end
    print(("  %-24s  %-8s  %s"):format(shorten(tostring(key), 24), type(value[key]), short(value[key])))
  end
end

local function describe_function(value)
  local name
  for key, item in pairs(require "tessera") do
    if item == value then name = "ts." .. key end
  end
  local text = name and host.help(name) or M.method_help(value)
  if text then return terminal.say(text) end
  local info = debug.getinfo(value, "S")
  print(info.what == "C" and "a function written in C++"
    or ("a function of %s, lines %d to %d"):format(info.short_src, info.linedefined, info.lastlinedefined))
end

local name_kinds = { "models", "devices", "clusters", "workloads", "kernel_sets" }

local function describe_text(value)
  print(("a string of %d bytes"):format(#value))
  for _, kind in ipairs(name_kinds) do
    for _, name in ipairs(core.names(kind)) do
      if name == value then
        print(("  the name of one of the %s: describe(ts.%s %q)"):format(kind:gsub("_", " "), kind:sub(1, -2), value))
      end
    end
  end
end

--- describe(value): what it is, what is in it, with units and meaning.
function M.describe(value)
  local type_name = getmetatable(value)
  local card = type(type_name) == "string" and type(value) ~= "string" and host.cards().objects[type_name]
  if card then return describe_object(value, type_name, card) end
  if type(value) == "table" then return describe_table(value) end
  if type(value) == "function" then return describe_function(value) end
  if type(value) == "string" then return describe_text(value) end
  print(("a %s: %s"):format(type(value), short(value)))
end

local function finish_timing(start, ...)
  print(("%.6g s"):format(core.clock() - start))
  return ...
end

--- time(f, ...): calls it, prints how long it took by the wall, returns what it returned.
function M.time(f, ...)
  if type(f) ~= "function" then
    core.raise("invalid_argument", "time: a function belongs here, not a " .. type(f)
      .. "; time(function() ... end) takes statements, and :time prints the time of every line", "time")
  end
  return finish_timing(core.clock(), f(...))
end

local last_file
local modules_of = {} -- path -> names of the modules that the file brought in

--- reload "file.lua": runs it again, with the modules that it requires; everything else stays as it is.
function M.reload(path)
  path = path or last_file
  if not path then core.raise("invalid_argument", "reload: name a file; reload() repeats the last one", "reload") end
  local chunk, message = loadfile(path)
  if not chunk then core.raise("script", "reload: " .. message, path) end
  last_file = path
  for _, name in ipairs(modules_of[path] or {}) do package.loaded[name] = nil end
  local before = {}
  for name in pairs(package.loaded) do before[name] = true end
  local function keep(...)
    modules_of[path] = {}
    for name in pairs(package.loaded) do
      if not before[name] and not name:find "^tessera%f[%W]" then table.insert(modules_of[path], name) end
    end
    return ...
  end
  return keep(chunk(path))
end

-- Open brackets up to the end of the text, innermost last, each { at, kind, callee }; and where an open string begins.
local function open_brackets(text)
  local stack, i = {}, 1
  while i <= #text do
    local c = text:sub(i, i)
    if c == '"' or c == "'" then
      local stop = i + 1
      while stop <= #text and text:sub(stop, stop) ~= c do
        stop = stop + (text:sub(stop, stop) == "\\" and 2 or 1)
      end
      if stop > #text then return stack, i end
      i = stop
    elseif c == "(" or c == "{" then
      local before = text:sub(1, i - 1)
      local callee = before:match "([%a_][%w_.:]*)%s*$"
      local above = stack[#stack]
      if not callee and c == "{" and above and above.kind == "(" then callee = above.callee end
      stack[#stack + 1] = { at = i, kind = c, callee = callee, key = before:match "([%a_][%w_]*)%s*=%s*$" }
    elseif c == ")" or c == "}" then
      stack[#stack] = nil
    end
    i = i + 1
  end
  return stack, nil
end

-- The options that a call takes: "ts.plan", or "p:explain" whatever p is.
local function options_of(callee)
  if not callee then return nil end
  local part = callee:match "^ts%.([%w_]+)$"
  if part then pcall(function() return require("tessera")[part] end) end -- some bring their card when first used
  local known = host.cards().options
  if known[callee] then return known[callee].options end
  local method = callee:match ":([%w_]+)$"
  local names = {}
  for name in pairs(known) do
    if method and name:match ":([%w_]+)$" == method then names[#names + 1] = name end
  end
  table.sort(names)
  return names[1] and known[names[1]].options
end

local function planner_names()
  local names = {}
  for _, card in ipairs(require("tessera.planning.planners").list()) do names[#names + 1] = card.name end
  return names
end

local function values_of(options, key)
  if key == "planner" then return planner_names() end
  for _, option in ipairs(options or {}) do
    if option.name == key and option.choices then return option.choices end
  end
  for _, kind in ipairs(name_kinds) do
    if key and kind:sub(1, -2) == key then return core.names(kind) end
  end
end

local function starting(prefix, words)
  local found = {}
  for _, word in ipairs(words or {}) do
    if word:sub(1, #prefix) == prefix then found[#found + 1] = word end
  end
  table.sort(found)
  return found
end

-- Inside a string: the value of an option, or the name that a constructor takes.
local function complete_value(text, stack, quote)
  local frame = stack[#stack]
  local before, prefix = text:sub(1, quote - 1), text:sub(quote + 1)
  local key = before:match "([%a_][%w_]*)%s*=%s*$"
  local options = frame and options_of(frame.callee)
  if frame and not key and frame.kind == "{" and frame.key then -- planner = { "adabits", "
    key, options = frame.key, stack[#stack - 1] and options_of(stack[#stack - 1].callee)
  end
  key = key or before:match "ts%.([%a_]+)[%s(]*$"
  return starting(prefix, values_of(options, key)), #prefix
end

--- What could follow the text: words, and how many bytes of them are there already; nil outside calls of the library.
function M.complete(text)
  local stack, quote = open_brackets(text)
  if quote then return complete_value(text, stack, quote) end
  local frame = stack[#stack]
  local options = frame and frame.kind == "{" and options_of(frame.callee)
  local prefix = text:match "[{,]%s*([%w_]*)$"
  if not options or not prefix then return nil end
  local names, given = {}, text:sub(frame.at)
  for _, option in ipairs(options) do
    if not given:find("%f[%w_]" .. option.name .. "%s*=") then names[#names + 1] = option.name end
  end
  return starting(prefix, names), #prefix
end

return M
