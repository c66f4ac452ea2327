-- What stdout and stderr are, and text laid out for them. Colour appears on a terminal only, and not where NO_COLOR is
-- set.

local host = require "tessera.host"

local M = {}

--- facts(stream): is_terminal, redraws, columns, colour of "stdout" (default), "stderr" or "stdin"; asked anew each
--- time, since windows change their size.
M.facts = host.terminal

--- How many characters a line of stdout may have: on a terminal, and where COLUMNS says so; nil for files and pipes.
function M.limit()
  local facts = M.facts()
  return facts.knows_columns and facts.columns or nil
end

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
  return table.concat(parts) .. "…"
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
  return M.paint(("█"):rep(filled), style, facts) .. M.paint(("░"):rep(cells - filled), "dim", facts)
end

return M
