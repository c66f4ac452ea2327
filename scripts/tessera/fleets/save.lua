-- fleet:save(path), and ts.load_plan(path), which gives the fleet again. A file has the columns on nodes, the placement
-- and what was proven; of named models also what was asked and what is known of the columns.

local core = require "tessera.core"
local copy = require "tessera.shallow_copy"
local fleets = require "tessera.fleets.fleet"
local options = require "tessera.options"
local solver = require "tessera.solver"

local M = {}

-- What of the options is data. What else a script gave has done its part.
local asked_once = { on_incumbent = true, round = true, columns = true, current = true, periods = true }

local function check_plain(fields, model_name)
  for name, value in pairs(fields) do
    if type(value) == "userdata" then
      core.refuse("fleet:save", ("%s of '%s' is an object; plan the fleet with a name, or a table of its options, "
        .. "which a file can keep"):format(name, model_name))
    end
  end
end

local function asked_data(asked)
  local data = {}
  for name, value in pairs(asked) do
    if not asked_once[name] then data[name] = value end
  end
  for _, model in ipairs(asked.models) do
    check_plain(model, model.name)
    for _, class in ipairs(model.classes or {}) do check_plain(class, model.name) end
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

local periods_format, periods_file = "tessera-fleet-periods-1", "periods.json"

--- A folder of a file for each fleet, and of one for what they are together.
function M.save_periods(plan, folder)
  if type(folder) ~= "string" or folder == "" then core.refuse("plan:save.folder", "name a folder") end
  local fields, names = plan:to_table(), {}
  local function name_of(fleet, name)
    names[fleet] = names[fleet] or name
    return names[fleet]
  end
  fields.format, fields.fleets, fields.peak = periods_format, {}, name_of(plan.peak, "peak.json")
  for t, fleet in ipairs(plan.fleets) do fields.fleets[t] = name_of(fleet, ("fleet-%d.json"):format(t)) end
  core.write_folder(folder, { { name = periods_file, text = core.to_json(fields) .. "\n" } }, false)
  for fleet, name in pairs(names) do M.save(fleet, folder .. "/" .. name) end
end

local function load_periods(folder)
  local path = folder .. "/" .. periods_file
  local fields = core.from_json(core.read_file(path))
  if type(fields) ~= "table" or fields.format ~= periods_format then
    core.raise("unsupported", ("it is of format %s, and %s is read"):format(
      type(fields) == "table" and tostring(fields.format) or "none", periods_format), path)
  end
  local loaded = {}
  local function fleet_of(name)
    if type(name) ~= "string" or not name:find "^[%w-]+%.json$" then
      core.refuse(path, "a fleet of it has no name of a file beside it")
    end
    loaded[name] = loaded[name] or M.load(folder .. "/" .. name)
    if not fleets.is(loaded[name]) then core.refuse(folder .. "/" .. name, "it holds no fleet") end
    return loaded[name]
  end
  options.list(fields.fleets, path .. ".fleets", "a list of files")
  options.list(fields.rows, path .. ".rows", "a list of periods")
  if #fields.fleets ~= #fields.rows or #fields.rows == 0 then
    core.refuse(path, ("%d fleets for %d periods"):format(#fields.fleets, #fields.rows))
  end
  for t, name in ipairs(fields.fleets) do fields.fleets[t] = fleet_of(name) end
  fields.peak, fields.format = fleet_of(fields.peak), nil
  return require("tessera.fleets.period_plan").again(fields)
end

--- What a file of plans has: a plan, or a fleet; what a folder has, fleets of one period after the other.
function M.load(path)
  if type(path) == "string" and core.file_kind(path .. "/" .. periods_file) == "file" then return load_periods(path) end
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
