-- ts.configurations(options): every way to deploy a model on K GPUs (iServe, section 1: 15 shapes of tensor and
-- pipeline parallelism x 12 schemes = 180 on eight).

local core = require "tessera.core"
local device_types = require "tessera.planning.device_types"
local cost = require "tessera.cost"
local options = require "tessera.options"
local schemes = require "tessera.configurations.schemes"

local path = "ts.configurations"
local most = 1024 -- GPUs, and degrees
local most_configurations = 100000

local read = options.card {
  name = path,
  doc = "Configurations in order of scheme, tensor and pipeline parallelism: { index (from 0), scheme, "
    .. "tensor_parallel, pipeline_parallel, num_gpus, bitwidth, kv_bitwidth, pruning }. With a model, what its heads "
    .. "or layers forbid is left out: `left_out` lists { tensor_parallel, pipeline_parallel, why }. With a cluster "
    .. "also device_types, of each stage: every way to share the stages out among its types, in their order; GPUs of a "
    .. "stage are of one type.",
  returns = "table[]",
  options = {
    { name = "model", type = "any", doc = "Name, file or tessera.Model, whose heads and layers forbid some" },
    { name = "num_gpus", type = "integer", min = 1, max = most,
      doc = "Tensor times pipeline, at most; default: 8, or those of the cluster" },
    { name = "cluster", type = "any", doc = "Cluster, its name, or as \"2xA100-80G+4xT4-16G\": whose types of GPUs" },
    { name = "tensor_parallel", type = "integers", default = { 1, 2, 4, 8 }, min = 1, max = most, doc = "Degrees" },
    { name = "pipeline_parallel", type = "integers", default = { 1, 2, 3, 4, 5, 6, 7, 8 }, min = 1, max = most,
      doc = "Numbers of stages" },
    { name = "schemes", type = "any", lua_type = "string[]", doc = "Of ts.schemes(); default: all" },
  },
}

local function check_degrees(list, where)
  if #list == 0 then core.refuse(where, "the list is empty") end
  local seen = {}
  for i, degree in ipairs(list) do
    if seen[degree] then core.refuse(("%s[%d]"):format(where, i), ("%d is there twice"):format(degree)) end
    seen[degree] = true
  end
end

-- Why a model cannot have this shape, or nil.
local function why_not(model, tp, pp)
  if not model then return nil end
  if pp > model.num_layers then return ("%d stages, but %d layers"):format(pp, model.num_layers) end
  return cost.why_not_sharded(model, tp)
end

-- Every way to share stages out among types, the first type's first; of each type at most `groups` stages.
local function shared_out(types, tp, pp)
  local ways = {}
  local function choose(t, left, stages)
    if t > #types then
      if left == 0 then ways[#ways + 1] = { unpack(stages) } end
      return
    end
    for count = math.min(left, math.floor(#types[t].devices / tp)), 0, -1 do
      local longer = { unpack(stages) }
      for _ = 1, count do longer[#longer + 1] = types[t].name end
      choose(t + 1, left - count, longer)
    end
  end
  choose(1, pp, {})
  return ways
end

-- The shapes that are possible, { tp, pp, types of the stages or nil }, and those that are not.
local function shapes_of(opt, model, types)
  local shapes, left_out = {}, {}
  for _, tp in ipairs(opt.tensor_parallel) do
    for _, pp in ipairs(opt.pipeline_parallel) do
      if tp * pp <= opt.num_gpus then
        local why, ways = why_not(model, tp, pp), types and shared_out(types, tp, pp) or nil
        if not why and ways and #ways == 0 then
          why = ("there are no %d times %d GPUs of one type"):format(pp, tp)
        end
        if why then
          left_out[#left_out + 1] = { tensor_parallel = tp, pipeline_parallel = pp, why = why }
        elseif ways then
          for _, way in ipairs(ways) do shapes[#shapes + 1] = { tp, pp, way } end
        else
          shapes[#shapes + 1] = { tp, pp }
        end
      end
    end
  end
  return shapes, left_out
end

return function(given)
  local opt = read(given or {})
  check_degrees(opt.tensor_parallel, path .. ".tensor_parallel")
  check_degrees(opt.pipeline_parallel, path .. ".pipeline_parallel")
  opt.schemes = opt.schemes or schemes.names
  options.list(opt.schemes, path .. ".schemes", "a list of names", options.item_of "string")
  if #opt.schemes == 0 then core.refuse(path .. ".schemes", "the list is empty") end
  local cards = {}
  for i, name in ipairs(opt.schemes) do cards[i] = schemes.find(name, ("%s.schemes[%d]"):format(path, i)) end
  local model = opt.model ~= nil and core.model(opt.model) or nil
  local cluster = opt.cluster ~= nil and core.cluster(opt.cluster) or nil
  opt.num_gpus = opt.num_gpus or cluster and #cluster.devices or 8
  local shapes, left_out = shapes_of(opt, model, cluster and device_types(cluster))
  if #shapes * #cards > most_configurations then
    core.refuse(path, ("%d configurations, more than %d; give fewer pipeline_parallel or schemes"):format(
      #shapes * #cards, most_configurations))
  end
  local space = {}
  for _, card in ipairs(cards) do
    for _, shape in ipairs(shapes) do
      space[#space + 1] = {
        index = #space, scheme = card.name, tensor_parallel = shape[1], pipeline_parallel = shape[2],
        num_gpus = shape[1] * shape[2], bitwidth = card.bitwidth, kv_bitwidth = card.kv_bitwidth,
        pruning = card.pruning and card.pruning.method or nil, device_types = shape[3],
      }
    end
  end
  space.left_out = left_out
  return space
end
