-- ts.load_launch(folder): what plan:export wrote, read back and compared with the plan beside it.

local common = require "tessera.launch.common"
local core = require "tessera.core"
local layouts = require "tessera.launch.layout"
local runtimes = require "tessera.launch.runtimes"
local shell = require "tessera.launch.shell"
local solver = require "tessera.solver"
local sorted_keys = require "tessera.sorted_keys"

core.document {
  name = "ts.load_launch",
  doc = "Reads a folder that plan:export or the export of ts.plan_serving's list wrote: { plan, plans, runtime, "
    .. "runtime_version, engines = { { words, options, variables } } }, where plans are one for each kind of engines, "
    .. "options are the flags of the command that serves and variables what its script exports. "
    .. "Nil and why (why.code mismatch) where a script says another parallelism, split, KV type or batch than the plan "
    .. "beside it.",
  parameters = { { "folder", "string", "That plan:export wrote" } },
  returns = "table?, tessera.Error?",
}

-- "--flag value" pairs of a command; a flag without value is true.
local function options_of(words)
  local options = {}
  for i, word in ipairs(words) do
    if word:find "^%-%-" then
      local value = words[i + 1]
      options[word] = (value and not value:find "^%-%-") and value or true
    end
  end
  return options
end

local function manifest_of(folder)
  local path = folder .. "/launch.json"
  local manifest = core.from_json(core.read_file(path))
  if type(manifest) ~= "table" or manifest.format ~= "tessera-launch" or manifest.version ~= 1 then
    core.refuse(path, "it is no launch.json that this program wrote (format tessera-launch, version 1)")
  end
  if runtimes[manifest.runtime] == nil then
    core.refuse(path, ("its runtime is '%s', which this program does not know"):format(tostring(manifest.runtime)))
  end
  return manifest
end

local roles = { mixed = true, prefill = true, decode = true }

-- Checks a part of a manifest: its file, role, limits and as many places as its plan has devices.
local function check_part(part, path, num_classes, plan_of)
  local fine = type(part) == "table" and type(part.file) == "string" and part.file:find "^plan[%w-]*%.json$"
    and roles[part.role] and type(part.limits) == "table" and type(part.places) == "table"
    and type(part.share or 1) == "number" and (num_classes == 0 and part.class_shares == nil
      or type(part.class_shares) == "table" and #part.class_shares == num_classes)
  for b = 1, fine and num_classes or 0 do fine = fine and type(part.class_shares[b]) == "number" end
  for _, place in ipairs(fine and part.places or {}) do
    fine = fine and type(place) == "table" and type(place.node) == "string" and type(place.gpu) == "number"
  end
  if fine then
    part.plan = plan_of(part.file)
    local problem = part.plan:problem()
    fine = problem.cluster and #problem.cluster.devices == #part.places
  end
  if not fine then
    core.refuse(path, "it is not as this program wrote it: file, role, limits, share and places of a plan")
  end
end

-- The layout of the plans of a folder, and these; nil and why.
local function layout_of(folder, manifest)
  if manifest.parts == nil then
    local plan = solver.load_plan(folder .. "/plan.json")
    local layout, why = layouts.of(plan)
    if layout and type(manifest.engine) == "table" then layouts.serve(layout, manifest.engine) end
    return layout, layout and { plan } or why
  end
  local path, plans = folder .. "/launch.json", {}
  if type(manifest.parts) ~= "table" or #manifest.parts == 0 then core.refuse(path .. ".parts", "it lists no plans") end
  local classes = manifest.request_classes or {}
  if type(classes) ~= "table" then core.refuse(path .. ".request_classes", "a list of names belongs here") end
  for i, name in ipairs(classes) do
    if type(name) ~= "string" then core.refuse(("%s.request_classes[%d]"):format(path, i), "a name belongs here") end
  end
  for i, part in ipairs(manifest.parts) do
    check_part(part, ("%s.parts[%d]"):format(path, i), #classes, function(name)
      return solver.load_plan(folder .. "/" .. name)
    end)
    plans[i] = part.plan
  end
  local layout, why = layouts.join(manifest.parts, manifest.cluster, manifest.router, manifest.request_classes)
  return layout, layout and plans or why
end

-- The first difference between what a script says and what the plan is, in words.
local function difference(name, said, expected, what)
  for _, key in ipairs(sorted_keys(expected)) do
    if said[key] ~= expected[key] then
      return ("%s: %s %s is %s, the plan's is %s"):format(name, what, key, tostring(said[key]), expected[key])
    end
  end
end

-- Limits that were written for a server; nil where an older program wrote none.
local function limits_of(manifest, index)
  local list = type(manifest.server_limits) == "table" and manifest.server_limits or {}
  return type(list[index]) == "table" and list[index] or nil
end

-- What one node of an engine runs, and how it differs from the plan. Where Ray joins nodes, all but the first run none
-- of the server's own commands.
local function read_node(folder, runtime, layout, index, rank)
  local name = common.script_name(index, rank)
  local words, variables = shell.read_script(core.read_file(folder .. "/" .. name), runtime.command)
  if not words and rank == 0 then
    core.refuse(folder .. "/" .. name, ("it has no line that starts with '%s'"):format(runtime.command))
  end
  local node = { words = words, options = options_of(words or {}), variables = variables }
  local options, expected_variables = runtime.expected(layout, layout.engines[index])
  if not words then options, expected_variables = {}, {} end
  local engine = layout.engines[index]
  for variable, value in pairs(runtime.gpu_variables(engine, layouts.spans(engine)[rank + 1].gpus)) do
    expected_variables[variable] = value
  end
  return node, difference(name, node.options, options, "option")
    or difference(name, variables, expected_variables, "variable")
end

-- The engine as its first node starts it, and the first difference of any node.
local function read_engine(folder, runtime, layout, index)
  local engine, differs
  for rank = 0, #layouts.spans(layout.engines[index]) - 1 do
    local node, own = read_node(folder, runtime, layout, index, rank)
    engine, differs = engine or node, differs or own
  end
  return engine, differs
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

return function(folder)
  if type(folder) ~= "string" then core.refuse("ts.load_launch.folder", "name a folder that plan:export wrote") end
  local manifest = manifest_of(folder)
  local layout, plans = layout_of(folder, manifest)
  if not layout then return nil, plans end
  local result = { plan = plans[1], plans = plans, runtime = manifest.runtime,
    runtime_version = manifest.runtime_version, engines = {} }
  if manifest.runtime == "json" then
    local said = core.from_json(core.read_file(folder .. "/layout.json"))
    result.engines = said.engines
    if same(said, layouts.plain(layout)) then return result end
    return nil, core.why("mismatch", folder .. "/layout.json is not the layout of the plan beside it")
  end
  local runtime = require(runtimes[manifest.runtime])
  for i, engine in ipairs(layout.engines) do
    local differs
    engine.limits = limits_of(manifest, i)
    result.engines[i], differs = read_engine(folder, runtime, layout, i)
    if differs then return nil, core.why("mismatch", folder .. "/" .. differs) end
  end
  return result
end
