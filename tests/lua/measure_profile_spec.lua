-- ts.detect { cpu = true }, ts.measure_profile and their verbs: shares of this CPU as devices, layers measured on them,
-- and plans by what was measured. Nothing here says how long anything takes.

local cpu = require "tessera.devices.detect.cpu"
local core = require "tessera.core"
local detect_verb = require "tessera.cli.detect"
local grid = require "tessera.devices.measured_grid"
local host = require "tessera.host"
local measure = require "tessera.measure"
local profile_verb = require "tessera.cli.profile"
local support = require "support"
local ts = require "tessera"
local raises = support.raises

local own = host.installation.datasets_dir .. "/language_models/grammar-opt-5m"
local ok, why = pcall(ts.language_model, { path = own, threads = 1, progress = false })
local missing = not ok and why.code == "unsupported" and why.message:find("quickstart.sh", 1, true) and why.message
if not ok and not missing then error(why, 0) end
local function it_runs(what, fn)
  if missing then
    pending(what .. ": " .. missing)
  else
    it(what, fn)
  end
end

-- A test that gets a folder of its own.
local function with_own_folder(fn)
  return function()
    local folder = support.temporary() .. "_folder"
    host.make_folder(folder)
    local done, failure = pcall(fn, folder)
    os.execute("rm -rf " .. folder)
    if not done then error(failure, 0) end
  end
end

local quick = { quick = true, load = "none", repeats = 2, least_s = 0, progress = false }

local function measured(changes)
  local given = support.changed(quick, changes)
  return ts.measure_profile(given)
end

