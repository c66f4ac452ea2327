-- Rows as aligned text: numbers to four digits and to the right, missing values as "-".

local escape = require "tessera.escape"
local row_fields = require "tessera.rows"
local width = require("tessera.terminal").width

local function cell(value)
  if value == nil then return "-" end
  if type(value) == "number" then
    if value == math.floor(value) and math.abs(value) < 1e15 then return ("%d"):format(value) end
    return ("%.4g"):format(value)
  end
  return (tostring(value):gsub("%c", "?"))
end

-- How wide each column is, and whether it has numbers and nothing else.
local function measure(rows, names, headings)
  local widths, numeric = {}, {}
  for c, name in ipairs(names) do
    widths[c], numeric[c] = width(cell(headings[c])), true
    for _, row in ipairs(rows) do
      local value = row_fields.value(row, name)
      widths[c] = math.max(widths[c], width(cell(value)))
      numeric[c] = numeric[c] and (value == nil or type(value) == "number")
    end
  end
  return widths, numeric
end

-- How many columns fit, the first always.
local function num_fitting(widths, limit)
  local total = widths[1] or 0
  for c = 2, #widths do
    total = total + 2 + widths[c]
    if total > limit then return c - 1 end
  end
  return #widths
end

--- The rows' fields `names` as text under `headings`. Where a line may have `limit` characters, columns that do not fit
--- are left out and named beneath.
return function(rows, names, headings, limit)
  local widths, numeric = measure(rows, names, headings)
  local shown, lines = limit and num_fitting(widths, limit) or #names, {}
  local function line(text_of)
    local parts = {}
    for c = 1, shown do
      local text = text_of(c)
      local pad = (" "):rep(widths[c] - width(text))
      parts[c] = numeric[c] and pad .. text or text .. pad
    end
    lines[#lines + 1] = escape.trimmed(table.concat(parts, "  "))
  end
  line(function(c) return cell(headings[c]) end)
  for _, row in ipairs(rows) do
    line(function(c) return cell(row_fields.value(row, names[c])) end)
  end
  if shown < #names then
    local left_out = {}
    for c = shown + 1, #names do left_out[#left_out + 1] = cell(headings[c]) end
    lines[#lines + 1] = ("(left out for the width of %d: %s)"):format(limit, table.concat(left_out, ", "))
  end
  return table.concat(lines, "\n") .. "\n"
end
