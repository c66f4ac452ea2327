-- Beyond the paper: how far iServe's greedy placement is from the best static one, found by enumeration
-- (lib/papers/iserve_static.lua). Two, three and four models on four A6000, two and three on eight (four there have
-- 25,261 unlike placements: too many), one request at a time each, all weights and caches in the scheme that every
-- intent takes, so that places and shapes alone differ.
--
-- iServe's models come one after the other, every five minutes, while requests come; where they lie in the end is then
-- served from the start, on the requests on which the best static placement was chosen: it knows them, iServe does not.
-- Load is that of all GPUs if every model ran in its least GPU time. Bounds were set before any run: at 10 % hardly
-- anything waits and iServe's latency intent takes what is fastest; at 70 % GPUs that all models share are full.
-- Three minutes of two cores, seconds with --quick.
local iserve = require "lib.papers.iserve"
local static = require "lib.papers.iserve_static"
local ts = require "tessera"

local sets = {
  two = { "falcon-40b", "llama-2-7b" },
  three = { "llama-2-70b", "falcon-40b", "llama-2-7b" },
  four = { "llama-2-70b", "falcon-40b", "falcon-40b", "llama-2-7b" },
}
local clusters = { ["4"] = "4xA6000@bridges", ["8"] = iserve.cluster }
local cases = { "two on 4", "three on 4", "four on 4", "two on 8", "three on 8" }
local scheme, every_s = "int4_kv8", 300

local function models_of(set, cluster)
  local models = {}
  for i, kind in ipairs(set) do
    local rows = {}
    for _, row in ipairs(iserve.estimates(kind, { cluster = cluster })) do
      if row.scheme == scheme then rows[#rows + 1] = row end
    end
    models[i] = { name = ("%s.%d"):format(kind, i), kind = kind, rows = rows, num_layers = ts.model(kind).num_layers }
  end
  return models
end

local function rate_of(models, num_gpus, load)
  local gpu_s = 0
  for _, model in ipairs(models) do gpu_s = gpu_s + iserve.ends(model.rows, "gpu_s").gpu_s / #models end
  return load * num_gpus / gpu_s
end

local function traffic_of(models, rate_per_s, requests)
  local classes = {}
  for i, model in ipairs(models) do classes[i] = { share = 1 / #models, model = model.name } end
  return ts.traffic { rate_per_s = rate_per_s, num_requests = requests, seed = 1, classes = classes,
    prompt_tokens = iserve.prompt_tokens, output_tokens = iserve.output_tokens }
end

-- Where iServe's models lie when all have come.
local function greedy(models, cluster, rate_per_s, intent)
  local list = {}
  for i, model in ipairs(models) do
    list[i] = { name = model.name, estimates = model.rows, num_layers = model.num_layers,
      intent = { minimise = intent }, at_s = (i - 1) * every_s }
  end
  local traffic = traffic_of(models, rate_per_s, math.ceil(rate_per_s * #models * every_s))
  local served = ts.serve(ts.deployment { cluster = cluster, engine = { max_num_seqs = 1 }, models = list }, traffic,
    { record = false })
  local placement = {}
  for i, model in ipairs(served.models) do
    if not model.placed then return nil, model.why end
    placement[i] = { row = model.configuration, devices = model.devices, layers = model.layers }
  end
  return placement
end

-- "(4, 1) on 0-3, (1, 1) on 3"
local function words(placement)
  local list = {}
  for i, way in ipairs(placement) do
    list[i] = ("(%d, %d) on %s"):format(way.row.tensor_parallel, way.row.pipeline_parallel,
      table.concat(way.devices, " "))
  end
  return table.concat(list, ", ")
end

return ts.experiment {
  name = "iserve/beyond_static",
  doc = "iServe's greedy placement against the best static one",
  grid = { case = cases, load = { 0.1, 0.4, 0.7 } },
  quick = { case = { "two on 4", "three on 4" } },
  columns = { "best_s", "latency_ratio", "cost_ratio", "placements", "simulated", "best", "by_latency", "by_cost" },
  notes = {
    "best_s: mean time of requests under the best static placement; ratios: iServe's by its latency and cost intents "
      .. "over it",
    ("%s; (TP, PP) on GPUs, by model; placements: those with room, unlike but for the names of GPUs"):format(scheme),
  },

  run = function(point, context)
    local set, count = point.case:match "^(%l+) on (%d)$"
    local cluster, num_gpus = clusters[count], tonumber(count)
    local models = models_of(sets[set], cluster)
    local rate_per_s = rate_of(models, num_gpus, point.load)
    local traffic, counts, result, found = traffic_of(models, rate_per_s, context.quick and 60 or 200),
      {}, {}, {}
    for _, intent in ipairs { "latency", "cost" } do
      local placement, why = greedy(models, cluster, rate_per_s, intent)
      if not placement then return { status = "infeasible", message = why } end
      local served = static.serve(models, cluster, placement, traffic)
      for i, model in ipairs(served.models) do counts[i] = model.num_requests end
      found[intent], result["by_" .. intent] = served.e2e_s.mean, words(placement)
    end
    local best
    best, result.best_s, result.placements, result.simulated = static.best(models, cluster, num_gpus,
      ts.cluster(cluster).devices[1].memory_bytes, traffic, counts)
    result.best = words(best)
    for intent, seconds in pairs(found) do result[intent .. "_ratio"] = seconds / result.best_s end
    return result
  end,

  check = function(t)
    local function ends(load, column, pick)
      return function(_, rows)
        local value
        for _, row in ipairs(rows) do
          if row.point.load == load then value = value and pick(value, row[column]) or row[column] end
        end
        return value
      end
    end
    local full = "TP 8, the fastest for one request, takes so much GPU time that GPUs which all share are full: the "
      .. "latency intent does not look at load, and the least GPU time per request serves all soonest"
    local misses = { [0.4] = { why = full, here = { 10, 25 } }, [0.7] = { why = full, here = { 10, 15 } } }
    for _, case in ipairs { { 0.1, 1.5 }, { 0.4, 3 }, { 0.7, 10 } } do
      local load, most = case[1], case[2]
      iserve.within(t, ("load %g: the latency intent over the best, the least"):format(load), ends(load,
        "latency_ratio", math.min), 1 - 1e-9, most)
      iserve.within(t, ("load %g: the latency intent over the best, the most"):format(load), ends(load,
        "latency_ratio", math.max), load < 0.7 and 1 - 1e-9 or 1.1, most, misses[load])
      iserve.within(t, ("load %g: the cost intent over the best, the most"):format(load), ends(load, "cost_ratio",
        math.max), 1.02, most)
    end
  end,
}
