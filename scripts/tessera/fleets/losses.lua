-- fleet:losses { ... }: what losing each node does, and the re-plan after it. Nodes that run the same are lost alike.

local classes = require "tessera.fleets.classes"
local options = require "tessera.options"

local read = options.card {
  name = "fleet:losses",
  doc = "What losing each node does: { node_names = alike ones, count, least_scale = { model = multiple of its demand "
    .. "that is left }, usd_per_h and gpus of the re-plan after it, starts, loading_s, why = where there is none }, a "
    .. "row for nodes that run the same.",
  returns = "table[]",
  options = {
    { name = "time_limit_s", type = "number", unit = "s", min = 0, max = 1e6, default = 10, doc = "Of each re-plan" },
    { name = "gap", type = "number", min = 0, max = 1e3, doc = "Of each re-plan, to stop at; left out: as planned" },
  },
}

-- What runs on each node, in words that are the same for nodes that run the same.
local function contents_of(fleet)
  local words = {}
  for _, row in ipairs(fleet.replicas) do
    for _, node in ipairs(row.node_indices) do
      words[node] = words[node] or {}
      -- Of a replica over several nodes each is lost with the others: by their names.
      local with = #row.node_indices > 1 and table.concat(row.node_names, "+") or ""
      words[node][#words[node] + 1] = ("%d x %d %s"):format(row.count, row.column_index, with)
    end
  end
  return words
end

local function groups_of(fleet)
  local groups, by_key, words = {}, {}, contents_of(fleet)
  for _, node in ipairs(fleet.nodes) do
    table.sort(words[node.node_index])
    local key = node.node_class .. "|" .. table.concat(words[node.node_index], "|")
    if not by_key[key] then
      by_key[key] = { node_index = node.node_index, node_names = {} }
      groups[#groups + 1] = by_key[key]
    end
    local names = by_key[key].node_names
    names[#names + 1] = node.name
  end
  return groups
end

-- Of each model the multiple of its demand that the other nodes serve.
local function left_of(fleet, lost)
  local rates, left = {}, classes.scales_without(fleet.solved, lost)
  for _, row in ipairs(fleet.replicas) do
    local is_lost = false
    for _, node in ipairs(row.node_indices) do is_lost = is_lost or node == lost end
    if is_lost then rates[row.model] = (rates[row.model] or 0) + row.count * row.rate_per_s end
  end
  for _, model in ipairs(fleet.models) do
    if model.demand_per_s > 0 and not left[model.name] then
      left[model.name] = math.max(0, model.capacity_per_s - (rates[model.name] or 0)) / model.demand_per_s
    end
  end
  return left
end

return function(fleet, given)
  local opt = read(given)
  local rows = {}
  for i, group in ipairs(groups_of(fleet)) do
    local again, why = fleet:replan { lost_nodes = { group.node_index }, time_limit_s = opt.time_limit_s,
      gap = opt.gap }
    again = again or why.best
    local row = { node_names = group.node_names, count = #group.node_names,
      least_scale = left_of(fleet, group.node_index) }
    if again then
      row.usd_per_h, row.gpus, row.solve_s = again.usd_per_h, again.gpus, again.solve_s
      row.starts, row.loading_s = again.moves.starts, again.moves.loading_s
    else
      row.why = why.message
    end
    rows[i] = row
  end
  return rows
end
