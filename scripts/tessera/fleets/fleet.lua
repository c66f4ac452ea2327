-- A fleet: what ts.plan_fleet returns. Plain fields, and what can be asked of them.

local core = require "tessera.core"

local type_name = "tessera.Fleet"

core.document_object {
  name = type_name,
  doc = "Models on nodes: which replicas of which shape, what they cost, and how far from that the best may be.",
  fields = {
    { "status", "string", "How the search ended" },
    { "objective", "number", "Of the fleet: USD/h, devices, or the multiple of the demand that is served" },
    { "bound", "number", "No fleet is better, of replicas of these kinds; what was not simulated counts at its most" },
    { "gap", "number", "Objective against bound, as a ratio" },
    { "scope", "string", "What the bound is of" },
    { "solve_s", "number", "Of the whole search (s)" },
    { "usd_per_h", "number", "What the fleet costs (USD/h)" },
    { "gpus", "integer", "Devices that its replicas take" },
    { "scale", "number", "The multiple of the demand that it serves, the reserve kept where there is one" },
    { "replicas", "table[]", "model, column_index, node_indices, node_names, devices (of fleet.cluster), count of "
      .. "alike ones there, shape, rate_per_s of each, part" },
    { "models", "table[]", "name, demand_per_s, capacity_per_s, load_ratio, gpus, usd_per_h, replicas, scope" },
    { "nodes", "table[]", "That run anything: node_index, name, node_class, gpus, used, usd_per_h, models" },
    { "idle", "table[]", "By class of nodes: node_class, nodes without a replica, gpus that nobody uses" },
    { "dual_prices", "table", "{ devices =, models = }: what one more is worth, of the objective's unit" },
    { "columns", "table[]", "Kinds of replicas: model, node_class, label, bound_per_s, rate_per_s where simulated" },
    { "pricing", "table", "columns, shapes, simulated of these, rounds, and the time of each part" },
    { "cluster", "tessera.Cluster?", "The nodes that run anything" },
    { "abstract", "tessera.AbstractFleet", "The same as columns on nodes, with its instance" },
    { "notes", "string[]", "What else to know" },
  },
  methods = {
    { "explain", "(): string", "The answer in words: money, models, what one more of anything is worth" },
    { "save", "(path: string)", "Writes it as columns on nodes; ts.load_plan reads these back" },
    { "diff", "(other: tessera.Fleet): table", "On the way to another fleet: starts, stops, kept, usd_per_h" },
    { "replan", "(changes: table): tessera.Fleet?, tessera.Error?",
      "Planned again without lost nodes, or for other demands, from what runs" },
    { "export", "(kind: \"vllm\"|\"json\", folder: string, options: table?): table?, tessera.Error?",
      "What starts it, a folder for each model" },
    { "deployment", "(name: string, options: table?): tessera.Deployment",
      "Of a model, its replicas as one deployment, to be simulated" },
  },
}

local methods = {}
local meta = { __name = type_name, __index = methods }

--- Whether something is a fleet.
local function is(thing) return getmetatable(thing) == meta end

