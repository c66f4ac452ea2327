-- Plans and launches of llama.cpp whose model is larger than the GPUs.

local folders = require "launch_folders"
local host_memory = require "tessera.planning.host_memory"
local support = require "support"
local ts = require "tessera"

local fresh, declines = folders.fresh, support.declines
folders.keep(setup, teardown)

describe("plan:export llama.cpp of a model that the GPUs do not hold", function()
  it("leaves layers to the host's memory where the GPUs do not hold them", function()
    local description = { model = "llama-3.3-70b", cluster = "1xRTX-3090", runtime = "llama.cpp",
      workload = { batch_size = 1, prompt_tokens = 512, output_tokens = 128 } }
    local given = ts.problem(description)
    assert.equal("llama.cpp", given.memory)
    local none, why = ts.plan(given)
    declines("infeasible", "smallest need", none, why)
    local plan, larger, words = host_memory.plan(description, given, {})
    assert.equal("host-memory", plan.stages[1].device)
    assert.matches("64.00 GiB at 89.6 GB/s, assumed", words)
    assert.same({ 4 }, larger.bitwidths)
    -- Two channels of DDR5 read 14.0 GB of layers in a quarter of a second at least.
    local on_host = plan.stages[1].num_layers
    assert.is_true(on_host > 30 and on_host < 40)
    local tpot_s = ts.simulate(plan).tpot_s
    assert.is_true(tpot_s > 0.25 and tpot_s < 0.5)
    local path = fresh()
    assert(plan:export("llama.cpp", path))
    local engine = assert(ts.load_launch(path)).engines[1]
    assert.equal(tostring(81 - on_host), engine.options["--n-gpu-layers"])
    assert.is_nil(engine.options["--tensor-split"])
    assert.equal("0", engine.variables.CUDA_VISIBLE_DEVICES)
    -- Who asks another planner, or another runtime, gets what he asked for.
    assert.is_nil(host_memory.plan(description, given, { planner = "uniform" }))
    description.runtime = "vllm"
    assert.is_nil(host_memory.plan(description, ts.problem(description), {}))
  end)
  it("leaves the experts of layers to the host where they are a mixture", function()
    local description = { model = "qwen3-30b-a3b", cluster = "1xRTX-2080", runtime = "llama.cpp",
      workload = { batch_size = 1, prompt_tokens = 512, output_tokens = 256 } }
    local plan = assert(host_memory.plan(description, ts.problem(description), {}))
    local path = fresh()
    assert(plan:export("llama.cpp", path))
    local engine = assert(ts.load_launch(path)).engines[1]
    assert.equal("49", engine.options["--n-gpu-layers"])
    -- More than the plan's whole layers, since attention of all is on the GPU; a user of this card took 36.
    local of_experts = tonumber(engine.options["--n-cpu-moe"])
    assert.is_true(of_experts > plan.stages[1].num_layers and of_experts <= 40)
    local context = tonumber(engine.options["--ctx-size"])
    assert.is_true(context >= 768 and context <= 8192)
    -- He read 36.7 tok/s with memory of 102 GB/s.
    local rate = 1 / ts.simulate(plan).tpot_s
    assert.is_true(rate > 0.75 * 36.7 and rate < 1.25 * 36.7)
  end)
end)
