-- What the engine found of named models, as a fleet, or nil and why.

local core = require "tessera.core"
local copy = require "tessera.shallow_copy"
local fleets = require "tessera.fleets.fleet"
local why_not = require "tessera.fleets.why_not"

-- What is known of the columns, and what was asked: data, but for the cluster.
local function named_of(found, asked)
  return { asked = asked, placement = found.placement, columns = found.columns, node_classes = found.node_classes,
    pricing = found.pricing, transfers = found.transfers, loading = found.loading,
    given_columns = found.given_columns, cluster = found.cluster }
end

return function(found, asked)
  if found.status == "infeasible" then return nil, why_not(found) end
  local fleet = found.solved and fleets(found.solved, named_of(found, copy(asked)), found.priced) or nil
  if fleet and found.gap and found.status ~= "interrupted" then return fleet end
  local is_interrupted = found.status == "interrupted"
  local ended = is_interrupted and "the search was interrupted" or "the time was up before a bound was known"
  local why = core.why(is_interrupted and "interrupted" or "time_limit",
    fleet and ended .. "; why.best is the best so far" or "no fleet was found before the search ended")
  why.best, why.bound = fleet, found.bound
  return nil, why
end
