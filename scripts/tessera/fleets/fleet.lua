-- A fleet: what ts.plan_fleet returns, of given columns or of named models. Plain fields, and what can be asked of
-- them. Below it lies what the engine found, columns on nodes (`solved`); of named models also what is known of these
-- columns, as plain data that a file keeps (`named`).

local core = require "tessera.core"
local classes_of_requests = require "tessera.fleets.classes"
local copy = require "tessera.shallow_copy"
local methods_of = require "tessera.fleets.methods"

local type_name = "tessera.Fleet"

core.document_object {
  name = type_name,
  doc = "Models on nodes: which replicas of which shape, what they cost, and how far from that the best may be.",
  fields = {
    { "status", "string", "How the search ended" },
    { "objective", "number", "Of the fleet: USD/h (with what replicas that start or stop cost), devices, or the "
      .. "multiple of the demand that is served" },
    { "bound", "number?", "No fleet is better, of replicas of these kinds; what was not simulated counts at its most" },
    { "gap", "number?", "Objective against bound, as a ratio" },
    { "scope", "string", "What the bound is of" },
    { "solve_s", "number", "Of the whole search (s)" },
    { "usd_per_h", "number", "What the fleet costs (USD/h)" },
    { "gpus", "integer", "Devices that its replicas take" },
    { "scale", "number", "The multiple of the demand that it serves, the reserve kept where there is one" },
    { "replicas", "table[]", "Alike ones on the same nodes: model, column_index, label, node_class, node_indices, "
      .. "node_names, count, gpus and rates_per_s of each, by class of requests, and rate_per_s, of the classes as "
      .. "they come; of named models shape, part and devices (of fleet.cluster), of a pair of pools parts and "
      .. "prefill_devices; of several classes of requests shares, a list of { count, share of all requests of each "
      .. "class, to each of so many }" },
    { "models", "table[]", "name, demand_per_s, capacity_per_s, load_ratio, scale, reserve_scale, gpus, usd_per_h, "
      .. "nodes, replicas, scope" },
    { "nodes", "table[]", "That run anything: node_index, name, node_class, gpus, used, usd_per_h, models" },
    { "idle", "table[]", "By class of nodes: node_class, nodes without a replica, gpus that nobody uses" },
    { "dual_prices", "table", "{ devices =, models = }: what one more is worth, of the objective's unit" },
    { "columns", "table[]", "Kinds of replicas: column_index, model, label, gpus, nodes, rates_per_s, replicas of it; "
      .. "of named models node_class, simulated or given, and by class of requests bounds_per_s, limited_by" },
    { "instance", "table", "The columns on nodes that were solved, as a file of format tessera-fleet-1 has them" },
    { "moves", "table?", "Of a fleet beside one that runs: steps in order (starts, model, label, node_names), numbers "
      .. "of starts, stops and kept, usd, full_nodes (where the old stops before the new starts), least_scale of each "
      .. "model on the way, and of named models loading_s and assumed_disks" },
    { "pricing", "table?", "Of named models: columns, shapes, simulated of these, rounds, and the time of each part" },
    { "cluster", "tessera.Cluster?", "Of named models: the nodes that run anything" },
    { "notes", "string[]", "What else to know" },
  },
  methods = {
    { "explain", "(): string", "The answer in words: money, models, what one more of anything is worth" },
    { "save", "(path: string)", "Writes it for ts.load_plan" },
    { "diff", "(other: tessera.Fleet): table", "On the way to another fleet: starts, stops, kept, usd_per_h" },
    { "replan", "(changes: table): tessera.Fleet?, tessera.Error?",
      "Of named models: planned again without lost nodes, or for other demands, from what runs" },
    { "losses", "(options: table?): table[]", "Of named models: what losing each node does, and the re-plan after it" },
    { "export", "(kind: \"vllm\"|\"json\", folder: string, options: table?): table?, tessera.Error?",
      "Of named models: what starts it, a folder for each" },
    { "deployment", "(name: string, options: table?): tessera.Deployment",
      "Of a named model, its replicas as one deployment, to be simulated" },
    { "to_table", "(): table", "Its fields, without the objects among them" },
  },
}

local meta = { __name = type_name }

--- Whether something is a fleet.
local function is(thing) return getmetatable(thing) == meta end

local methods, add_method = methods_of("fleet", is, "ts.plan_fleet")
meta.__index = methods

