-- Classes of requests of a model of a fleet: one, which `traffic` says, or several by size, which replicas share as the
-- linear programme has it.

local copy = require "tessera.shallow_copy"
local serving = require "tessera.serving"

local M = {}

--- What asks for a model: { name =, traffic =, slo = }, one at least.
function M.of(model)
  local list = {}
  for i, class in ipairs(model.classes or {}) do
    list[i] = { name = class.name or ("class %d"):format(i - 1), traffic = class.traffic, slo = class.slo or model.slo }
  end
  if #list == 0 then list[1] = { name = "all", traffic = model.traffic, slo = model.slo } end
  return list
end

--- Whether there are several.
function M.several(model) return #(model.classes or {}) > 1 end

--- The SLO as ts.serve takes it: of several classes a list.
function M.slo(model)
  local classes = M.of(model)
  if #classes == 1 then return classes[1].slo end
  local list = {}
  for i, class in ipairs(classes) do
    list[i] = copy(class.slo)
    list[i].name = class.name
  end
  return list
end

--- Requests/s of all classes; nil where one of them is no table with a rate.
function M.rate(model)
  local all = 0
  for _, class in ipairs(M.of(model)) do
    local rate = type(class.traffic) == "table" and class.traffic.rate_per_s
    if type(rate) ~= "number" then return nil end
    all = all + rate
  end
  return all
end

local function times(traffic, factor)
  local other = copy(traffic)
  other.rate_per_s = traffic.rate_per_s * factor
  return other
end

--- The model with so many requests/s, its classes in proportion.
function M.with_rate(model, rate_per_s)
  local other, factor = copy(model), rate_per_s / M.rate(model)
  if not model.classes then
    other.traffic = times(model.traffic, factor)
    return other
  end
  other.classes = {}
  for i, class in ipairs(model.classes) do
    other.classes[i] = copy(class)
    other.classes[i].traffic = times(class.traffic, factor)
  end
  return other
end

-- So long, where it says neither that nor how many requests come.
local function made(source, duration_s, slo_class)
  if type(source) ~= "table" then return source end
  local traffic = copy(source)
  if not traffic.num_requests and not traffic.duration_s and not traffic.trace then traffic.duration_s = duration_s end
  if slo_class then
    traffic.classes = { { share = 1, slo_class = slo_class } }
    -- Streams that are drawn alike would come at the same moments.
    traffic.seed = (traffic.seed or 0) + slo_class
  end
  return serving.traffic(traffic)
end

--- Its requests for so long: those of several classes together, each by its slo_class.
function M.traffic(model, duration_s)
  local classes = M.of(model)
  if #classes == 1 then return made(classes[1].traffic, duration_s) end
  local streams = {}
  for i, class in ipairs(classes) do streams[i] = made(class.traffic, duration_s, i - 1) end
  return table.remove(streams, 1):joined(streams)
end

--- Traffic that somebody gave for it.
function M.given_traffic(source, duration_s) return made(source, duration_s) end

local function key_of(row) return row.column_index .. ":" .. table.concat(row.node_indices, ",") end

--- Of each row of replicas of a model with several classes, by what is the same for row and fleet: { count =, share =
--- of all requests of each class, to each of these }, in the order of the replicas.
function M.shares(solved, lost_node)
  local by_key, rows = {}, solved.replicas
  for _, part in ipairs(solved:shares(lost_node)) do
    local key = key_of(rows[part.row])
    by_key[key] = by_key[key] or {}
    table.insert(by_key[key], { count = part.count, share = part.share })
  end
  return function(row) return by_key[key_of(row)] end
end

--- The multiple of the demand of each model with several classes that its replicas serve without a node, by name.
function M.scales_without(solved, lost_node)
  local served, fullest, models = {}, {}, {}
  for _, model in ipairs(solved.instance.models) do
    if #model.demand > 1 then models[model.name], served[model.name], fullest[model.name] = model, {}, 0 end
  end
  for _, part in ipairs(solved:shares(lost_node)) do
    local row = solved.replicas[part.row]
    local model, time = models[row.model], 0
    for b, share in ipairs(model and part.share or {}) do
      if share > 0 then time = time + share * model.demand[b] / row.rate_per_s[b] end
      served[row.model][b] = served[row.model][b] or share > 0
    end
    if model then fullest[row.model] = math.max(fullest[row.model], time) end
  end
  local scales = {}
  for name, model in pairs(models) do
    scales[name] = fullest[name] > 0 and 1 / fullest[name] or 0
    for b, demand in ipairs(model.demand) do
      if demand > 0 and not served[name][b] then scales[name] = 0 end
    end
  end
  return scales
end

-- Of one engine after the other, its shares.
local function by_engine(rows, shares_of)
  local list = {}
  for _, row in ipairs(rows) do
    for _, part in ipairs(shares_of(row) or {}) do
      for _ = 1, part.count do list[#list + 1] = part.share end
    end
  end
  return list
end

local function least_loaded(replicas)
  local best, least = 1, math.huge
  for i, replica in ipairs(replicas) do
    local load = replica.waiting + replica.running
    if load < least then best, least = i, load end
  end
  return best
end

--- A router that sends each class to the replicas in turn by their shares of it, as weights of nginx do. `rows`: those
--- of fleet.replicas that run the model, in the order of the deployment. Once a node is lost, by the shares of the
--- others.
function M.router(fleet, rows, lost_node)
  local whole = by_engine(rows, M.shares(fleet.solved))
  local left = lost_node and by_engine(rows, M.shares(fleet.solved, lost_node)) or whole
  local sent = { [whole] = {}, [left] = {} }
  local function choose(replicas, request)
    local shares = #replicas == #whole and whole or left
    local class = request.slo_class + 1
    local turns = sent[shares][class] or {}
    sent[shares][class] = turns
    local best, least = nil, math.huge
    for i, share in ipairs(shares) do
      local own = share[class] or 0
      local turn = own > 0 and ((turns[i] or 0) + 1) / own or math.huge
      if turn < least then best, least = i, turn end
    end
    if not best then return least_loaded(replicas) end -- nobody planned for the class
    turns[best] = (turns[best] or 0) + 1
    return best
  end
  return { name = "by_class", choose = choose }
end

return M
