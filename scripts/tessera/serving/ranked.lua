-- The list that ts.plan_serving returns: rows in order, their frontier, and how they print.

local core = require "tessera.core"
local export = require "tessera.serving.export"
local options = require "tessera.options"
local text_table = require "tessera.desk.text_table"

local type_name = "tessera.ServingPlans"

core.document_object {
  name = type_name, doc = "Deployments that serve traffic within an SLO, the best first: a list.",
  fields = {
    { "reasons", "table[]", "Engines that were ruled out: engine, reason" },
    { "simulated", "integer", "Engines and deployments that were simulated, each at several rates" },
    { "objective", "string", "What the order goes by" },
    { "preference", "string?", "Why the first is not the one with the largest rate" },
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
  return export(self, kind, folder, opt)
end

local columns = {
  "rank", "layout", "bitwidth", "kv_bitwidth", "rate_per_s", "scope", "tok_s_per_gpu", "tok_s_per_user", "ttft_p99_s",
  "tpot_p99_s", "gpus", "usd_per_million_tokens", "perplexity_increase",
}

-- What scopes that are there mean.
local scopes = {
  { "one engine", "scope \"one engine\": one was simulated alone, and counts so many times; several beside each other "
    .. "were not" },
  { "half", "scope \"half\": simulated with half the requests, and by one set in the pools' ratio where there are "
    .. "several" },
}

-- "8", or "8/16" where engines of a row differ.
local function values_of(row, field)
  local words, seen = {}, {}
  for _, part in ipairs(row.parts) do
    if not seen[part[field]] then words[#words + 1] = tostring(part[field]) end
    seen[part[field]] = true
  end
  return #words > 1 and table.concat(words, "/") or row[field]
end

-- The table that is printed, and the lines below it.
local function table_of(self)
  local rows, has, mixed = {}, {}, false
  for i, row in ipairs(self) do
    rows[i] = setmetatable({ bitwidth = values_of(row, "bitwidth"), kv_bitwidth = values_of(row, "kv_bitwidth") },
      { __index = row })
    has[row.scope] = true
    mixed = mixed or rows[i].bitwidth ~= row.bitwidth or rows[i].kv_bitwidth ~= row.kv_bitwidth
  end
  local lines = { tostring(text_table(rows, { columns = columns })) }
  for _, scope in ipairs(scopes) do
    if has[scope[1]] then lines[#lines + 1] = scope[2] end
  end
  if mixed then lines[#lines + 1] = "perplexity_increase of unlike engines: that of the worst" end
  return lines
end

local function text(self)
  local lines = table_of(self)
  local first = self[1]
  lines[#lines + 1] = ("best: %s; above %.4g req/s: %s"):format(first.layout, first.rate_per_s,
    first.limited_by ~= "" and first.limited_by or "not looked at")
  if first.note ~= "" then lines[#lines + 1] = "note: " .. first.note end
  if self.preference then lines[#lines + 1] = self.preference end
  for _, row in ipairs(self) do
    if self.objective == "rate" and first.high_per_s and row.scope ~= "whole" and row.rate_per_s > first.rate_per_s then
      lines[#lines + 1] = ("the first held %.4g req/s and failed at %.4g; what was not simulated whole may hold less "
        .. "than it promises, too"):format(first.rate_per_s, first.high_per_s)
      break
    end
  end
  if self.aggregated_over_disaggregated then
    local words = "the first with prefill and decode in one engine: %.2f times the rate per device of the first pools"
    lines[#lines + 1] = words:format(self.aggregated_over_disaggregated)
  end
  lines[#lines + 1] = ("%d engines and deployments simulated, %d ruled out by their bounds; %s"):format(self.simulated,
    self.bounded, first.source)
  return table.concat(lines, "\n") .. "\n"
end

local methods = { frontier = frontier, export = export_of }
meta = { __index = methods, __tostring = text, __name = type_name }

--- The list: rows in order, with `found`, what the search says besides, and `options`, what was asked for.
return function(rows, found, given)
  rows.objective, rows.preference = found.objective, found.preference ~= "" and found.preference or nil
  rows.aggregated_over_disaggregated = found.aggregated_over_disaggregated
  rows.reasons, rows.simulated, rows.bounded = found.reasons, found.simulated, found.bounded
  rows.found, rows.options = found, given
  return setmetatable(rows, meta)
end
