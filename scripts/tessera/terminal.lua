-- What stdout and stderr are, and text laid out for them. Colour appears on a terminal only, and not where NO_COLOR is
-- set; what is drawn is ASCII where the locale is set and is none of UTF-8.

local host = require "tessera.host"

local M = {}

--- facts(stream): is_terminal, redraws, columns, limit (columns, but 0 where nobody says), colour, unicode of "stdout"
--- (default), "stderr" or "stdin"; asked anew each time, since windows change their size.
M.facts = host.terminal

local Stream = {}
Stream.__index = Stream

--- Text as it is, control characters shown as '?' on a terminal.
function Stream:write(...) host.write(self.name, table.concat { ... }) end

--- Text that may be coloured by M.paint.
function Stream:styled(...) host.write_styled(self.name, table.concat { ... }) end

--- What was written reaches a pipe, too.
function Stream:flush() io[self.name]:flush() end

--- Takes the line away that the cursor is in.
function Stream:erase() host.erase_line(self.name) end

--- Where the library writes. With --json stdout belongs to the data.
M.out, M.err = setmetatable({ name = "stdout" }, Stream), setmetatable({ name = "stderr" }, Stream)

--- What the library says goes where print does; the text ends in a line end.
function M.say(...) print((table.concat({ ... }):gsub("\n$", ""))) end

--- Characters, not bytes: every byte of UTF-8 but those that continue a character.
function M.width(text) return select(2, text:gsub("[^\128-\191]", "")) end

-- What stands in a locale that is none of UTF-8 for what the library draws.
local ascii = {}
local pairs_of = "█# ▉# ▊# ▋# ▌# ▍- ▎- ▏- ▇# ▆* ▅+ ▄= ▃- ▂. ▁_ "
  .. "▓% ▒+ ░. ·. …~ ╱/ │| ┤+ └+ ─- ●o ■# ▲^ ◆* ▼v ✕x ✚+ ○0"
for character, plain in pairs_of:gmatch "(%S+)(%S)" do ascii[character] = plain end

--- `text` with what the library draws in ASCII, where the locale has no more; other characters stay.
function M.drawn(text, facts)
  if (facts or M.facts()).unicode ~= false then return text end
  return (text:gsub("[\194-\244][\128-\191]*", function(character)
    local dots = character:find "^\226[\160-\163]" -- a cell of Braille
    return ascii[character] or dots and "." or nil
  end))
end

--- Lines too long for stdout broken at spaces; as they are where its width is not known.
function M.wrapped(text) return host.wrapped("stdout", text) end

--- The first `width` characters; "…" ends what was cut.
function M.fit(text, width)
  if M.width(text) <= width then return text end
  local parts = {}
  for character in text:gmatch "[%z\1-\127\194-\247][\128-\191]*" do
    if #parts == width - 1 then break end
    parts[#parts + 1] = character
  end
  return table.concat(parts) .. M.drawn "…"
end

--- Cut or padded to exactly `width` characters; `right` puts the padding in front.
function M.pad(text, width, right)
  text = M.fit(text, width)
  local gap = (" "):rep(width - M.width(text))
  return right and gap .. text or text .. gap
end

local codes = {
  bold = "1", dim = "2", red = "31", green = "32", yellow = "33", blue = "34", magenta = "35", cyan = "36",
  white = "37",
}

--- `text` in a colour, or bold or dim, where `facts.colour` allows it.
function M.paint(text, style, facts)
  if not facts.colour or not codes[style] then return text end
  return ("\27[%sm%s\27[0m"):format(codes[style], text)
end

--- `cells` characters, of which a share from 0 to 1 is filled in a colour.
function M.bar(share, cells, style, facts)
  local filled = math.floor(cells * share)
  return M.paint(M.drawn("█", facts):rep(filled), style, facts)
    .. M.paint(M.drawn("░", facts):rep(cells - filled), "dim", facts)
end

return M
