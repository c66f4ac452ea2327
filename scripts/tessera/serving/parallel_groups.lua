-- AlpaServe's search for a placement, as its public code has it (alpa-projects/mms @ dba47b18e95f): groups of GPUs of
-- one shape, models added to them one by one by what a simulator of its own says. Strategies alpaserve* use it.
--
-- Groups are of equal size, 1, 2, 4, 8, ..., each size in all shapes of operator parallelism up to a limit times
-- stages; GPUs that are left over form groups of powers of two, in stages alone. For each: simulate, go through groups
-- by fewest requests and models by most unserved ones, add the first pair that has room (weights of the largest stage
-- alone), until none has. The best has the largest goodput, less the mean latency (s) / 10,000, plus replicas / 10^6.
--
-- With use_separation also: models of unlike size have GPUs of their own (model_buckets.lua), each bucket searched by
-- itself; the split that scores most for all requests is taken, where it is more than the groups of all models score.

local buckets_of = require("tessera.serving.model_buckets").of
local even = require("tessera.serving.fixed_shape").even
local row_of = require("tessera.serving.fixed_shape").row
local splits = require("tessera.serving.model_buckets").splits

local M = {}

-- As measured there: what a stage adds to all stages, and what a request takes besides (s).
M.stage_overhead, M.request_overhead_s = 0.009, 0.011

--- The limit on E2E of a model (s), math.huge where it has none: the one of every request, else the loosest of all.
function M.limit_of(model)
  local target = model.slo and model.slo.e2e_s
  if type(target) ~= "table" then return target or math.huge end
  if target.each then return target.each end
  local most = 0
  for _, seconds in pairs(target) do most = math.max(most, seconds) end
  return most > 0 and most or math.huge
end

