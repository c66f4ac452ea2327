-- fleet:export(kind, folder): what starts a fleet, a folder for each model with a script for each engine on its node.

local classes = require "tessera.fleets.classes"
local copy = require "tessera.shallow_copy"
local core = require "tessera.core"
local export = require "tessera.serving.export"
local options = require "tessera.options"
local pools_of = require "tessera.fleets.pools"

local read = options.card {
  name = "fleet:export",
  doc = "Writes a folder with one for each model, as plans:export does: scripts that start its engines on their nodes, "
    .. "and a router before them. Returns { folder, models = { { name, folder, files }, ... } }; or nil and why where "
    .. "the runtime cannot run it.",
  parameters = {
    { "kind", "\"vllm\"|\"json\"", "Who runs it" },
    { "folder", "string", "To write" },
  },
  returns = "table?, tessera.Error?",
  options = {
    { name = "version", type = "string", doc = "Of vLLM, as for plan:export" },
    { name = "overwrite", type = "boolean", default = false, doc = "Whether an earlier export may go" },
  },
}

-- The replicas of a model as rows of ts.plan_serving, each with the devices of its parts: one of engines that take
-- requests whole, and one of each kind of pair, whose pools a proxy of their own joins.
local function rows_of(fleet, name)
  local pools, rows = pools_of.of(fleet, name, pools_of.asked(fleet, name, "fleet:export"))
  local groups, by_key = {}, {}
  for i, row in ipairs(rows) do
    local key = row.prefill_devices and row.label or "whole"
    local group = by_key[key]
    if not group then
      group = { parts = {}, devices = {}, engines = 0, rate_per_s = 0, is_pair = row.prefill_devices ~= nil }
      groups[#groups + 1], by_key[key] = group, group
    end
    local part = copy(row.part)
    part.engines, part.share, part.class_shares = row.engines, pools[i].share, row.class_shares
    local n = #group.parts + 1
    group.parts[n], group.devices[n], group.engines = part, pools_of.devices(row), group.engines + row.engines
    if row.part.role ~= "decode" then group.rate_per_s = group.rate_per_s + row.count * row.rate_per_s end
  end
  return groups
end

-- A name as a folder may have it.
local function folder_name(name) return (name:gsub("[^%w%-_.]", "_")) end

-- What is written of a model: a folder for each of its rows, named after it.
local function folders_of(fleet, model)
  local rows, list, num_pairs = rows_of(fleet, model.name), {}, 0
  for _, row in ipairs(rows) do
    local name, all = folder_name(model.name), model.capacity_per_s
    if row.is_pair and #rows > 1 then
      num_pairs = num_pairs + 1
      name = ("%s-pools-%d"):format(name, num_pairs)
    end
    list[#list + 1] = { model = model.name, name = name, row = row, share = #rows > 1 and row.rate_per_s / all or 1 }
  end
  return list
end

-- What the folder of a fleet says of those in it.
local function readme(fleet, list)
  local lines = { "# A fleet\n", tostring(fleet) .. "\n",
    "Each model has a folder, whose README says how to start it:\n" }
  local is_split = false
  for _, each in ipairs(list) do
    local share = each.share < 1 and (", %.0f %% of its requests"):format(100 * each.share) or ""
    is_split = is_split or each.share < 1
    lines[#lines + 1] = ("- `%s`: %s%s"):format(each.name, each.model, share)
  end
  if is_split then
    lines[#lines + 1] = "\nOf a model with several folders each has an address, and no script here shares requests out "
      .. "among these: pools have a proxy of their own."
  end
  return table.concat(lines, "\n") .. "\n"
end

-- What a model was asked with, as export.write takes it.
local function asked_of(fleet, given_model)
  local names = classes.several(given_model) and {} or nil
  for i, class in ipairs(names and classes.of(given_model) or {}) do names[i] = class.name end
  return { model = core.model(given_model.model), cluster = fleet.cluster, engine = given_model.engine or {},
    router = names and "round_robin" or "least_requests", kernel_set = given_model.kernel_set,
    request_classes = names }
end

return function(fleet, kind, folder, given)
  local opt = read(given)
  if type(folder) ~= "string" or folder == "" then core.refuse("fleet:export.folder", "name a folder") end
  local list = {}
  for _, model in ipairs(fleet.models) do
    for _, each in ipairs(model.replicas > 0 and folders_of(fleet, model) or {}) do list[#list + 1] = each end
  end
  if not core.file_kind(folder) then
    core.write_folder(folder, { { name = "README.md", text = readme(fleet, list) } }, false)
  end
  local result = { folder = folder, models = {} }
  for _, each in ipairs(list) do
    local given_model = pools_of.asked(fleet, each.model, "fleet:export")
    local own = { version = opt.version, overwrite = opt.overwrite, unlike_engines = true }
    local written, why = export.write(asked_of(fleet, given_model), each.row, each.row.devices, kind,
      folder .. "/" .. each.name, own, { path = "fleet:export", name = ("the model '%s'"):format(each.model),
        made_by = "ts.plan_fleet", given = given_model })
    if not written then return nil, why end
    result.models[#result.models + 1] = { name = each.model, folder = written.folder, files = written.files }
  end
  return result
end
