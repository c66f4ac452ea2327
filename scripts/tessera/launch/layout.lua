-- A plan as whoever starts servers sees it: engines, a pipeline each, with stages on the numbered GPUs of nodes.

local core = require "tessera.core"
local solver = require "tessera.solver"

local M = {}

-- Of each device of a cluster: its node (1-based) and its number among the GPUs there (0-based).
local function places_of(cluster)
  local node_index, counts, places = {}, {}, {}
  for i, node in ipairs(cluster.nodes) do node_index[node.name] = i end
  for i, device in ipairs(cluster.devices) do
    local node = node_index[device.node]
    counts[node] = counts[node] or 0
    places[i] = { node = node, gpu = counts[node], compute_capability = device.compute_capability, name = device.name }
    counts[node] = counts[node] + 1
  end
  return places
end

-- `to_cluster(i)`: the device of the whole cluster (1-based) that is device i (0-based) of the pipeline's own.
local function engine_of(plan, json, places, to_cluster)
  local engine = {
    batch_size = json.problem.serving.workload.batch_size, stages = {}, bitwidths = {},
    kernel_set = json.problem.serving.kernel_set, -- replicas may have their own
    prefill_micro_batch_size = json.prefill_micro_batch_size, decode_micro_batch_size = json.decode_micro_batch_size,
    kv_bitwidth = json.problem.serving.kv_bitwidth, offloads = json.offload ~= nil,
  }
  local devices = solver.stage_devices(plan)
  for k, stage in ipairs(json.stages) do
    for _, bitwidth in ipairs(stage.bitwidths) do engine.bitwidths[#engine.bitwidths + 1] = bitwidth end
    if stage.num_layers > 0 then -- a stage without layers needs no device
      local gpus, first = {}, nil
      for i, device in ipairs(devices[k]) do
        local place = places[to_cluster(device)]
        gpus[i], first = place.gpu, first or place
      end
      engine.stages[#engine.stages + 1] = {
        node = first.node, gpus = gpus, degree = #gpus, device = first.name, memory = stage.memory,
        compute_capability = first.compute_capability, first_layer = stage.first_layer,
        num_layers = stage.num_layers, bitwidths = stage.bitwidths,
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

-- What is read of a plan; nil and why where there is nothing to start: an instance, one replica of several.
local function read_plan(plan)
  local text = solver.plan_text(plan)
  local json = core.from_json(text)
  if not json.problem.serving then
    return nil, core.why("unsupported", "the plan is of an abstract instance, which names no model and no GPUs")
  end
  if json.devices then
    return nil, core.why("unsupported", "the plan is one replica of several, and knows not where its GPUs are; "
      .. "export the plan that it belongs to")
  end
  return text, json
end

local function engines_of(plan, json, places)
  if not json.replicas then return { engine_of(plan, json, places, function(d) return d + 1 end) } end
  local engines = {}
  for i, replica in ipairs(json.replicas) do
    engines[i] = engine_of(plan.replicas[i], replica, places, function(d) return replica.devices[d + 1] + 1 end)
  end
  return engines
end

--- The layout; nil and why where there is nothing to start: an instance, one replica of several.
function M.of(plan)
  local text, json = read_plan(plan)
  if not text then return nil, json end
  local serving = json.problem.serving
  return {
    plans = { { name = "plan.json", text = text } }, model = serving.model, workload = serving.workload,
    cluster = serving.cluster, nodes = serving.cluster.nodes,
    engines = engines_of(plan, json, places_of(serving.cluster)), runtime = json.problem.runtime,
    latency_s = json.latency_s, throughput_tok_s = json.throughput_tok_s,
  }
end

-- Engines that serve a stream, with limits under vLLM's names, instead of a batch that starts and ends together.
local function serve_by(engines, limits)
  for _, each in ipairs(engines) do
    each.serving, each.batch_size = limits, limits.max_num_seqs or each.batch_size
  end
end

--- The same of a whole layout.
function M.serve(layout, limits)
  layout.serving = true
  serve_by(layout.engines, limits)
end

--- The layout of several plans of one model beside each other, that serve one stream: parts of { plan =, role =,
--- limits =, places = { { node = name, gpu = number there }, ... } }, a place for each device of the plan's cluster.
function M.join(parts, cluster_name)
  local layout = { serving = true, plans = {}, nodes = {}, engines = {}, cluster = { name = cluster_name } }
  local node_index = {}
  for i, part in ipairs(parts) do
    local text, json = read_plan(part.plan)
    if not text then return nil, json end
    local serving, places = json.problem.serving, {}
    for k, place in ipairs(part.places) do
      if not node_index[place.node] then
        layout.nodes[#layout.nodes + 1], node_index[place.node] = { name = place.node }, #layout.nodes + 1
      end
      local device = serving.cluster.devices[k]
      places[k] = { node = node_index[place.node], gpu = place.gpu, name = device.name,
        compute_capability = device.compute_capability }
    end
    local engines = engines_of(part.plan, json, places)
    serve_by(engines, part.limits)
    for _, engine in ipairs(engines) do
      engine.role = part.role ~= "mixed" and part.role or nil
      layout.engines[#layout.engines + 1] = engine
    end
    layout.model, layout.workload = serving.model, serving.workload
    layout.plans[i] = { name = #parts == 1 and "plan.json" or ("plan-%d.json"):format(i), text = text }
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
    }
  end
  return { model = layout.model.name, cluster = layout.cluster.name, engines = engines }
end

return M
