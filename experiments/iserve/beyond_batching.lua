-- Beyond the paper: what is left of iServe's gain against a server with continuous batching. One model, and the four of
-- set (i), on eight A6000, from loads at which hardly two requests meet up to saturation of the batching server.
--
-- iServe: its latency intent, one request at a time for each model, GPUs shared; TensorRT-LLM_TP beside it is what
-- print compares with. vLLM: what ts.plan_serving lists for each model on a part of the GPUs of its own (of all parts
-- of 1, 2, 4 and 8 those with the largest rate that every model can have), for an SLO of five times the time of FP16 at
-- least parallelism, at any bits, as iServe; of the list at each load what has the lowest median. All on the same
-- kernels, so that batching alone differs. Load is the rate over the largest that vLLM holds.
--
-- Bounds were set before any run; iServe's gain over FP16 at light load was known from beyond_quality.
local iserve = require "lib.papers.iserve"
local serving = require "lib.papers.iserve_serving"
local median = require "tessera.median"
local ts = require "tessera"

local cases = { ["llama-2-7b"] = { "llama-2-7b" }, ["llama-2-70b"] = { "llama-2-70b" }, ["set i"] = serving.sets.i }
local loads = { 0.01, 0.03, 0.1, 0.3, 0.6, 0.9 }
local sizes = { 1, 2, 4, 8 }
local clusters = { [1] = "1xA6000", [2] = "2xA6000@bridges", [4] = "4xA6000@bridges", [8] = iserve.cluster }
local requests_of_model, slo_scale = 200, 5

local function slo_of(kind)
  return slo_scale * iserve.find(iserve.estimates(kind), "fp16", 1, 1).latency_s
end

local listed = {} -- by model and GPUs

-- What plan_serving lists, the largest rate first; empty where nothing keeps to the SLO.
local function list_of(kind, num_gpus)
  local key = kind .. num_gpus
  listed[key] = listed[key] or ts.plan_serving {
    model = kind, cluster = clusters[num_gpus], kernel_set = iserve.tensorrt_llm, bitwidths = { 16, 8, 4 },
    slo = { e2e_s = { p99 = slo_of(kind) } }, disaggregated = false, limit = 12, traffic = { rate_per_s = 1, seed = 1,
      num_requests = requests_of_model, prompt_tokens = iserve.prompt_tokens, output_tokens = iserve.output_tokens },
  } or {}
  return listed[key]
end

local function largest_rate(list)
  local most = 0
  for _, row in ipairs(list) do most = math.max(most, row.rate_per_s) end
  return most
end