describe("shares of this CPU", function()
  local cluster = ts.detect { cpu = true }

  it("are devices with rates, of which a plan can be made", function()
    local device = cluster.devices[1]
    assert.equal("cpu", device.backend)
    assert.equal(cpu.name(1), device.name)
    assert.equal(1, cpu.cores_of(device.name))
    assert.is_true(device.memory_bytes > 2 ^ 20 and device.memory_bytes_per_s > 1e8)
    for _, dtype in ipairs { "fp32", "fp16", "int8", "int4" } do assert.is_true(device.flop_per_s[dtype] > 1e7) end
    local plan = assert(ts.plan(ts.problem { model = "smollm2-135m", cluster = cluster, kernel_set = "auto",
      workload = ts.workload { prompt_tokens = 64, output_tokens = 16, batch_size = 4 }, bitwidths = { 4, 8, 16 } }))
    assert.equal("modelled", plan.provenance)
  end)

  it("are a cluster file like any other", function()
    local file = support.temporary()
    assert.equal(0, detect_verb.main { names = {}, cpu = true, out = file })
    local again = core.cluster_from_json(core.read_file(file), "cpu.json")
    assert.equal(#cluster.devices, #again.devices)
    assert.equal(cluster.devices[1].name, again.devices[1].name)
    local plan = assert(ts.plan(ts.problem { model = "opt-125m", cluster = again, kernel_set = "tessera",
      workload = ts.workload { prompt_tokens = 64, output_tokens = 16, batch_size = 4 }, bitwidths = { 3, 16 } }))
    assert.is_true(plan.latency_s > 0)
  end)

  it("have no kernels of GPUs, and GPUs none of theirs", function()
    local workload = ts.workload { prompt_tokens = 64, output_tokens = 16, batch_size = 4 }
    local plan, none = ts.plan(ts.problem { model = "opt-125m", cluster = cluster, kernel_set = "vllm",
      bitwidths = { 16 }, workload = workload })
    support.declines("infeasible", "no device has a kernel", plan, none)
    plan = assert(ts.plan(ts.problem { model = "opt-125m", cluster = "1xM1-Max-64G", kernel_set = "llama_cpp",
      bitwidths = { 16 }, workload = workload }))
    assert.is_true(plan.latency_s > 0)
    plan, none = ts.plan(ts.problem { model = "opt-125m", cluster = "1xM1-Max-64G", kernel_set = "tessera",
      bitwidths = { 16 }, workload = workload })
    support.declines("infeasible", "no device has a kernel", plan, none)
  end)

  it("need a core at least, and not more than there are", function()
    raises("out_of_range", "cores_per_device", function() ts.detect { cpu = true, cores_per_device = 0 } end)
    raises("out_of_range", "cores", function() ts.detect { cpu = true, cores_per_device = 4096 } end)
    raises("invalid_argument", "give cpu", function() ts.detect { cores_per_device = 1 } end)
  end)
end)

describe("ts.measure_profile", function()
  it_runs("fits a profile to layers of a shape, by which plans are fitted", function()
    local profile, report = measured { model = { family = "llama", num_layers = 4, hidden_size = 64, num_heads = 4,
      num_kv_heads = 2, ffn_size = 128, vocab_size = 300, max_context_tokens = 256 } }
    assert.equal("tessera", profile.kernel_set)
    assert.equal(#report.rows, #report.samples)
    assert.same({ 4, 16 }, { report.loading[1].bitwidth, report.loading[2].bitwidth })
    local ops = {}
    for _, sample in ipairs(report.samples) do
      assert.is_true(sample.latency_s > 0)
      ops[sample.name or sample.op] = true
    end
    assert.same({ layer = true, gemm = true, embedding = true, sampling = true, send_recv = true,
      all_reduce = measure.cpu().cores > 1 or nil }, ops)
    local _, info = profile:layer_s { model = { family = "llama", num_layers = 4, hidden_size = 64, num_heads = 4,
      num_kv_heads = 2, ffn_size = 128, vocab_size = 300, max_context_tokens = 256 }, bitwidth = 4, phase = "decode",
      batch_size = 2, context_tokens = 32 }
    assert.equal("fitted", info.provenance)
    assert.is_number(info.error)
  end)

  it_runs("measures a folder with weights, its context the limit", function()
    local _, report = measured { model = own, bitwidths = { 8 }, context_tokens = { 16, 4096 } }
    for _, sample in ipairs(report.samples) do
      if sample.op == "layer" then
        assert.equal(8, sample.bitwidth)
        assert.is_true(sample.tokens + sample.context_tokens <= 256)
      end
    end
  end)

  it_runs("keeps the other cores busy, where there are some, and tells both times", function()
    local _, report = measured { model = own, bitwidths = { 4 }, load = "both" }
    assert.equal(report.busy, report.alone_samples ~= nil)
    if report.busy then assert.equal(#report.samples, #report.alone_samples) end
  end)

  it_runs("counts points and the time that is left", function()
    local last, all
    measured { model = own, bitwidths = { 16 }, progress = function(done, total, left_s)
      assert.is_true(left_s >= 0)
      last, all = done, total
    end }
    assert.equal(all, last)
  end)

  it("refuses what is not here", function()
    raises("not_found", "device", function() measured { model = "opt-125m", device = "T4-17G" } end)
    raises("not_found", "no T4-16G is here", function() measured { model = "opt-125m", device = "T4-16G" } end)
    raises("unsupported", "driven by metal", function() measured { model = "opt-125m", device = "M1-Max-64G" } end)
    raises("out_of_range", "cores", function() measured { model = "opt-125m", cores_per_device = 4000 } end)
    raises("not_found", "not a share of this CPU", function()
      measured { model = "opt-125m", device = { name = "Other-1c", backend = "cpu", memory_bytes = 2 ^ 30,
        memory_bytes_per_s = 1e10, flop_per_s = { fp16 = 1e11 } } }
    end)
    raises("not_found", "model", function() measured { model = "opt-126m" } end)
  end)

  it("refuses models that it cannot run, and grids without points", function()
    raises("unsupported", "name a folder", function() measured { model = "mixtral-8x7b" } end)
    raises("out_of_range", "5 is none of 3, 4, 8 and 16", function()
      measured { model = "opt-125m", bitwidths = { 5 } }
    end)
    raises("invalid_argument", "empty", function() measured { model = "opt-125m", batch_sizes = {} } end)
    raises("out_of_range", "no point", function()
      measured { model = own, context_tokens = { 5000 }, prompt_tokens = { 5000 } }
    end)
  end)
end)

describe("the table of points", function()
  local shape = ts.model "opt-125m"
  local rows = {
    { piece = "layer", batch_size = 2, tokens = 1, context_tokens = 64, median_s = 1e-4, spread_ratio = 0.02,
      repeats = 5 },
    { piece = "layer", batch_size = 1, tokens = 32, context_tokens = 0, median_s = 2e-3, spread_ratio = 0.5,
      repeats = 5, noisy = true },
    { piece = "head", batch_size = 4, median_s = 3e-3, spread_ratio = 0, repeats = 5 },
    { piece = "embedding", batch_size = 8, median_s = 1e-6, spread_ratio = 0, repeats = 5 },
    { piece = "sampling", batch_size = 4, median_s = 4e-5, spread_ratio = 0, repeats = 5 },
  }

  it("reads back as it was, noise marked", function()
    local samples = {}
    for i, row in ipairs(rows) do
      samples[i] = grid.sample(row, 4, "opt-125m", shape)
      samples[i].device, samples[i].kernel_set, samples[i].source = "AMD-EPYC-1c", "tessera", "a test"
    end
    local text = grid.csv(samples, rows)
    local _, marked = text:gsub("noisy: 5 repeats, quartiles 50.0 %% apart", "")
    assert.equal(1, marked)
    local file = support.temporary(text)
    local read = ts.read_profile_data(file)
    assert.equal(#samples, #read)
    for i, sample in ipairs(samples) do
      for key, value in pairs(sample) do assert.equal(value, read[i][key], key) end
    end
  end)
end)

describe("tessera profile", function()
  it_runs("writes a profile that problems find, and its points", with_own_folder(function(folder)
    assert.equal(0, profile_verb.main { names = {}, model = own, out = folder, quick = true, load = "none", repeats = 2,
      least_s = 0, bitwidths = { 4 } })
    local stem = folder .. "/profiles/" .. cpu.name(1) .. ".tessera"
    local profile = ts.profile { file = stem .. ".json" }
    assert.equal(cpu.name(1), profile.device)
    local device = ts.detect({ cpu = true }).devices[1]
    local again, errors = ts.calibrate { device = device, kernel_set = "tessera", samples = stem .. ".csv" }
    assert.equal(#profile.parts, #again.parts)
    assert.is_number(errors.after.median)
    -- On one of them: half a layer, which a group of two has, was not measured.
    local plan = assert(ts.plan(ts.problem { model = own, cluster = { { device, 1 } }, kernel_set = "tessera",
      profiles = { profile }, bitwidths = { 4 },
      workload = ts.workload { prompt_tokens = 16, output_tokens = 16, batch_size = 2 } }))
    assert.equal("fitted", plan.provenance)
    assert.is_number(plan.error)
  end))

  it("says what it lacks", function()
    raises("usage", "name a model", function() profile_verb.main { names = {} } end)
    raises("usage", "behind a flag", function() profile_verb.main { names = { "opt-125m" } } end)
  end)
end)
