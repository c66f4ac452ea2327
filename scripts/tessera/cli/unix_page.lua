-- tessera(1), the page that `man tessera` shows: what the program says of itself, and the flags of its verbs.

local flags = require "tessera.cli.flags"

local M = {}

-- Text as man reads it: no line of it is a request, and a dash is one that can be copied.
local function roff(text)
  return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("%f[^\n%z][.']", "\\&%0"))
end

local function verb_section(name, card, lines)
  lines[#lines + 1] = ".SS tessera " .. name
  lines[#lines + 1] = roff(card.doc) .. "."
  for _, item in ipairs(flags.of(card.options)) do
    lines[#lines + 1] = ".TP"
    lines[#lines + 1] = (".B %s %s"):format(roff(item.flag), roff(item.value)):gsub(" $", "")
    lines[#lines + 1] = roff(item.said)
  end
end

--- The page. usage: what `tessera` says without a word; cards: of its host; version: of the program.
function M.text(usage, cards, version)
  local what = usage:match "^tessera (.-)%.\n"
  local lines = {
    (".TH TESSERA 1 \"\" \"Tessera %s\" \"User Commands\""):format(version),
    ".SH NAME", "tessera \\- " .. roff(what),
    ".SH SYNOPSIS", ".B tessera", "VERB [WORDS] [FLAGS]", ".br", ".B tessera", "FILE.lua [ARGS]",
    ".SH DESCRIPTION", ".in 0", ".nf", roff(usage:gsub("\n$", "")), ".fi", ".in",
    ".SH FLAGS",
  }
  for _, name in ipairs(flags.verbs(usage)) do
    local card = cards.options["tessera " .. name]
    if card and #card.options > 0 then verb_section(name, card, lines) end
  end
  lines[#lines + 1] = ".SH SEE ALSO"
  lines[#lines + 1] = "Pages to read: \"tessera man\". Every function, option and object: \"tessera man reference\"."
  return table.concat(lines, "\n") .. "\n"
end

return M
