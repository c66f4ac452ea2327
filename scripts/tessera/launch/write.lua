-- The folder of a launch: its scripts, plans and README.md, that appear whole or not at all.

local common = require "tessera.launch.common"
local core = require "tessera.core"
local hub = require "tessera.launch.hub"
local layouts = require "tessera.launch.layout"
local platforms = require "tessera.launch.platforms"
local readme = require "tessera.launch.readme"
local runtimes = require "tessera.launch.runtimes"
local schemes = require "tessera.launch.schemes"
local solver = require "tessera.solver"

local router_port = 9000

-- What scripts make beside what was written.
local made_later = {}
for _, name in pairs(common.router_makes) do made_later[name] = true end

-- Whether a folder that is there goes; raises where it may not.
local function check_place(folder, overwrite)
  local path = "plan:export.folder"
  local kind = core.file_kind(folder)
  if not kind then return false end
  local names = core.folder_files(folder)
  if not names then core.refuse(path, ("there is a %s at %s; name a folder"):format(kind, folder)) end
  if #names == 0 then return true end
  local manifest = folder .. "/launch.json"
  if not core.file_kind(manifest) then
    core.refuse(path, ("%s holds files that no export wrote (%s); name another folder"):format(folder, names[1]))
  end
  local ours = { ["launch.json"] = true }
  local about = core.from_json(core.read_file(manifest))
  if type(about) ~= "table" or type(about.files) ~= "table" then
    core.refuse(path, manifest .. " is none that an export wrote; name another folder")
  end
  for _, name in ipairs(about.files) do ours[name] = true end
  for _, name in ipairs(names) do
    if not ours[name] and not made_later[name] then
      core.refuse(path, ("%s holds %s, which no export wrote; name another folder"):format(folder, name))
    end
  end
  if not overwrite then
    core.refuse(path, ("%s is an earlier export; say overwrite = true (--overwrite) to replace it"):format(folder))
  end
  return true
end

local function weights_text(parts)
  local seen, texts = {}, {}
  for _, part in ipairs(parts) do
    local text = ("`%s`: %s."):format(part.weights.id:gsub("[`%c]", " "), part.weights.note)
    if not seen[text] then texts[#texts + 1] = text end
    seen[text] = true
  end
  return table.concat(texts, " ")
end

local function bits_of(engine) return table.concat(engine.bitwidths, ",") end

-- "engine 0 of 8-bit layers (`a/b`)"
local function engine_text(layout, parts, i)
  return ("engine %d of %s (`%s`)"):format(i - 1, schemes.text(layout.engines[i]),
    (parts[i].weights.id:gsub("[`%c]", " ")))
end

-- All engines behind one address give the same answers: one model at the same bits. What is published quantised is
-- served as it is at any. A note where the user allows otherwise.
local function check_alike(layout, parts, allowed)
  local first = parts[1].weights
  local note
  for i = 2, #parts do
    local weights = parts[i].weights
    if weights.id ~= first.id or weights.quantization ~= first.quantization then
      local text = ("%s and %s"):format(engine_text(layout, parts, 1), engine_text(layout, parts, i))
      local is_alike = bits_of(layout.engines[1]) == bits_of(layout.engines[i])
      if not is_alike and not allowed then
        core.refuse("plan:export.unlike_engines", ("one address would lead to unlike engines, %s; plan with "
          .. "--bitwidths %d for all, or allow it with --unlike-engines (unlike_engines = true)"):format(text,
          math.min(math.min(unpack(layout.engines[1].bitwidths)), math.min(unpack(layout.engines[i].bitwidths)))))
      end
      note = ("weights: %s; which one answers a request is chance."):format(text)
    end
  end
  return note
end

-- Names that a command would read as something else.
local function check_name(name)
  if name:find "^%-" or name:find "%c" then
    core.refuse("plan:export.model", ("the model's name '%s' cannot be that of a server: it starts with '-' or has "
      .. "line breaks; give the model another"):format((name:gsub("%c", "?"))))
  end
end

-- Files of a runtime that has servers.
local function server_files(layout, runtime, limits, kind, opt)
  local parts, files = {}, {}
  check_name(hub.served_name(layout.model))
  for i = 1, #layout.engines do
    parts[i] = runtime.engine(layout, i, opt)
    for _, node in ipairs(parts[i].nodes) do
      files[#files + 1] = { name = common.script_name(i, node.rank), text = common.node_script(node),
        executable = true }
    end
  end
  local function add(name, text, executable)
    files[#files + 1] = { name = name, text = text, executable = executable }
  end
  add("hosts.sh", common.hosts(layout, runtime.key_variable))
  add("checkpoint.sh", (runtime.checkpoint_script or common.checkpoint_script)(layout, parts), true)
  add("wait.sh", common.wait_script(parts), true)
  if common.has_pools(layout) then
    add("proxy.sh", common.proxy_script(layout, parts, router_port), true)
  elseif #parts > 1 then
    add("router.sh", common.router_script(layout, parts, router_port), true)
  end
  local notes, steps = { unpack(opt.notes or {}) }, nil
  if opt.as and opt.as ~= "shell" then
    local more, own_steps, own_notes = platforms.files(opt.as, layout, parts, { kind = kind, version = opt.version,
      key_variable = runtime.key_variable, router_port = router_port })
    if not more then return nil, own_steps end
    for _, file in ipairs(more) do files[#files + 1] = file end
    for _, note in ipairs(own_notes or {}) do notes[#notes + 1] = note end
    steps = own_steps
  end
  notes[#notes + 1] = check_alike(layout, parts, opt.unlike_engines)
  add("README.md", readme.text(layout, parts, { runtime = runtime.name, version = opt.version, notes = notes,
    checkpoint_script = "checkpoint.sh", checkpoint_text = weights_text(parts), router_port = router_port,
    limits = limits, left_out = opt.left_out or {}, as = opt.as, platform_steps = steps }))
  return files
end

--- Writes what starts `layout` by runtime `kind`; `opt`: version, notes, overwrite, checkpoint,
--- unlike_engines, left_out, as; `manifest`: what launch.json says beside. Returns { folder, files, limits }; nil and
--- why where the platform cannot start it.
return function(layout, kind, folder, opt, manifest)
  if opt.as and opt.as ~= "shell" and not runtimes[kind] then
    core.refuse("plan:export.as", ("kind %s is data, which nothing starts by %s; --launch vllm or llama.cpp does"
      ):format(kind, opt.as))
  end
  local replaces = check_place(folder, opt.overwrite)
  local runtime = runtimes[kind] and require(runtimes[kind])
  local limits = runtime and runtime.limits(layout, opt.version)
  for i, engine in ipairs(layout.engines) do engine.limits = limits and limits[i] end
  local files, why = { { name = "layout.json", text = core.to_json(layouts.plain(layout)) .. "\n" } }, nil
  if runtime then files, why = server_files(layout, runtime, limits, kind, opt) end
  if not files then return nil, why end
  for _, each in ipairs(layout.plans) do
    files[#files + 1] = { name = each.name, text = solver.plan_text(each.plan) }
  end
  local names = {}
  for i, file in ipairs(files) do names[i] = file.name end
  local about = { format = "tessera-launch", version = 1, runtime = kind, runtime_version = opt.version,
    as = opt.as, num_engines = #layout.engines, files = names, server_limits = limits }
  for name, value in pairs(manifest) do about[name] = value end
  files[#files + 1] = { name = "launch.json", text = core.to_json(about) .. "\n" }
  core.write_folder(folder, files, replaces)
  names[#names + 1] = "launch.json"
  return { folder = folder, files = names, limits = limits }
end