-- GPUs of each model, of the parts that there are, with the largest rate that all can have; and that rate.
local function parts_of(models)
  local best, best_rate = nil, 0
  local function choose(i, left, parts, rate)
    if i > #models then
      if rate > best_rate then best, best_rate = { unpack(parts) }, rate end
      return
    end
    for _, size in ipairs(sizes) do
      if size <= left - (#models - i) then
        parts[i] = size
        choose(i + 1, left - size, parts, math.min(rate, largest_rate(list_of(models[i], size))))
      end
    end
  end
  choose(1, 8, {}, math.huge)
  return best, best_rate
end

local planned = {} -- by case

local function plan_of(case)
  if not planned[case] then planned[case] = { parts_of(cases[case]) } end
  return unpack(planned[case])
end

local function traffic_of(rate_per_s, num_requests, classes)
  return ts.traffic { rate_per_s = rate_per_s, num_requests = num_requests, seed = 1, classes = classes,
    prompt_tokens = iserve.prompt_tokens, output_tokens = iserve.output_tokens }
end

-- Median and p95 of times, and what serves them.
local function by_vllm(models, parts, rate_per_s)
  local all, layouts = {}, {}
  for i, kind in ipairs(models) do
    local best, best_row
    for _, row in ipairs(list_of(kind, parts[i])) do
      local served = ts.serve(row.deployment, traffic_of(rate_per_s / #models, requests_of_model))
      if not best or served.e2e_s.p50 < best.e2e_s.p50 then best, best_row = served, row end
    end
    for _, request in ipairs(best:requests()) do all[#all + 1] = request.e2e_s end
    layouts[i] = ("%s, %d bits"):format(best_row.layout, best_row.bitwidth)
  end
  table.sort(all)
  return median(all), all[math.ceil(0.95 * #all)], table.concat(layouts, "; ")
end

local function one_by_one(models, rate_per_s, strategy)
  local classes, list = {}, {}
  for i, name in ipairs(serving.names(models)) do
    classes[i] = { share = 1 / #models, model = name }
    list[i] = { name = name, estimates = iserve.estimates(models[i]), num_layers = ts.model(models[i]).num_layers,
      intent = { minimise = "latency" } }
  end
  return ts.serve(ts.deployment { cluster = iserve.cluster, engine = { max_num_seqs = 1 }, models = list,
    strategy = strategy }, traffic_of(rate_per_s, requests_of_model * #models, classes))
end

return ts.experiment {
  name = "iserve/beyond_batching",
  doc = "iServe against continuous batching, up to saturation",
  grid = { case = { "llama-2-7b", "llama-2-70b", "set i" }, load = loads },
  quick = { case = { "llama-2-70b" } },
  columns = { "rate_per_s", "iserve_p50_s", "tp_p50_s", "vllm_p50_s", "gain_over_tp", "gain_over_vllm",
    "iserve_p95_s", "vllm_p95_s", "iserve", "vllm" },
  notes = {
    "gain: 1 less iServe's median over the other's; below 0 it loses. tp: TensorRT-LLM_TP, FP16, one at a time",
    ("%d requests a model: where one at a time is too slow for the rate its times grow with their number"):format(
      requests_of_model),
  },

  run = function(point)
    local models = cases[point.case]
    local parts, most = plan_of(point.case)
    local rate_per_s = point.load * most * #models
    local own, tp = one_by_one(models, rate_per_s, "iserve"), one_by_one(models, rate_per_s, "tensorrt_llm_tp")
    local vllm_s, vllm_p95_s, layouts = by_vllm(models, parts, rate_per_s)
    return {
      rate_per_s = rate_per_s, iserve_p50_s = own.e2e_s.p50, tp_p50_s = tp.e2e_s.p50, vllm_p50_s = vllm_s,
      gain_over_tp = 1 - own.e2e_s.p50 / tp.e2e_s.p50, gain_over_vllm = 1 - own.e2e_s.p50 / vllm_s,
      iserve_p95_s = own.e2e_s.p95, vllm_p95_s = vllm_p95_s, iserve = serving.configurations(own), vllm = layouts,
    }
  end,

  check = function(t)
    for _, case in ipairs { "llama-2-7b", "llama-2-70b", "set i" } do
      local function over_vllm(load)
        return function(at)
          local row = at { case = case, load = load }
          return row.iserve_p50_s / row.vllm_p50_s
        end
      end
      iserve.within(t, case .. ", 1 % of saturation: iServe's median over vLLM's", over_vllm(0.01), 0.6, 1.2)
      iserve.within(t, case .. ", 30 %: iServe's median over vLLM's", over_vllm(0.3), 3, 1000)
      iserve.within(t, case .. ", 1 %: iServe's median below TensorRT-LLM_TP's by", function(at)
        return at({ case = case, load = 0.01 }).gain_over_tp
      end, 0.15, 0.6)
      iserve.within(t, case .. ": the largest load at which iServe's median is within 5 % of vLLM's", function(at)
        local most = 0
        for _, load in ipairs(loads) do
          if over_vllm(load)(at) <= 1.05 then most = load end
        end
        return most
      end, 0, 0.1)
    end
  end,
  plots = { { kind = "lines", x = "load", y = "gain_over_vllm", by = "case" } },
}
