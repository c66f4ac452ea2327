-- Runs busted inside the program: tessera tests/lua/runner.lua SPEC...
local host = require "tessera.host"
host.strict(false) -- busted keeps its words (describe, it, ...) in globals of its own
package.path = arg[0]:match "^(.*)[/\\]" .. "/?.lua;" .. package.path -- for tests/lua/support.lua
require "busted.runner" { standalone = false }
