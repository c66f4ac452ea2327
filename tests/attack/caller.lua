-- Calls every documented function and method, and what the sandbox lends besides, with arguments that are right but for
-- something: an option, an item, the object itself.
--   tessera caller.lua SEED FIRST COUNT FOLDER
-- Case i is a matter of seed and i alone, but for the files that calls before it have left in FOLDER.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local core = require "tessera.core"
local host = require "tessera.host"
local ts = require "tessera"
ts.help_topics() -- loads all parts, cards and all
local random_of = require "random"
local verdict = require "verdict"
local values = require "values"
local calls = require "calls"

local seed, first, count = tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])
local limit_s = tonumber(os.getenv "TESSERA_ATTACK_LIMIT_S" or 10) -- of one call; nearly all take a thousandth

-- { name, kind = its object's or nil, fn, arguments = makes right ones, options = their specs, strict }
local targets = {}

local function add(target) targets[#targets + 1] = target end

local cards = host.cards()

-- Whatever is documented and has no right call here is a gap of this battery.
local function check_complete()
  for name in pairs(cards.functions) do
    assert(calls.functions[name] or calls.options_of[name] or calls.left_out[name], "no call of " .. name)
  end
  for name in pairs(cards.options) do
    assert(calls.functions[name] or calls.options_of[name] or calls.verbs[name] or calls.left_out[name],
      "no call of " .. name)
  end
  for kind, card in pairs(cards.objects) do
    assert(values.make[kind] or values.within[kind], "no object " .. kind)
    for _, method in ipairs(card.methods) do
      assert(calls.methods[kind .. ":" .. method.name], "no call of " .. kind .. ":" .. method.name)
    end
  end
end

local function function_named(name)
  if name == "store.open" then return require("tessera.store").open end
  local found = ts
  for part in name:sub(4):gmatch "[^.]+" do found = found[part] end
  return found
end

local function option_card(method)
  for name, of in pairs(calls.options_of) do
    if of == method then return cards.options[name] end
  end
end

local function sorted(map)
  local names = {}
  for name in pairs(map) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function add_documented()
  for _, name in ipairs(sorted(calls.functions)) do
    local card = cards.options[name]
    add { name = name, fn = function_named(name), arguments = calls.functions[name], options = card and card.options }
  end
  for _, name in ipairs(sorted(calls.methods)) do
    local card = option_card(name)
    add { name = name, kind = name:match "^(.*):", method = name:match ":(.*)$", arguments = calls.methods[name],
      options = card and card.options }
  end
  for _, name in ipairs(sorted(calls.verbs)) do
    add { name = name:gsub(" ", "_"), fn = require("tessera.cli." .. name:match " (.*)$").main,
      arguments = calls.verbs[name], options = cards.options[name].options, is_verb = true }
  end
  for _, kind in ipairs(sorted(cards.objects)) do add { name = kind, kind = kind, look = true } end
end

-- What the sandbox lends beyond ts. Modules that are not documented answer programmers, with Lua's own messages.
local function add_lent()
  for _, name in ipairs(sorted(core)) do
    add { name = "core." .. name, fn = core[name], arguments = function() return { "x", "y" } end,
      any_error = name == "raise" or name == "why" }
  end
  for _, part in ipairs(host.lent_modules()) do
    local module = part ~= "tessera" and require(part)
    for _, name in ipairs(type(module) == "table" and sorted(module) or {}) do
      if type(module[name]) == "function" then
        add { name = part .. "." .. name, fn = module[name], arguments = function() return { {}, {} } end,
          any_error = true }
      end
    end
  end
end

local function copy(value)
  if type(value) ~= "table" or debug.getmetatable(value) then return value end
  local result = {}
  for key, item in pairs(value) do result[key] = copy(item) end
  return result
end

local function number_in(spec, random)
  local low, high = spec.min or -10, spec.max or 100
  return random:pick { low, high, low - 1, high + 1, 1, 2, math.min(high, 16) }
end

-- A value of the type that an option's card names, mostly.
local function fitting(spec, random)
  local kind = spec.type
  local choices = {}
  for choice in kind:gmatch '"([^"]*)"' do choices[#choices + 1] = choice end
  if #choices > 0 then return random:pick(choices) end
  for object in kind:gmatch "tessera%.%w+" do
    if values.make[object] and random:once_in(2) then return values.object(object, random) end
  end
  if kind:find "^integer%[%]" then return { number_in(spec, random), number_in(spec, random) } end
  if kind:find "^string%[%]" then return { "x", "T4-16G" } end
  if kind:find "^integer" then return math.floor(number_in(spec, random)) end
  if kind:find "^number" then return number_in(spec, random) end
  if kind:find "^boolean" then return random:once_in(2) end
  if kind:find "^fun" then return function() error(verdict.own_error, 0) end end
  if kind:find "^string" then return random:pick { "opt-125m", "T4-16G", "2xT4-16G", "x", "attack.db", "exact" } end
  return {}
end

local function keys_in_order(map)
  local keys = {}
  for key in pairs(map) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

-- Every table among the arguments, the list of arguments first.
local function tables_of(value, list)
  list[#list + 1] = value
  for _, key in ipairs(keys_in_order(value)) do
    local item = value[key]
    if type(item) == "table" and not debug.getmetatable(item) and #list < 50 then tables_of(item, list) end
  end
  return list
end

-- Some flags of a verb, as the command line lets them through.
local function set_flags(target, flags, random)
  for _ = 1, random:below(4) do
    local spec = random:pick(target.options)
    local value = fitting(spec, random)
    if type(value) == "number" then
      value = math.max(spec.min or value, math.min(spec.max or value, value))
    end
    if spec.name ~= "model" and spec.name ~= "cluster" and spec.name ~= "out" then flags[spec.name] = value end
  end
end

-- Changes one thing, or leaves all as it is.
local function disturb(target, arguments, random)
  if target.is_verb then return set_flags(target, arguments[1], random) end
  local options = target.options and arguments[#arguments]
  local kind = random:below(20)
  if kind == 0 then return end
  if type(options) == "table" and kind < 9 then
    local spec = random:pick(target.options)
    options[spec.name] = values.odd(random)
  elseif type(options) == "table" and kind < 14 then
    local spec = random:pick(target.options)
    options[spec.name] = fitting(spec, random)
  elseif kind < 17 then
    local place = random:pick(tables_of(arguments, {}))
    local keys = keys_in_order(place)
    if #keys == 0 then keys[1] = 1 end
    place[random:pick(keys)] = values.odd(random)
  elseif kind == 17 and type(options) == "table" then
    options[random:pick { "x", 1, "timelimit", true, "a\27b", "" }] = values.odd(random)
  else
    arguments[1 + random:below(3)] = values.odd(random)
  end
end

local function is_why(value) return type(value) == "table" and debug.getmetatable(value) ~= nil
  and getmetatable(value) == "tessera.Error" end

-- What came back is looked at as a user would.
local function look(target, ok, ...)
  if not ok then
    local err = ...
    if not target.any_error then error(err, 0) end
    if type(err) == "table" and err.code == "internal" and target.name ~= "core.raise" then verdict.why(err) end
    return
  end
  local given, why = ...
  if given == nil and is_why(why) then
    if not target.any_error then verdict.why(why) end
  elseif type(given) == "userdata" and not (io.type(given)) then
    verdict.object(given, target.name)
  elseif type(given) == "function" and target.kind then
    for _ = 1, 3 do
      if given() == nil then break end
    end
  end
end

local function looked_at(object, random)
  local name = random:pick { "name", "no_such_field", "x\27y" }
  for _, try in ipairs {
    function() return tostring(object) end,
    function() return object[name] end,
    function() return object[values.odd(random)] end,
    -- Moves are structs, writes to which LuaJIT refuses in its own words.
    function() if type(object) ~= "cdata" then object[name] = 1 end end,
    function() return verdict.object(object, "the object") end,
    function() return object.to_table and object:to_table() end,
  } do
    local ok, err = pcall(try)
    if not ok then
      if type(err) == "table" and rawget(err, "defect") then error(err, 0) end
      -- Plain tables, and keys that are nil or not a number, are Lua's own business.
      if type(object) ~= "table" or debug.getmetatable(object) then verdict.why(err) end
    end
  end
end

local function call(target, object, random)
  if target.look then return looked_at(object, random) end
  local arguments = copy(target.arguments())
  local fn = target.fn
  if target.kind then
    fn = object[target.method]
    if target.kind == "tessera.Search" and (target.method == "apply" or target.method == "evaluate") then
      arguments[1] = object:moves {}()
    end
  end
  disturb(target, arguments, random)
  local last = 0
  for key in pairs(arguments) do last = type(key) == "number" and math.max(last, key) or last end
  last = math.min(last, 8)
  local self = object
  if target.kind and random:once_in(12) then self = values.odd(random) end
  if random:once_in(16) then collectgarbage() end
  local function made()
    if target.kind then return fn(self, unpack(arguments, 1, last)) end
    return fn(unpack(arguments, 1, last))
  end
  if random:once_in(10) then made = coroutine.wrap(made) end
  local function limited() return host.limited(limit_s, "the attack", made) end
  local results = { pcall(limited) }
  if results[1] then
    if results[2] then look(target, true, results[3], results[4]) end
  else
    look(target, false, results[2])
  end
end

local function run(target, random)
  if values.within[target.kind] then
    local ok, err = true, nil
    values.within[target.kind](function(object) ok, err = pcall(call, target, object, random) end)
    if not ok then error(err, 0) end
  else
    call(target, target.kind and values.object(target.kind, random), random)
  end
end

check_complete()
add_documented()
add_lent()
local tally = {}
for case = first, first + count - 1 do
  local target, random = targets[1 + case % #targets], random_of(seed, case)
  io.stdout:write(("\n@case %d %s\n"):format(case, target.name))
  io.stdout:flush()
  local outcome, defect = verdict.of(run, target, random)
  tally[target.name] = tally[target.name] or { value = 0, refused = 0 }
  if outcome then
    tally[target.name][outcome] = tally[target.name][outcome] + 1
  else
    io.stdout:write(("\n@fail %d %s %s\n"):format(case, target.name, (defect:gsub("%c", "?"))))
  end
end
for name, counts in pairs(tally) do
  io.stdout:write(("\n@tally %s %d %d\n"):format(name, counts.value, counts.refused))
end
io.stdout:write "\n@done\n"
