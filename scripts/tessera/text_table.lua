-- ts.table(rows, { columns = { "a", "b" } }): rows as aligned text, numbers to four digits, missing values as "-".

local core = require "tessera.core"

local function cell(value)
  if value == nil then return "-" end
  if type(value) == "number" then
    if value == math.floor(value) and math.abs(value) < 1e15 then return ("%d"):format(value) end
    return ("%.4g"):format(value)
  end
  return (tostring(value):gsub("%c", "?"))
end

core.document {
  name = "ts.table", doc = "Rows as aligned text, numbers to four digits, missing values as \"-\".",
  parameters = {
    { "rows", "table[]", "One table per line" },
    { "options?", "{ columns: string[] }", "Keys to show, in order; default: those of the first row, sorted" },
  },
  returns = "string",
}

return function(rows, opt)
  if type(rows) ~= "table" then core.raise("invalid_argument", "ts.table: rows are a list of tables", "ts.table") end
  local columns = opt and opt.columns
  if not columns then
    columns = {}
    for key in pairs(rows[1] or {}) do columns[#columns + 1] = key end
    table.sort(columns)
  end
  local widths, numeric, lines = {}, {}, {}
  for c, name in ipairs(columns) do
    widths[c], numeric[c] = #name, true
    for _, row in ipairs(rows) do
      widths[c] = math.max(widths[c], #cell(row[name]))
      numeric[c] = numeric[c] and (row[name] == nil or type(row[name]) == "number")
    end
  end
  local function line(text_of)
    local parts = {}
    for c, name in ipairs(columns) do
      local text = text_of(name)
      local pad = (" "):rep(widths[c] - #text)
      parts[c] = numeric[c] and pad .. text or text .. pad
    end
    lines[#lines + 1] = (table.concat(parts, "  "):gsub("%s+$", ""))
  end
  line(function(name) return name end)
  for _, row in ipairs(rows) do
    line(function(name) return cell(row[name]) end)
  end
  return table.concat(lines, "\n") .. "\n"
end
