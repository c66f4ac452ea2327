-- fleet:save(path), and ts.load_plan(path), which gives the fleet again. A file has the columns on nodes, the placement
-- and what was proven; of named models also what was asked and what is known of the columns.

local core = require "tessera.core"
local copy = require "tessera.shallow_copy"
local fleets = require "tessera.fleets.fleet"
local solver = require "tessera.solver"

local M = {}

-- What of the options is data. What else a script gave has done its part.
local asked_once = { on_incumbent = true, round = true, columns = true, current = true, periods = true }

local function asked_data(asked)
  local data = {}
  for name, value in pairs(asked) do
    if not asked_once[name] then data[name] = value end
  end
  for _, model in ipairs(asked.models) do
    for name, value in pairs(model) do
      if type(value) == "userdata" then
        core.refuse("fleet:save", ("%s of '%s' is an object; plan the fleet with a name, or a table of its options, "
          .. "which a file can keep"):format(name, model.name))
      end
    end
  end
  if type(data.cluster) == "userdata" then data.cluster = solver.cluster_table(data.cluster) end
  if data.rent then
    local rent = {}
    for i, nodes in ipairs(data.rent) do
      rent[i] = copy(nodes)
      if type(nodes[1]) == "userdata" then
        core.refuse("fleet:save", ("rent[%d] is an object; plan the fleet with the name of its node, which a file can "
          .. "keep"):format(i))
      end
      -- A table of both kinds of keys is no JSON.
      rent[i].node, rent[i][1] = nodes[1], nil
    end
    data.rent = rent
  end
  return data
end

-- As it was asked.
local function asked_again(data)
  if type(data.cluster) == "table" and data.cluster.nodes then
    data.cluster = core.cluster_from_json(core.to_json(data.cluster), "cluster")
  end
  for _, nodes in ipairs(data.rent or {}) do nodes[1], nodes.node = nodes.node, nil end
  return data
end

function M.save(fleet, path)
  local named = fleet.named and copy(fleet.named)
  if named then
    named.asked, named.cluster = asked_data(named.asked), named.cluster and solver.cluster_table(named.cluster)
  end
  return fleet.solved:save(path, named)
end

--- What a file of plans has: a plan, or a fleet.
function M.load(path)
  local loaded = solver.load_plan(path)
  if not solver.is_solved_fleet(loaded) then return loaded end
  local named = loaded.named
  if named then
    named.asked = asked_again(named.asked)
    named.cluster = named.cluster and core.cluster_from_json(core.to_json(named.cluster), path)
  end
  return fleets(loaded, named)
end

return setmetatable(M, { __call = function(_, ...) return M.save(...) end })
