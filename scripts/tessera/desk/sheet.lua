-- A sheet is a list of column names and a list of lines, each with a value (or nil) per column:
-- { columns = { "planner", "latency_s" }, lines = { { "exact", 1.5 } } }. Its first `num_keys` columns (1) say what a
-- line is of. By the number of a column it may have `headings` (what people read above it), `percent` (true: its ratios
-- are differences, read as "+12.5 %"), `best` (true, by line: the value stands bold) and `half` (by line: the value is
-- a mean, give or take so much). This file writes it as text, CSV (without halves) and Markdown; tessera.desk.latex as
-- LaTeX.

local aligned = require "tessera.desk.aligned"
local store = require "tessera.store"
local terminal = require "tessera.terminal"

local M = {}

--- The shortest text that reads back as the same number.
function M.number_text(value)
  if value == math.floor(value) and math.abs(value) < 2 ^ 53 then return ("%d"):format(value) end
  for digits = 15, 16 do
    local text = ("%." .. digits .. "g"):format(value)
    if tonumber(text) == value then return text end
  end
  return ("%.17g"):format(value)
end

-- Everything there is, for programs.
local function exact(value)
  if value == nil then return "" end
  if type(value) == "number" then return M.number_text(value) end
  if type(value) == "table" then return store.key(value) end
  return tostring(value)
end

--- Four digits, for people.
function M.short(value)
  if type(value) == "number" then
    if value == math.floor(value) and math.abs(value) < 1e15 then return ("%d"):format(value) end
    return ("%.4g"):format(value)
  end
  return exact(value)
end

--- What people read above a column.
function M.heading(sheet, c) return sheet.headings and sheet.headings[c] or sheet.columns[c] end

-- Two digits of how sure a mean is.
local function half_text(half) return (half >= 10 and "%.0f" or "%.2g"):format(half) end

-- What people read in a cell.
local function shown(sheet, l, c)
  local value = sheet.lines[l][c]
  local half = sheet.half and sheet.half[c] and sheet.half[c][l]
  if half and type(value) == "number" then return ("%s ± %s"):format(M.short(value), half_text(half)) end
  if sheet.percent and sheet.percent[c] and type(value) == "number" then return ("%+.1f %%"):format(100 * value) end
  return value
end

--- Whether each column has numbers and nothing else.
function M.numeric_columns(sheet)
  local numeric = {}
  for c in ipairs(sheet.columns) do
    numeric[c] = #sheet.lines > 0
    for _, line in ipairs(sheet.lines) do
      numeric[c] = numeric[c] and (line[c] == nil or type(line[c]) == "number")
    end
  end
  return numeric
end

--- RFC 4180: fields with a comma, a quote or a line break in quotes, lines ended by CR LF. Text that a spreadsheet
--- would take for a formula has an apostrophe in front; numbers are as they are.
function M.csv(sheet)
  local function field(value)
    if type(value) == "number" then return M.number_text(value) end
    local text = exact(value)
    if text:find "^[=+@\t\r-]" and not text:find "^[+-][%d.]+ ?%%?$" then text = "'" .. text end
    if text:find '[",\r\n]' then text = '"' .. text:gsub('"', '""') .. '"' end
    return text
  end
  local out = {}
  local function add(values)
    local fields = {}
    for c = 1, #sheet.columns do fields[c] = field(values[c]) end
    -- A line without anything on it would be no record.
    if #fields == 1 and fields[1] == "" then fields[1] = '""' end
    out[#out + 1] = table.concat(fields, ",") .. "\r\n"
  end
  add(sheet.columns)
  for _, line in ipairs(sheet.lines) do add(line) end
  return table.concat(out)
end

-- Cells of all lines, headings first, each column padded to one width; numbers to the right.
local function padded(sheet, escape, numeric)
  local cells, widths = { {} }, {}
  for c = 1, #sheet.columns do cells[1][c] = escape(M.heading(sheet, c)) end
  for l in ipairs(sheet.lines) do
    cells[l + 1] = {}
    for c = 1, #sheet.columns do
      local value = shown(sheet, l, c)
      local text = type(value) == "number" and M.short(value) or escape(M.short(value))
      if sheet.best and sheet.best[c] and sheet.best[c][l] then text = "**" .. text .. "**" end
      cells[l + 1][c] = text
    end
  end
  for c = 1, #sheet.columns do
    widths[c] = 3
    for _, line in ipairs(cells) do widths[c] = math.max(widths[c], terminal.width(line[c])) end
    for _, line in ipairs(cells) do
      local pad = (" "):rep(widths[c] - terminal.width(line[c]))
      line[c] = numeric[c] and pad .. line[c] or line[c] .. pad
    end
  end
  return cells, widths
end

-- What Markdown, or the HTML that it lets through, would take for markup.
local function markdown_text(text)
  return (text:gsub("[\\`*_{}%[%]<>|~#&]", "\\%0"):gsub("\r?\n", " "):gsub("%c", "?"))
end

--- A pipe table. Names of columns stand in code quotes' place as they are, without markup.
function M.markdown(sheet)
  local numeric = M.numeric_columns(sheet)
  local cells, widths = padded(sheet, markdown_text, numeric)
  local rule = {}
  for c, w in ipairs(widths) do rule[c] = numeric[c] and ("-"):rep(w - 1) .. ":" or ("-"):rep(w) end
  local out = {}
  for l, line in ipairs(cells) do
    out[#out + 1] = "| " .. table.concat(line, " | ") .. " |\n"
    if l == 1 then out[#out + 1] = "| " .. table.concat(rule, " | ") .. " |\n" end
  end
  return table.concat(out)
end

local longest = 44 -- characters of a cell on the terminal

local function cut(value)
  local text = type(value) == "table" and store.key(value) or value
  if type(text) ~= "string" or terminal.width(text) <= longest then return text end
  local count, at = 0, 1
  while count < longest - 3 do
    at = text:find("[^\128-\191]", at + 1)
    count = count + 1
  end
  return text:sub(1, at - 1) .. "..."
end

--- Aligned text for the terminal; long cells are cut. `width`: of the terminal; columns beyond it stand below.
function M.table(sheet, width)
  local lines, names, headings, plain = {}, {}, {}, {}
  for c = 1, #sheet.columns do
    -- Two columns may have one name, and fields of a table may not.
    local unique = sheet.columns[c]
    while plain[unique] do unique = unique .. "'" end
    plain[unique], names[c], headings[c] = true, unique, M.heading(sheet, c)
  end
  for l in ipairs(sheet.lines) do
    lines[l] = {}
    for c, name in ipairs(names) do lines[l][name] = cut(shown(sheet, l, c)) end
  end
  return aligned(lines, names, headings, width or terminal.limit(), sheet.num_keys)
end

return M
