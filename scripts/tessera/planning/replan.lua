-- ts.replan(plan, cluster, options): a plan for the devices that are there now, with few weights loaded anew.

local core = require "tessera.core"
local solver = require "tessera.solver"
local options = require "tessera.options"
local bitwidths_of = require "tessera.planning.plan_bitwidths"
local budget = require "tessera.planning.budget"

local path = "ts.replan"

local read = options.card {
  name = path,
  doc = "A plan for a changed cluster, within a tolerance of the best one, that loads few weights anew. A layer stays "
    .. "where its device held it at its bitwidth; devices are the same where type and node are; new ones may stay "
    .. "idle. The best objective is proven by the exact planner; the moves are searched: never more than the best plan "
    .. "needs, and least where moved_bytes = least_moved_bytes, a bound. Second result: moved_bytes, kept_bytes, "
    .. "moved_layers, least_moved_bytes, transfer_s, transfer_assumes (nil where nothing had to be), "
    .. "requantised_layers, optimum (a plan), optimum_moved_bytes, stopped. Or nil and why. transfer_s is the longest "
    .. "that a device, a node's disk or its network is busy: a layer comes from a device that holds it at its "
    .. "bitwidth, over the slower of PCIe and the link between them, or from the disk of its node, over the slower of "
    .. "PCIe and that; whichever is faster. Nothing is quantised meanwhile: weights at a bitwidth that no device held "
    .. "(requantised_layers) are taken to lie on the disk.",
  parameters = {
    { "plan", "tessera.Plan", "The plan that runs now" },
    { "cluster", "tessera.Cluster|string|table|tessera.Problem",
      "What is there now; a problem for plans of instances" },
  },
  returns = "tessera.Plan?, table|tessera.Error",
  options = {
    { name = "tolerance", type = "number", default = 0.01, min = 0, max = 100,
      doc = "How far above the best objective the plan may be, as a ratio" },
    { name = "source_bytes_per_s", type = "number", unit = "bytes/s", min = 1e3, max = 1e15,
      doc = "What a node reads of weights that lie outside the GPUs (a disk, a file server), where the cluster does "
        .. "not say disk_bytes_per_s; without either 2 GB/s, and transfer_assumes says so" },
    { name = "lost", type = "integers",
      doc = "device_index of stages whose devices are gone, where type and node do not say which" },
    { name = "time_limit_s", type = "number", unit = "s", default = 60, min = 0, max = 1e6,
      doc = "Of both searches together" },
  },
}

local fail = core.refuse

local function problem_of(plan, cluster)
  local problem = plan:problem()
  if budget.is(cluster, "tessera.Problem") then
    if cluster.num_layers ~= problem.num_layers then
      fail(path .. " cluster",
        ("the problem has %d layers, the plan %d"):format(cluster.num_layers, problem.num_layers))
    end
    return cluster
  end
  if cluster == nil then fail(path .. " cluster", "give the cluster that is there now") end
  if not problem.cluster then fail(path .. " cluster", "the plan is one of an instance; give a problem") end
  -- Groups of the old mesh may be gone: devices of their own are always a choice.
  local degrees = { 1 }
  for _, degree in ipairs(problem.tensor_parallel) do
    if degree > 1 then degrees[#degrees + 1] = degree end
  end
  return problem:with { cluster = cluster, tensor_parallel = degrees, theta = problem.theta }
end

local function check_lost(lost, plan)
  if lost == nil then return nil end
  local used = {}
  for _, stage in ipairs(plan.stages) do used[stage.device_index] = true end
  for i, index in ipairs(lost) do
    if not used[index] then
      fail(("%s.lost[%d]"):format(path, i), ("no stage of the plan runs on device %s"):format(tostring(index)))
    end
  end
  return lost
end

-- Layers whose bitwidth is another than before: their weights have to be quantised, or to be there.
local function requantised(before, after)
  local old, count = bitwidths_of(before), 0
  for i, bitwidth in ipairs(bitwidths_of(after)) do
    if bitwidth ~= old[i] then count = count + 1 end
  end
  return count
end

return function(plan, cluster, given)
  budget.object(plan, "tessera.Plan", path .. " plan")
  if plan.replicas then
    core.raise("unsupported", path .. " plan: replicas are pipelines of their own; replan each of plan.replicas", path)
  end
  for k, stage in ipairs(plan.stages) do
    if stage.attention then
      core.raise("unsupported", ("%s plan: heads of stage %d are on %s, and what moves is told of stages alone; "
        .. "plan anew"):format(path, k - 1, stage.attention.device), path)
    end
  end
  local opt = read(given)
  local lost = check_lost(opt.lost, plan)
  local problem = problem_of(plan, cluster)
  local clock = budget.new(opt.time_limit_s)
  local optimum, why = clock.solve(problem)
  if not optimum then return nil, why end
  problem = optimum:problem() -- with the mesh and the KV cache that it settled on
  local made, moves = solver.replan(plan, problem, optimum,
    { tolerance = opt.tolerance, lost = lost, time_limit_s = clock.left(),
      source_bytes_per_s = opt.source_bytes_per_s })
  moves.optimum = optimum
  moves.requantised_layers = requantised(plan, made)
  if moves.requantised_layers > 0 then
    local other = moves.transfer_assumes and moves.transfer_assumes .. "; " or ""
    moves.transfer_assumes = ("%sthe weights of %d layers lie there at bitwidths that no device held"):format(other,
      moves.requantised_layers)
  end
  local note = ("replanned: %s loaded anew (%d layers), %s kept; within %g %% of %s"):format(
    core.format_bytes(moves.moved_bytes), moves.moved_layers, core.format_bytes(moves.kept_bytes), 100 * opt.tolerance,
    optimum.status == "optimal" and "the proven optimum" or "the best plan found, which is not proven")
  moves.stopped = moves.stopped or clock.stopped
  return made:with_note(note), moves
end
