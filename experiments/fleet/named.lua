-- Fleets of named models, priced here: how near to the bound, in which time, with how many shapes simulated, whether
-- every model keeps its promise when all of it is simulated and when any node is lost in the middle, and what 1 % more
-- of the demand moves.
--
--   tessera run experiments/fleet/named.lua --jobs 1
local ts = require "tessera"
local fleets = require "lib.fleets"

local settings = {
  small = { fleet = fleets.small, time_limit_s = 60 },
  large = { fleet = fleets.large, time_limit_s = 600 },
}

-- The least attainment of any model over the losses of up to `most` nodes, one at a time.
local function least_after_a_loss(fleet, most)
  local least, step = 1, math.max(1, math.floor(#fleet.nodes / most))
  for i = 1, #fleet.nodes, step do
    local served = ts.serve(fleet, nil, { duration_s = 120, lost_node = fleet.nodes[i].node_index })
    for _, model in ipairs(served.models) do least = math.min(least, model.attainment_ratio or 1) end
  end
  return least
end

local function least_attainment(fleet)
  local least = 1
  for _, model in ipairs(ts.serve(fleet, nil, { duration_s = 120 }).models) do
    least = math.min(least, model.attainment_ratio or 1)
  end
  return least
end

return ts.experiment {
  name = "fleet/named",
  doc = "Named models on 64 and 1,024 mixed GPUs: gap, time, shapes simulated, promises under simulation",
  grid = { setting = { "small", "large" }, reserve_nodes = { 0, 1 } },
  -- A reserve takes its minutes on a busy machine: how near it comes is asked of the whole run.
  quick = { setting = { "small" }, reserve_nodes = { 0 } },
  columns = { "usd_per_h", "bound", "gap", "solve_s", "gpus", "simulated", "shapes", "attainment", "lost_attainment",
    "moved", "replicas" },
  notes = {
    "attainment: the least of any model at its demand for 120 s, all its replicas at once; lost_attainment: the same, "
      .. "a node taken away after 60 s, over all nodes (of 1,024 GPUs over ten)",
    "moved: replicas that start when the demand is 1 % larger and the fleet is planned anew, of `replicas`",
  },
  time_limit_s = 1800,

  run = function(point)
    local setting = settings[point.setting]
    local function planned(factor)
      local options = fleets.options(setting.fleet, function() return factor end)
      options.gap, options.time_limit_s = 0.05, setting.time_limit_s
      options.reserve = { nodes = point.reserve_nodes }
      return assert(ts.plan_fleet(options))
    end
    local fleet = planned(1)
    local change = fleet:diff(planned(1.01))
    local moved, replicas = 0, 0
    for _, start in ipairs(change.starts) do moved = moved + start.count end
    for _, row in ipairs(fleet.replicas) do replicas = replicas + row.count end
    return { status = fleet.status, usd_per_h = fleet.usd_per_h, bound = fleet.bound, gap = fleet.gap,
      solve_s = fleet.solve_s, gpus = fleet.gpus, simulated = fleet.pricing.simulated, shapes = fleet.pricing.shapes,
      attainment = least_attainment(fleet),
      lost_attainment = point.reserve_nodes > 0 and least_after_a_loss(fleet, 10) or nil, moved = moved,
      replicas = replicas }
  end,

  check = function(t)
    t:expect_all { column = "gap", at_least = -1e-9, at_most = 0.05 } -- asked for, in the time
    t:expect_all { column = "attainment", at_least = 0.99, at_most = 1 }
    if #t:rows { reserve_nodes = 1 } == 0 then return end
    -- What the lost node had begun is begun again elsewhere.
    t:expect_all { column = "lost_attainment", at_least = 0.95, at_most = 1, where = { reserve_nodes = { 1 } } }
  end,
}
