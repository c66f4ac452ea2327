-- What can run the engines of a search: vLLM, by what its launch files can say and its kernels read, or Tessera's own,
-- which runs whatever a kernel set has a price for.

local layouts = require "tessera.launch.layout"
local obstacles = require "tessera.launch.obstacles"
local vllm = require "tessera.launch.vllm_versions"

local M = {}

-- An engine as launch files see it, of one stage on one device.
local function layout_of(kind)
  local stage = { node = 1, gpus = { 0 }, degree = 1, device = kind.entry.name,
    compute_capability = kind.entry.compute_capability }
  return { nodes = { {} }, engines = { { stages = { stage }, bitwidths = { kind.bitwidth },
    kv_bitwidth = kind.kv_bitwidth, kernel_set = { name = "any" } } } }
end

--- Why the runtime has no kernels for such an engine on its type of device, one line; nil where it has. Plans of
--- ts.problem { runtime = } are checked by the same.
function M.kernel_obstacle(search, kind)
  if search.runtime == "tessera" then return nil end
  return obstacles.of(layout_of(kind), search.runtime, vllm.default)[1]
end

-- { obstacle =, checkpoint = } of a plan.
local function look(search, kind, deployment)
  local layout, why = layouts.of(deployment.plan)
  if not layout then return { obstacle = why.message } end
  local engine = layout.engines[1]
  local found = obstacles.of(layout, search.runtime, vllm.default)[1]
  if not found and search.kernel_set == "auto" and engine.kernel_set.runtime ~= search.runtime then
    found = ("no kernel of vLLM is priced for %d-bit weights on %s (kernel set %s has one, for runtime = \"tessera\")")
      :format(kind.bitwidth, kind.entry.name, engine.kernel_set.name)
  end
  return { obstacle = found, checkpoint = obstacles.checkpoint_of(engine) }
end

--- Why the runtime cannot launch such an engine as it is deployed, likewise. Looked at once for each type of device,
--- bitwidth and KV cache, and for each shape of more than one stage. Says in kind.checkpoint which one it serves.
function M.plan_obstacle(search, kind, deployment)
  if search.runtime == "tessera" then return nil end
  local shape = kind.stages > 1 and kind.degree .. "x" .. kind.stages or ""
  local key = table.concat({ kind.entry.name, kind.bitwidth, kind.kv_bitwidth, shape }, " ")
  local known = search.looked_at
  known[key] = known[key] or look(search, kind, deployment)
  kind.checkpoint = known[key].checkpoint
  return known[key].obstacle
end

--- Why the runtime cannot hand keys and values from one engine to another; nil where it can. Whatever runs them, both
--- read the same KV cache.
function M.transfer_obstacle(search, from, to)
  if search.runtime == "vllm" then
    return obstacles.transfer(
      { bitwidth = from.checkpoint, kv_bitwidth = from.kv_bitwidth, degree = from.degree, stages = from.stages },
      { bitwidth = to.checkpoint, kv_bitwidth = to.kv_bitwidth, degree = to.degree, stages = to.stages })
  end
  return from.kv_bitwidth ~= to.kv_bitwidth and "pools: unlike KV caches" or nil
end

return M
