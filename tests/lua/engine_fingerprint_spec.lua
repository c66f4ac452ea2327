-- ts.fingerprint by the engine: the first layers of a model, really run here, say what the whole takes.

local host = require "tessera.host"
local support = require "support"
local ts = require "tessera"

local small = host.installation.datasets_dir .. "/language_models/grammar-opt-5m"
local ok, why = pcall(ts.language_model, { path = small, threads = 1, progress = false })
local missing = not ok and why.code == "unsupported" and why.message:find("quickstart.sh", 1, true) and why.message
if not ok and not missing then error(why, 0) end
local function it_runs(what, fn)
  if missing then
    pending(what .. ": " .. missing)
  else
    it(what, fn)
  end
end

local engine = { threads = 1, counted = "processor" }

local function fingerprint(given)
  local options = { model = small, measure = "engine", engine = engine, prompt_tokens = 32, output_tokens = { 4, 16 },
    repeats = 3 }
  for key, value in pairs(given) do options[key] = value end
  return ts.fingerprint(options)
end

local function space(model, schemes, most)
  return ts.configurations { model = model, num_gpus = 4, tensor_parallel = most and { 1, most } or { 1 },
    pipeline_parallel = { 1, 2 }, schemes = schemes }
end

local schemes = { "fp16", "fp16_kv8", "int8", "int8_kv8", "int4", "int4_kv8" }

describe("a fingerprint by the engine", function()
  it_runs("says to the byte what memory the whole model takes, in one stage and in two", function()
    local configurations = space(small, schemes)
    local two = fingerprint { configurations = configurations, repeats = 1 }
    local whole = fingerprint { configurations = configurations, repeats = 1, latency_method = "L1",
      memory_method = "M1" }
    local every = fingerprint { configurations = configurations, repeats = 1, memory_method = "M3" }
    local rows, of_whole, of_every = two:estimates(), whole:estimates(), every:estimates()
    assert.equal(12, #rows)
    for i, row in ipairs(rows) do
      assert.is_near(1, row.memory_bytes / of_whole[i].memory_bytes, 1e-9)
      assert.is_near(1, row.memory_bytes / of_every[i].memory_bytes, 1e-9)
      assert.is_true(row.refused ~= nil or row.provenance == "measured")
    end
    assert.is_true(rows[1].memory_bytes > rows[3].memory_bytes and rows[5].memory_bytes > rows[9].memory_bytes)
    assert.is_true(rows[2].memory_bytes > rows[1].memory_bytes, "a second stage has its own buffers")
  end)

  it_runs("fills runs and costs, and says which ranks were emulated", function()
    local map = fingerprint { configurations = space("smollm2-135m", { "int4" }, 3), model = "smollm2-135m" }
    assert.equal(6, map.cost.num_runs)
    local wall_s, gpu_s = 0, 0
    for _, run in ipairs(map.runs) do
      assert.equal(run.tensor_parallel > 1 and "emulated" or "measured", run.provenance)
      assert.equal(run.memory_bytes, run.weight_bytes + run.kv_cache_bytes + run.scratch_bytes)
      assert.is_true(run.weight_bytes > 49152 * 576 * 2, "the head in 16 bits at the least")
      if #run.output_tokens > 0 then
        assert.is_true(run.latency_s[2] > run.latency_s[1] and run.latency_s[1] > 0)
        assert.is_true(run.wall_s * run.tensor_parallel >= run.gpu_s * 0.5)
      end
      wall_s, gpu_s = wall_s + run.wall_s, gpu_s + run.gpu_s
    end
    assert.is_near(wall_s, map.cost.wall_s, 1e-9)
    assert.is_near(gpu_s, map.cost.gpu_s, 1e-9)
    for _, row in ipairs(map:estimates { output_tokens = 16 }) do
      if not row.refused then
        assert.is_near(2 * row.error * row.latency_s, row.latency_high_s - row.latency_s, 1e-9)
        assert.is_near(row.latency_s - row.latency_low_s, row.latency_high_s - row.latency_s, 1e-9)
        assert.equal(row.tensor_parallel > 1 and "emulated" or "measured", row.provenance)
      end
    end
  end)

  it_runs("says which shapes cannot run, and goes on", function()
    local map = fingerprint { configurations = space("smollm2-135m", { "gptq4" }, 3), model = "smollm2-135m",
      repeats = 1 }
    for _, row in ipairs(map:estimates { output_tokens = 16 }) do
      if row.tensor_parallel == 3 then
        assert.truthy(row.refused:find("cut groups of 128", 1, true), row.refused)
      else -- one repeat beside other programs may find no slope over the answer's length: only its time is refused
        assert.is_true(row.memory_bytes > 49152 * 576 * 2)
      end
    end
  end)

  it_runs("refuses what it cannot run", function()
    local configurations = space(small, { "fp16" })
    local function given(options)
      options.configurations = options.configurations or configurations
      return function() fingerprint(options) end
    end
    support.raises("invalid_argument", "did you mean 'engine'", given { measure = "engines" })
    support.raises("invalid_argument", "did you mean 'threads'", given { engine = { thread = 1 } })
    support.raises("invalid_argument", "threads = 1", given { engine = { counted = "processor" } })
    support.raises("out_of_range", "fit into the context", given { prompt_tokens = 250, output_tokens = { 4, 16 } })
    support.raises("out_of_range", "num_layers", given { fingerprint_layers = { 1, 99 } })
    support.raises("unsupported", "ts.prune_model", given { configurations = space(small, { "wanda_2_4" }) })
    support.raises("unsupported", "other matrices", given { model = "mixtral-8x7b" })
    support.raises("invalid_argument", "the engine runs a model", function()
      ts.fingerprint { num_layers = 4, configurations = configurations, measure = "engine" }
    end)
  end)
end)
