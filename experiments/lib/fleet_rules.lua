-- Rules of thumb for fleets: what people do without a programme. Each takes an instance (format tessera-fleet-1, one
-- class of requests, cost, billed by device, no reserve) and gives the money, or nil where it misses the demand.
local M = {}

local function prices_of(instance)
  local prices = {}
  for _, type in ipairs(instance.device_types) do prices[type.name] = type.usd_per_h end
  return prices
end

local function price_of(column, prices)
  local usd_per_h = 0
  for name, count in pairs(column.devices) do usd_per_h = usd_per_h + count * prices[name] end
  return usd_per_h
end

-- Free devices of every node.
local function nodes_of(instance)
  local nodes = {}
  for c, class in ipairs(instance.node_classes) do
    for _ = 1, class.count do
      local free = {}
      for name, count in pairs(class.devices) do free[name] = count end
      nodes[#nodes + 1] = { class = c - 1, free = free }
    end
  end
  return nodes
end

local function fits(column, node)
  if (column.nodes or 1) > 1 or (column.node_class and column.node_class ~= node.class) then return false end
  for name, count in pairs(column.devices) do
    if (node.free[name] or 0) < count then return false end
  end
  return true
end

-- Places one replica on the first node that has room; whether there was one.
local function place(column, nodes)
  for _, node in ipairs(nodes) do
    if fits(column, node) then
      for name, count in pairs(column.devices) do node.free[name] = node.free[name] - count end
      return true
    end
  end
  return false
end

-- Serves models in an order, each by columns in an order, as many replicas of the first as go.
local function serve(instance, order, ranked)
  local prices, nodes, usd_per_h = prices_of(instance), nodes_of(instance), 0
  for _, m in ipairs(order) do
    local left = instance.models[m].demand[1]
    for _, column in ipairs(ranked(m, prices)) do
      while left > 1e-9 and column.rate[1] > 0 and place(column, nodes) do
        left, usd_per_h = left - column.rate[1], usd_per_h + price_of(column, prices)
      end
    end
    if left > 1e-9 then return nil end
  end
  return usd_per_h
end

local function columns_of(instance, m)
  local list = {}
  for i, column in ipairs(instance.columns) do
    if column.model == m - 1 and column.rate[1] > 0 then list[#list + 1] = { index = i, column = column } end
  end
  return list
end

local function sorted(list, key)
  for _, item in ipairs(list) do item.key = key(item.column) end
  table.sort(list, function(a, b)
    if a.key ~= b.key then return a.key > b.key end
    return a.index < b.index
  end)
  local columns = {}
  for i, item in ipairs(list) do columns[i] = item.column end
  return columns
end

-- The best rate per dollar first; of several orders of the models, by seed, the cheapest.
function M.greedy(instance, random, tries)
  local best
  local function ranked(m, prices)
    return sorted(columns_of(instance, m), function(column) return column.rate[1] / price_of(column, prices) end)
  end
  for _ = 1, tries do
    local order = {}
    for m = 1, #instance.models do table.insert(order, random(m), m) end
    local usd_per_h = serve(instance, order, ranked)
    if usd_per_h and (not best or usd_per_h < best) then best = usd_per_h end
  end
  return best
end

-- The model with the largest demand first, each on the kind of replica that serves most.
function M.first_fit(instance)
  local order = {}
  for m = 1, #instance.models do order[m] = m end
  table.sort(order, function(a, b) return instance.models[a].demand[1] > instance.models[b].demand[1] end)
  return serve(instance, order, function(m)
    return sorted(columns_of(instance, m), function(column) return column.rate[1] end)
  end)
end

-- The same instance with replicas on one type of device alone.
function M.of_type(instance, name)
  local copy = {}
  for key, value in pairs(instance) do copy[key] = value end
  copy.columns = {}
  for _, column in ipairs(instance.columns) do
    local is_its = true
    for device in pairs(column.devices) do is_its = is_its and device == name end
    if is_its then copy.columns[#copy.columns + 1] = column end
  end
  return copy
end

return M
