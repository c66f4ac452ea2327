-- The best static placement of a few models on GPUs of one node, by enumeration: every model on an aligned group of
-- GPUs (1, 2, 4 or 8 neighbours) in every shape of tensor parallelism and stages that fills it; what differs by the
-- names of GPUs alone is looked at once. Each is simulated on the same requests, those with the least time of requests
-- that never wait first, until that alone exceeds the best that was found: no other of these placements is better.
local iserve = require "lib.papers.iserve"
local even = require "tessera.configurations.even_layers"
local ts = require "tessera"

local M = {}

-- The aligned groups: { first (from 0), count }.
local function groups_of(num_gpus)
  local list, count = {}, 1
  while count <= num_gpus do
    for first = 0, num_gpus - count, count do list[#list + 1] = { first = first, count = count } end
    count = 2 * count
  end
  return list
end

-- Every way to place a model: its row, devices, layers, and bytes that each GPU gives (from 1).
local function ways_of(model, groups)
  local ways = {}
  for _, group in ipairs(groups) do
    for _, row in ipairs(model.rows) do
      if not row.refused and row.num_gpus == group.count then
        local way = { row = row, group = group, devices = {}, bytes = {}, label = ("%s %d %d"):format(model.kind,
          row.tensor_parallel, row.pipeline_parallel), layers = even(model.num_layers, row.pipeline_parallel),
          alone_s = row.ttft_s + (iserve.output_tokens - 1) * row.tpot_s }
        for i = 1, group.count do
          local device = group.first + i - 1
          way.devices[i] = device
          way.bytes[device + 1] = way.layers[math.ceil(i / row.tensor_parallel)] * row.block_bytes
        end
        ways[#ways + 1] = way
      end
    end
  end
  return ways
end

-- Of placements that differ by the names of GPUs alone the same: of halves the smaller first.
local function form_of(placement, first, count)
  local own = {}
  for _, way in ipairs(placement) do
    if way.group.first == first and way.group.count == count then own[#own + 1] = way.label end
  end
  table.sort(own)
  local text = table.concat(own, ",")
  if count == 1 then return text end
  local a, b = form_of(placement, first, count / 2), form_of(placement, first + count / 2, count / 2)
  return ("%s(%s|%s)"):format(text, a < b and a or b, a < b and b or a)
end

--- All placements that have room, unlike ones alone: lists of a way for each model.
function M.placements(models, num_gpus, free_bytes)
  local groups, ways, found, seen, free = groups_of(num_gpus), {}, {}, {}, {}
  for i, model in ipairs(models) do ways[i] = ways_of(model, groups) end
  for i = 1, num_gpus do free[i] = free_bytes end
  local function choose(i, chosen)
    if i > #models then
      local form = form_of(chosen, 0, num_gpus)
      if not seen[form] then seen[form], found[#found + 1] = true, { unpack(chosen) } end
      return
    end
    for _, way in ipairs(ways[i]) do
      local fits = true
      for gpu, bytes in pairs(way.bytes) do fits = fits and bytes <= free[gpu] end
      if fits then
        for gpu, bytes in pairs(way.bytes) do free[gpu] = free[gpu] - bytes end
        chosen[i] = way
        choose(i + 1, chosen)
        for gpu, bytes in pairs(way.bytes) do free[gpu] = free[gpu] + bytes end
      end
    end
    chosen[i] = nil
  end
  choose(1, {})
  return found
end

--- Serves a placement, { row, devices, layers } of each model.
function M.serve(models, cluster, placement, traffic)
  local list = {}
  for i, way in ipairs(placement) do
    list[i] = { name = models[i].name, estimates = { way.row }, num_layers = models[i].num_layers,
      devices = way.devices, layers = way.layers }
  end
  return ts.serve(ts.deployment { cluster = cluster, engine = { max_num_seqs = 1 }, models = list }, traffic,
    { record = false })
end

--- The placement with the least mean time of requests, that time, how many there are and how many were simulated.
--- @param counts requests by model
function M.best(models, cluster, num_gpus, free_bytes, traffic, counts)
  local list, best, best_s, simulated = M.placements(models, num_gpus, free_bytes), nil, math.huge, 0
  for i, placement in ipairs(list) do
    local seconds, requests = 0, 0
    for k, way in ipairs(placement) do
      seconds, requests = seconds + counts[k] * way.alone_s, requests + counts[k]
    end
    placement.alone_s, placement.position = seconds / requests, i
  end
  table.sort(list, function(a, b)
    if a.alone_s ~= b.alone_s then return a.alone_s < b.alone_s end
    return a.position < b.position
  end)
  for _, placement in ipairs(list) do
    if placement.alone_s >= best_s then break end
    local mean_s = M.serve(models, cluster, placement, traffic).e2e_s.mean
    simulated = simulated + 1
    if mean_s < best_s then best, best_s = placement, mean_s end
  end
  return best, best_s, #list, simulated
end

return M
