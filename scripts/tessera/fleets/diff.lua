-- fleet:diff(other): what starts and what stops on the way from one fleet to another, replica by replica.

local core = require "tessera.core"

return function(fleet, other)
  if not require("tessera.fleets.fleet").is(other) then
    core.refuse("fleet:diff.other", "another fleet of ts.plan_fleet with models belongs here")
  end
  return fleet.abstract:diff(other.abstract)
end
