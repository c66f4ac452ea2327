-- iServe's models on shared GPUs (section 8): sets of models that come one after the other, Azure's traces by
-- intervals, one request at a time per model (AlpaServe: per stage), each strategy on the same estimates.
--
-- How intervals of the traces were aggregated is not in print. 0.23 requests/s per GPU on 8 GPUs at factor 0.4 are
-- 4.6/s, 1.8 times what the code trace has: two neighbours become one. The conversation trace at that rate is several
-- times what eight GPUs can serve, and print has GPUs busy for 30 to 100 %: of its requests a sixteenth is left at
-- factor 1, chosen by how busy GPUs are, after times of requests had been seen. Answers are as long as in the trace.
-- Models come every five minutes; those of set (ii) every 150 s, as in Fig. 10, as the code trace then ends after 29
-- minutes. Limits, which AlpaServe goes by, are 5 times the time at least parallelism in FP16 (print: 2.5 to 7.5).
local iserve = require "lib.papers.iserve"
local measured = require "lib.measured"
local ts = require "tessera"

local M = {
  sets = {
    i = { "llama-2-70b", "falcon-40b", "falcon-40b", "llama-2-7b", every_s = 300 },
    ii = { "llama-2-13b", "llama-2-13b", "llama-2-7b", "llama-2-7b", "falcon-40b", "falcon-40b", "gpt-j-6b",
      "gpt-j-6b", every_s = 150 },
  },
  interval_s = 60, slo_scale = 5,
  traces = { code = { merge = 2, share = 1 }, conv = { merge = 1, share = 1 / 16 } },
  factors = { 0.1, 0.2, 0.3, 0.4 },
  baselines = { "alpaserve", "alpaserve_no_drop", "tensorrt_llm_tp", "tensorrt_llm_pp", "accelerate" },
}

--- Names of a set, a second model of a kind told apart.
function M.names(set)
  local names, seen = {}, {}
  for i, model in ipairs(set) do
    seen[model] = (seen[model] or 0) + 1
    names[i] = seen[model] == 1 and model or ("%s.%d"):format(model, seen[model])
  end
  return names
end

local function path_of(trace) return measured.path(("workloads/azure_2023_%s.csv"):format(trace)) end

--- Why a trace is not here; nil where all are.
function M.missing()
  for _, trace in ipairs { "code", "conv" } do
    local _, why = path_of(trace)
    if why then return why end
  end
  return nil
end

--- Requests of a trace at a rate factor, a model of the set drawn for each; among them so many for others, { { name =,
--- count = }, ... }. Nil and why where the trace is not here.
function M.traffic(trace, factor, set, others)
  local path, why = path_of(trace)
  if not path then return nil, why end
  local form, classes, all = M.traces[trace], {}, 0
  local share = factor * form.share
  for i, name in ipairs(M.names(set)) do
    classes[i] = { model = name, share = 1 / #set }
  end
  if others then
    local number = ts.traffic({ trace = path }).num_requests
    local own = share * number
    for _, other in ipairs(others) do all = all + other.count end
    share = (own + all) / number
    for _, class in ipairs(classes) do class.share = class.share * own / (own + all) end
    for _, other in ipairs(others) do
      classes[#classes + 1] = { model = other.name, share = other.count / (own + all) }
    end
  end
  return ts.traffic { trace = path, seed = 1, classes = classes,
    intervals = { interval_s = M.interval_s, merge = form.merge, factor = share } }
end

--- The rows of a model up to a tensor parallelism.
function M.rows(model, most_tp)
  local kept = {}
  for _, row in ipairs(iserve.estimates(model)) do
    if row.tensor_parallel <= (most_tp or math.huge) then kept[#kept + 1] = row end
  end
  return kept
end

--- The time of a request of a trace's mean length at least parallelism in FP16.
function M.slowest_s(model, traffic)
  local row = iserve.find(iserve.estimates(model), "fp16", 1, 1)
  return row.ttft_s + (traffic.mean_output_tokens - 1) * row.tpot_s
end

-- AlpaServe with buckets, as section 8.2 has it; in its public code they are an option, off.
local function strategy_of(name)
  return tostring(name):find "^alpaserve" and { name = name, use_separation = true } or name
end

--- Models of a set, one for each name. options: set, traffic, intent (or a function of the model's kind), most_tp (of
--- iServe), slo_scale, together (so many come at a time)
function M.models(options)
  local models, together = {}, options.together or 1
  for i, name in ipairs(M.names(options.set)) do
    local kind, intent = options.set[i], options.intent
    models[i] = { name = name, estimates = M.rows(kind, options.most_tp), num_layers = ts.model(kind).num_layers,
      intent = type(intent) == "function" and intent(kind) or intent,
      at_s = math.floor((i - 1) / together) * options.set.every_s,
      slo = { e2e_s = (options.slo_scale or M.slo_scale) * M.slowest_s(kind, options.traffic) } }
  end
  return models
end

--- Serves them. options: those of M.models, strategy, and `besides`, models beside those of the set
function M.serve(options)
  local models = M.models(options)
  for _, model in ipairs(options.besides or {}) do models[#models + 1] = model end
  return ts.serve(ts.deployment { cluster = iserve.cluster, engine = { max_num_seqs = 1 }, models = models,
    strategy = strategy_of(options.strategy) }, options.traffic)
end

--- What figures show of a run.
function M.row(served)
  local busy = 0
  for _, gpu in ipairs(served.gpus) do busy = busy + gpu.busy_ratio / #served.gpus end
  return { p50_s = served.e2e_s.p50, p95_s = served.e2e_s.p95, p99_s = served.e2e_s.p99, mean_s = served.e2e_s.mean,
    answered = served.e2e_s.n, busy_ratio = busy, gpus = served.num_gpus_used,
    configurations = M.configurations(served), memory_gb = served.memory_bytes / 1e9, gpu_s = served.gpu_s,
    cost_gb_s = served.cost_byte_s and served.cost_byte_s / 1e9 }
end

--- The share of requests within their limit, of those that came when their model had come: those of a model that got no
--- place are missed, too.
function M.attainment(served, traffic, options)
  local from, met, all = {}, 0, 0
  for i, model in ipairs(M.models(options)) do
    local own = served.models[i]
    from[model.name] = model.at_s
    if own.attainment_ratio then met = met + own.attainment_ratio * (own.num_requests - own.num_unplaced) end
  end
  for _, request in ipairs(traffic:requests()) do
    if from[request.model] and request.arrival_s >= from[request.model] then all = all + 1 end
  end
  return met / all
end

--- "fp16 (4, 1), not placed, ..." in the order of the set.
function M.configurations(served)
  local list = {}
  for i, model in ipairs(served.models) do
    list[i] = model.configuration and iserve.name(model.configuration) or model.placed and "by hand" or "not placed"
  end
  return table.concat(list, ", ")
end

return M
