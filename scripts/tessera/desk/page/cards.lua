-- Cards of a map: the stages of plans on the GPUs that they have, and what is left.

local grouped = require "tessera.grouped"
local no_cpu = require "tessera.devices.no_cpu"
local pipeline = require "tessera.desk.picture.pipeline"

local M = {}

-- "prefill engine 2 of 4, stage 1 of 2"
local function title_of(role, engine, engines, stage, stages)
  local words = { role and role ~= "mixed" and role or nil }
  words[#words + 1] = engines > 1 and ("engine %d of %d"):format(engine, engines) or "engine"
  local text = table.concat(words, " ")
  return stages > 1 and ("%s, stage %d of %d"):format(text, stage, stages) or text
end

-- Memory of a stage. Servers fill their KV cache: `kv_bytes` of all layers, where known, in place of the plan's.
local function memory_of(stage, num_layers, kv_bytes)
  if not kv_bytes then return stage.memory end
  local memory = { capacity_bytes = stage.memory.capacity_bytes, total_bytes = 0 }
  for _, component in ipairs(pipeline.components) do
    local name = component[1]
    memory[name] = name == "kv_cache_bytes" and kv_bytes * stage.num_layers / num_layers or stage.memory[name] or 0
    memory.total_bytes = memory.total_bytes + memory[name]
  end
  return memory
end

--- Adds the cards of a plan's engines. given: role, first_engine and engines (of how many of its role), kv_bytes of
--- an engine, placement where it is not the plan's own.
function M.of_plan(cards, plan, given)
  local placement, pipelines = given.placement or plan.placement, plan.replicas or { plan }
  for i, engine in ipairs(placement.engines) do
    local stages = pipelines[i].stages
    for k, stage in ipairs(engine.stages) do
      local card = {
        gpus = {}, device = stage.device, role = given.role, stage = ("%d/%d"):format(k, #stages),
        title = title_of(given.role or engine.role, given.first_engine + i - 1, given.engines, k, #stages),
        first_layer = stage.first_layer, num_layers = placement.num_layers, bitwidths = stage.bitwidths,
        memory = memory_of(stages[k], placement.num_layers, given.kv_bytes),
        of_cpu = plan:problem().cluster and not no_cpu(plan:problem().cluster),
      }
      card.node = placement.nodes[stage.node_index + 1]
      for g, gpu in ipairs(stage.gpus) do card.gpus[g] = gpu end
      table.sort(card.gpus)
      cards[#cards + 1] = card
      local there = stages[k].attention
      if there then
        card.title = ("%s, %.3g %% of KV heads on %s"):format(card.title, 100 * there.ratio, there.device)
      end
    end
  end
end

--- Adds cards of the GPUs that no other has, by node and type. places: of every device its node's name and number.
function M.add_idle(cards, cluster, places)
  local used, idle = {}, {}
  for _, card in ipairs(cards) do
    for _, gpu in ipairs(card.gpus) do used[card.node .. "/" .. gpu] = true end
  end
  for i, device in ipairs(cluster.devices) do
    local place = places[i]
    if not used[place.node .. "/" .. place.gpu] then
      idle[#idle + 1] = { node = place.node, gpu = place.gpu, device = device.name }
    end
  end
  for _, group in ipairs(grouped(idle, function(one) return one.node .. "/" .. one.device end)) do
    local card = { node = group[1].node, device = group[1].device, gpus = {}, title = "left out" }
    for g, one in ipairs(group) do card.gpus[g] = one.gpu end
    cards[#cards + 1] = card
  end
end

--- Of every device of a cluster, in its order: { node = name, gpu = number }; and the names of its nodes.
function M.places(cluster)
  local places, names = {}, {}
  for i, node in ipairs(cluster.nodes) do names[i] = node.name end
  for i, place in ipairs(cluster:places()) do
    places[i] = { node = names[place.node_index + 1], gpu = place.gpu }
  end
  return places, names
end

return M
