-- What runs on a deployment took of what its kernel set predicts, kept as a kernel set that has their ratios besides:
-- who plans by that file has prices that they correct.

local core = require "tessera.core"
local solver = require "tessera.solver"

local M = {}

local phases = { ttft_s = "prefill_ratios", tpot_s = "decode_ratios" }

-- What ran that says something: { base = the kernel set of a plan, without what other runs said of it, model =, devices
-- = names of types, sorted }.
local function about_plan(plan)
  local kernels, types, devices = solver.engine_kernels(plan), {}, {}
  for _, each in ipairs(kernels) do
    if each.name ~= kernels[1].name then
      core.refuse("--recalibrate", ("the plan's engines have kernel sets %s and %s; a file is of one"):format(
        kernels[1].name, each.name))
    end
    for _, name in ipairs(each.devices) do
      if not types[name] then devices[#devices + 1], types[name] = name, true end
    end
  end
  table.sort(devices)
  local base = core.from_json(kernels[1].definition)
  base.name = base.recalibration and base.recalibration.of or base.name
  base.recalibration = nil
  return { base = base, model = plan:problem().model.name, devices = devices }
end

-- A kernel set as another one, which plans take where it is named, by the same profiles.
local function corrected(ran)
  local base = ran.base
  base.doc = ("%s, corrected by runs of %s"):format(base.name, ran.model)
  base.profiles_of = base.profiles_of or base.name
  base.auto_rank = nil
  base.recalibration = { of = base.name, model = ran.model, devices = ran.devices }
  return base
end

local function read_set(path)
  local ok, set = pcall(core.from_json, core.read_file(path))
  local about = ok and type(set) == "table" and set.recalibration
  if type(about) ~= "table" or type(about.of) ~= "string" or type(about.model) ~= "string"
    or type(about.devices) ~= "table" then
    core.refuse(path, "it is none that `tessera compare --recalibrate` wrote; name another file")
  end
  return set
end

--- What a file has, for a plan: { path =, set = the kernel set, base = the name of the one that it corrects }; without
--- ratios where there is no file yet.
function M.read(path, plan)
  if not path:find "%.json$" then
    core.refuse(path, "what runs said is kept in a file that ends in .json, which --kernel-set reads")
  end
  local ran = about_plan(plan)
  local state = { path = path, base = ran.base.name, is_there = core.file_kind(path) == "file" }
  if not state.is_there then
    state.set = corrected(ran)
    return state
  end
  state.set = read_set(path)
  local about = state.set.recalibration
  for what, pair in pairs { model = { about.model, ran.model }, ["kernel set"] = { about.of, ran.base.name },
    devices = { table.concat(about.devices, " and "), table.concat(ran.devices, " and ") } } do
    if pair[1] ~= pair[2] then
      core.refuse(path, ("its %s: %s, the plan's: %s; a file is of one, name another"):format(what, pair[1], pair[2]))
    end
  end
  return state
end

--- Adds what rows say, which were compared with predictions by the kernel set that is corrected.
function M.add(state, rows)
  local about = state.set.recalibration
  for _, row in ipairs(rows) do
    local phase = phases[row.metric]
    if phase and row.ratio then
      about[phase] = about[phase] or {}
      table.insert(about[phase], row.ratio)
    end
  end
end

--- Writes the file, where runs have said anything.
function M.save(state)
  local about = state.set.recalibration
  if about.prefill_ratios or about.decode_ratios then
    core.write_file(state.path, core.to_json(state.set) .. "\n")
  end
end

return M
