-- fleet:diff(other): what starts and what stops on the way from one fleet to another. Replicas are the same by what
-- they are and by the names of their nodes, whose numbers change where a node is lost.

local core = require "tessera.core"

local function counted(fleet)
  local counts = {}
  for _, row in ipairs(fleet.replicas) do
    local key = table.concat({ row.model, row.label, table.concat(row.node_names, "+") }, "|")
    counts[key] = counts[key] or { model = row.model, label = row.label, node_names = row.node_names, count = 0 }
    counts[key].count = counts[key].count + row.count
  end
  return counts
end

local function more(of, than)
  local list, keys = {}, {}
  for key in pairs(of) do keys[#keys + 1] = key end
  table.sort(keys)
  for _, key in ipairs(keys) do
    local its, extra = of[key], of[key].count - (than[key] and than[key].count or 0)
    if extra > 0 then
      list[#list + 1] = { model = its.model, label = its.label, node_names = its.node_names, count = extra }
    end
  end
  return list
end

local function sum(list)
  local total = 0
  for _, its in pairs(list) do total = total + its.count end
  return total
end

--- { starts, stops, kept, usd_per_h }: the money is what the other costs more.
return function(fleet, other)
  if not require("tessera.fleets.fleet").is(other) then
    core.refuse("fleet:diff.other", "another fleet of ts.plan_fleet belongs here")
  end
  local before, after = counted(fleet), counted(other)
  local starts = more(after, before)
  return { starts = starts, stops = more(before, after), kept = sum(after) - sum(starts),
    usd_per_h = other.usd_per_h - fleet.usd_per_h }
end
