-- What may come of a call: a value, all of whose numbers and texts are fit to be shown, or a clean error. Everything
-- else is a defect, raised as a table with the field `defect`.

local M = {}

--- What callbacks of an attack raise themselves.
M.own_error = "raised by the attack itself"

-- LuaJIT's own words for what no library can do for a callback.
local own_errors = { M.own_error, "attempt to yield across C-call boundary", "cannot yield" }

local function is_own(text)
  for _, own in ipairs(own_errors) do
    if text:find(own, 1, true) then return true end
  end
  return false
end

local raw_texts = {
  "attempt to ", "bad argument #", "[json.exception", "std::", "basic_string", "vector::", "bad_alloc",
  "stack overflow", "bad allocation", "invalid value (nil) at", "error in error handling", "C++ exception",
  "table overflow",
}

local function defect(text) error({ defect = text }, 0) end
M.defect = defect

-- An object whose text is shown as it is: control characters would reach the terminal.
local function check_characters(text, what)
  local at = text:find "[%z\1-\8\11-\31\127]"
  if at then defect(("%s has the control character %d: %q"):format(what, text:byte(at), text:sub(1, 300))) end
end

--- An error object, or the `why` of `nil, why`.
function M.why(why)
  if type(why) == "string" and is_own(why) then return end
  if type(why) ~= "table" or type(why.code) ~= "string" or type(why.message) ~= "string" then
    defect("no error object: " .. tostring(why))
  end
  local message = why.message
  if is_own(message) then return end
  if why.code == "internal" or why.code == "script" then defect(("code %s: %s"):format(why.code, message)) end
  for _, text in ipairs(raw_texts) do
    if message:find(text, 1, true) then defect("a raw text: " .. message) end
  end
  if message:find "^[%w_./-]+%.lua:%d+:" then defect("a bare position: " .. message) end
  check_characters(message, "the message")
  if message == "" then defect "an empty message" end
end

local function is_finite(number) return number == number and math.abs(number) ~= math.huge end

--- Every number of a tree of tables.
function M.finite(value, path, depth)
  depth = depth or 0
  if type(value) == "number" and not is_finite(value) then defect(("%s is %s"):format(path, value)) end
  if type(value) ~= "table" or depth > 8 then return end
  for key, item in pairs(value) do M.finite(item, path .. "." .. tostring(key), depth + 1) end
end

--- A text of the product, as print shows it: numbers come out as inf and nan in lower case.
function M.text(text, what)
  if type(text) ~= "string" then defect(what .. " is no text but a " .. type(text)) end
  for _, word in ipairs { "nan", "inf" } do
    local at = text:find("%f[%w_]" .. word .. "%f[^%w_]")
    if at then defect(("%s says %s: %q"):format(what, word, text:sub(math.max(1, at - 80), at + 40))) end
  end
end

--- An object of the product, in every way that it can be looked at.
function M.object(object, what)
  local meta = debug.getmetatable(object)
  M.text(tostring(object), what)
  if meta and meta.__full then M.text(meta.__full(object), what .. " in full") end
  if meta and meta.__to_table then M.finite(meta.__to_table(object), what) end
end

--- Runs one case: "value", "refused", or the defect.
function M.of(fn, ...)
  local ok, err = pcall(fn, ...)
  if ok then return "value" end
  if type(err) == "table" and rawget(err, "defect") then return nil, err.defect end
  ok, err = pcall(M.why, err)
  if ok then return "refused" end
  return nil, type(err) == "table" and err.defect or tostring(err)
end

return M
