-- iServe's models on shared GPUs (section 8): sets of models that come every five minutes, Azure's traces by intervals,
-- one request at a time per model, each strategy on the same estimates.
--
-- How intervals of the traces were aggregated is not in print. 0.23 requests/s per GPU on 8 GPUs at factor 0.4 are
-- 4.6/s, 1.8 times what the code trace has: two neighbours become one. The conversation trace at that rate is several
-- times what eight GPUs can serve, and print has GPUs busy for 30 to 100 %: of its requests a sixteenth is left at
-- factor 1, chosen by how busy GPUs are, after times of requests had been seen. Answers are as long as in the trace.
local iserve = require "lib.papers.iserve"
local measured = require "lib.measured"
local ts = require "tessera"

local M = {
  sets = {
    i = { "llama-2-70b", "falcon-40b", "falcon-40b", "llama-2-7b" },
    ii = { "llama-2-13b", "llama-2-13b", "llama-2-7b", "llama-2-7b", "falcon-40b", "falcon-40b", "gpt-j-6b",
      "gpt-j-6b" },
  },
  every_s = 300, interval_s = 60,
  traces = { code = { merge = 2, share = 1 }, conv = { merge = 1, share = 1 / 16 } },
  factors = { 0.1, 0.2, 0.3, 0.4 },
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

--- Requests of a trace at a rate factor, a model drawn for each; nil and why where the trace is not here.
function M.traffic(trace, factor, set)
  local path, why = path_of(trace)
  if not path then return nil, why end
  local form, classes = M.traces[trace], {}
  for i, name in ipairs(M.names(set)) do classes[i] = { share = 1 / #set, model = name } end
  return ts.traffic { trace = path, seed = 1, classes = classes,
    intervals = { interval_s = M.interval_s, merge = form.merge, factor = factor * form.share } }
end

--- The rows of a model up to a tensor parallelism.
function M.rows(model, most_tp)
  local kept = {}
  for _, row in ipairs(iserve.estimates(model)) do
    if row.tensor_parallel <= (most_tp or math.huge) then kept[#kept + 1] = row end
  end
  return kept
end

--- Serves them. options: set, traffic, strategy, intent, most_tp (of iServe), slo_scale (of the time at least
--- parallelism, unquantised), every_s
function M.serve(options)
  local models = {}
  for i, name in ipairs(M.names(options.set)) do
    local kind = options.set[i]
    local row = iserve.find(iserve.estimates(kind), "fp16", 1, 1)
    models[i] = { name = name, estimates = M.rows(kind, options.most_tp), num_layers = ts.model(kind).num_layers,
      intent = options.intent, at_s = (i - 1) * (options.every_s or M.every_s),
      slo = options.slo_scale and { e2e_s = options.slo_scale
        * (row.ttft_s + (options.traffic.mean_output_tokens - 1) * row.tpot_s) } or nil }
  end
  return ts.serve(ts.deployment { cluster = iserve.cluster, engine = { max_num_seqs = 1 }, models = models,
    strategy = options.strategy }, options.traffic)
end

--- "fp16 (4, 1), not placed, ..." in the order of the set.
function M.configurations(served)
  local list = {}
  for i, model in ipairs(served.models) do
    list[i] = model.placed and iserve.name(model.configuration) or "not placed"
  end
  return table.concat(list, ", ")
end

return M
