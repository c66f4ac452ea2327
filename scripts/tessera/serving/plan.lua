-- ts.plan_serving { ... }: which engines, on which devices, serve a stream of requests within an SLO best. The engine
-- searches; here its list is made to print and to export.

local copy = require "tessera.shallow_copy"
local core = require "tessera.core"
local ranked = require "tessera.serving.ranked"
local routers = require "tessera.plugins.routers"
local solver = require "tessera.solver"

-- What is in the way of what came farthest.
local function constraint_of(reasons)
  local causes = {}
  for _, refusal in ipairs(reasons) do causes[refusal.cause] = true end
  for _, cause in ipairs { "latency", "quality", "memory", "kernels", "devices" } do
    if causes[cause] then return cause end
  end
end

return function(given)
  if type(given) ~= "table" then return solver.plan_serving(given) end -- which says what belongs there
  local asked, options = copy(given), copy(given)
  options.router = routers.resolved(given.router) -- routers of scripts go by their names too
  local rows, found = solver.plan_serving(options)
  if #rows > 0 then return ranked(rows, found, asked) end
  local why = core.why("infeasible", found.why_none)
  why.reasons, why.constraint = found.reasons, constraint_of(found.reasons)
  return nil, why
end
