-- What goes by a name: planners and heuristics, schedulers, routers. Each kind has those of the engine, those that ship
-- as Lua files, and those that scripts add. A file registers what it is called after; it is loaded when its name is
-- asked for, or a list of all. Files of users lie in folders of the same names below those of TESSERA_PATH.
--
-- A new kind is one more call of `kind`, with a folder that has a _template.lua.

local core = require "tessera.core"
local host = require "tessera.host"
local options = require "tessera.options"
local sorted_keys = require "tessera.sorted_keys"

local M = {}
local fail = core.refuse
local Kind = {}
Kind.__index = Kind

local library = host.installation.scripts_dir .. "/tessera/"

local most_levels = 32

--- A copy of a value, tables within it included; a table within itself is refused. `path`: where it was given.
function M.copy(value, path, level)
  if type(value) ~= "table" then return value end
  level = (level or 0) + 1
  if level > most_levels then fail(path, ("tables within tables, more than %d deep"):format(most_levels)) end
  local copy = {}
  for key, item in pairs(value) do copy[key] = M.copy(item, path, level) end
  return copy
end

-- Every card has these; what a card has beside them is said where its kind is.
local common = {
  { "name", "string", "What %s names" },
  { "doc", "string", "One sentence" },
  { "source", "string?", "The paper or the code that it comes from" },
}
local options_field = { "options",
  "table<string, { type: string, default: any, min: number?, max: number?, doc: string? }>?",
  "Options of its own%s" }

local function plain_type(lua_type)
  return lua_type:find "^fun" and "function" or lua_type:find "^table" and "table" or lua_type:match "^%l+" or "string"
end

local function may_be_nil(lua_type) return lua_type:find "|nil$" or lua_type:find "%?$" and not lua_type:find "^fun" end

