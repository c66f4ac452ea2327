-- Writes what is generated from the option tables and cards of the program into a folder as of /usr/share: the
-- definitions that editors read and REFERENCE.md for itself, tessera(1), and what completes the command line in bash.
--   tessera engine/app/reference.lua FOLDER
local core = require "tessera.core"
local host = require "tessera.host"
require("tessera").help_topics() -- loads every part of the library, with its cards

local share, cards = arg[1], host.cards()
local usage = select(3, host.run_program({ host.program }, "")) -- it says how it is used where nothing is asked

core.write_file(share .. "/tessera/types/tessera.lua", host.luacats())
core.write_file(share .. "/tessera/REFERENCE.md", require("tessera.cli.reference_page").text(cards))
core.write_file(share .. "/man/man1/tessera.1",
  require("tessera.cli.unix_page").text(usage, cards, host.version.version))
core.write_file(share .. "/bash-completion/completions/tessera",
  require("tessera.cli.bash_completion").text(usage, cards))
