-- How far one long call is: a live line on stderr, where that is a terminal which redraws.

local terminal = require "tessera.terminal"

--- draw(done, total, text), or nil where there is nothing to draw on; and what takes the line away again.
return function()
  local facts = terminal.facts "stderr"
  if not facts.redraws then return nil, function() end end
  local function draw(done, total, text)
    terminal.err:erase()
    terminal.err:styled(terminal.bar(done / total, 20, "green", facts), " ", text)
  end
  return draw, function() terminal.err:erase() end
end
