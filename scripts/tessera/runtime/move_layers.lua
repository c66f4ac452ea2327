-- What a run does when a worker is lost for good: ts.replan on the devices of the workers that are left, and who of
-- them runs which stage of the new plan. A worker keeps the layers that it has at their bitwidths.

local bitwidths_of = require "tessera.planning.plan_bitwidths"
local replan = require "tessera.planning.replan"

local time_limit_s = 10

-- Stages of a plan of one engine as the runtime has them, with what tells their devices apart.
local function stages_of(plan)
  local cluster, stages = plan:problem().cluster, {}
  local places = cluster:places()
  for k, stage in ipairs(plan.placement.engines[1].stages) do
    local made = { first_layer = stage.first_layer, num_layers = stage.num_layers, bitwidths = stage.bitwidths,
      ranks = #stage.gpus, kind = ("%s on %s"):format(stage.device, cluster.nodes[stage.node_index + 1].name) }
    for i, place in ipairs(places) do
      if place.node_index == stage.node_index and place.gpu == stage.gpus[1] then made.device = i - 1 end
    end
    stages[k] = made
  end
  return stages
end

-- Layers that both have, at the same bitwidth.
local function common_layers(a, b)
  local count = 0
  for layer = math.max(a.first_layer, b.first_layer),
    math.min(a.first_layer + a.num_layers, b.first_layer + b.num_layers) - 1 do
    if a.bitwidths[layer - a.first_layer + 1] == b.bitwidths[layer - b.first_layer + 1] then count = count + 1 end
  end
  return count
end

-- Gives each stage the worker of its kind of device that has most of its layers.
local function give_ranks(stages, workers)
  local pairs_of = {}
  for k, stage in ipairs(stages) do
    for w, worker in ipairs(workers) do
      if worker.kind == stage.kind then
        pairs_of[#pairs_of + 1] = { stage = stage, worker = worker, k = k, w = w,
          common = common_layers(stage, worker) }
      end
    end
  end
  table.sort(pairs_of, function(a, b)
    if a.common ~= b.common then return a.common > b.common end
    if a.k ~= b.k then return a.k < b.k end
    return a.w < b.w
  end)
  local taken = {}
  for _, pair in ipairs(pairs_of) do
    if not pair.stage.rank and not taken[pair.worker] then
      pair.stage.rank, taken[pair.worker] = pair.worker.rank, true
    end
  end
end

--- What ts.execute calls with an engine (from 1) and the rank that it has lost, and a list of what came of each call.
--- `forms_of` makes of the bitwidths of a plan's layers what workers are told.
return function(plan, forms_of)
  local engines, rank = {}, 0
  for number, pipeline in ipairs(plan.replicas or { plan }) do
    local stages = stages_of(pipeline)
    for _, stage in ipairs(stages) do stage.rank, rank = rank, rank + stage.ranks end
    engines[number] = { plan = pipeline, stages = stages }
  end
  local moves = {}
  return function(number, lost)
    local engine = engines[number]
    local left, devices, gone = {}, {}, nil
    for k, stage in ipairs(engine.stages) do
      if stage.rank == lost then
        gone = engine.plan.stages[k].device_index
      else
        left[#left + 1], devices[#devices + 1] = stage, stage.device
      end
    end
    local move = { engine = number, lost_rank = lost }
    moves[#moves + 1] = move
    if #left == 0 then
      move.why = "no worker of its engine is left"
      return nil
    end
    table.sort(devices)
    local after, told = replan(engine.plan, engine.plan:problem().cluster:part(devices),
      { lost = { gone }, time_limit_s = time_limit_s })
    if not after then
      move.why = told.message
      return nil
    end
    local stages = stages_of(after)
    give_ranks(stages, left)
    for _, stage in ipairs(stages) do
      if not stage.rank or stage.ranks > 1 then
        move.why = "the new plan shares a stage among devices"
        return nil
      end
    end
    move.changed_bits = told.requantised_layers
    engine.plan, engine.stages = after, stages
    return { stages = stages, bitwidths = forms_of(bitwidths_of(after)) }
  end, moves
end
