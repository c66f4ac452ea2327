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
  doc = "Reads a folder that plan:export wrote: { plan, runtime, runtime_version, engines = { { words, options, "
    .. "variables } } }, where options are the flags of the command that serves and variables what its script exports. "
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

-- The first difference between what a script says and what the plan is, in words.
local function difference(name, said, expected, what)
  for _, key in ipairs(sorted_keys(expected)) do
    if said[key] ~= expected[key] then
      return ("%s: %s %s is %s, the plan's is %s"):format(name, what, key, tostring(said[key]), expected[key])
    end
  end
end

local function read_engine(folder, runtime, layout, index)
  local name = common.script_name(index, 0)
  local text = core.read_file(folder .. "/" .. name)
  local words, variables = shell.read_script(text, runtime.command)
  if not words then
    core.refuse(folder .. "/" .. name, ("it has no line that starts with '%s'"):format(runtime.command))
  end
  local engine = { words = words, options = options_of(words), variables = variables }
  local options, expected_variables = runtime.expected(layout.engines[index])
  local gpus = layouts.spans(layout.engines[index])[1].gpus
  expected_variables.CUDA_VISIBLE_DEVICES = table.concat(gpus, ",")
  return engine, difference(name, engine.options, options, "option")
    or difference(name, variables, expected_variables, "variable")
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
  local plan = solver.load_plan(folder .. "/plan.json")
  local layout, why = layouts.of(plan)
  if not layout then return nil, why end
  if type(manifest.engine) == "table" then layouts.serve(layout, manifest.engine) end
  local result = { plan = plan, runtime = manifest.runtime, runtime_version = manifest.runtime_version, engines = {} }
  if manifest.runtime == "json" then
    local said = core.from_json(core.read_file(folder .. "/layout.json"))
    result.engines = said.engines
    if same(said, layouts.plain(layout)) then return result end
    return nil, core.why("mismatch", folder .. "/layout.json is not the layout of the plan beside it")
  end
  local runtime = require(runtimes[manifest.runtime])
  for i = 1, #layout.engines do
    local differs
    result.engines[i], differs = read_engine(folder, runtime, layout, i)
    if differs then return nil, core.why("mismatch", folder .. "/" .. differs) end
  end
  return result
end
