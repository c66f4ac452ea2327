-- Data of others that experiments, fits and tests read: each set is declared once, in datasets/data_sets/NAME.json.
--
-- Whatever reads one asks `path` for its place, which refuses files that no declaration has. Nothing is fetched here.
-- ts.data_sets { ... } says which are there.

local core = require "tessera.core"
local text_of = require "tessera.files".text
local host = require "tessera.host"
local options = require "tessera.options"
local store = require "tessera.store"
local stored_rows = require "tessera.desk.stored_rows"

local M = {}

-- Where the files of a set may lie: in a folder beside the project or in its build, or in what the variable names.
local roots = {
  measured = { folder = "/../../shared/measured", variable = "TESSERA_MEASURED" },
  instances = { folder = "/../../shared/instances" },
  models = { folder = "/../build/models" },
}

local kind = "data_sets"

--- The folder that paths of this root start from, whether it is there or not, and the variable that names another one.
function M.root(name)
  local root = roots[name]
  local named = root.variable and os.getenv(root.variable) or ""
  local folder = named ~= "" and named:gsub("(.)/+$", "%1") or host.installation.datasets_dir .. root.folder
  return folder, root.variable
end

local texts = { "name", "doc", "root", "origin", "licence", "without" }

-- A declaration that ships is right (tests/lint); one in TESSERA_PATH may not be.
local function checked(set, file, name)
  local function fail(what) core.raise("parse", ("%s: %s"):format(file, what), file) end
  if type(set) ~= "table" then fail "an object belongs here" end
  for _, key in ipairs(texts) do
    if type(set[key]) ~= "string" then fail(("'%s' is missing, or no text"):format(key)) end
  end
  if set.name ~= name then fail(("it is called '%s', and its file %s"):format(set.name, name)) end
  if not roots[set.root] then fail(("root '%s' is none of measured, instances, models"):format(set.root)) end
  for _, key in ipairs { "read_by", "files" } do
    if type(set[key]) ~= "table" or #set[key] == 0 then fail(("'%s' is no list, or empty"):format(key)) end
  end
  for i, reader in ipairs(set.read_by) do
    if type(reader) ~= "string" then fail(("read_by[%d] is no text"):format(i)) end
  end
  for i, entry in ipairs(set.files) do
    local right = type(entry) == "table" and type(entry.path) == "string" and type(entry.size_bytes) == "number"
      and entry.size_bytes >= 0 and entry.size_bytes < 2 ^ 53
      and type(entry.sha256) == "string" and entry.sha256:find "^%x+$" and #entry.sha256 == 64
    if right and (entry.path:find("..", 1, true) or entry.path:sub(1, 1) == "/") then
      fail(("files[%d]: '%s' is no path below the root"):format(i, entry.path))
    end
    if not right then fail(("files[%d] needs path, size_bytes and sha256"):format(i)) end
  end
  return set
end

local function read(name)
  local file = core.data_file(kind, name)
  -- Not by core.read_file: what a row is made from are the data, not their declaration.
  local text = text_of(file) or core.raise("io", "cannot read " .. file, file)
  local ok, set = pcall(core.from_json, text)
  if not ok then core.raise("parse", ("%s: %s"):format(file, set.message), file) end
  return checked(set, file, name)
end

--- All declarations, by name.
function M.declared()
  local sets = {}
  for i, name in ipairs(core.names(kind)) do sets[i] = read(name) end
  return sets
end

local declared_paths -- root .. " " .. path -> name of the set; read once

local function set_of(root, path)
  if not declared_paths then
    declared_paths = {}
    for _, set in ipairs(M.declared()) do
      for _, entry in ipairs(set.files) do declared_paths[set.root .. " " .. entry.path] = set.name end
    end
  end
  return declared_paths[root .. " " .. path]
end

-- What is at `path` that should be a regular file: its size, or nil, "absent" or "unreadable", and why.
local function size_of(path)
  local found = core.file_kind(path)
  if found and found ~= "file" then return nil, "unreadable", ("%s is a %s, not a file"):format(path, found) end
  local file, why, number = io.open(path, "rb")
  if not file then
    local none = 2 -- ENOENT: everything else is a file that is there, or a folder above it that cannot be entered
    return nil, number == none and "absent" or "unreadable", why or path .. " cannot be read"
  end
  local size, failure = file:seek "end"
  file:close()
  if not size then return nil, "unreadable", failure end
  return size
end

