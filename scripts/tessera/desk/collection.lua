-- ts.collection { ... }: several experiments, each in a script of its own, that are run and reported together. It runs
-- nothing: `tessera run` sweeps one after the other and writes one report of them all.

local core = require "tessera.core"
local exists = require "tessera.files".exists
local host = require "tessera.host"
local options = require "tessera.options"

local type_name = "tessera.Collection"

local fail = core.refuse

local read = options.card {
  name = "ts.collection",
  doc = "Declares a collection of experiments. A script that returns it is swept by `tessera run`, which then writes "
    .. "one report.",
  returns = type_name,
  options = {
    { name = "name", type = "string", required = true, doc = "Of the report's file: reproduce_all" },
    { name = "doc", type = "string", default = "", doc = "One line" },
    {
      name = "scripts", type = "table", required = true, lua_type = "string[]",
      doc = "Scripts that return experiments, or folders of such scripts, from the folder of this one",
    },
    { name = "except", type = "table", lua_type = "string[]", doc = "Scripts of these folders that are left out" },
  },
}

core.document_object {
  name = type_name, doc = "A declared collection of experiments: what ts.collection was given, and its scripts.",
  fields = {
    { "name", "string", "Of the report's file" }, { "doc", "string", "One line" },
    { "paths", "string[]", "Of the scripts, in order" }, { "empty", "string[]", "Folders that hold no script" },
  },
  methods = {},
}

local function check_names(list, path)
  if list == nil then return end
  options.list(list, path, "a list of paths", function(name, at)
    if type(name) ~= "string" or name == "" or name:sub(1, 1) == "/" or name:find("..", 1, true) then
      fail(at, ("'%s' is no path below the folder of this script"):format(tostring(name)))
    end
  end)
end

-- fig5 before fig10.
local function place(path)
  return (path:gsub("%d+", function(digits) return ("0"):rep(12 - #digits) .. digits end))
end

-- The scripts right in a folder, those of its own folders left out.
local function of_folder(folder)
  local found = {}
  for _, path in ipairs(host.scripts(folder)) do
    if not path:sub(#folder + 2):find("/", 1, true) then found[#found + 1] = path end
  end
  table.sort(found, function(a, b) return place(a) < place(b) end)
  return found
end

-- Paths of the scripts, each once, and names of the folders without any.
local function resolve(fields, folder)
  local paths, empty, seen = {}, {}, {}
  for _, name in ipairs(fields.except or {}) do
    if not exists(folder .. name) then fail("ts.collection.except", "there is no script " .. folder .. name) end
    seen[folder .. name] = true
  end
  for i, name in ipairs(fields.scripts) do
    local is_script = name:find "%.lua$" ~= nil
    local found = is_script and { folder .. name } or of_folder(folder .. name)
    if is_script and not exists(folder .. name) then
      fail(("ts.collection.scripts[%d]"):format(i), ("there is no script %s"):format(folder .. name))
    end
    if #found == 0 then empty[#empty + 1] = name end
    for _, path in ipairs(found) do
      if not seen[path] then paths[#paths + 1] = path end
      seen[path] = true
    end
  end
  if #paths == 0 then fail("ts.collection.scripts", "no script is there") end
  return paths, empty
end

return function(given)
  if type(given) ~= "table" then fail("ts.collection", "give one table, not a " .. type(given)) end
  local fields = read(given)
  if not fields.name:find "^[%w][%w_-]*$" then
    fail("ts.collection.name", ("'%s' is no name: letters, digits, '_' and '-'"):format(fields.name))
  end
  check_names(fields.scripts, "ts.collection.scripts")
  check_names(fields.except, "ts.collection.except")
  local script = host.loaded_files()[1]
  if not script then fail("ts.collection", "only a script in a file has others beside it") end
  fields.paths, fields.empty = resolve(fields, script:match "^(.*/)" or "")
  return setmetatable({}, {
    __metatable = type_name,
    __index = fields,
    __newindex = function(_, key) fail(type_name, ("it is read-only: cannot set '%s'"):format(tostring(key))) end,
    __tostring = function() return ("collection %s: %d scripts"):format(fields.name, #fields.paths) end,
  })
end
