-- The reference page, from the cards that feed help and editors; nothing here knows a name of the API.

local flags = require "tessera.cli.flags"
local sorted_keys = require "tessera.sorted_keys"

local M = {}

-- Text in a cell of a Markdown table.
local function cell(text) return (text:gsub("|", "\\|"):gsub("\n", " ")) end

local function code(text) return text == "" and "" or "`" .. cell(text) .. "`" end

local function anchor(title) return (title:lower():gsub("[^%w%- _]", ""):gsub(" ", "-")) end

-- "0 to 100", "at least 1": what describe_range says, without the words that the type says already.
local function range(option)
  if option.min and option.max then return ("%.10g to %.10g"):format(option.min, option.max) end
  if option.min then return ("at least %.10g"):format(option.min) end
  if option.max then return ("at most %.10g"):format(option.max) end
  return ""
end

local function table_of(head, rows, lines)
  if #rows == 0 then return end
  lines[#lines + 1] = ""
  lines[#lines + 1] = "| " .. table.concat(head, " | ") .. " |"
  lines[#lines + 1] = "|" .. ("---|"):rep(#head)
  for _, row in ipairs(rows) do lines[#lines + 1] = "| " .. table.concat(row, " | ") .. " |" end
  lines[#lines + 1] = ""
end

local function default_of(option)
  if option.required then return "required" end
  return option.default and code(option.default) or ""
end

local function options_table(options, lines)
  local rows = {}
  for _, o in ipairs(options) do
    rows[#rows + 1] = { code(o.name), code(o.type), cell(o.unit), default_of(o), range(o), cell(o.doc) }
  end
  table_of({ "option", "type", "unit", "default", "range", "what it is" }, rows, lines)
end

local function flags_table(options, lines)
  local rows = {}
  for _, o in ipairs(options) do
    local value = o.type == "boolean" and "" or o.type:gsub("string%[%]", "a,b,..."):gsub("integer%[%]", "1,2,...")
    rows[#rows + 1] = { code(flags.name(o.name)), code(value), cell(o.unit), default_of(o), range(o), cell(o.doc) }
  end
  table_of({ "flag", "value", "unit", "default", "range", "what it is" }, rows, lines)
end

local function function_section(name, cards, lines)
  local card, options = cards.functions[name], cards.options[name]
  local arguments = {}
  for _, p in ipairs(card and card.parameters or {}) do arguments[#arguments + 1] = p.name end
  if options and #options.options > 0 then arguments[#arguments + 1] = "options" end
  local returns = card and card.returns ~= "" and card.returns or options and options.returns or ""
  lines[#lines + 1] = "### " .. name
  lines[#lines + 1] = ""
  local whole = name:match "^(.*)%."
  if not card and cards.options[whole] then
    lines[#lines + 1] = ("A table for [%s](#%s)."):format(whole, anchor(whole))
  else
    lines[#lines + 1] = ("`%s(%s)`%s"):format(name, table.concat(arguments, ", "),
      returns == "" and "" or " returns `" .. returns .. "`")
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = (card or options).doc
  local rows = {}
  for _, p in ipairs(card and card.parameters or {}) do
    rows[#rows + 1] = { code(p.name), code(p.type), cell(p.doc) }
  end
  table_of({ "argument", "type", "what it is" }, rows, lines)
  if options then
    if options.instead then
      lines[#lines + 1] = ""
      lines[#lines + 1] = ("In place of the options: `%s`."):format(options.instead)
    end
    options_table(options.options, lines)
  end
  lines[#lines + 1] = ""
end

local function object_section(name, card, lines)
  lines[#lines + 1] = "### " .. name
  lines[#lines + 1] = ""
  lines[#lines + 1] = card.doc
  local fields, methods = {}, {}
  for _, f in ipairs(card.fields) do fields[#fields + 1] = { code(f.name), code(f.type), cell(f.doc) } end
  for _, m in ipairs(card.methods) do methods[#methods + 1] = { code(":" .. m.name .. m.type), cell(m.doc) } end
  table_of({ "field", "type", "what it is" }, fields, lines)
  table_of({ "method", "what it does" }, methods, lines)
  lines[#lines + 1] = ""
end

local function verb_section(name, card, lines)
  lines[#lines + 1] = "### " .. name
  lines[#lines + 1] = ""
  lines[#lines + 1] = card.doc .. "."
  flags_table(card.options, lines)
  lines[#lines + 1] = ""
end

local introduction = [[
# Reference

Every function, option, object and flag. Generated from the cards that check arguments and print `tessera help`, when
Tessera is built.

A function takes its options as one table; an unknown one is an error that names the nearest. Sequences are 1-based;
`*_index` and `first_layer` are 0-based. Units are in the names: `_s` seconds, `_bytes`, `_bytes_per_s`, `_flop_per_s`,
`_tok_s` tokens per second, `_usd_per_h`, `_ratio`. Wrong use raises an error (`code`, `message`, `where`); an expected
outcome, such as that no plan fits, is returned as `nil, why` (`why.code`, `why.message`).
]]

--- The page as text.
--- @param cards what require("tessera.host").cards() returns
function M.text(cards)
  local functions, methods, verbs = {}, {}, {}
  for _, name in ipairs(sorted_keys(cards.functions)) do
    if not cards.options[name] then functions[#functions + 1] = name end
  end
  for _, name in ipairs(sorted_keys(cards.options)) do
    local kind = name:find " " and verbs or name:find "^ts%." and functions or methods
    kind[#kind + 1] = name
  end
  table.sort(functions)
  local sections = {
    { "Functions", functions, function(name, lines) function_section(name, cards, lines) end },
    { "Options of methods", methods, function(name, lines) function_section(name, cards, lines) end },
    { "Objects", sorted_keys(cards.objects),
      function(name, lines) object_section(name, cards.objects[name], lines) end },
    { "Command line", verbs, function(name, lines) verb_section(name, cards.options[name], lines) end },
  }
  local lines = { introduction, "## Contents", "" }
  for _, section in ipairs(sections) do
    local links = {}
    for _, name in ipairs(section[2]) do links[#links + 1] = ("[%s](#%s)"):format(name, anchor(name)) end
    lines[#lines + 1] = ("- [%s](#%s): %s"):format(section[1], anchor(section[1]), table.concat(links, ", "))
  end
  lines[#lines + 1] = ""
  for _, section in ipairs(sections) do
    lines[#lines + 1] = "## " .. section[1]
    lines[#lines + 1] = ""
    for _, name in ipairs(section[2]) do section[3](name, lines) end
  end
  return (table.concat(lines, "\n"):gsub("\n\n\n+", "\n\n"):gsub("\n*$", "\n"))
end

return M