-- Classes of nodes with the number of their first; named models know names and prices of their own.
local function classes_of(solved, named)
  local classes, first = {}, 0
  for c, class in ipairs(named and named.node_classes or solved.instance.node_classes) do
    local gpus = class.gpus or 0
    for _, count in pairs(class.devices or {}) do gpus = gpus + count end
    classes[c] = { name = class.name, count = class.count, gpus = gpus, usd_per_h = class.usd_per_h,
      names = class.names or {}, first = first }
    first = first + class.count
  end
  return classes
end

local function class_at(classes, node)
  local low, high = 1, #classes
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if classes[middle].first <= node then low = middle else high = middle - 1 end
  end
  -- Classes of no node begin where the next one does.
  while classes[low].count == 0 do low = low - 1 end
  return classes[low]
end

local function node_name(classes, node)
  local class = class_at(classes, node)
  local number = node - class.first
  return class.names[number + 1] or ("%s-%d"):format(class.name, number)
end

local function node_names(classes, nodes)
  local names = {}
  for i, node in ipairs(nodes) do names[i] = node_name(classes, node) end
  return names
end

-- Requests/s of the model's classes of requests as they come, of a replica by itself.
local function mixed_rate(rates, demand)
  local all, time = 0, 0
  for b, wanted in ipairs(demand) do
    if wanted > 0 then all, time = all + wanted, time + wanted / rates[b] end
  end
  -- Of one that serves some classes only, none as they come.
  if all == 0 then return rates[1] end
  return all / time
end

