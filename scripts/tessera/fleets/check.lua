-- ts.check(thing): of a fleet of named models the checker of fleets, on what is below it.

local fleets = require "tessera.fleets.fleet"
local solver = require "tessera.solver"

return function(thing) return solver.check(fleets.is(thing) and thing.abstract or thing) end
