-- ts.check(thing): of a fleet the checker of fleets, on the columns below it.

local fleets = require "tessera.fleets.fleet"
local solver = require "tessera.solver"

return function(thing) return solver.check(fleets.is(thing) and thing.solved or thing) end
