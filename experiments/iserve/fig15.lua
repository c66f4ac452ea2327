-- Fig. 15: GPU time of profiling, AlpaServe's over iServe's: 1.22 to 4.60 times, 2.89 to 9.20 with all schemes (an
-- extension of iServe's authors), for GPT-J-6B and Falcon-40B.
--
-- iServe: fingerprints of one and two layers, (L2, M2). AlpaServe: the whole model in the shapes of its partitions, op
-- at most 4, each once; "full" the same for every scheme that can run. All time requests of the same two lengths. How
-- long a model takes to load is in no equation: a second column counts what each deployment reads at 2 GB/s (assumed)
-- on the GPUs that wait for it.
local iserve = require "lib.papers.iserve"
local ts = require "tessera"

local partitions = { { 1, 1 }, { 1, 2 }, { 2, 1 }, { 1, 4 }, { 2, 2 }, { 4, 1 }, { 1, 8 }, { 2, 4 }, { 4, 2 } }
local load_bytes_per_s = 2e9

-- GPU seconds of runs, and of loading them.
local function sum(runs)
  local timed, loaded = 0, 0
  for _, run in ipairs(runs) do
    if not run.refused then
      local gpus = run.tensor_parallel * run.pipeline_parallel
      timed = timed + run.gpu_s
      loaded = loaded + gpus * run.memory_bytes / load_bytes_per_s
    end
  end
  return timed, loaded
end

local function alpaserve(model, schemes)
  local list = {}
  for _, scheme in ipairs(schemes) do
    for i, shape in ipairs(partitions) do
      list[#list + 1] = { scheme = scheme, tensor_parallel = shape[1], pipeline_parallel = shape[2],
        num_gpus = shape[1] * shape[2], index = i }
    end
  end
  return ts.fingerprint { model = model, cluster = iserve.cluster, kernel_set = iserve.tensorrt_llm,
    configurations = list, latency_method = "L1", memory_method = "M3", stages = "priced",
    fingerprint_layers = { ts.model(model).num_layers - 1, ts.model(model).num_layers } }
end

local function of_whole(map, num_layers)
  local kept = {}
  for _, run in ipairs(map.runs) do
    if run.num_layers == num_layers then kept[#kept + 1] = run end
  end
  return kept
end

return ts.experiment {
  name = "iserve/fig15",
  doc = "GPU time of profiling: iServe, AlpaServe, and AlpaServe over all schemes",
  grid = { model = { "gpt-j-6b", "falcon-40b" } },
  quick = {},
  columns = { "iserve_runs", "iserve_gpu_s", "alpaserve_runs", "alpaserve_ratio", "full_runs", "full_ratio",
    "alpaserve_with_loading", "full_with_loading" },

  run = function(point)
    local num_layers = ts.model(point.model).num_layers
    local _, map = iserve.estimates(point.model)
    local own_s, own_load_s = sum(map.runs)
    local names = {}
    for i, card in ipairs(ts.schemes()) do names[i] = card.name end
    local one = of_whole(alpaserve(point.model, { "fp16" }), num_layers)
    local full = of_whole(alpaserve(point.model, names), num_layers)
    local one_s, one_load_s = sum(one)
    local full_s, full_load_s = sum(full)
    return { iserve_runs = map.cost.num_runs, iserve_gpu_s = own_s, alpaserve_runs = #one,
      alpaserve_ratio = one_s / own_s, full_runs = #full, full_ratio = full_s / own_s,
      alpaserve_with_loading = (one_s + one_load_s) / (own_s + own_load_s),
      full_with_loading = (full_s + full_load_s) / (own_s + own_load_s) }
  end,

  check = function(t)
    for _, model in ipairs { "gpt-j-6b", "falcon-40b" } do
      local function value(column)
        return function(at) return at({ model = model })[column] end
      end
      local small = model == "gpt-j-6b"
      iserve.within(t, model .. ": AlpaServe takes 1.22 to 4.60 times as much", value "alpaserve_ratio", 1, 7,
        not small and { why = "requests alone: a fingerprint of Falcon-40B is a 20th of it; with loading it is 0.9",
          here = { 7, 10 } } or nil)
      iserve.within(t, model .. ": AlpaServe (full) takes 2.89 to 9.20 times as much", value "full_ratio", 2, 14,
        { why = "twelve schemes in nine shapes are about twelve times AlpaServe's runs, not twice as printed; with "
          .. "loading it is 2.2 and 5.8", here = small and { 15, 27 } or { 45, 70 } })
      iserve.within(t, model .. ": the same with loading", value "full_with_loading", 2, 14)
    end
  end,
}
