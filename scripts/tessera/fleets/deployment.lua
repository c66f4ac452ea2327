-- fleet:deployment(name): the replicas of a model as one deployment.

local core = require "tessera.core"
local options = require "tessera.options"
local pools_of = require "tessera.fleets.pools"
local routers = require "tessera.plugins.routers"

local read = options.card {
  name = "fleet:deployment",
  doc = "The replicas of a model of the fleet as one deployment, for ts.serve.",
  parameters = { { "name", "string", "Of the model" } },
  returns = "tessera.Deployment",
  options = {
    { name = "router", type = "any", lua_type = "string|table",
      doc = "As for ts.deployment; default: least_requests, of several classes of requests in turn by their shares" },
    { name = "lost_node", type = "integer", min = 0, max = 1e7, doc = "A node of the fleet that is lost" },
    { name = "lost_at_s", type = "number", unit = "s", min = 0, max = 1e9, default = 0, doc = "When" },
  },
}

local function is_on(row, node)
  for _, index in ipairs(row.node_indices) do
    if index == node then return true end
  end
end

return function(fleet, name, given)
  local opt = read(given)
  local asked = pools_of.asked(fleet, name, "fleet:deployment.name")
  local pools, rows = pools_of.of(fleet, name, asked)
  if #pools == 0 then core.refuse("fleet:deployment.name", ("'%s' has no replica"):format(name)) end
  local left = {}
  for i, row in ipairs(rows) do
    local is_lost = opt.lost_node and is_on(row, opt.lost_node)
    if is_lost then pools[i].until_s, pools[i].drops = opt.lost_at_s, true end
    if not is_lost or opt.lost_at_s > 0 then left[#left + 1] = pools[i] end
  end
  if #left == 0 then
    core.refuse("fleet:deployment.lost_node", ("node %d has all replicas of '%s'"):format(opt.lost_node, name))
  end
  local router = opt.router or pools_of.router(fleet, name, asked, opt.lost_node)
  return routers.deployment { pools = left, router = router, transfer = pools_of.transfer(fleet, name) }
end
