-- Whoever reads data of others says so: every file that asks for one is among the readers of a declared data set, every
-- path that it asks for by name is a file of such a set, and every reader that a declaration names does read. Takes the
-- files of the tree ({ path, text }) and the declarations; nothing here touches the disk.

local M = {}

-- What asks for data of others, and where the words alone mean nothing.
local marks = { "measured%.path%s*[%(\"]", "data_sets%.path%s*%(", "shared/measured", "shared/instances",
  "build/models/" }
local silent = {
  ["scripts/tessera/desk/data_sets.lua"] = true, ["experiments/lib/measured.lua"] = true,
  ["tests/lua/data_sets_spec.lua"] = true,
}
-- Folders by name: in C++ and in tests, which have no Lua library or need a path before it runs; not in scripts.
local by_name = { "shared/measured", "shared/instances", "build/models/" }

local function line_of(text, at) return 1 + select(2, text:sub(1, at - 1):gsub("\n", "")) end

local function is_judged(path)
  return (path:find "%.lua$" or path:find "%.cpp$" or path:find "%.h$") and not silent[path]
    and not path:find "^tests/lint/"
end

local function first_mark(text)
  local first
  for _, mark in ipairs(marks) do
    local at = text:find(mark)
    if at and (not first or at < first) then first = at end
  end
  return first
end

-- Whether a name as it stands in a script, %s, %d and cut ends included, can be the path of one of the sets' files.
local function may_be_of(name, sets)
  local pattern = "^" .. name:gsub("%%[ds]", "\0"):gsub("%p", "%%%0"):gsub("%z", ".-")
  for _, set in ipairs(sets) do
    for _, entry in ipairs(set.files) do
      if entry.path:find(pattern) then return true end
    end
  end
  return false
end

--- @return table[] findings { path, line, rule, message }
function M.check(files, sets)
  local findings, of_reader, texts = {}, {}, {}
  local function report(path, line, message)
    findings[#findings + 1] = { path = path, line = line, rule = "data", message = message }
  end
  for _, set in ipairs(sets) do
    for _, reader in ipairs(set.read_by) do
      of_reader[reader] = of_reader[reader] or {}
      table.insert(of_reader[reader], set)
    end
  end
  for _, file in ipairs(files) do
    texts[file.path] = file.text
    local at = is_judged(file.path) and first_mark(file.text)
    if at then
      local own = of_reader[file.path]
      if not own then
        report(file.path, line_of(file.text, at),
          "reads data of others: add it to read_by of its set in datasets/data_sets, or declare the set there")
      end
      for where, name in file.text:gmatch "()%f[%w_]path%s*%(?%(?%s*\"([^\"]+/[^\"]*)\"" do
        if own and not may_be_of(name, own) then
          report(file.path, line_of(file.text, where), ("no data set that it is a reader of has '%s'"):format(name))
        end
      end
      for _, name in ipairs(file.path:find "^tests/" and {} or by_name) do
        local where = file.text:find(name, 1, true)
        if where then
          report(file.path, line_of(file.text, where), name .. ": ask tessera.desk.data_sets for the path")
        end
      end
    end
  end
  for _, set in ipairs(sets) do
    for _, reader in ipairs(set.read_by) do
      local text = texts[reader]
      if not text or not first_mark(text) then
        report("datasets/data_sets/" .. set.name .. ".json", 1,
          ("%s %s"):format(reader, text and "reads no data of others" or "is not there"))
      end
    end
  end
  return findings
end

return M