-- Sizes and shapes: { { size, op, pp }, ... } of all groups, one list for each way.
local function partitions(count, most_op)
  local ways, size = {}, 1
  while size <= count do
    local op = 1
    while op <= math.min(size, most_op) do
      local groups = {}
      for k = 1, math.floor(count / size) do groups[k] = { size = size, op = op, pp = size / op } end
      local left, part = count % size, size
      while left > 0 do
        while part > left do part = part / 2 end
        groups[#groups + 1] = { size = part, op = 1, pp = part }
        left = left - part
      end
      ways[#ways + 1] = groups
      op = op * 2
    end
    size = size * 2
  end
  return ways
end
M.partitions = partitions

local function lay_out(groups, gpus)
  local next_gpu = 1
  for _, group in ipairs(groups) do
    group.devices, group.free, group.models, group.count = {}, math.huge, {}, 0
    for i = 1, group.size do
      group.devices[i] = gpus[next_gpu].index
      group.free = math.min(group.free, gpus[next_gpu].free_bytes)
      next_gpu = next_gpu + 1
    end
    group.clocks = {}
    for k = 1, group.pp do group.clocks[k] = 0 end
  end
  return groups
end

--- When a request would be done in a group, after which the group's clocks are so unless it is late: then nil.
function M.take(group, row, at_s, num_tokens, limit_s)
  local clocks, pp = group.clocks, group.pp
  local stage_s = (row.ttft_s + (num_tokens - 1) * row.tpot_s) / pp * (1 + M.stage_overhead * pp)
  local time = at_s
  for k = 1, pp do time = math.max(time, clocks[k]) + stage_s end
  local done = time + M.request_overhead_s
  if done - at_s > limit_s then return nil end
  time = at_s
  for k = 1, pp do
    time = math.max(time, clocks[k]) + stage_s
    clocks[k] = time
  end
  return done
end

--- The group of those that have the model whose last stage is free first, and its place among them.
function M.first_free(groups, model)
  local best, position, seen = nil, nil, 0
  for _, group in ipairs(groups) do
    if group.models[model] then
      seen = seen + 1
      if not best or group.clocks[group.pp] < best.clocks[best.pp] then best, position = group, seen end
    end
  end
  return best, position
end

-- Serves the requests: goodput, mean latency (s), and what each group got and each model did not.
local function simulate(groups, requests, drops)
  local served, good, latency, unserved = 0, 0, 0, {}
  for _, group in ipairs(groups) do
    group.count = 0
    for k = 1, group.pp do group.clocks[k] = 0 end
  end
  for _, request in ipairs(requests) do
    local group, limit = M.first_free(groups, request.model), request.limit_s
    local done = group and M.take(group, group.models[request.model], request.at_s, request.num_tokens,
      drops and limit or math.huge)
    if done then
      group.count, served, latency = group.count + 1, served + 1, latency + done - request.at_s
      if done - request.at_s <= limit then good = good + 1 end
    else
      unserved[request.model] = (unserved[request.model] or 0) + 1
    end
  end
  return good / math.max(1, #requests), served > 0 and latency / served or 0, unserved
end

local function bytes_in(group, model, row)
  local weights = row.weight_bytes or row.base_bytes
  return weights * math.ceil(model.num_layers / group.pp) / model.num_layers / group.op
end

-- Adds a model to a group, if it has room and an estimate of that shape.
local function add(group, model, scheme)
  if group.models[model.index] then return false end
  local row = row_of(model, scheme, group.op, group.pp)
  if not row then return false end
  local bytes = bytes_in(group, model, row)
  if bytes > group.free then return false end
  group.models[model.index], group.free = row, group.free - bytes
  return true
end

-- The items by what `of` says of them, the least first; equal ones as they are.
local function sorted(items, of)
  local order, place = {}, {}
  for i, item in ipairs(items) do
    order[i], place[item] = item, i
  end
  table.sort(order, function(a, b)
    local x, y = of(a), of(b)
    if x ~= y then return x < y end
    return place[a] < place[b]
  end)
  return order
end

-- Adds one model to one group, the first pair of these orders that has room.
local function add_first(groups, models, scheme)
  for _, group in ipairs(groups) do
    for _, model in ipairs(models) do
      if add(group, model, scheme) then return true end
    end
  end
  return false
end

-- Every model once, the largest first, where most memory is free; false where one has no room.
local function each_once(groups, models, scheme)
  local function bytes(model)
    local row = row_of(model, scheme, 1, 1)
    return row and row.base_bytes or 0
  end
  for _, model in ipairs(sorted(models, function(model) return -bytes(model) end)) do
    local by_room = sorted(groups, function(group) return -group.free end)
    if not add_first(by_room, { model }, scheme) then return false end
  end
  return true
end

local function score_of(groups, goodput, latency)
  local replicas = 0
  for _, group in ipairs(groups) do
    for _ in pairs(group.models) do replicas = replicas + 1 end
  end
  return goodput - latency / 1e4 + replicas / 1e6
end

-- Fills groups up; the score.
local function fill(groups, models, requests, scheme, drops)
  while true do
    local goodput, latency, unserved = simulate(groups, requests, drops)
    local by_load = sorted(groups, function(group) return group.count end)
    local by_need = sorted(models, function(model) return -(unserved[model.index] or 0) end)
    if not add_first(by_load, by_need, scheme) then return score_of(groups, goodput, latency) end
  end
end

-- Requests as the simulator takes them, the first so many of those whose model is there when they come.
local function requests_of(models, traffic, most)
  local named, list = {}, {}
  for _, model in ipairs(models) do named[model.name] = model end
  for _, row in ipairs(traffic:requests()) do
    local model = row.model and named[row.model] or models[1]
    local is_there = row.arrival_s and row.arrival_s >= (model.at_s or 0)
      and row.arrival_s < (model.until_s or math.huge)
    if is_there and #list < most then
      list[#list + 1] = { at_s = row.arrival_s, model = model.index, num_tokens = row.output_tokens,
        limit_s = M.limit_of(model) }
    end
  end
  return list
end

-- The best groups of all these GPUs, and their score.
local function best_groups(gpus, models, requests, scheme, opt)
  local best, best_score
  for _, groups in ipairs(partitions(#gpus, opt.most_op)) do
    lay_out(groups, gpus)
    if not opt.once or each_once(groups, models, scheme) then
      local score = fill(groups, models, requests, scheme, opt.drops)
      if not best or score > best_score then best, best_score = groups, score end
    end
  end
  return best, best_score
end

-- The best groups where each bucket has GPUs of its own, and their score for all requests.
local function best_separated(gpus, models, requests, scheme, opt)
  local buckets = buckets_of(models, requests, scheme)
  if not buckets or #buckets < 2 or #buckets > #gpus then return nil end
  local best, best_score
  for _, way in ipairs(splits(#gpus, buckets)) do
    local all, next_gpu = {}, 1
    for i, bucket in ipairs(buckets) do
      local own = {}
      for k = 1, way[i] do own[k] = gpus[next_gpu + k - 1] end
      next_gpu = next_gpu + way[i]
      local groups = best_groups(own, bucket.models, bucket.requests, scheme, opt)
      if not groups then
        all = nil
        break
      end
      for _, group in ipairs(groups) do all[#all + 1] = group end
    end
    local score = all and score_of(all, simulate(all, requests, opt.drops))
    if score and (not best or score > best_score) then best, best_score = all, score end
  end
  return best, best_score
end

--- The best groups with their models: { { devices, op, pp, models = { [index] = row }, clocks }, ... }, and its score;
--- nil where `once` is asked for and no partition has room for every model.
--- @param opt schemes, most_op, most_requests, drops, once, use_separation
function M.search(gpus, models, traffic, opt)
  local requests, best, best_score = requests_of(models, traffic, opt.most_requests), nil, nil
  for _, scheme in ipairs(opt.schemes) do
    for _, find in ipairs { best_groups, opt.use_separation and best_separated or nil } do
      local groups, score = find(gpus, models, requests, scheme, opt)
      if groups and (not best or score > best_score) then best, best_score = groups, score end
    end
  end
  for _, group in ipairs(best or {}) do
    for k = 1, group.pp do group.clocks[k] = 0 end
  end
  return best, best_score
end

--- The places of a model in groups, as a strategy returns them: with a request for each stage, as the simulator
--- fills pipelines.
function M.places(groups, model)
  local list = {}
  for _, group in ipairs(groups) do
    local row = group.models[model.index]
    if row then
      list[#list + 1] = { devices = group.devices, layers = even(model.num_layers, group.pp), configuration = row,
        seats = group.pp, block_bytes = (row.weight_bytes or row.base_bytes) / (group.op * model.num_layers) }
    end
  end
  return list
end

--- A card of a strategy that searches so. @param card name, doc, head, drops, once, schemes(models)
function M.card(card)
  return {
    name = card.name, doc = card.doc, source = "arXiv 2302.11665; alpa-projects/mms @ dba47b18e95f",
    options = {
      most_op = { type = "integer", default = 4, min = 1, max = 1024, doc = "Operator parallelism at most" },
      most_requests = { type = "integer", default = 5000, min = 1, doc = "Requests of the traffic that it looks at" },
      use_separation = { type = "boolean", default = false,
        doc = "Whether models of unlike size may have GPUs of their own, in buckets" },
    },
    prepare = function(view, models, traffic, opt)
      for _, model in ipairs(models) do
        if not model.estimates then
          require("tessera.core").refuse(("ts.deployment.models[%d]"):format(model.index),
            card.name .. " chooses among estimates: give estimates of ts.fingerprint")
        end
      end
      opt.groups = M.search(view.gpus, models, traffic, { schemes = card.schemes(models), most_op = opt.most_op,
        most_requests = opt.most_requests, drops = card.drops, once = card.once, use_separation = opt.use_separation })
    end,
    place = function(_, model, opt)
      if not opt.groups then return nil, "no partition has room for every model" end
      local places = M.places(opt.groups, model)
      if #places == 0 then return nil, "the search gave it no group" end
      return places
    end,
    route = function(request, model, opt)
      local group, position = M.first_free(opt.groups, model.index)
      local done = M.take(group, group.models[model.index], request.now_s, request.max_tokens,
        card.drops and M.limit_of(model) or math.huge)
      return done and position
    end,
  }
end

return M
