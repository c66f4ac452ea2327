-- What of a plan a runtime cannot launch, in words; nothing where it can.

local layouts = require "tessera.launch.layout"
local solver = require "tessera.solver"
local versions = require "tessera.launch.vllm_versions"

local M = {}

--- Whether all nodes of the pipeline give it equally many GPUs, which the launch without Ray needs.
function M.has_even_nodes(engine)
  local spans = layouts.spans(engine)
  for _, span in ipairs(spans) do
    if #span.gpus ~= #spans[1].gpus then return false end
  end
  return true
end

local function pools(layout, version)
  local by_role = {}
  for _, engine in ipairs(layout.engines) do
    if engine.role then
      by_role[engine.role] = { kv_bitwidth = engine.kv_bitwidth, checkpoint = engine.kernel_set.checkpoint,
        degree = engine.stages[1].degree, stages = #engine.stages }
    end
  end
  if not by_role.prefill then return {} end
  local found = {}
  if not versions.has_pools(version) then found[1] = ("pools: vLLM %s has no NixlConnector"):format(version) end
  found[#found + 1] = solver.transfer_obstacle("vllm", by_role.prefill, by_role.decode)
  return found
end

--- Why `runtime` cannot run the plan: a list of sentences without full stops, each once.
function M.of(layout, runtime, version)
  local seen, distinct = {}, {}
  local function add(list)
    for _, text in ipairs(list) do
      if not seen[text] then distinct[#distinct + 1] = text end
      seen[text] = true
    end
  end
  if runtime == "json" then return distinct end
  for _, part in ipairs(layout.plans) do
    add(solver.launch_obstacles(part.plan, runtime, part.nodes, part.places))
  end
  if runtime == "vllm" then add(pools(layout, version)) end
  return distinct
end

return M