--- Where a declared file of a root lies, or nil and why. A file that no data set declares is an error of the script's.
function M.path(root, name)
  local set = set_of(root, name)
  if not set then
    core.raise("invalid_argument", ("no data set declares the file '%s' below '%s'; `tessera data` lists them, and "
      .. "datasets/SOURCES.md says how one is declared"):format(name, root), "data_sets.path")
  end
  local folder, variable = M.root(root)
  local path = folder .. "/" .. name
  local size, _, why = size_of(path)
  if size then return path end
  return nil, {
    code = "no_data",
    message = ("%s; `tessera data %s` says where it can be had%s"):format(why, set,
      variable and ", and " .. variable .. " may name its folder" or ""),
  }
end

-- SHA-256 over the lines "SHA-256  PATH" of its files, as sha256sum prints them, in the order of their paths.
local function digest_of(files, field)
  local lines = {}
  for i, entry in ipairs(files) do
    if not entry[field] then return nil end
    lines[i] = ("%s  %s\n"):format(entry[field], entry.path)
  end
  table.sort(lines, function(a, b) return a:sub(67) < b:sub(67) end)
  return store.sha256(table.concat(lines))
end

-- Adds `state` to an entry, with `check` also the digest that was found.
local function look(entry, folder, check, note)
  local path = folder .. "/" .. entry.path
  local size, state, why = size_of(path)
  if not size then
    entry.state, entry.message = state, why
    return
  end
  entry.state = size == entry.size_bytes and "present" or "changed"
  if entry.state == "changed" then
    entry.message = ("it has %.0f bytes, %.0f are recorded"):format(size, entry.size_bytes)
  end
  if not check then return end
  local ok, digest = pcall(store.file_sha256, path, note)
  if not ok then
    if digest.code ~= "io" then error(digest, 0) end
    entry.state, entry.message = "unreadable", digest.message
    return
  end
  entry.found_sha256 = digest
  if digest ~= entry.sha256 then
    entry.state = "changed"
    entry.message = ("its SHA-256 is %s, %s is recorded"):format(digest, entry.sha256)
  end
end

-- The state of all files together: what is worst, and whether only some are there.
local function state_of(set)
  local count = { present = 0, absent = 0, changed = 0, unreadable = 0 }
  for _, entry in ipairs(set.files) do count[entry.state] = count[entry.state] + 1 end
  set.num_present = count.present + count.changed
  if count.unreadable > 0 then return "unreadable" end
  if count.changed > 0 then return "changed" end
  if count.absent == #set.files then return "absent" end
  return count.absent > 0 and "incomplete" or "present"
end

local function total(sets)
  local bytes = 0
  for _, set in ipairs(sets) do
    for _, entry in ipairs(set.files) do bytes = bytes + entry.size_bytes end
  end
  return bytes
end

local read_options = options.card {
  name = "ts.data_sets",
  doc = "Data sets of others that experiments, fits and tests read, each declared in datasets/data_sets: name, doc, "
    .. "origin, licence, read_by, without (what is left out where it is absent), folder, files, num_files, "
    .. "num_present, size_bytes, sha256 (over the sorted lines 'SHA-256  PATH' of its files) and state: present, "
    .. "absent, incomplete, changed (size, or with check SHA-256) or unreadable. A file has path, size_bytes, sha256, "
    .. "state, where there is more to say message, and with check found_sha256. Nothing is fetched.",
  returns = "table[]",
  options = {
    { name = "name", type = "string", doc = "Only this one" },
    { name = "check", type = "boolean", default = false, doc = "Reads all files and compares their SHA-256" },
  },
}

local function chosen(name)
  if not name then return M.declared() end
  local names = core.names(kind)
  for _, known in ipairs(names) do
    if known == name then return { read(name) } end
  end
  core.raise("not_found", ("there is no data set '%s'%s; `tessera data` lists them"):format(name,
    core.did_you_mean(name, names)), "ts.data_sets.name")
end

local function fill(set, check, note)
  set.folder = M.root(set.root)
  set.num_files, set.size_bytes = #set.files, total { set }
  for _, entry in ipairs(set.files) do look(entry, set.folder, check, note(entry)) end
  set.state = state_of(set)
  set.sha256, set.found_sha256 = digest_of(set.files, "sha256"), digest_of(set.files, "found_sha256")
end

function M.list(given)
  local opt = read_options(given or {})
  local sets = chosen(opt.name)
  if not opt.check then
    for _, set in ipairs(sets) do fill(set, false, function() end) end
    return sets
  end
  stored_rows.with_bar(function(draw)
    local before, all = 0, total(sets)
    for _, set in ipairs(sets) do
      fill(set, true, function(entry)
        local start = before
        before = before + entry.size_bytes
        return function(done)
          draw(start + done, all, ("%.0f of %.0f MB, %s"):format((start + done) / 1e6, all / 1e6, entry.path))
        end
      end)
    end
  end)
  return sets
end

return M
