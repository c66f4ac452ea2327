-- Fig. 20 of the supplement: what profiling on GPUs that serve costs those who are served: Llama-2-70B's fingerprints
-- run on them while the eight models of set (ii) answer the conversation trace, at rate factors up to 2.
--
-- Print: while GPUs are busy for less than 30 % of the time 4.00 points of the requests within their limit are lost;
-- above attainment falls below 90 %. A run of a fingerprint is a request for a model of its own, on the first GPUs,
-- which serve; five runs of each deployment that is timed come evenly among the requests. Loading a fingerprint takes
-- no GPU's time. Limits are 5 times the time at least parallelism, as is the intent. Bounds were set before any run.
local iserve = require "lib.papers.iserve"
local serving = require "lib.papers.iserve_serving"
local ts = require "tessera"

local set, repeats = serving.sets.ii, 5
local factors = { 0.25, 0.5, 1, 1.5, 2 }

-- Deployments that are timed by tensor parallelism, and the mean time of a run.
local function runs()
  local _, map = iserve.estimates "llama-2-70b"
  local found = {}
  for _, run in ipairs(map.runs) do
    if not run.refused and #run.latency_s > 0 then
      local tp = run.tensor_parallel
      local own = found[tp] or { count = 0, run_s = 0, memory_bytes = 0 }
      found[tp], own.count = own, own.count + 1
      for _, seconds in ipairs(run.latency_s) do own.run_s = own.run_s + seconds end
      own.memory_bytes = math.max(own.memory_bytes, run.memory_bytes)
    end
  end
  return found
end

-- Models whose requests are runs. Where nobody profiles they come when all is over: the requests are the same.
local function profilers(profiling)
  local models, counts = {}, {}
  local timed = runs()
  for _, tp in ipairs { 1, 2, 4, 8 } do
    local own, devices = timed[tp], {}
    for i = 1, tp do devices[i] = i - 1 end
    models[#models + 1] = { name = "profile TP " .. tp, devices = devices, at_s = profiling and 0 or 8e6,
      memory_bytes = profiling and own.memory_bytes or 0,
      step_cost = { ttft_s = own.run_s / own.count, tpot_s = 1e-9 } }
    counts[#counts + 1] = own.count * repeats
  end
  return models, counts
end

return ts.experiment {
  name = "iserve/fig20",
  doc = "Requests within their limit while another model is profiled on the same GPUs, by load",
  grid = { factor = factors, profiling = { "no", "yes" } },
  quick = {},
  columns = { "load", "attainment", "p95_s", "runs" },
  notes = { "load: busy share of the GPUs in use; runs: of fingerprints" },

  run = function(point)
    local models, counts = profilers(point.profiling == "yes")
    local besides = {}
    for i, model in ipairs(models) do besides[i] = { name = model.name, count = counts[i] } end
    local traffic, why = serving.traffic("conv", point.factor, set, besides)
    if not traffic then return { status = why.code, message = why.message } end
    local options = { set = set, traffic = traffic, strategy = "iserve", besides = models }
    function options.intent(kind)
      return { latency_s = serving.slo_scale * iserve.find(iserve.estimates(kind), "fp16", 1, 1).latency_s }
    end
    local served = serving.serve(options)
    local row = serving.row(served)
    row.attainment, row.runs = serving.attainment(served, traffic, options), 0
    for i = #set + 1, #served.models do row.runs = row.runs + served.models[i].num_finished end
    row.load = row.busy_ratio * #served.gpus / served.num_gpus_used
    return row
  end,

  check = function(t)
    local missing = serving.missing()
    if missing then return t:skip("not checked: " .. missing.message) end
    local function row(at, factor, profiling) return at { factor = factor, profiling = profiling } end
    -- The least or most of value(factor) over factors whose load is below 30 %, or is not.
    local function extreme(at, low, choose, value)
      local found
      for _, factor in ipairs(factors) do
        if (row(at, factor, "no").load < 0.3) == low then found = choose(found or value(factor), value(factor)) end
      end
      return found
    end
    iserve.within(t, "load below 30 %: least share within the limit while profiling", function(at)
      return extreme(at, true, math.min, function(factor) return row(at, factor, "yes").attainment end)
    end, 0.9, 1)
    iserve.within(t, "load below 30 %: most that profiling takes of it, print 0.04", function(at)
      return extreme(at, true, math.max, function(factor)
        return row(at, factor, "no").attainment - row(at, factor, "yes").attainment
      end)
    end, -0.01, 0.06)
    iserve.within(t, "load above: least share while profiling, print below 0.9", function(at)
      return extreme(at, false, math.min, function(factor) return row(at, factor, "yes").attainment end)
    end, 0, 0.9)
  end,
  plots = { { kind = "lines", x = "load", y = "attainment", by = "profiling" } },
}
