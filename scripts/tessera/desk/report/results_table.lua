-- The table of a run. The first rows are plain HTML, readable without a script; the rest is data that the page's script
-- turns into rows after it has opened.

local escape = require "tessera.desk.escape"
local columns_of = require "tessera.desk.report.columns"
local data = require "tessera.desk.plot.data"
local html = require "tessera.desk.report.html"
local marks = require "tessera.desk.report.marks"
local paths = require "tessera.desk.report.paths"
local units = require "tessera.desk.units"

local h = html.h
local M = {}

local plain_rows = 1000
local longest_short = 30 -- bytes of a text that stays on one line
local rows_a_page = 100 -- as the page's script has it

local role_words = { paper = "paper", ours = "ours", diff = "diff (%)" }

local function sizes(list, column)
  local values = {}
  for _, row in ipairs(list) do
    local value = column.value(row)
    if type(value) == "number" and value == value and math.abs(value) < math.huge then
      values[#values + 1] = math.abs(value)
    end
  end
  return values
end

local function largest(values)
  local most = 0
  for _, value in ipairs(values) do most = math.max(most, value) end
  return most
end

-- What a column is of, by which its unit is chosen: what is predicted stands beside what is measured.
local function quantity(name) return name:match "^predicted_(.+)$" or name:match "^measured_(.+)$" or name end

-- Labels and units; paper and ours in the same unit, predicted and measured too.
local function prepare(columns, list)
  local shared = {}
  for _, column in ipairs(columns) do
    if column.number and column.role ~= "diff" then
      local of = quantity(column.name)
      shared[of] = math.max(shared[of] or 0, largest(sizes(list, column)))
    end
  end
  for _, column in ipairs(columns) do
    if column.role == "took" then column.unit = { label = "took (s)", worth = 1 }
    elseif column.role == "diff" then column.unit = { label = column.name, worth = 1 }
    elseif column.number then column.unit = units.of(column.name, shared[quantity(column.name)]) end
    if column.unit and column.role ~= "diff" then
      column.format = units.shared_format(sizes(list, column), column.unit.worth)
    end
    column.label = column.label or (column.unit and column.unit.label) or column.name:gsub("_", " ")
    if column.role == "diff" then column.label = units.of(column.name, shared[quantity(column.name)] or 0).label end
  end
end

-- Text, the value to sort by where the text does not say it exactly, and whether it is a number.
local function cell(column, row)
  local value = column.value(row)
  if value == nil then return "", nil, column.number end
  if type(value) == "number" and column.unit then
    local finite = value == value and math.abs(value) < math.huge
    local text = column.format and finite and column.format:format(value / column.unit.worth)
      or units.number(value / column.unit.worth)
    if column.role == "diff" then text = ("%+.1f"):format(value) end
    local half = column.role == "ours" and column.spread and row[column.name .. "_half"]
    if type(half) == "number" and finite then
      text = ("%s ± %s"):format(text, units.number(half / column.unit.worth))
    end
    local exact = ("%.9g"):format(value)
    return text, exact ~= text and exact or nil, true
  end
  if type(value) == "number" then return data.word(value), nil, true end
  return data.word(value), nil, false
end

local function failure(row)
  local meta = row.meta or {}
  local text = row.error or ""
  if meta.traceback and meta.traceback ~= "" then text = text .. "\n" .. meta.traceback end
  if meta.log and meta.log ~= "" then text = text .. "\n\noutput:\n" .. meta.log end
  return text ~= "" and paths.within(text) or nil
end

local fine = { done = true, optimal = true, feasible = true }
local broken = { failed = true, crashed = true, time_limit = true, out_of_memory = true }

local function chip_class(row)
  return fine[row.status] and "chip good" or broken[row.status] and "chip bad" or "chip"
end

local function status_cell(row)
  local status = data.word(row.status)
  local chip = h("span", { class = chip_class(row) }, status)
  local why = failure(row)
  if not why then return h("td", nil, chip) end
  return h("td", { ["data-v"] = status }, h("details", nil, h("summary", nil, chip), h("pre", nil, why)))
end

-- Numbers and what is short stay on one line.
local function class_of(text, number) return number and "n" or #text > longest_short and "long" or nil end

local function row_html(columns, row)
  local cells = {}
  for i, column in ipairs(columns) do
    if column.role == "status" then
      cells[i] = status_cell(row)
    else
      local text, exact, number = cell(column, row)
      local class = class_of(text, number)
      if i == 1 then cells[i] = h("th", { scope = "row", class = class, ["data-v"] = exact }, text)
      else cells[i] = h("td", { class = class, ["data-v"] = exact }, text) end
    end
  end
  return h("tr", nil, cells)
end

-- The same for the page's script: text, exact value, class, why it failed. A status has the class of its chip.
local function row_data(columns, row)
  local cells = {}
  for i, column in ipairs(columns) do
    local text, exact, number = cell(column, row)
    local class = class_of(text, number) or ""
    local status = column.role == "status"
    cells[i] = { text, exact or "", status and chip_class(row) or class, status and failure(row) or "" }
  end
  return cells
end

local function head_cell(column, sources)
  local mark
  if column.role == "paper" then mark = marks.mark(marks.published)
  elseif column.role == "took" then mark = marks.mark(marks.measured)
  elseif column.role == "ours" and column.number then mark = marks.mark(sources) end
  local words = { h("span", nil, column.label) }
  if role_words[column.role] and not column.alone then
    words[#words + 1] = h("span", { class = "role role-" .. column.role }, role_words[column.role])
  end
  return h("th", { scope = "col", ["aria-sort"] = "none", class = (column.number or column.right) and "n" or nil },
    h("div", { class = "head" }, h("button", { type = "button", class = "sort" }, words), mark))
end

local function json_list(items)
  local parts = {}
  for i, item in ipairs(items) do parts[i] = type(item) == "table" and json_list(item) or escape.json_string(item) end
  return "[" .. table.concat(parts, ",") .. "]"
end

--- Columns of means: half widths stand beside them, not in columns of their own.
function M.with_spread(columns)
  local known, kept = {}, {}
  for _, column in ipairs(columns) do known[column.name] = true end
  for _, column in ipairs(columns) do
    local of = column.name:match "^(.*)_half$"
    column.spread = true
    if not (of and known[of]) and column.role ~= "took" then kept[#kept + 1] = column end
  end
  return kept
end

--- The table with its filter. on_row(count): so many rows are written; `choose`: a function of the columns that there
--- are, for those to show.
function M.draw(run, list, id, on_row, choose)
  local columns, sources = columns_of.of(run, list), marks.sources(list)
  if choose then columns = choose(columns) end
  prepare(columns, list)
  local head, body, rest = {}, {}, {}
  for i, column in ipairs(columns) do head[i] = head_cell(column, sources) end
  for i, row in ipairs(list) do
    if i % 1000 == 0 then on_row(i) end
    if i <= plain_rows then body[#body + 1] = row_html(columns, row) else rest[#rest + 1] = row_data(columns, row) end
  end
  local note = #rest > 0 and h("p", { class = "muted", id = id .. "-note" },
    ("The first %d of %d rows; the script of this page adds the others."):format(plain_rows, #list))
  return {
    h("p", { class = "needs-js filter" }, h("label", nil, "Show rows with ",
      h("input", {
        type = "search", ["data-filter"] = id, placeholder = "words, all must occur", autocomplete = "off",
      })),
      h("output", { ["data-count"] = id }, ("%d rows"):format(#list)),
      #list > rows_a_page and h("span", { class = "pager", ["data-pager"] = id }) or nil),
    note,
    h("div", { class = "box", tabindex = "0", role = "region", ["aria-label"] = "Table of " .. run.experiment },
      h("table", { id = id, class = "results" }, h("thead", nil, h("tr", nil, head)), h("tbody", nil, body))),
    #rest > 0 and h("script", { type = "application/json", ["data-rest"] = id },
      html.raw(escape.script(json_list(rest)))),
  }
end

return M
