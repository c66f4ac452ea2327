-- Writes what is generated from the option tables and cards of the program: types/tessera.lua, which editors read, and
-- REFERENCE.md, into a folder that has types/.
--   tessera engine/app/reference.lua FOLDER
local core = require "tessera.core"
local host = require "tessera.host"
require("tessera").help_topics() -- loads every part of the library, with its cards

core.write_file(arg[1] .. "/types/tessera.lua", host.luacats())
core.write_file(arg[1] .. "/REFERENCE.md", require("tessera.cli.reference_page").text(host.cards()))
