-- The folder of a launch: its scripts, plans and README.md, that appear whole or not at all.

local common = require "tessera.launch.common"
local core = require "tessera.core"
local layouts = require "tessera.launch.layout"
local readme = require "tessera.launch.readme"
local runtimes = require "tessera.launch.runtimes"
local solver = require "tessera.solver"

local router_port = 9000

-- What scripts make beside what was written.
local made_later = { ["router.nginx.conf"] = true }

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
  for _, name in ipairs(core.from_json(core.read_file(manifest)).files or {}) do ours[name] = true end
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

-- What to know of engines that serve unlike copies of the model.
local function unlike_weights(parts)
  local ids, seen = {}, {}
  for _, part in ipairs(parts) do
    local id = part.weights.id:gsub("[`%c]", " ")
    if not seen[id] then ids[#ids + 1] = ("`%s`"):format(id) end
    seen[id] = true
  end
  if #ids < 2 then return nil end
  return ("weights: engines serve %s; which one answers a request is chance. Where one is instruction-tuned and "
    .. "another not, have them made of one model."):format(table.concat(ids, " and "))
end

-- Files of a runtime that has servers.
local function server_files(layout, runtime, opt)
  local parts, files = {}, {}
  for i = 1, #layout.engines do
    parts[i] = runtime.engine(layout, i, opt)
    for _, file in ipairs(parts[i].files) do files[#files + 1] = file end
  end
  local function add(name, text, executable)
    files[#files + 1] = { name = name, text = text, executable = executable }
  end
  add("hosts.sh", common.hosts(layout))
  add("checkpoint.sh", (runtime.checkpoint_script or common.checkpoint_script)(layout, parts), true)
  add("wait.sh", common.wait_script(parts), true)
  if common.has_pools(layout) then
    add("proxy.sh", common.proxy_script(layout, parts, router_port), true)
  elseif #parts > 1 then
    add("router.sh", common.router_script(layout, parts, router_port), true)
  end
  local notes = { unpack(opt.notes or {}) }
  notes[#notes + 1] = unlike_weights(parts)
  add("README.md", readme.text(layout, parts, { runtime = runtime.name, version = opt.version, notes = notes,
    checkpoint_script = "checkpoint.sh", checkpoint_text = weights_text(parts), router_port = router_port,
    left_out = opt.left_out or {} }))
  return files
end

--- Writes what starts `layout` by runtime `kind`; `opt`: version, notes, overwrite, checkpoint, left_out; `manifest`:
--- what launch.json says beside. Returns { folder, files }.
return function(layout, kind, folder, opt, manifest)
  local replaces = check_place(folder, opt.overwrite)
  local files = runtimes[kind] and server_files(layout, require(runtimes[kind]), opt)
    or { { name = "layout.json", text = core.to_json(layouts.plain(layout)) .. "\n" } }
  for _, each in ipairs(layout.plans) do
    files[#files + 1] = { name = each.name, text = solver.plan_text(each.plan) }
  end
  local names = {}
  for i, file in ipairs(files) do names[i] = file.name end
  local about = { format = "tessera-launch", version = 1, runtime = kind, runtime_version = opt.version,
    num_engines = #layout.engines, files = names }
  for name, value in pairs(manifest) do about[name] = value end
  files[#files + 1] = { name = "launch.json", text = core.to_json(about) .. "\n" }
  core.write_folder(folder, files, replaces)
  names[#names + 1] = "launch.json"
  return { folder = folder, files = names }
end
