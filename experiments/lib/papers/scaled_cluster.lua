-- A paper's cluster for a model far smaller than the paper's: the same GPUs, links and nodes with less memory, so that
-- memory binds as it does in print.

local assumptions = require "tessera.desk.experiment.assumptions"
local core = require "tessera.core"
local planners = require "tessera.planning.planners"
local solver = require "tessera.solver"

local M = {}

-- Memory preset llm-pq: what a GPU can use is 0.95 of its memory less 1930 MiB.
local used_ratio, context_bytes = 0.95, 1930 * 2 ^ 20

local mean_bitwidth = 5 -- between the 4 and 8 bits that the papers' plans mix

-- The cluster with `share` of what each of its GPUs can use. The papers' nodes have one type of GPU each.
local function with_share(cluster, share)
  local entries = {
    name = ("%s/%.3g"):format(cluster.name, 1 / share), link_gbps = cluster.network_bytes_per_s * 8 / 1e9,
  }
  for _, device in ipairs(cluster.devices) do
    local usable_bytes = used_ratio * device.memory_bytes - context_bytes
    device.memory_bytes = (share * usable_bytes + context_bytes) / used_ratio
    entries[#entries + 1] = { core.device(device), 1, node = device.name }
  end
  return core.cluster(entries)
end

--- problem on the cluster with the least share of its memory in which the layers of its model fit with 5 bits on
--- average, and that share, found by bisection.
function M.problem(given)
  local cluster = core.cluster(given.cluster)
  local function at(share)
    local own = { cluster = with_share(cluster:to_table(), share) }
    for key, value in pairs(given) do own[key] = own[key] or value end
    return solver.problem(assumptions.apply(own))
  end
  local function fits(share)
    local plan = planners.plan(at(share), { planner = "adabits", time_limit_s = 20 })
    return plan and plan.mean_bitwidth >= mean_bitwidth
  end
  local low, high = -5, 0
  for _ = 1, 12 do
    local middle = (low + high) / 2
    if fits(10 ^ middle) then high = middle else low = middle end
  end
  return at(10 ^ high), 10 ^ high
end

return M
