-- YAML of what launch files say. A list is { a, b }, a mapping map { { key, value }, ... }: keys stay in order, and
-- those without a value are left out.

local core = require "tessera.core"

local M = {}

--- A mapping.
function M.map(entries) return { entries = entries } end

-- Words that YAML 1.1 or 1.2 reads as something else than text.
local special = { ["true"] = true, ["false"] = true, ["null"] = true, yes = true, no = true, on = true, off = true,
  y = true, n = true }

local function scalar(value)
  if type(value) ~= "string" then return tostring(value) end
  if value:find "^[%a/][%w_./-]*$" and not special[value:lower()] then return value end
  return core.to_json(value)
end

local write

local function write_block(text, indent, lines)
  for line in (text:gsub("\n$", "") .. "\n"):gmatch "(.-)\n" do
    lines[#lines + 1] = line == "" and "" or indent .. line
  end
end

-- A script of several lines as a literal block, everything else beside its key.
local function write_value(head, value, indent, lines)
  if type(value) == "table" then
    local entries = value.entries or value
    if #entries == 0 then
      lines[#lines + 1] = head .. (value.entries and " {}" or " []")
    else
      lines[#lines + 1] = head
      write(value, indent .. "  ", lines)
    end
  elseif type(value) == "string" and value:find "\n" and not value:find "[\1-\8\11-\31\127]"
    and not value:find "^[ \n]" and not value:find "\n\n$" then
    lines[#lines + 1] = head .. (value:sub(-1) == "\n" and " |" or " |-")
    write_block(value, indent .. "  ", lines)
  else
    lines[#lines + 1] = head .. " " .. scalar(value)
  end
end

function write(value, indent, lines)
  if value.entries then
    for _, entry in ipairs(value.entries) do
      if entry[2] ~= nil then write_value(indent .. scalar(entry[1]) .. ":", entry[2], indent, lines) end
    end
    return
  end
  for _, item in ipairs(value) do
    if type(item) == "table" and item.entries then
      local own = {}
      write(item, indent .. "  ", own)
      own[1] = indent .. "- " .. own[1]:sub(#indent + 3)
      for _, line in ipairs(own) do lines[#lines + 1] = line end
    else
      write_value(indent .. "-", item, indent, lines)
    end
  end
end

--- The text of documents, each a mapping.
function M.text(...)
  local texts = {}
  for i, document in ipairs { ... } do
    local lines = {}
    write(document, "", lines)
    texts[i] = table.concat(lines, "\n") .. "\n"
  end
  return table.concat(texts, "---\n")
end

return M
