-- Elements of HTML from Lua: h("td", { class = "number" }, "12 < 13") escapes its text; what h itself made goes in as
-- it is.

local escape = require "tessera.desk.escape"

local M = {}

-- Markup that may stand as it is: made here, by the writer of pictures, or read from the report's own files.
local Markup = {}

function M.raw(text) return setmetatable({ text = text }, Markup) end

local function append(parts, content)
  if content == nil or content == false then return end
  if getmetatable(content) == Markup then
    parts[#parts + 1] = content.text
  elseif type(content) == "table" then
    for _, item in ipairs(content) do append(parts, item) end
  else
    parts[#parts + 1] = escape.xml(content, true)
  end
end

local void = { meta = true, input = true, br = true }

--- attributes: strings, or true for one without a value; in the order of their names.
function M.h(name, attributes, ...)
  local parts, names = { "<", name }, {}
  for key, value in pairs(attributes or {}) do
    if value then names[#names + 1] = key end
  end
  table.sort(names)
  for _, key in ipairs(names) do
    local value = attributes[key]
    parts[#parts + 1] = value == true and " " .. key or (' %s="%s"'):format(key, escape.xml(value))
  end
  parts[#parts + 1] = ">"
  for i = 1, select("#", ...) do append(parts, (select(i, ...))) end
  if not void[name] then parts[#parts + 1] = "</" .. name .. ">" end
  return M.raw(table.concat(parts))
end

--- A list of { name, what }; what is nil or empty is left out.
function M.facts(pairs_of)
  local parts = {}
  for _, pair in ipairs(pairs_of) do
    if pair[2] ~= nil and pair[2] ~= "" then
      parts[#parts + 1] = M.h("dt", nil, pair[1])
      parts[#parts + 1] = M.h("dd", nil, pair[2])
    end
  end
  return M.h("dl", nil, parts)
end

--- The text of markup.
function M.text(...)
  local parts = {}
  for i = 1, select("#", ...) do append(parts, (select(i, ...))) end
  return table.concat(parts)
end

return M
