-- ts.serve(fleet, { chat = traffic, ... }): every model of a fleet under its own traffic. Models share no device, so
-- that each is simulated by itself, all of its replicas at once; what a lost node takes is taken from all at one time.

local classes = require "tessera.fleets.classes"
local core = require "tessera.core"
local options = require "tessera.options"
local pools_of = require "tessera.fleets.pools"
local solver = require "tessera.solver"

local read = options.card {
  name = "ts.serve.fleet",
  doc = "ts.serve of a fleet: { models = { { name, promised_per_s, rate_per_s, attainment_ratio, keeps, served }, ... "
    .. "}, keeps, lost_node }, one row a model. Without a traffic of its own a model gets that of its demand.",
  parameters = { { "fleet", "tessera.Fleet", "Of ts.plan_fleet" },
    { "traffics", "table<string, tessera.Traffic|table>?", "By the name of the model" } },
  returns = "table",
  options = {
    { name = "duration_s", type = "number", unit = "s", min = 1, max = 1e6, default = 300,
      doc = "Of traffic that says neither how many requests nor how long" },
    { name = "router", type = "any", lua_type = "string|table", doc = "As for fleet:deployment" },
    { name = "lost_node", type = "integer", min = 0, max = 1e7, doc = "A node of the fleet that is lost" },
    { name = "lost_at_s", type = "number", unit = "s", min = 0, max = 1e9,
      doc = "When; default: in the middle of duration_s" },
  },
}

-- Traffic that somebody gave, or the demand for so long.
local function traffic_of(given, asked, demand_per_s, duration_s)
  if given then return classes.given_traffic(given, duration_s) end
  local is_other = classes.rate(asked) and demand_per_s > 0
  return classes.traffic(is_other and classes.with_rate(asked, demand_per_s) or asked, duration_s)
end

local function check_names(fleet, traffics)
  options.plain(traffics, "ts.serve.traffic", "a table of traffic by model")
  for name in pairs(traffics) do pools_of.asked(fleet, name, "ts.serve.traffic") end
end

return function(fleet, traffics, given)
  local opt = read(given)
  traffics = traffics or {}
  check_names(fleet, traffics)
  local result = { models = {}, keeps = true, lost_node = opt.lost_node }
  local lost_at_s = opt.lost_at_s or opt.duration_s / 2
  for i, model in ipairs(fleet.models) do
    local row = { name = model.name, promised_per_s = model.capacity_per_s, rate_per_s = model.demand_per_s }
    if model.replicas > 0 then
      local asked = pools_of.asked(fleet, model.name, "ts.serve.fleet")
      local deployment = fleet:deployment(model.name, { router = opt.router, lost_node = opt.lost_node,
        lost_at_s = opt.lost_node and lost_at_s or nil })
      local traffic = traffic_of(traffics[model.name], asked, model.demand_per_s, opt.duration_s)
      row.served = solver.serve(deployment, traffic, { slo = classes.slo(asked) })
      row.attainment_ratio, row.keeps = row.served.attainment_ratio, row.served.attains_slo
      result.keeps = result.keeps and row.keeps
    end
    result.models[i] = row
  end
  if not opt.lost_node then return result end
  local found = false
  for _, node in ipairs(fleet.nodes) do found = found or node.node_index == opt.lost_node end
  if not found then core.refuse("ts.serve.lost_node", ("node %d runs nothing"):format(opt.lost_node)) end
  return result
end
