-- The list that ts.plan_serving returns: rows in order, their frontier, and how they print.

local core = require "tessera.core"
local engines = require "tessera.serving.engines"
local export = require "tessera.serving.export"
local options = require "tessera.options"
local solver = require "tessera.solver"
local text_table = require "tessera.desk.text_table"

local M = {}

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

-- Of answers of one token, which have no TPOT, whole answers.
local function tok_s_per_user(served) return 1 / (served.tpot_s.p50 or served.e2e_s.p50) end

-- Of several kinds of engines the quality of the worst: a request gets any of them.
local function quality_of(parts)
  local worst
  for _, part in ipairs(parts) do
    local plan = part.kind.one.plan
    local quality = plan and plan.quality
    if quality and (not worst or quality.perplexity_increase.mid > worst.perplexity_increase.mid) then
      worst = quality
    end
  end
  return worst
end

-- The parts as data: what each engine of them is.
local function parts_of(parts)
  local list = {}
  for i, part in ipairs(parts) do
    local kind = part.kind
    list[i] = { role = part.role or "mixed", device = kind.entry.name, engines = part.count,
      tensor_parallel = kind.degree, pipeline_parallel = kind.stages, bitwidth = kind.bitwidth,
      kv_bitwidth = kind.kv_bitwidth, engine = kind.engine }
  end
  return list
end

-- The least of a field of the parts.
local function least(parts, field)
  local value = math.huge
  for _, part in ipairs(parts) do value = math.min(value, part.kind[field]) end
  return value
end

local function row_of(search, result)
  local served, parts = result.found.served, result.parts
  local kind = parts[1].kind
  local num_engines = 0
  for _, part in ipairs(parts) do num_engines = num_engines + part.count end
  local quality = quality_of(parts)
  return {
    rate_per_s = result.found.rate_per_s * result.times, scope = result.scope, limited_by = result.found.limited_by,
    note = result.found.note,
    high_per_s = result.found.high_per_s and result.found.high_per_s * result.times,
    layout = engines.layout(parts), disaggregated = parts[1].role ~= nil, gpus = result.gpus, engines = num_engines,
    tensor_parallel = kind.degree, pipeline_parallel = kind.stages, engine = kind.engine, parts = parts_of(parts),
    bitwidth = least(parts, "bitwidth"), kv_bitwidth = least(parts, "kv_bitwidth"),
    tok_s_per_gpu = served.throughput_tok_s * result.times / result.gpus,
    tok_s_per_user = tok_s_per_user(served), ttft_p99_s = served.ttft_s.p99, tpot_p99_s = served.tpot_s.p99,
    attainment_ratio = served.attainment_ratio, usd_per_h = result.usd_per_h,
    usd_per_million_tokens = result.usd_per_h
      and result.usd_per_h / 3600 / (served.throughput_tok_s * result.times) * 1e6,
    perplexity_increase = quality and quality.perplexity_increase.mid, quality = quality,
    source = kind.one.source, served = served, result = result, deployment = (engines.deploy(search, parts)),
  }
end

-- The rate that a row is ranked by: of what was simulated whole the one that was too much for it, as others only have
-- what their parts promise.
local function rank_rate(row) return row.scope == "whole" and row.high_per_s or row.rate_per_s end

-- Better first, by the objective; of equals what needs no second pool; then by the other measures, so that the order is
-- the same every time.
local function better(objective)
  return function(a, b)
    local keys = {
      rate = { -rank_rate(a), -rank_rate(b) },
      cost = { a.usd_per_h or math.huge, b.usd_per_h or math.huge },
      gpus = { a.gpus, b.gpus },
    }
    local pools = { a.disaggregated and 1 or 0, b.disaggregated and 1 or 0 }
    for _, key in ipairs { keys[objective], pools, keys.gpus, keys.rate } do
      if key[1] ~= key[2] then return key[1] < key[2] end
    end
    return a.layout < b.layout
  end
end

local loads = { 0.1, 0.25, 0.5, 0.75, 1 }

local meta