-- Replicas of a kind on the same nodes are one row.
local function replicas_of(found, nodes)
  local rows, known = {}, {}
  for _, placed in ipairs(found.placement) do
    local column = found.columns[placed.column_index + 1]
    local key = placed.column_index .. ":" .. table.concat(placed.node_indices, ",")
    local row = known[key]
    if not row then
      row = { model = column.model, column_index = placed.column_index, node_indices = placed.node_indices,
        node_names = {}, devices = {}, count = 0, shape = column.shape, label = column.label, gpus = column.gpus,
        rate_per_s = column.rate_per_s, part = column.part }
      for i, index in ipairs(placed.node_indices) do row.node_names[i] = nodes[index].name end
      rows[#rows + 1], known[key] = row, row
    end
    row.count = row.count + 1
    row.devices[row.count] = placed.device_indices
  end
  return rows
end

-- The nodes that run anything, by their numbers in the fleet; `order` has these as they come.
local function nodes_of(found)
  local nodes, order, first = {}, {}, 0
  local classes = {}
  for c, class in ipairs(found.node_classes) do
    classes[c], first = { class = class, first = first }, first + class.count
  end
  for i, index in ipairs(found.cluster_nodes or {}) do
    local c = #classes
    while classes[c].first > index do c = c - 1 end
    local class = classes[c].class
    order[i] = { node_index = index, name = found.cluster.nodes[i].name, node_class = class.name, gpus = class.gpus,
      used = 0, usd_per_h = class.usd_per_h, models = {} }
    nodes[index] = order[i]
  end
  return nodes, order
end

local function usd_of_types(found)
  local prices = {}
  for _, type in ipairs(found.instance.device_types) do prices[type.name] = type.usd_per_h end
  return prices
end

local function models_of(found, fleet)
  local rows, by_name, prices = {}, {}, usd_of_types(found)
  for i, model in ipairs(found.instance.models) do
    rows[i] = { name = model.name, demand_per_s = model.demand[1], capacity_per_s = 0, gpus = 0, usd_per_h = 0,
      replicas = 0, scope = "engines simulated alone" }
    by_name[model.name] = rows[i]
  end
  for _, replica in ipairs(fleet.replicas) do
    local row, column = by_name[replica.model], found.instance.columns[replica.column_index + 1]
    row.replicas, row.gpus = row.replicas + replica.count, row.gpus + replica.count * replica.gpus
    row.capacity_per_s = row.capacity_per_s + replica.count * replica.rate_per_s
    for name, count in pairs(column.devices) do
      row.usd_per_h = row.usd_per_h + replica.count * #replica.node_indices * count * prices[name]
    end
  end
  for _, row in ipairs(rows) do
    row.load_ratio = row.demand_per_s > 0 and row.demand_per_s / row.capacity_per_s or 0
  end
  return rows
end

local function fill_nodes(found, fleet, nodes)
  local idle, by_class = {}, {}
  for i, class in ipairs(found.node_classes) do
    idle[i] = { node_class = class.name, nodes = class.count, gpus = class.count * class.gpus }
    by_class[class.name] = idle[i]
  end
  for _, replica in ipairs(fleet.replicas) do
    for _, index in ipairs(replica.node_indices) do
      local node = nodes[index]
      node.used = node.used + replica.count * replica.gpus / #replica.node_indices
      local seen = false
      for _, name in ipairs(node.models) do seen = seen or name == replica.model end
      if not seen then node.models[#node.models + 1] = replica.model end
    end
  end
  for _, node in ipairs(fleet.nodes) do
    local class = by_class[node.node_class]
    class.nodes, class.gpus = class.nodes - 1, class.gpus - node.used
  end
  return idle
end

local function scale_of(found, fleet)
  if found.instance.objective == "rate" then return found.objective end
  local least = math.huge
  for _, model in ipairs(fleet.models) do
    if model.demand_per_s > 0 then least = math.min(least, model.capacity_per_s / model.demand_per_s) end
  end
  return least
end

local function scope_of(found)
  local pricing = found.pricing
  return ("the %d kinds of replicas looked at; %d of %d shapes simulated, the others at their bounds"):format(
    pricing.columns, pricing.simulated, pricing.shapes)
end

--- The fleet of what the engine found for `asked`, the options of ts.plan_fleet.
local function new(found, asked)
  local nodes, order = nodes_of(found)
  local fleet = { status = found.status, objective = found.objective, bound = found.bound, gap = found.gap,
    solve_s = found.solve_s, usd_per_h = found.usd_per_h, gpus = found.gpus, notes = found.notes,
    pricing = found.pricing, columns = found.columns, cluster = found.cluster, nodes = order,
    dual_prices = { devices = found.device_prices, models = found.model_prices }, scope = scope_of(found) }
  fleet.replicas = replicas_of(found, nodes)
  table.sort(fleet.replicas, function(a, b)
    if a.column_index ~= b.column_index then return a.column_index < b.column_index end
    return a.node_indices[1] < b.node_indices[1]
  end)
  fleet.models = models_of(found, fleet)
  fleet.idle = fill_nodes(found, fleet, nodes)
  fleet.scale = scale_of(found, fleet)
  fleet.abstract, fleet.found, fleet.options = found.abstract, found, asked
  return setmetatable(fleet, meta)
end

local function method(name, module)
  methods[name] = function(self, ...)
    if not is(self) then
      core.raise("invalid_argument", ("%s is called as fleet:%s(...), on what ts.plan_fleet gave"):format(name, name),
        name)
    end
    return require(module)(self, ...)
  end
end

method("explain", "tessera.fleets.explain")
method("save", "tessera.fleets.save")
method("diff", "tessera.fleets.diff")
method("replan", "tessera.fleets.replan")
method("export", "tessera.fleets.export")
method("deployment", "tessera.fleets.deployment")
meta.__tostring = function(self) return require "tessera.fleets.explain"(self) end

return setmetatable({ is = is, new = new }, { __call = function(_, ...) return new(...) end })
