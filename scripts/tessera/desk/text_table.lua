-- ts.table(rows, { columns = { "a", "b" } }): rows as aligned text, numbers to four digits, missing values as "-". Rows
-- of results have their point's values as columns, before the others.

local aligned = require "tessera.desk.aligned"
local core = require "tessera.core"
local options = require "tessera.options"
local row_fields = require "tessera.desk.rows"

local fail = core.refuse

-- The keys of every point, then every other field of every row, sorted.
local function all_columns(rows)
  local seen, columns, points = {}, {}, {}
  for r, row in ipairs(rows) do
    local of_results = type(row.point) == "table"
    if of_results then points[#points + 1] = row end
    for key in pairs(row) do
      if type(key) ~= "string" then
        fail(("ts.table[%d]"):format(r), "fields have names, got the key " .. tostring(key))
      end
      if not seen[key] and not (of_results and (key == "point" or key == "meta")) then
        columns[#columns + 1], seen[key] = key, true
      end
    end
  end
  table.sort(columns)
  local names = row_fields.keys(points)
  for _, name in ipairs(columns) do names[#names + 1] = name end
  return names
end

local function columns_of(rows, opt)
  if opt == nil then return all_columns(rows) end
  if type(opt) ~= "table" then fail("ts.table", "its options are a table, not a " .. type(opt)) end
  for key in pairs(opt) do
    if key ~= "columns" then
      fail("ts.table", ("unknown option '%s'%s"):format(tostring(key), core.did_you_mean(tostring(key), { "columns" })))
    end
  end
  if opt.columns == nil then return all_columns(rows) end
  options.list(opt.columns, "ts.table.columns", "a list of column names", options.item_of "string")
  return opt.columns
end

core.document {
  name = "ts.table", doc = "Rows as aligned text, numbers to four digits, missing values as \"-\".",
  parameters = {
    { "rows", "table[]", "One table per line" },
    { "options?", "{ columns: string[] }", "Keys to show, in order; default: those of all rows, sorted" },
  },
  returns = "string",
}

return function(rows, opt)
  options.list(rows, "ts.table", "a list of rows", options.item_of "table")
  local columns = columns_of(rows, opt)
  return aligned(rows, columns, columns)
end