local function frontier(self)
  if getmetatable(self) ~= meta then
    core.raise("invalid_argument", "frontier is called as plans:frontier(), on what ts.plan_serving gave", "frontier")
  end
  local rows = {}
  for rank, option in ipairs(self) do
    for _, load in ipairs(loads) do
      local rate = option.rate_per_s * load
      local served = load == 1 and option.served
        or solver.serve(option.deployment, self.traffic_of(option.engines):scaled { rate_per_s = rate }, {})
      rows[#rows + 1] = {
        rank = rank, layout = option.layout, rate_per_s = rate, tok_s_per_user = tok_s_per_user(served),
        tok_s_per_gpu = served.throughput_tok_s / option.gpus, chosen = rank == 1 and load == 1,
      }
    end
  end
  table.sort(rows, function(a, b)
    if a.tok_s_per_user ~= b.tok_s_per_user then return a.tok_s_per_user > b.tok_s_per_user end
    return a.tok_s_per_gpu > b.tok_s_per_gpu
  end)
  local best = 0
  for _, row in ipairs(rows) do
    row.efficient = row.tok_s_per_gpu > best
    best = math.max(best, row.tok_s_per_gpu)
  end
  return rows
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
  return self.export_rank(opt.rank, kind, folder, opt)
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

-- Rate per device of the first that shares engines over that of the first that does not.
local function ratio(rows)
  local best = {}
  for _, row in ipairs(rows) do
    local key = row.disaggregated
    best[key] = best[key] or row.rate_per_s / row.gpus
  end
  return best[true] and best[false] and best[false] / best[true] or nil
end

-- The rows in order, the first simulated whole, and the best that shares engines too, so that it may be compared.
local function confirmed(search, rows, confirm)
  local order = better(search.objective)
  local function unsure()
    if rows[1].result.scope ~= "whole" then return 1 end
    for i, row in ipairs(rows) do
      if not row.disaggregated then return rows[1].disaggregated and row.result.scope ~= "whole" and i or nil end
    end
  end
  table.sort(rows, order)
  while #rows > 0 do
    local i = unsure()
    if not i then break end
    local result = rows[i].result
    confirm(result)
    if result.failed then table.remove(rows, i) else rows[i] = row_of(search, result) end
    table.sort(rows, order)
  end
  return rows
end

-- Puts the first that shares engines in front where pools are ahead by no more than rates are known to: that does not
-- pay for a second pool, its link and its proxy. Says so.
local function prefer_one_pool(objective, rows)
  if objective ~= "rate" or #rows == 0 or not rows[1].disaggregated then return nil end
  for i, row in ipairs(rows) do
    if not row.disaggregated then
      if row.rate_per_s * (1 + engines.known_to) < rows[1].rate_per_s then return nil end
      local ahead = rows[1]
      table.insert(rows, 1, table.remove(rows, i))
      return ("%s sustains %.4g req/s, within the %g %% that rates are known to; one pool is simpler"):format(
        ahead.layout, ahead.rate_per_s, 100 * engines.known_to)
    end
  end
end

--- Sorts what was found, has confirmed what matters (and what becomes the first then), and makes the list; nil where
--- nothing is.
function M.list(search, found, confirm)
  local rows = {}
  for i, result in ipairs(found) do rows[i] = row_of(search, result) end
  confirmed(search, rows, confirm)
  if #rows == 0 then return nil end
  rows.objective = search.objective
  rows.preference = prefer_one_pool(search.objective, rows)
  rows.aggregated_over_disaggregated = ratio(rows)
  local parts = {}
  for rank = #rows, 1, -1 do
    parts[rank] = rows[rank].result.parts
    rows[rank].rank, rows[rank].result = rank, nil
    if rank > search.limit then rows[rank] = nil end
  end
  rows.reasons, rows.simulated, rows.bounded = search.reasons, search.simulated, search.bounded
  rows.traffic_of = search.traffics.of
  rows.export_rank = function(rank, ...) return export(search, parts[rank], rows[rank], ...) end
  return setmetatable(rows, meta)
end

--- Why there is nothing to list.
function M.why(search)
  local lines, seen = {}, {}
  for _, reason in ipairs(search.reasons) do
    local line = ("%s: %s"):format(reason.engine, reason.reason)
    if not seen[line] and #lines < 6 then lines[#lines + 1] = line end
    seen[line] = true
  end
  if search.obstructed then lines[#lines + 1] = "runtime = \"tessera\" is not bound to what vLLM can launch" end
  local why = core.why("infeasible", "no deployment on this cluster keeps to the SLO: " .. table.concat(lines, "; "))
  why.reasons = search.reasons
  return why
end

return M
