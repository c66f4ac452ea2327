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

-- The replicas of a model as a row of ts.plan_serving, and the devices of each part.
local function row_of(fleet, name)
  local pools, rows = pools_of.of(fleet, name, pools_of.asked(fleet, name, "fleet:export"))
  local parts, devices, engines = {}, {}, 0
  for i, row in ipairs(rows) do
    local part = copy(row.part)
    part.engines, part.role, part.share, part.class_shares = row.count, "mixed", pools[i].share, row.class_shares
    parts[i], devices[i], engines = part, pools_of.devices(row), engines + row.count
  end
  return { parts = parts, engines = engines }, devices
end

-- A name as a folder may have it.
local function folder_name(name) return (name:gsub("[^%w%-_.]", "_")) end

-- What the folder of a fleet says of those in it.
local function readme(fleet)
  local lines = { "# A fleet\n", tostring(fleet) .. "\n",
    "Each model has a folder, whose README says how to start it:\n" }
  for _, model in ipairs(fleet.models) do
    if model.replicas > 0 then lines[#lines + 1] = ("- `%s`: %s"):format(folder_name(model.name), model.name) end
  end
  return table.concat(lines, "\n") .. "\n"
end

return function(fleet, kind, folder, given)
  local opt = read(given)
  if type(folder) ~= "string" or folder == "" then core.refuse("fleet:export.folder", "name a folder") end
  if not core.file_kind(folder) then
    core.write_folder(folder, { { name = "README.md", text = readme(fleet) } }, false)
  end
  local result = { folder = folder, models = {} }
  for _, model in ipairs(fleet.models) do
    if model.replicas > 0 then
      local given_model = pools_of.asked(fleet, model.name, "fleet:export")
      local row, devices = row_of(fleet, model.name)
      local names = classes.several(given_model) and {} or nil
      for i, class in ipairs(names and classes.of(given_model) or {}) do names[i] = class.name end
      local asked = { model = core.model(given_model.model), cluster = fleet.cluster, engine = given_model.engine or {},
        router = names and "round_robin" or "least_requests", kernel_set = given_model.kernel_set,
        request_classes = names }
      local own = { version = opt.version, overwrite = opt.overwrite, unlike_engines = true }
      local written, why = export.write(asked, row, devices, kind, folder .. "/" .. folder_name(model.name), own,
        { path = "fleet:export", name = ("the model '%s'"):format(model.name), made_by = "ts.plan_fleet",
          given = given_model })
      if not written then return nil, why end
      result.models[#result.models + 1] = { name = model.name, folder = written.folder, files = written.files }
    end
  end
  return result
end
