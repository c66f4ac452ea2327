-- What `tessera quantise` writes runs, where this build can run models: with the numbers that it was rounded to.

local core = require "tessera.core"
local folders = require "launch_folders"
local host = require "tessera.host"
local support = require "support"
local ts = require "tessera"

local fresh = folders.fresh
folders.keep(setup, teardown)

local source = host.installation.datasets_dir .. "/language_models/grammar-opt-5m"
local ok, why = pcall(ts.language_model, { path = source, threads = 1, progress = false })
local missing = not ok and why.code == "unsupported" and why.message:find("quickstart.sh", 1, true) and why.message
if not ok and not missing then error(why, 0) end
local function it_runs(what, fn)
  if missing then
    pending(what .. ": " .. missing)
  else
    it(what, fn)
  end
end

local function model(options)
  options.threads, options.progress = 2, false
  return ts.language_model(options)
end

local text = "the dog sees a cat and the cat sees the dog in the house"

describe("LibTorch on the CPU", function()
  it_runs("runs a model in halves, or says that it cannot", function()
    local ran, err = pcall(function()
      return model { path = source, device = "torch", dtype = "f16" }:generate("the", { max_tokens = 2 })
    end)
    if not ran then assert.equal("unsupported", err.code, tostring(err)) end
  end)
end)

describe("a model that quantise wrote", function()
  it_runs("generates, and loses as much as the model that is quantised while it is loaded", function()
    for _, case in ipairs {
      { bitwidths = 4, group_size = 64 }, { bitwidths = 8, group_size = 64 },
      { bitwidths = 8, granularity = "channel" }, { bitwidths = { 4, 8, 16, 8 }, group_size = 64 },
    } do
      local out = fresh()
      local options = support.changed({ model = source, out = out, progress = false }, case)
      local shape = core.model(source)
      if type(case.bitwidths) == "table" then
        options.bitwidths = {}
        for i = 1, shape.num_layers do options.bitwidths[i] = case.bitwidths[(i - 1) % 4 + 1] end
      end
      ts.quantise_model(options)
      local stored = model { path = out }
      assert.is_true(#stored:generate("the", { max_tokens = 4 }).text > 0)
      local loaded = model { path = source, bitwidths = options.bitwidths, group_size = case.group_size,
        granularity = case.granularity }
      local a = stored:perplexity({ text = text:rep(8) }).loss_nats
      local b = loaded:perplexity({ text = text:rep(8) }).loss_nats
      assert.is_true(math.abs(a - b) < 2e-3, ("%.6f from the file, %.6f quantised while loading"):format(a, b))
    end
  end)

  it_runs("runs by the verbs", function()
    local out = fresh()
    ts.quantise_model { model = source, bitwidths = 4, group_size = 64, out = out, progress = false }
    local status, printed, err = host.run_program({ host.program, "generate", out, "the", "--max-tokens", "4" }, "")
    assert.equal(0, status, err)
    assert.is_true(#printed > 3)
    status, printed, err = host.run_program({ host.program, "bench", out, "--prompt-tokens", "8", "--output-tokens",
      "2" }, "")
    assert.equal(0, status, printed .. err)
  end)

  it_runs("is found in a sandbox, with the module that runs it", function()
    local folder = fresh()
    host.make_folder(folder)
    core.write_file(folder .. "/t.lua", "print(pcall(require('tessera').tokenizer, { path = '/x' }))\n")
    local status, printed, err = host.run_program({ "bash", "-c", 'cd "$1" && exec "$2" run --sandbox t.lua', "-",
      folder, host.program }, "")
    assert.equal(0, status, err)
    assert.not_matches("shared object", printed .. err)
  end)

  it_runs("is not what a measurement of it is written over", function()
    local copy = fresh()
    assert.equal(0, (host.run_program({ "cp", "-r", source, copy }, "")))
    local lm = model { path = copy }
    for _, name in ipairs { "config.json", "tokenizer.json", "model.safetensors" } do
      local before = support.read(copy .. "/" .. name)
      support.raises("invalid_argument", "is a file of the model itself",
        function() lm:calibrate { text = text, out = copy .. "/" .. name, num_samples = 1, sample_tokens = 8 } end)
      assert.is_true(before == support.read(copy .. "/" .. name))
    end
  end)
end)
