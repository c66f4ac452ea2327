-- `tessera data [NAME]`: the data sets of others, which of them are here, and where the rest can be had.

local core = require "tessera.core"
local data_sets = require "tessera.desk.data_sets"
local host = require "tessera.host"
local terminal = require "tessera.terminal"
local text_table = require "tessera.desk.text_table"

local M = {}

local function size_text(bytes)
  if bytes < 1e6 then return ("%.0f kB"):format(math.max(1, bytes / 1e3)) end
  return ("%.1f MB"):format(bytes / 1e6)
end

local function files_text(set)
  if set.state == "present" or set.state == "absent" then return tostring(set.num_files) end
  return ("%d of %d"):format(set.num_present, set.num_files)
end

-- What is wrong with single files, a line each: every change, and what cannot be read.
local function troubles(sets)
  local lines = {}
  for _, set in ipairs(sets) do
    for _, entry in ipairs(set.files) do
      if entry.state == "changed" or entry.state == "unreadable" then
        lines[#lines + 1] = ("%s: %s is %s: %s"):format(set.name, entry.path, entry.state, entry.message)
      elseif entry.state == "absent" and set.state ~= "absent" then
        lines[#lines + 1] = ("%s: %s is not there"):format(set.name, entry.path)
      end
    end
  end
  return lines
end

-- Lines as wide as stdout.
local function say(text, ...) terminal.say(terminal.wrapped(text:format(...))) end

local function list(sets)
  local rows, absent, roots = {}, {}, {}
  for i, set in ipairs(sets) do
    rows[i] = {
      name = set.name, state = set.state, files = files_text(set), size = size_text(set.size_bytes),
      sha256 = set.sha256:sub(1, 12), licence = set.licence:match "^[^:(]*[^:( ]",
    }
    if set.state == "absent" then absent[#absent + 1] = set end
    roots[set.root] = true
  end
  say("%s", text_table(rows, { columns = { "name", "state", "files", "size", "sha256", "licence" } }))
  for _, line in ipairs(troubles(sets)) do say("%s", line) end
  if #absent > 0 then print "\nwithout those that are absent:" end
  for _, set in ipairs(absent) do say("  %s: %s", set.name, set.without) end
  print ""
  for _, root in ipairs { "measured", "instances", "models" } do
    if roots[root] then
      local folder, variable = data_sets.root(root)
      say("%-9s are looked for in %s%s", root, folder,
        variable and (" (%s names another folder)"):format(variable) or "")
    end
  end
  say "`tessera data NAME` shows one in full, --check compares SHA-256. Nothing is fetched."
end

local function show(set)
  say("%s: %s\n", set.name, set.doc)
  local facts = {
    { "state", set.state }, { "size", ("%s in %s"):format(size_text(set.size_bytes),
      set.num_files == 1 and "1 file" or set.num_files .. " files") }, { "folder", set.folder },
    { "from", set.origin }, { "licence", set.licence }, { "sha256", set.sha256 },
    { "read by", table.concat(set.read_by, ", ") }, { "without it", set.without },
  }
  for _, fact in ipairs(facts) do say("%-10s  %s", fact[1], fact[2]) end
  print ""
  local rows = {}
  for i, entry in ipairs(set.files) do
    rows[i] = { file = entry.path, state = entry.state, bytes = entry.size_bytes, sha256 = entry.sha256 }
  end
  say("%s", text_table(rows, { columns = { "file", "state", "bytes", "sha256" } }))
  for _, line in ipairs(troubles { set }) do say("%s", line) end
end

--- @param given table names, check
function M.main(given)
  if #given.names > 1 then
    core.raise("usage", ("tessera data: one data set at a time, got %d names"):format(#given.names), "tessera data")
  end
  local sets = data_sets.list { name = given.names[1], check = given.check }
  if host.json then
    host.set_result(given.names[1] and sets[1] or sets)
  elseif given.names[1] then
    show(sets[1])
  else
    list(sets)
  end
  -- A file that is not the recorded one is what --check is asked about; one that is absent is no fault.
  for _, set in ipairs(sets) do
    if given.check and (set.state == "changed" or set.state == "unreadable") then return 1 end
  end
  return 0
end

return M
