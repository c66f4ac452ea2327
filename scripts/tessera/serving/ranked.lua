-- The list that ts.plan_serving returns: rows in order, their frontier, and how they print.

local answer = require "tessera.serving.answer"
local core = require "tessera.core"
local export = require "tessera.serving.export"
local options = require "tessera.options"

local type_name = "tessera.ServingPlans"

core.document_object {
  name = type_name, doc = "Deployments that serve traffic within an SLO, the best first: a list.",
  fields = {
    { "reasons", "table[]", "Engines that were ruled out: engine, reason" },
    { "simulated", "integer", "Engines and deployments that were simulated, each at several rates" },
    { "objective", "string", "What the order goes by" },
    { "preference", "string?", "Why the first is not the one with the largest rate" },
    { "quality_note", "string?", "Why the default bound on quality is not kept" },
    { "relief", "string?",
      "What looser limits would give, where the verbs looked: the first has less than a request at a time" },
    { "best_homogeneous", "string?", "Of a cluster of several types of devices: the best layout on one of them" },
    { "gain_of_mixing", "number?", "What the first gives over it, as a ratio; 1: mixing gains nothing" },
    { "aggregated_over_disaggregated", "number?", "Rate per device of the first of each, as a ratio" },
  },
  methods = {
    { "frontier", "(): table[]",
      "Tokens per second and user against tokens per second and device, at loads from a tenth of each deployment's "
        .. "rate to all of it: tok_s_per_user, tok_s_per_gpu, rank, rate_per_s, efficient (nothing listed beats it in "
        .. "both)" },
    { "export", "(kind: \"vllm\"|\"json\", folder: string, options: table?): table?, tessera.Error?",
      "What starts a deployment of the list, in a folder" },
  },
}

local meta

local function frontier(self)
  if getmetatable(self) ~= meta then
    core.raise("invalid_argument", "frontier is called as plans:frontier(), on what ts.plan_serving gave", "frontier")
  end
  return self.found:frontier()
end

local read_export = options.card {
  name = "plans:export",
  doc = "Writes a folder with what starts a deployment of ts.plan_serving's list, as plan:export does: a script "
    .. "for each engine with its own flags, a router, or for pools of prefill and decode engines a proxy. Returns "
    .. "{ folder, files, layout, rank, left_out }, where left_out says which GPUs of the cluster the deployment does "
    .. "not use; or nil and why where the runtime cannot run it (why.code unsupported).",
  parameters = {
    { "kind", "\"vllm\"|\"json\"", "Who runs it" },
    { "folder", "string", "To write; one that is there and not empty has to be an earlier export" },
  },
  returns = "table?, tessera.Error?",
  options = {
    { name = "rank", type = "integer", default = 1, min = 1, max = 100, doc = "Of the list" },
    { name = "version", type = "string", doc = "Of vLLM, as for plan:export" },
    { name = "checkpoint", type = "string", doc = "Hugging Face id or path of the weights to serve; default: chosen" },
    { name = "unlike_engines", type = "boolean", default = false,
      doc = "Whether engines behind one address may serve unlike bits" },
    { name = "as", type = "choice", choices = { "shell", "compose", "kubernetes", "ray" },
      doc = "Where servers start, as plan:export has it" },
    { name = "overwrite", type = "boolean", default = false, doc = "Whether an earlier export may go" },
  },
}

local function export_of(self, kind, folder, given)
  if getmetatable(self) ~= meta then
    core.raise("invalid_argument", "export is called as plans:export(kind, folder), on what ts.plan_serving gave",
      "export")
  end
  local opt = read_export(given)
  if not self[opt.rank] then
    core.refuse("plans:export.rank", ("%d; %d deployments are listed"):format(opt.rank, #self))
  end
  return export.of_list(self, kind, folder, opt)
end

local methods = { frontier = frontier, export = export_of }
meta = { __index = methods, __tostring = answer, __name = type_name }

--- The list: rows in order, with `found`, what the search says besides, and `options`, what was asked for.
return function(rows, found, given)
  rows.objective = found.objective
  for _, name in ipairs { "preference", "quality_note", "best_homogeneous" } do
    rows[name] = found[name] ~= "" and found[name] or nil
  end
  rows.gain_of_mixing = found.gain_of_mixing
  rows.aggregated_over_disaggregated = found.aggregated_over_disaggregated
  rows.reasons, rows.simulated, rows.bounded = found.reasons, found.simulated, found.bounded
  rows.found, rows.options = found, given
  return setmetatable(rows, meta)
end
