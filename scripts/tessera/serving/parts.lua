-- The engines of a row of ts.plan_serving's list, kind by kind, each with its plan and the devices that it has in the
-- whole cluster.

local core = require "tessera.core"
local routers = require "tessera.plugins.routers"

local M = {}

-- The name of the router that a search was asked for; nil for a function.
local function router_name(given)
  if type(given) == "table" then return given.choose == nil and (given.name or "round_robin") or nil end
  return given or "least_requests"
end

--- What a list was asked for: model, cluster, engine, router and kernel_set.
function M.asked(plans)
  local given = plans.options
  return { model = core.model(given.model), cluster = core.cluster(given.cluster), engine = given.engine or {},
    router = router_name(given.router), kernel_set = given.kernel_set }
end

--- { plan, deployment, devices (their indices in the whole), role, share, part } of each kind.
function M.list(asked, row, devices)
  local list = {}
  for i, part in ipairs(row.parts) do
    local cluster = asked.cluster:part(devices[i])
    local deployment = routers.deployment { model = asked.model, cluster = cluster,
      tensor_parallel = part.tensor_parallel, pipeline_parallel = part.pipeline_parallel,
      expert_parallel = part.expert_parallel, attention_data_parallel = part.attention_data_parallel,
      stage_layers = part.stage_layers and #part.stage_layers > 0 and part.stage_layers or nil, replicas = part.engines,
      bitwidths = { part.bitwidth }, kv_bitwidth = part.kv_bitwidth, engine = part.engine,
      kernel_set = asked.kernel_set, router = asked.router }
    list[i] = { plan = deployment.plan, deployment = deployment, devices = devices[i],
      role = part.role, share = part.share, part = part }
  end
  return list
end

return M
