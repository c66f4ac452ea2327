-- Weights that are quantised while they are read (the on-the-fly quantised loading of LLM-PQ and SplitQuant), against
-- loading everything first.
--
-- A worker of one stage loads a model of 16 bits at 3, 4, 8 and 16 bits, one layer after the other, the next one being
-- fetched meanwhile. Beside it stand a plain read of the file, and what loading everything first takes: a worker that
-- has all of it in 16 bits, and then makes fewer bits of them, which both are there at the end. That is put together of
-- two workers, one that loads 16 bits and one that loads fewer. "Cold" is a file that the system has forgotten (dd
-- iflag=nocache), "warm" one that it holds. The least of three times counts. The bounds were chosen before the first
-- run: twice the time of a plain cold read at 4 bits, and a peak of weights, cache and two layers of the source, beside
-- the 8 MiB of a process.
local ts = require "tessera"
local core = require "tessera.core"
local models = require "lib.runtime.models"

local repeats = 3
local process_bytes = 8 * 2 ^ 20

local function forget(file)
  os.execute(("dd if='%s' iflag=nocache count=0 status=none"):format(file:gsub("'", "'\\''")))
end

local function read(file)
  local start, handle = core.clock(), assert(io.open(file, "rb"))
  while handle:read(2 ^ 20) do end
  handle:close()
  return core.clock() - start
end

-- The least time of `run`, from a file that is cold or warm.
local function least(file, cold, run)
  local best = math.huge
  for _ = 1, repeats do
    if cold then forget(file) else read(file) end
    best = math.min(best, run())
  end
  return best
end

local function bits_of(count, bitwidth)
  local list = {}
  for i = 1, count do list[i] = bitwidth end
  return list
end

-- A worker that has loaded all of the model, on a core.
local function on_the_fly(folder, bitwidth, num_layers)
  local problem = ts.problem { model = folder, cluster = "1xA100-40G", bitwidths = { bitwidth },
    workload = { prompt_tokens = 1, output_tokens = 1, batch_size = 1 } }
  local plan = assert(ts.plan(problem, { planner = "manual", prefill_micro_batch_size = 1, decode_micro_batch_size = 1,
    stages = { { device = "A100-40G", bitwidths = bits_of(num_layers, bitwidth) } } }))
  local run = ts.execute(plan, { model = folder, prompts = { { 5 } }, max_tokens = 1, device = "cpu", threads = 1,
    progress = false })
  if run.state ~= "done" then core.raise("internal", run.why, "runtime/loading") end
  return run.stages[1]
end

local function measured(folder, bits)
  local file = folder .. "/model.safetensors"
  local handle = assert(io.open(file, "rb"))
  local source_bytes = handle:seek "end"
  handle:close()
  local shape = core.model(folder)
  local stage
  local function load(bitwidth)
    stage = on_the_fly(folder, bitwidth or bits, shape.num_layers)
    return stage.load_s
  end
  local row = { source_bytes = source_bytes, read_cold_s = least(file, true, function() return read(file) end),
    read_warm_s = least(file, false, function() return read(file) end) }
  row.first_s = least(file, false, function() return load(16) end)
  row.first_peak_bytes = stage.peak_bytes
  row.cold_s, row.warm_s = least(file, true, load), least(file, false, load)
  if bits < 16 then
    row.first_s, row.first_peak_bytes = row.first_s + row.warm_s, row.first_peak_bytes + stage.weight_bytes
  end
  row.cold_over_read = row.cold_s / row.read_cold_s
  row.weight_bytes, row.peak_bytes = stage.weight_bytes, stage.peak_bytes
  local layer_bytes = source_bytes * shape.layer_parameters / shape.num_parameters
  row.bound_bytes = stage.weight_bytes + stage.kv_cache_bytes + process_bytes + 2 * layer_bytes
  row.peak_over_bound = row.peak_bytes / row.bound_bytes
  return row
end

local shared = "times of a machine that others use"

return ts.experiment {
  name = "runtime/loading",
  doc = "Quantising layers while the next are read, against loading everything first",
  grid = { model = { models.small, models.shaped }, bits = { 3, 4, 8, 16 } },
  quick = { model = { models.small }, bits = { 4 } },
  columns = {
    "source_bytes", "weight_bytes", "read_cold_s", "read_warm_s", "cold_s", "warm_s", "first_s", "cold_over_read",
    "peak_bytes", "bound_bytes", "peak_over_bound", "first_peak_bytes",
  },
  notes = {
    "cold_s, warm_s: a worker of one thread until it has loaded; first: all of the source in memory before, warm",
    "bound: weights, cache, two layers of the source, 8 MiB",
  },
  time_limit_s = 600,

  run = function(point)
    return models.with(point.model, function(folder) return measured(folder, point.bits) end)
  end,

  check = function(t)
    t:expect_all { column = "peak_over_bound", where = {}, at_most = 1 }
    t:expect_all { column = "cold_over_read", where = { model = models.shaped, bits = 4 }, at_most = 2,
      may_differ = shared }
  end,
}