local function check_fields(card, path, fields)
  local known, required = {}, {}
  for _, field in ipairs(fields) do
    known[field[1]] = plain_type(field[2])
    if not may_be_nil(field[2]) then required[#required + 1] = field[1] end
  end
  core.check_plain(card, path, "a table with " .. table.concat(required, ", "))
  for field, value in pairs(card) do
    if not known[field] then
      fail(path, ("unknown field '%s'%s"):format(tostring(field),
        core.did_you_mean(tostring(field), sorted_keys(known))))
    end
    if type(value) ~= known[field] then
      fail(path .. "." .. field, ("a %s belongs here, not a %s"):format(known[field], type(value)))
    end
  end
  for _, field in ipairs(required) do
    if card[field] == nil then fail(path .. "." .. field, "missing; give a " .. known[field]) end
  end
  if not card.name:find "^[%w_][%w_.%-]*$" then
    fail(path .. ".name", "a name has letters, digits, '_', '-' and '.', such as \"first_fit\"")
  end
end

--- A kind of plugins. `what`: the word for one, in messages; `engine`: cards of those in C++; `folders`: where files
--- that register one lie.
function M.kind(kind)
  kind.entries, kind.built_in, kind.files = {}, {}, {}
  for _, card in ipairs(kind.engine) do kind.built_in[card.name] = card end
  return setmetatable(kind, Kind)
end

--- The function that registers a plugin by a card of this form, documented. `call`: its name; `object`: of the card;
--- `doc`: what it adds; `names`: the option that names one; `fields`: of the card, as core.document_object takes them,
--- beside name, doc and source; `options`: what takes options of its own, where it may have some, and `reserved`: the
--- names that these may not have, each with why; `check(card, path)`; `added(entry)`.
function Kind:form(form)
  local fields = M.copy(common, form.call)
  fields[1][3] = fields[1][3]:format(form.names)
  if form.options then
    fields[#fields + 1] = { options_field[1], options_field[2], options_field[3]:format(form.options_doc) }
  end
  for _, field in ipairs(form.fields) do fields[#fields + 1] = field end
  core.document_object { name = form.object, doc = ("What %s takes."):format(form.call), fields = fields, methods = {} }
  local named = {}
  for i, field in ipairs(fields) do named[i] = field[1] end
  core.document {
    name = form.call, doc = form.doc .. " One of the same name that was added before is replaced.",
    parameters = { { "card", form.object, table.concat(named, ", ") } }, returns = form.object,
  }
  return function(card)
    check_fields(card, form.call, fields)
    if form.check then form.check(card, form.call) end
    self:list_files()
    if self.built_in[card.name] and not self:is_loading(card.name) then
      fail(form.call .. ".name", ("'%s' is built in; choose another"):format(card.name))
    end
    for name, spec in pairs(card.options or {}) do
      if form.reserved[name] then fail(("%s.options.%s"):format(form.call, name), form.reserved[name]) end
      options.check_spec(name, spec, form.call .. ".options")
    end
    local entry = M.copy(card, form.call)
    entry.read = form.options and options.reader(form.options, entry.options or {})
    self.entries[card.name] = entry
    if form.added then form.added(entry) end
    return card
  end
end

-- Names of the files that ship, each with its module.
function Kind:list_files()
  if self.are_files_listed then return end
  self.are_files_listed = true
  for _, folder in ipairs(self.folders) do
    for _, path in ipairs(host.scripts(library .. folder)) do
      local name = path:match "([^/]+)%.lua$"
      if not name:find "^_" then
        self.files[name], self.built_in[name] = ("tessera.%s.%s"):format(folder, name), true
      end
    end
  end
end

-- Whether the file that ships is running, which has that name to give.
function Kind:is_loading(name)
  return self.files[name] and not self.entries[name] and package.loaded[self.files[name]] ~= nil
end

function Kind:load_shipped(name)
  self:list_files()
  if not self.entries[name] and self.files[name] then require(self.files[name]) end
end

-- One broken file of a user must not take the others with it.
function Kind:load_users()
  if self.broken_files then return end
  self.broken_files = {}
  for _, folder in ipairs(self.folders) do
    for _, path in ipairs(host.user_scripts(folder)) do
      local chunk, message = loadfile(path)
      local ok = chunk ~= nil
      if chunk then ok, message = pcall(chunk) end
      if not ok then table.insert(self.broken_files, ("%s: %s"):format(path, tostring(message))) end
    end
  end
end

--- Files of TESSERA_PATH that could not be loaded: "path: why".
function Kind:broken()
  self:load_users()
  return self.broken_files
end

--- The plugin of that name: what was registered, or the engine's card; `path` is the option that names it.
function Kind:named(name, path)
  if type(name) ~= "string" then
    fail(path, ("the name of a %s belongs here, not a %s"):format(self.what, type(name)))
  end
  local function found() return self.entries[name] or type(self.built_in[name]) == "table" and self.built_in[name] end
  if not found() then self:load_shipped(name) end
  if not found() then self:load_users() end
  if found() then return found() end
  local files = #self.broken_files > 0 and "; not loaded: " .. table.concat(self.broken_files, "; ") or ""
  core.raise("not_found", ("%s: %s '%s'%s%s"):format(path, self.unknown, name,
    core.did_you_mean(name, self:names()), files), path)
end

function Kind:names()
  local seen = {}
  for _, names in ipairs { self.entries, self.built_in } do
    for name in pairs(names) do seen[name] = true end
  end
  return sorted_keys(seen)
end

--- Cards of all of them, sorted by name: name, doc, source, and what `add(card, entry)` adds.
function Kind:cards(add)
  self:list_files()
  for name in pairs(self.files) do self:load_shipped(name) end
  self:load_users()
  local cards = {}
  for i, name in ipairs(self:names()) do
    local entry = self.entries[name] or self.built_in[name]
    cards[i] = { name = name, doc = entry.doc, source = entry.source or "" }
    if add then add(cards[i], entry) end
  end
  return cards
end

return M
