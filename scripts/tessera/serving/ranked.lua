-- The list that ts.plan_serving returns: rows in order, their frontier, and how they print.

local core = require "tessera.core"
local engines = require "tessera.serving.engines"
local solver = require "tessera.solver"
local text_table = require "tessera.text_table"

local M = {}

local type_name = "tessera.ServingPlans"

core.document_object {
  name = type_name, doc = "Deployments that serve traffic within an SLO, the best first: a list.",
  fields = {
    { "reasons", "table[]", "Engines that were ruled out: engine, reason" },
    { "simulated", "integer", "Engines and deployments that were simulated, each at several rates" },
    { "aggregated_over_disaggregated", "number?", "Rate per device of the best of each, as a ratio" },
  },
  methods = {
    { "frontier", "(): table[]",
      "Tokens per second and user against tokens per second and device, at loads from a tenth of each deployment's "
        .. "rate to all of it: tok_s_per_user, tok_s_per_gpu, rank, rate_per_s, efficient (nothing listed beats it in "
        .. "both)" },
  },
}

local function layout(parts)
  local words = {}
  for i, part in ipairs(parts) do
    local kind = part.kind
    local shape = kind.degree > 1 and ("TP%d"):format(kind.degree) or ""
    if kind.stages > 1 then shape = shape .. ("PP%d"):format(kind.stages) end
    words[i] = ("%s%d x %s%s"):format(part.role and part.role .. " " or "", part.count, kind.entry.name,
      shape ~= "" and " " .. shape or "")
  end
  return table.concat(words, " + ")
end

-- Of answers of one token, which have no TPOT, whole answers.
local function tok_s_per_user(served) return 1 / (served.tpot_s.p50 or served.e2e_s.p50) end

local function row_of(search, result)
  local served, parts = result.found.served, result.parts
  local kind = parts[1].kind
  local num_engines = 0
  for _, part in ipairs(parts) do num_engines = num_engines + part.count end
  local plan = kind.one.plan
  local quality = plan and plan.quality
  return {
    rate_per_s = result.found.rate_per_s * result.times, scope = result.scope, limited_by = result.found.limited_by,
    note = result.found.note,
    high_per_s = result.found.high_per_s and result.found.high_per_s * result.times,
    layout = layout(parts), disaggregated = parts[1].role ~= nil, gpus = result.gpus, engines = num_engines,
    tensor_parallel = kind.degree, pipeline_parallel = kind.stages, bitwidth = kind.bitwidth,
    kv_bitwidth = kind.kv_bitwidth, engine = kind.engine,
    tok_s_per_gpu = served.throughput_tok_s * result.times / result.gpus,
    tok_s_per_user = tok_s_per_user(served), ttft_p99_s = served.ttft_s.p99, tpot_p99_s = served.tpot_s.p99,
    attainment_ratio = served.attainment_ratio, usd_per_h = result.usd_per_h,
    usd_per_million_tokens = result.usd_per_h
      and result.usd_per_h / 3600 / (served.throughput_tok_s * result.times) * 1e6,
    perplexity_increase = quality and quality.perplexity_increase.mid, quality = quality,
    source = kind.one.source, served = served, result = result, deployment = (engines.deploy(search, parts)),
  }
end

-- Better first, by the objective; then by the other measures, so that the order is the same every time.
local function better(objective)
  return function(a, b)
    local keys = {
      rate = { -a.rate_per_s, -b.rate_per_s },
      cost = { a.usd_per_h or math.huge, b.usd_per_h or math.huge },
      gpus = { a.gpus, b.gpus },
    }
    for _, key in ipairs { keys[objective], keys.gpus, keys.rate } do
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

local columns = {
  "rank", "layout", "bitwidth", "kv_bitwidth", "rate_per_s", "tok_s_per_gpu", "tok_s_per_user", "ttft_p99_s",
  "tpot_p99_s", "gpus", "usd_per_million_tokens", "perplexity_increase",
}

local function text(self)
  local rows = {}
  for i, row in ipairs(self) do rows[i] = row end
  local lines = { tostring(text_table(rows, { columns = columns })) }
  local first = self[1]
  lines[#lines + 1] = ("best: %s; above %.4g req/s: %s"):format(first.layout, first.rate_per_s,
    first.limited_by ~= "" and first.limited_by or "not looked at")
  if first.note ~= "" then lines[#lines + 1] = "note: " .. first.note end
  if self.aggregated_over_disaggregated then
    local words = "prefill and decode in one engine: %.2f times the rate per device of pools of their own"
    lines[#lines + 1] = words:format(self.aggregated_over_disaggregated)
  end
  lines[#lines + 1] = ("%d engines and deployments simulated, %d ruled out by their bounds; %s"):format(self.simulated,
    self.bounded, first.source)
  return table.concat(lines, "\n") .. "\n"
end

local methods = { frontier = frontier }
meta = { __index = methods, __tostring = text, __name = type_name }

-- Rate per device of the best that shares engines over that of the best that does not.
local function ratio(rows)
  local best = {}
  for _, row in ipairs(rows) do
    local key = row.disaggregated
    best[key] = math.max(best[key] or 0, row.rate_per_s / row.gpus)
  end
  return best[true] and best[false] and best[false] / best[true] or nil
end

--- Sorts what was found, has the first confirmed (and what becomes the first then), and makes the list; nil where
--- nothing is.
function M.list(search, found, confirm)
  local rows = {}
  for i, result in ipairs(found) do rows[i] = row_of(search, result) end
  local order = better(search.objective)
  repeat
    table.sort(rows, order)
    local result = rows[1].result
    local done = result.scope == "whole"
    if not done then
      confirm(result)
      if result.failed then table.remove(rows, 1) else rows[1] = row_of(search, result) end
    end
  until done or #rows == 0
  if #rows == 0 then return nil end
  rows.aggregated_over_disaggregated = ratio(rows)
  for rank = #rows, 1, -1 do
    rows[rank].rank, rows[rank].result = rank, nil
    if rank > search.limit then rows[rank] = nil end
  end
  rows.reasons, rows.simulated, rows.bounded = search.reasons, search.simulated, search.bounded
  rows.traffic_of = search.traffics.of
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
  local why = core.why("infeasible", "no deployment on this cluster keeps to the SLO: " .. table.concat(lines, "; "))
  why.reasons = search.reasons
  return why
end

return M
