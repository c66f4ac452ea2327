-- Text of users inside XML and HTML: nothing in it can become markup, and it is always valid UTF-8.

local M = {}

local replacement = "\239\191\189" -- U+FFFD

-- Bytes that a sequence with this first byte has, and the range of its second byte.
local function sequence(first)
  if first >= 0xC2 and first <= 0xDF then return 2, 0x80, 0xBF end
  if first == 0xE0 then return 3, 0xA0, 0xBF end
  if first == 0xED then return 3, 0x80, 0x9F end
  if first >= 0xE1 and first <= 0xEF then return 3, 0x80, 0xBF end
  if first == 0xF0 then return 4, 0x90, 0xBF end
  if first >= 0xF1 and first <= 0xF3 then return 4, 0x80, 0xBF end
  if first == 0xF4 then return 4, 0x80, 0x8F end
end

local function valid_part(bytes)
  local length, low, high = sequence(bytes:byte())
  if not length or #bytes < length then return replacement end
  local second = bytes:byte(2)
  if second < low or second > high then return replacement end
  local character = bytes:sub(1, length)
  if character == "\239\191\190" or character == "\239\191\191" then character = replacement end -- not allowed in XML
  return #bytes == length and character or character .. replacement
end

--- Without the white space at its end, in time proportional to the length: gsub("%s+$", "") looks at every run of
--- spaces from each of its spaces, which takes minutes of a hundred thousand.
function M.trimmed(text) return text:sub(1, text:find "%S%s*$" or 0) end

--- Valid UTF-8 without control characters; tabs and line ends stay with `lines`.
function M.clean(text, lines)
  text = tostring(text):gsub(lines and "[%z\1-\8\11-\31\127]" or "%c", "?")
  if text:find "[\128-\255]" then text = text:gsub("[\128-\255][\128-\191]*", valid_part) end
  return text
end

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

--- For the content of elements and for quoted attributes, in XML and HTML.
function M.xml(text, lines) return (M.clean(text, lines):gsub("[&<>\"']", entities)) end

--- A JSON string of clean text.
function M.json_string(text)
  return '"' .. M.clean(text, true):gsub('[\\"]', "\\%0"):gsub("\n", "\\n"):gsub("\t", "\\t") .. '"'
end

local in_script = { ["<"] = "\\u003c", [">"] = "\\u003e", ["&"] = "\\u0026" }

--- JSON text for the inside of a <script> element: no "</script>", no "<!--", no U+2028 or U+2029.
function M.script(json)
  return (json:gsub("[<>&]", in_script):gsub("\226\128[\168\169]",
    { ["\226\128\168"] = "\\u2028", ["\226\128\169"] = "\\u2029" }))
end

return M
