-- A time limit by the wall clock. Without one, that of ts.plan.

local core = require "tessera.core"

local default_limit_s
for _, option in ipairs(core.options_of "ts.plan") do
  if option.name == "time_limit_s" then default_limit_s = tonumber(option.default) end
end

--- limit_s, left() and elapsed_s() in seconds; late() once the limit is reached.
return function(limit_s)
  limit_s = limit_s or default_limit_s
  local started = core.clock()
  local self = { limit_s = limit_s }
  function self.elapsed_s() return core.clock() - started end
  function self.left() return math.max(0, limit_s - self.elapsed_s()) end
  function self.late() return self.elapsed_s() >= limit_s end
  return self
end
