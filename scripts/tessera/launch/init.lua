-- plan:export(kind, folder): what starts servers that run a plan, in a folder that appears whole or not at all.

local core = require "tessera.core"
local layouts = require "tessera.launch.layout"
local obstacles = require "tessera.launch.obstacles"
local options = require "tessera.options"
local runtimes = require "tessera.launch.runtimes"
local sorted_keys = require "tessera.sorted_keys"
local vllm = require "tessera.launch.vllm"
local write_folder = require "tessera.launch.write"

local read = options.card {
  name = "plan:export",
  doc = "Writes a folder with what starts servers that run the plan: the step that gets or makes the weights, a script "
    .. "for each engine and node with every flag, one that waits until all answer, one for a router where there are "
    .. "replicas, the plan, and README.md, which says what of the plan the runtime does not honour. Kind json is "
    .. "layout.json alone: engines, stages, GPUs and bitwidths. ts.load_launch reads the folder back. Returns { "
    .. "folder, files, limits = what each server takes }, or nil and why where the runtime cannot run such a plan "
    .. "(why.code unsupported).",
  parameters = {
    { "kind", "\"vllm\"|\"llama.cpp\"|\"json\"", "Who runs it" },
    { "folder", "string", "To write; one that is there and not empty has to be an earlier export" },
  },
  returns = "table?, tessera.Error?",
  options = {
    { name = "version", type = "string", doc = "Of vLLM; default 0.24.0, whose kernels are measured" },
    { name = "checkpoint", type = "string",
      doc = "Hugging Face id or path of the weights to serve; default: the model's own, or a copy at the plan's bits" },
    { name = "unlike_engines", type = "boolean", default = false,
      doc = "Whether engines behind one address may serve unlike bits" },
    { name = "engine", type = "table", lua_type = "table",
      doc = "Of engines that serve a stream: max_num_seqs, max_num_batched_tokens, max_model_len, "
        .. "gpu_memory_utilization, in place of what is chosen" },
    { name = "as", type = "choice", choices = { "shell", "compose", "kubernetes", "ray" },
      doc = "Where servers start: by scripts (the default), and beside them by a Docker Compose file for each node, "
        .. "Kubernetes manifests or Ray Serve's configuration" },
    { name = "overwrite", type = "boolean", default = false, doc = "Whether an earlier export may go" },
  },
}

local function why_unsupported(kind, found)
  return core.why("unsupported", ("%s cannot run this plan: %s. ts.problem { runtime = \"%s\" } (--runtime %s) plans "
    .. "only what it can"):format(kind, table.concat(found, "; "), kind, kind))
end

-- Ranges of the limits that a person may set.
local engine_ranges = {
  max_num_seqs = { 1, 1e6 }, max_num_batched_tokens = { 1, 1e9 }, max_model_len = { 1, 1e9 },
  gpu_memory_utilization = { 0.01, 1 },
}

local function check_engine(engine)
  for name, value in pairs(engine) do
    local path, range = "plan:export.engine." .. tostring(name), engine_ranges[name]
    if not range then
      core.refuse("plan:export.engine", ("'%s' is none of %s%s"):format(tostring(name),
        table.concat(sorted_keys(engine_ranges), ", "), core.did_you_mean(tostring(name), sorted_keys(engine_ranges))))
    end
    local is_whole = type(value) == "number" and (range[2] == 1 or value == math.floor(value))
    if not (is_whole and value >= range[1] and value <= range[2]) then
      core.raise("out_of_range", ("%s: %s is outside [%g, %g]%s"):format(path, tostring(value), range[1], range[2],
        range[2] == 1 and "" or ", whole numbers"), path)
    end
  end
end

local function export(plan, kind, folder, given)
  if runtimes[kind] == nil then
    core.refuse("plan:export.kind", ("'%s' is none of %s%s"):format(tostring(kind),
      table.concat(sorted_keys(runtimes), ", "), core.did_you_mean(tostring(kind), sorted_keys(runtimes))))
  end
  if type(folder) ~= "string" or folder == "" then core.refuse("plan:export.folder", "name a folder") end
  local opt = read(given)
  if kind == "vllm" then
    local note
    opt.version, note = vllm.version(opt.version)
    opt.notes = { note }
  elseif opt.version then
    core.refuse("plan:export.version", "only vllm has flags by version")
  end
  local layout, why = layouts.of(plan)
  if not layout then return nil, why end
  if opt.engine then
    check_engine(opt.engine)
    layouts.serve(layout, opt.engine)
  end
  local found = obstacles.of(layout, kind, opt.version)
  if #found > 0 then return nil, why_unsupported(kind, found) end
  return write_folder(layout, kind, folder, opt, { engine = opt.engine })
end

return export