local function replicas_of(solved, named, classes, instance)
  local rows, by_key, shares_of = {}, {}, classes_of_requests.shares(solved)
  for i, row in ipairs(solved.replicas) do
    local column = instance.columns[row.column_index + 1]
    rows[i] = { model = row.model, column_index = row.column_index, label = row.label, node_class = row.node_class,
      node_indices = row.node_indices, node_names = node_names(classes, row.node_indices), count = row.count,
      gpus = row.gpus / row.count, rates_per_s = row.rate_per_s,
      rate_per_s = mixed_rate(row.rate_per_s, instance.models[column.model + 1].demand) }
    if #instance.models[column.model + 1].demand > 1 then rows[i].shares = shares_of(row) end
    by_key[row.column_index .. ":" .. table.concat(row.node_indices, ",")] = rows[i]
  end
  for _, placed in ipairs(named and named.placement or {}) do
    local row = by_key[placed.column_index .. ":" .. table.concat(placed.node_indices, ",")]
    local column = named.columns[placed.column_index + 1]
    -- Files of before pairs have the one part of a column by itself.
    row.parts = column.parts or column.part and { column.part } or nil
    row.part = row.parts and #row.parts == 1 and row.parts[1] or nil
    row.shape, row.devices = column.shape, row.devices or {}
    row.devices[#row.devices + 1] = placed.device_indices
    if placed.prefill_device_indices then
      row.prefill_devices = row.prefill_devices or {}
      row.prefill_devices[#row.devices] = placed.prefill_device_indices
    end
  end
  table.sort(rows, function(a, b)
    if a.column_index ~= b.column_index then return a.column_index < b.column_index end
    return a.node_indices[1] < b.node_indices[1]
  end)
  return rows
end

local function nodes_of(replicas, classes)
  local nodes, order = {}, {}
  for _, replica in ipairs(replicas) do
    for _, index in ipairs(replica.node_indices) do
      local class = class_at(classes, index)
      local node = nodes[index] or { node_index = index, name = node_name(classes, index), node_class = class.name,
        gpus = class.gpus, used = 0, usd_per_h = class.usd_per_h, models = {} }
      if not nodes[index] then nodes[index], order[#order + 1] = node, node end
      node.used = node.used + replica.count * replica.gpus / #replica.node_indices
      local seen = false
      for _, name in ipairs(node.models) do seen = seen or name == replica.model end
      if not seen then node.models[#node.models + 1] = replica.model end
    end
  end
  table.sort(order, function(a, b) return a.node_index < b.node_index end)
  return order
end

local function idle_of(nodes, classes)
  local idle, by_class = {}, {}
  for i, class in ipairs(classes) do
    idle[i] = { node_class = class.name, nodes = class.count, gpus = class.count * class.gpus }
    by_class[class.name] = idle[i]
  end
  for _, node in ipairs(nodes) do
    local class = by_class[node.node_class]
    class.nodes, class.gpus = class.nodes - 1, class.gpus - node.used
  end
  return idle
end

local function models_of(solved, replicas, named)
  local rows = {}
  for i, model in ipairs(solved.models) do
    local row = copy(model)
    row.capacity_per_s, row.load_ratio = 0, 0
    if model.demand_per_s > 0 then
      row.capacity_per_s = model.scale * model.demand_per_s
      row.load_ratio = 1 / model.scale
    else
      for _, replica in ipairs(replicas) do
        if replica.model == model.name then
          row.capacity_per_s = row.capacity_per_s + replica.count * replica.rate_per_s
        end
      end
    end
    row.scope = named and "engines simulated alone" or "columns as they are given"
    rows[i] = row
  end
  return rows
end

local function columns_of(replicas, named, instance)
  local rows = {}
  for c, column in ipairs(instance.columns) do
    local known, gpus = named and named.columns[c] or {}, 0
    for _, count in pairs(column.devices) do gpus = gpus + count end
    rows[c] = copy(known)
    rows[c].column_index, rows[c].model = c - 1, instance.models[column.model + 1].name
    rows[c].label, rows[c].nodes = known.label or column.label, column.nodes or 1
    rows[c].gpus = known.gpus or gpus * (column.nodes or 1)
    rows[c].rates_per_s, rows[c].replicas = column.rate, 0
  end
  for _, replica in ipairs(replicas) do
    local row = rows[replica.column_index + 1]
    row.replicas, row.label = row.replicas + replica.count, replica.label
  end
  return rows
end

local function scope_of(named, instance)
  local pricing = named and named.pricing
  if not pricing then return ("the %d given columns"):format(#instance.columns) end
  return ("the %d kinds of replicas looked at; %d of %d shapes simulated, the others at their bounds"):format(
    pricing.columns, pricing.simulated, pricing.shapes)
end

local function moves_of(solved, named, classes)
  local moves = solved.moves
  if not moves then return nil end
  for _, step in ipairs(moves.steps) do
    step.node_names, step.node_indices = node_names(classes, step.node_indices), nil
  end
  moves.full_nodes, moves.full_node_indices = node_names(classes, moves.full_node_indices), nil
  if named and named.loading then
    moves.loading_s, moves.assumed_disks = named.loading.seconds, named.loading.assumed_disks
  end
  return moves
end

--- The fleet of what the engine found. `named`: of named models what is known of the columns, plain data but for its
--- cluster; `priced`: what the engine plans again from, where it is at hand.
local function new(solved, named, priced)
  local instance, classes = solved.instance, classes_of(solved, named)
  local fleet = { solved = solved, named = named, priced = priced, instance = instance }
  for _, name in ipairs { "status", "objective", "bound", "gap", "solve_s", "usd_per_h", "gpus", "scale", "notes" } do
    fleet[name] = solved[name]
  end
  fleet.dual_prices = { devices = solved.device_prices, models = solved.model_prices }
  fleet.scope = scope_of(named, instance)
  fleet.replicas = replicas_of(solved, named, classes, instance)
  fleet.nodes = nodes_of(fleet.replicas, classes)
  fleet.idle = idle_of(fleet.nodes, classes)
  fleet.models = models_of(solved, fleet.replicas, named)
  fleet.columns = columns_of(fleet.replicas, named, instance)
  fleet.moves = moves_of(solved, named, classes)
  if named then fleet.pricing, fleet.cluster, fleet.options = named.pricing, named.cluster, named.asked end
  return setmetatable(fleet, meta)
end

--- The same as it stands, whatever ran before.
local function without_moves(fleet)
  local still = copy(fleet)
  still.moves = nil
  return setmetatable(still, meta)
end

local function method(name, module, of_named)
  add_method(name, function(self, ...)
    if of_named and not self.named then
      core.raise("unsupported", ("fleet:%s: the columns were given, and nobody knows what engines they are; plan a "
        .. "fleet of named models"):format(name), "fleet:" .. name)
    end
    return require(module)(self, ...)
  end)
end

method("explain", "tessera.fleets.explain")
method("save", "tessera.fleets.save")
method("diff", "tessera.fleets.diff")
method("to_table", "tessera.fleets.to_table")
method("replan", "tessera.fleets.replan", true)
method("losses", "tessera.fleets.losses", true)
method("export", "tessera.fleets.export", true)
method("deployment", "tessera.fleets.deployment", true)
meta.__tostring = function(self) return require "tessera.fleets.explain"(self) end

local module = { is = is, new = new, without_moves = without_moves }
return setmetatable(module, { __call = function(_, ...) return new(...) end })
