-- Rows as aligned text: numbers to four digits and to the right, missing values as "-".

local escape = require "tessera.desk.escape"
local row_fields = require "tessera.desk.rows"
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

local gap = 2 -- characters between columns

-- The columns of each block: the first `num_keys` in every one, so that a line says what it is of, unless they leave
-- nothing to the others; and of those as many as fit, one at least.
local function blocks_of(widths, limit, num_keys)
  local keys, key_width = {}, 0
  for c = 1, math.min(num_keys, #widths) do
    if key_width + widths[c] + gap > limit / 2 then break end
    keys[c], key_width = c, key_width + widths[c] + gap
  end
  local blocks, total = { { unpack(keys) } }, key_width - gap
  for c = #keys + 1, #widths do
    local block = blocks[#blocks]
    if total + gap + widths[c] > limit and #block > #keys then
      block = { unpack(keys) }
      blocks[#blocks + 1], total = block, key_width - gap
    end
    block[#block + 1], total = c, total + gap + widths[c]
  end
  return blocks
end

local function one_block(widths)
  local columns = {}
  for c = 1, #widths do columns[c] = c end
  return { columns }
end

--- The rows' fields `names` as text under `headings`. Where a line may have `limit` characters, columns that do not fit
--- stand below in blocks of their own, behind the first `num_keys` once more.
return function(rows, names, headings, limit, num_keys)
  local widths, numeric = measure(rows, names, headings)
  local blocks, lines = limit and blocks_of(widths, limit, num_keys or 1) or one_block(widths), {}
  for b, columns in ipairs(blocks) do
    local function line(text_of)
      local parts = {}
      for i, c in ipairs(columns) do
        local text = text_of(c)
        local pad = (" "):rep(widths[c] - width(text))
        parts[i] = numeric[c] and pad .. text or text .. pad
      end
      lines[#lines + 1] = escape.trimmed(table.concat(parts, (" "):rep(gap)))
    end
    if b > 1 then lines[#lines + 1] = "" end
    line(function(c) return cell(headings[c]) end)
    for _, row in ipairs(rows) do
      line(function(c) return cell(row_fields.value(row, names[c])) end)
    end
  end
  return table.concat(lines, "\n") .. "\n"
end
