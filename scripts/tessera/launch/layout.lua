-- A plan as whoever starts servers sees it: engines, a pipeline each, with stages on the numbered GPUs of nodes.

local core = require "tessera.core"
local solver = require "tessera.solver"

local M = {}

-- The least of a stage's devices, which a group of unlike ones names one after the other.
local function compute_capability_of(stage, devices)
  local least, types = math.huge, {}
  for run in stage.device:gmatch "[^+]+" do
    types[run], types[(run:gsub("^%d+x", ""))] = true, true
  end
  for _, device in ipairs(devices) do
    if types[device.name] then least = math.min(least, device.compute_capability) end
  end
  return least
end

-- An engine of a placement, with what its pipeline of the plan says besides: batch, memory, kernels.
local function engine_of(pipeline, placed, kernels)
  local problem = pipeline:problem()
  local devices, stages = problem.cluster.devices, pipeline.stages
  local engine = {
    plan = pipeline, batch_size = problem.workload.batch_size, stages = {}, bitwidths = {},
    kernel_set = kernels, -- replicas may have their own
    prefill_micro_batch_size = pipeline.prefill_micro_batch_size,
    decode_micro_batch_size = pipeline.decode_micro_batch_size,
    kv_bitwidth = placed.kv_bitwidth, split = problem.split,
  }
  for k, stage in ipairs(placed.stages) do
    for _, bitwidth in ipairs(stage.bitwidths) do engine.bitwidths[#engine.bitwidths + 1] = bitwidth end
    if stage.num_layers > 0 then -- a stage without layers needs no device
      engine.stages[#engine.stages + 1] = {
        node = stage.node_index + 1, gpus = stage.gpus, degree = #stage.gpus, device = stage.device,
        first_layer = stage.first_layer, num_layers = stage.num_layers, bitwidths = stage.bitwidths,
        memory = stages[k].memory, compute_capability = compute_capability_of(stage, devices),
        backend = devices[stages[k].device_index + 1].backend,
      }
    end
  end
  return engine
end

--- Neighbouring stages on one node: { { node =, stages = {...}, gpus = {...} }, ... }. A node that the pipeline leaves
--- and comes back to is there twice.
function M.spans(engine)
  local spans = {}
  for _, stage in ipairs(engine.stages) do
    local span = spans[#spans]
    if not span or span.node ~= stage.node then
      span = { node = stage.node, stages = {}, gpus = {} }
      spans[#spans + 1] = span
    end
    span.stages[#span.stages + 1] = stage
    for _, gpu in ipairs(stage.gpus) do span.gpus[#span.gpus + 1] = gpu end
  end
  return spans
end

-- Why a plan says not where its engines are: an instance, one replica of several; nil where it does.
local function no_places(plan)
  if plan.devices then
    return core.why("unsupported", "the plan is one replica of several, and knows not where its GPUs are; "
      .. "export the plan that it belongs to")
  end
  if not plan:problem().model then
    return core.why("unsupported", "the plan is of an abstract instance, which names no model and no GPUs")
  end
end

local function engines_of(plan, placement)
  local pipelines, kernels, engines = plan.replicas or { plan }, solver.engine_kernels(plan), {}
  for i, placed in ipairs(placement.engines) do engines[i] = engine_of(pipelines[i], placed, kernels[i]) end
  return engines
end

--- The layout; nil and why where there is nothing to start: an instance, one replica of several.
function M.of(plan)
  local why = no_places(plan)
  if why then return nil, why end
  local problem = plan:problem()
  return {
    plans = { { name = "plan.json", plan = plan } }, model = problem.model, workload = problem.workload,
    cluster = problem.cluster, nodes = problem.cluster.nodes, engines = engines_of(plan, plan.placement),
    latency_s = plan.latency_s, throughput_tok_s = plan.throughput_tok_s,
  }
end

-- Engines that serve a stream, with limits under vLLM's names, instead of a batch that starts and ends together. What
-- each should have of the requests stays its share of that batch.
local function serve_by(engines, limits)
  for _, each in ipairs(engines) do
    each.serving, each.share = limits, each.batch_size
    each.batch_size = limits.max_num_seqs or each.batch_size
  end
end

--- The same of a whole layout.
function M.serve(layout, limits)
  layout.serving = true
  serve_by(layout.engines, limits)
end

--- The layout of several plans of one model beside each other, that serve one stream: parts of { plan =, role =,
--- limits =, share = of the requests for each of its engines, places = { { node = name, gpu = number there }, ... } },
--- a place for each device of the plan's cluster. `router`: the name of the one that they were simulated with.
--- `request_classes`: names of classes of requests; then parts have `class_shares` too, of all requests of each class.
function M.join(parts, cluster_name, router, request_classes)
  local layout = { serving = true, router = router, request_classes = request_classes, plans = {}, nodes = {},
    engines = {}, cluster = { name = cluster_name } }
  local node_index, names = {}, {}
  for i, part in ipairs(parts) do
    local why = no_places(part.plan)
    if why then return nil, why end
    local places = {}
    for k, place in ipairs(part.places) do
      if not node_index[place.node] then
        node_index[place.node], names[#names + 1] = #names, place.node
        layout.nodes[#names] = { name = place.node }
      end
      places[k] = { node_index = node_index[place.node], gpu = place.gpu }
    end
    local engines = engines_of(part.plan, solver.placement_at(part.plan, names, places))
    serve_by(engines, part.limits)
    for _, engine in ipairs(engines) do
      engine.role, engine.share = part.role ~= "mixed" and part.role or nil, part.share or 1
      engine.class_shares = part.class_shares
      layout.engines[#layout.engines + 1] = engine
    end
    local problem = part.plan:problem()
    layout.model, layout.workload = problem.model, problem.workload
    layout.plans[i] = { name = #parts == 1 and "plan.json" or ("plan-%d.json"):format(i), plan = part.plan,
      nodes = names, places = places }
  end
  return layout
end

--- The layout as data: what kind json is, and what the others are compared with.
function M.plain(layout)
  local engines = {}
  for i, engine in ipairs(layout.engines) do
    local stages = {}
    for k, stage in ipairs(engine.stages) do
      stages[k] = {
        node = layout.nodes[stage.node].name, device = stage.device, gpus = stage.gpus, tensor_parallel = stage.degree,
        first_layer = stage.first_layer, num_layers = stage.num_layers, bitwidths = stage.bitwidths,
      }
    end
    engines[i] = {
      stages = stages, batch_size = engine.batch_size, kv_bitwidth = engine.kv_bitwidth,
      prefill_micro_batch_size = engine.prefill_micro_batch_size,
      decode_micro_batch_size = engine.decode_micro_batch_size, role = engine.role, serving = engine.serving,
      share = engine.share, class_shares = engine.class_shares, split = engine.split,
    }
  end
  return { model = layout.model.name, cluster = layout.cluster.name, engines = engines }
end

return M
