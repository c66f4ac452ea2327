-- ts.paper "llmpq/table4.csv": cells of a published table.
--
-- A CSV file in the folder `papers` of `datasets`, or of a folder in TESSERA_PATH. Lines that begin with '#' come
-- first: `# source: ...` and `# keys: cluster, planner` must be among them, `# table: ...` and `# page: ...` may be;
-- others are comments. Then a line of column names, then one line per published row. Columns named in `keys` make the
-- point; the others are published numbers or words. An empty cell was not printed. Fields with commas stand in quotes.

local core = require "tessera.core"
local escape = require "tessera.desk.escape"
local exists = require "tessera.files".exists
local host = require "tessera.host"

local M = {}

local function fail(path, line, text)
  core.raise("invalid_argument", ("%s:%d: %s"):format(path, line, text), path)
end

-- The fields of one line; "" inside quotes is a quotation mark.
local function split(line, path, number)
  local fields, at = {}, 1
  while true do
    if line:sub(at, at) == '"' then
      local text, from = "", at + 1
      while true do
        local quote_at = line:find('"', from, true) or fail(path, number, "a quotation mark is not closed")
        text = text .. line:sub(from, quote_at - 1)
        at = quote_at + 1
        if line:sub(at, at) ~= '"' then break end
        text, from = text .. '"', at + 1
      end
      fields[#fields + 1] = text
      if at <= #line and line:sub(at, at) ~= "," then fail(path, number, "text follows a closing quotation mark") end
    else
      local stop = line:find(",", at, true) or #line + 1
      local text = line:sub(at, stop - 1)
      if text:find('"', 1, true) then fail(path, number, "a quotation mark inside a field without quotation marks") end
      fields[#fields + 1] = escape.trimmed((text:gsub("^%s+", "")))
      at = stop
    end
    if at > #line then return fields end
    at = at + 1
  end
end

local function header_of(text, number, header, path)
  local name, value = escape.trimmed(text):match "^#%s*(%l+):%s*(.*)$"
  if name ~= "source" and name ~= "table" and name ~= "page" and name ~= "keys" then return end
  if header[name] then fail(path, number, ("'%s' is there twice"):format(name)) end
  if value == "" then fail(path, number, ("'%s' is empty"):format(name)) end
  header[name] = value
end

-- Names of the key columns; every one must be a column.
local function keys_of(header, columns, path, number)
  local keys, is_column = {}, {}
  for _, name in ipairs(columns) do
    if not name:find "^[%a_][%w_]*$" then fail(path, number, ("'%s' is no column name"):format(name)) end
    if is_column[name] then fail(path, number, ("column '%s' is there twice"):format(name)) end
    is_column[name] = true
  end
  for name in header.keys:gmatch "[^,%s]+" do
    if not is_column[name] then
      fail(path, number, ("no column '%s', which 'keys' names%s"):format(name, core.did_you_mean(name, columns)))
    end
    keys[#keys + 1], keys[name] = name, true
  end
  return keys
end

local function value_of(text)
  if text == "" then return nil end
  return tonumber(text) or text
end

local function row_of(fields, columns, keys, path, number)
  if #fields ~= #columns then
    fail(path, number, ("%d fields, the header has %d columns"):format(#fields, #columns))
  end
  local row = { point = {} }
  for c, name in ipairs(columns) do
    local value = value_of(fields[c])
    if keys[name] and value == nil then fail(path, number, ("the key '%s' is empty"):format(name)) end
    if type(value) == "number" and (value ~= value or math.abs(value) == math.huge) then
      fail(path, number, ("%s is not a finite number"):format(fields[c]))
    end
    if keys[name] then row.point[name] = value else row[name] = value end
  end
  return row
end

--- Reads the text of such a file; `path` is named in errors.
function M.parse(text, path)
  local header, columns, keys, rows, seen, number = {}, nil, nil, {}, {}, 0
  for line in (text:gsub("\r\n", "\n"):gsub("\n?$", "\n")):gmatch "(.-)\n" do
    number = number + 1
    if line:find "^#" and not columns then
      header_of(line, number, header, path)
    elseif line:find "%S" then
      local fields = split(line, path, number)
      if not columns then
        if not header.source then fail(path, number, "no line '# source: ...' says where this was printed") end
        if not header.keys then fail(path, number, "no line '# keys: ...' names the columns that make a point") end
        columns, keys = fields, keys_of(header, fields, path, number)
      else
        local row = row_of(fields, columns, keys, path, number)
        local name = core.to_json(row.point)
        if seen[name] then fail(path, number, ("the point of line %d again"):format(seen[name])) end
        seen[name], rows[#rows + 1] = number, row
      end
    end
  end
  if #rows == 0 then fail(path, number, "no rows") end
  local published = {}
  for _, name in ipairs(columns) do
    if not keys[name] then published[#published + 1] = name end
  end
  local names, points = {}, {}
  for i, name in ipairs(keys) do names[i] = name end
  for i, row in ipairs(rows) do points[i] = row.point end
  return {
    path = path, source = header.source, table = header.table, page = header.page, keys = names,
    columns = published, rows = rows, points = points,
  }
end

local function find(name)
  local tried = {}
  for _, folder in ipairs(host.user_folders()) do
    tried[#tried + 1] = folder .. "/papers/" .. name
    tried[#tried + 1] = folder .. "/datasets/papers/" .. name
  end
  tried[#tried + 1] = host.installation.datasets_dir .. "/papers/" .. name
  for _, path in ipairs(tried) do
    if exists(path) then return path end
  end
  core.raise("not_found", ("ts.paper: there is no file '%s' in the folder papers of datasets%s"):format(name,
    #tried > 1 and " or of TESSERA_PATH" or ""), "ts.paper")
end

--- The published table of that name.
function M.load(name)
  if type(name) ~= "string" then
    core.raise("invalid_argument", "ts.paper: a name belongs here (llmpq/table4.csv), not a " .. type(name), "ts.paper")
  end
  if name:find("..", 1, true) or not name:find "^[%w_][%w_./-]*$" then
    core.raise("invalid_argument", ("ts.paper: '%s' is no name of a file below papers"):format(name), "ts.paper")
  end
  local path = find(name)
  return M.parse(core.read_file(path), path)
end

core.document {
  name = "ts.paper", doc = "Cells of a published table: a CSV file below datasets/papers, or papers in TESSERA_PATH.",
  parameters = { { "name", "string", "\"llmpq/table4.csv\"" } },
  returns = "{ source: string, keys: string[], columns: string[], rows: table[], points: table[] }",
}

return M
