-- plan:export(kind, folder): what starts servers that run a plan, in a folder that appears whole or not at all.

local common = require "tessera.launch.common"
local core = require "tessera.core"
local layouts = require "tessera.launch.layout"
local obstacles = require "tessera.launch.obstacles"
local options = require "tessera.options"
local readme = require "tessera.launch.readme"
local runtimes = require "tessera.launch.runtimes"
local sorted_keys = require "tessera.sorted_keys"
local vllm = require "tessera.launch.vllm"

local router_port = 9000

local read = options.card {
  name = "plan:export",
  doc = "Writes a folder with what starts servers that run the plan: the step that gets or makes the weights, a script "
    .. "for each engine and node with every flag, one that waits until all answer, one for a router where there are "
    .. "replicas, the plan, and README.md, which says what of the plan the runtime does not honour. Kind json is "
    .. "layout.json alone: engines, stages, GPUs and bitwidths. ts.load_launch reads the folder back. Returns { "
    .. "folder, files }, or nil and why where the runtime cannot run such a plan (why.code unsupported).",
  parameters = {
    { "kind", "\"vllm\"|\"llama.cpp\"|\"json\"", "Who runs it" },
    { "folder", "string", "To write; one that is there and not empty has to be an earlier export" },
  },
  returns = "table?, tessera.Error?",
  options = {
    { name = "version", type = "string", doc = "Of vLLM; default 0.24.0, whose kernels are measured" },
    { name = "checkpoint", type = "string", doc = "Hugging Face id or path of the weights to serve; default: chosen" },
    { name = "engine", type = "table", lua_type = "table",
      doc = "Of engines that serve a stream: max_num_seqs, max_num_batched_tokens, max_model_len, "
        .. "gpu_memory_utilization, in place of what the plan's batch needs" },
    { name = "overwrite", type = "boolean", default = false, doc = "Whether an earlier export may go" },
  },
}

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
  if #parts > 1 then add("router.sh", common.router_script(layout, parts, router_port), true) end
  add("README.md", readme.text(layout, parts, { runtime = runtime.name, version = opt.version, note = opt.note,
    checkpoint_script = "checkpoint.sh", checkpoint_text = weights_text(parts), router_port = router_port }))
  return files
end

local function why_unsupported(kind, found)
  return core.why("unsupported", ("%s cannot run this plan: %s. ts.problem { runtime = \"%s\" } (--runtime %s) plans "
    .. "only what it can"):format(kind, table.concat(found, "; "), kind, kind))
end

local function export(plan, kind, folder, given)
  if runtimes[kind] == nil then
    core.refuse("plan:export.kind", ("'%s' is none of %s%s"):format(tostring(kind),
      table.concat(sorted_keys(runtimes), ", "), core.did_you_mean(tostring(kind), sorted_keys(runtimes))))
  end
  if type(folder) ~= "string" or folder == "" then core.refuse("plan:export.folder", "name a folder") end
  local opt = read(given)
  if kind == "vllm" then
    opt.version, opt.note = vllm.version(opt.version)
  elseif opt.version then
    core.refuse("plan:export.version", "only vllm has flags by version")
  end
  local layout, why = layouts.of(plan)
  if not layout then return nil, why end
  if opt.engine then layouts.serve(layout, opt.engine) end
  local found = obstacles.of(layout, kind, opt.version)
  if #found > 0 then return nil, why_unsupported(kind, found) end
  local replaces = check_place(folder, opt.overwrite)
  local files = runtimes[kind] and server_files(layout, require(runtimes[kind]), opt)
    or { { name = "layout.json", text = core.to_json(layouts.plain(layout)) .. "\n" } }
  files[#files + 1] = { name = "plan.json", text = layout.plan_text }
  local names = {}
  for i, file in ipairs(files) do names[i] = file.name end
  files[#files + 1] = { name = "launch.json", text = core.to_json { format = "tessera-launch", version = 1,
    runtime = kind, runtime_version = opt.version, num_engines = #layout.engines, engine = opt.engine,
    files = names } .. "\n" }
  core.write_folder(folder, files, replaces)
  names[#names + 1] = "launch.json"
  return { folder = folder, files = names }
end

return export
