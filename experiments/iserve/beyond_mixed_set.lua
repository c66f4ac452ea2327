-- Beyond the paper: the eight models of set (ii), one every five minutes for the cost intent, on four A6000, on four
-- V100 and on both, by iServe with a fingerprint of each type. beyond_mixed says what one request gains by the second
-- type: nothing; here it is room and GPUs that nobody else has.
--
-- Bounds were set before any run: twice the GPUs, of about equal speed, at the same load. What came out is that iServe
-- uses one type alone: its ranking does not look at load.
local iserve = require "lib.papers.iserve"
local serving = require "lib.papers.iserve_serving"
local ts = require "tessera"

local every_s = 300 -- a model comes
local clusters = {
  ["A6000"] = "(4xA6000)", ["V100"] = "(4xV100-32G)", ["both"] = "(4xA6000) + (4xV100-32G)",
}

local function models_of(cluster)
  local models = {}
  for i, name in ipairs(serving.names(serving.sets.ii)) do
    local kind = serving.sets.ii[i]
    models[i] = { name = name, estimates = iserve.estimates(kind, { cluster = cluster }),
      num_layers = ts.model(kind).num_layers, intent = { minimise = "cost" }, at_s = (i - 1) * every_s }
  end
  return models
end

-- "4 on A6000, 3 on V100-32G, 1 on both"
local function where(served)
  local counts, names = {}, {}
  for _, model in ipairs(served.models) do
    local types, seen = model.placed and model.configuration.device_types or { "nothing" }, {}
    for _, name in ipairs(types) do seen[#seen + (seen[#seen] ~= name and 1 or 0)] = name end
    local name = table.concat(seen, " + ")
    if not counts[name] then names[#names + 1] = name end
    counts[name] = (counts[name] or 0) + 1
  end
  table.sort(names)
  for i, name in ipairs(names) do names[i] = ("%d on %s"):format(counts[name], name) end
  return table.concat(names, ", ")
end

return ts.experiment {
  name = "iserve/beyond_mixed_set",
  doc = "Eight models on GPUs of two types, alone and together",
  grid = { gpus = { "A6000", "V100", "both" }, factor = { 0.1, 0.4 } },
  quick = {},
  columns = { "p50_s", "p95_s", "placed", "answered", "gpus_used", "where" },
  notes = { "code trace by intervals; placed: models; answered: requests, of models that are not placed none" },

  run = function(point)
    local traffic, why = serving.traffic("code", point.factor, serving.sets.ii)
    if not traffic then return { status = why.code, message = why.message } end
    local cluster, placed = clusters[point.gpus], 0
    local served = ts.serve(ts.deployment { cluster = cluster, engine = { max_num_seqs = 1 },
      models = models_of(cluster) }, traffic)
    for _, model in ipairs(served.models) do placed = placed + (model.placed and 1 or 0) end
    return { p50_s = served.e2e_s.p50, p95_s = served.e2e_s.p95, placed = placed, answered = served.e2e_s.n,
      gpus_used = served.num_gpus_used, where = where(served) }
  end,

  check = function(t)
    local missing = serving.missing()
    if missing then return t:skip("not checked: " .. missing.message) end
    for _, factor in ipairs { 0.1, 0.4 } do
      local function both_over(alone, column)
        return function(at)
          return at({ gpus = "both", factor = factor })[column] / at({ gpus = alone, factor = factor })[column]
        end
      end
      local miss = { why = "the first configuration that has room is on an A6000 for each of the eight, however "
        .. "loaded: the V100s stay idle", here = { 1.05, 1.3 } }
      for _, alone in ipairs { "A6000", "V100" } do
        iserve.within(t, ("factor %g: median on both over %s alone"):format(factor, alone), both_over(alone, "p50_s"),
          0.3, 1.05, alone == "V100" and miss or nil)
        iserve.within(t, ("factor %g: p95 on both over %s alone"):format(factor, alone), both_over(alone, "p95_s"), 0.1,
          1)
      end
      iserve.within(t, ("factor %g: models placed on both"):format(factor), function(at)
        return at({ gpus = "both", factor = factor }).placed
      end, 8, 8)
    end
  end,
}
