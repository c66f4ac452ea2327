-- Plans that llama.cpp is to run: its kernels, its memory, its stages.

local core = require "tessera.core"
local host = require "tessera.host"
local support = require "support"
local ts = require "tessera"

local function problem(model, cluster, changes)
  local description = { model = model, cluster = cluster, runtime = "llama.cpp", bitwidths = { 4 },
    workload = { batch_size = 1, prompt_tokens = 512, output_tokens = 128 } }
  for name, value in pairs(changes or {}) do description[name] = value end
  return ts.problem(description)
end

local function tok_s(model, cluster, changes)
  return 1 / ts.simulate(assert(ts.plan(problem(model, cluster, changes)))).tpot_s
end

describe("a plan for llama.cpp", function()
  it("is priced by its kernels, and counted as its files are", function()
    local own = problem("llama-3.1-8b", "1xRTX-3090")
    assert.same({ "llama.cpp", "llama_cpp" }, { own.memory, own.kernel_sets[1] })
    assert.equal("physical", problem("llama-3.1-8b", "1xRTX-3090", { runtime = "vllm" }).memory)
  end)

  it("holds what people run", function()
    for _, row in ipairs { { "qwen2.5-14b", "1xRTX-3080" }, { "gpt-oss-20b", "1xRTX-3060" },
      { "llama-3.3-70b", "2xRTX-3090" }, { "llama-3.1-8b", "1xRTX-2080" }, { "gemma-3-27b", "1xRTX-3090" } } do
      assert.is_truthy(ts.plan(problem(row[1], row[2])), row[1] .. " on " .. row[2])
    end
    for _, row in ipairs { { "qwen2.5-32b", "1xRTX-4080" }, { "llama-3.3-70b", "1xRTX-3090" } } do
      local plan, why = ts.plan(problem(row[1], row[2]))
      assert.is_nil(plan)
      assert.equal("infeasible", why.code)
    end
  end)

  it("has stages that take turns, whatever the batch", function()
    local changes = { workload = { batch_size = 8, prompt_tokens = 128, output_tokens = 32 }, tensor_parallel = 1,
      use_all_devices = true }
    local plan = assert(ts.plan(problem("llama-3.1-8b", "2xRTX-3090", changes), { replicas = 1 }))
    assert.same({ 8, 8 }, { plan.prefill_micro_batch_size, plan.decode_micro_batch_size })
    -- A second card makes one request no faster, and costs a hop of 0.2 ms.
    local one = tok_s("llama-3.1-8b", "1xRTX-3090")
    local two = tok_s("llama-3.1-8b", "2xRTX-3090", { tensor_parallel = 1, use_all_devices = true })
    assert.is_true(two < one and two > 0.95 * one)
  end)

  it("shares layers among GPUs of one kind", function()
    local path, plan = support.temporary(), assert(ts.plan(problem("gemma-3-27b", "2xRTX-5060-Ti-16G")))
    assert.same({ 1, 2 }, { #plan.placement.engines[1].stages, #plan.placement.engines[1].stages[1].gpus })
    os.remove(path)
    assert(plan:export("llama.cpp", path))
    local engine = assert(ts.load_launch(path)).engines[1]
    assert.equal("tensor", engine.options["--split-mode"])
    assert.equal("on", engine.options["--flash-attn"])
    assert.is_nil(engine.options["--tensor-split"])
    assert.equal("0,1", engine.variables.CUDA_VISIBLE_DEVICES)
    assert.matches("April 2026", core.read_file(path .. "/README.md"))
    -- Which needs a cache of 16 bits: else the model is cut into stages.
    local eight = assert(ts.plan(problem("gemma-3-27b", "2xRTX-5060-Ti-16G", { kv_bitwidth = 8 })))
    for _, stage in ipairs(eight.placement.engines[1].stages) do assert.equal(1, #stage.gpus) end
    host.run_program({ "rm", "-r", path }, "")
  end)

  it("gives equal cards equal layers, where that is as good", function()
    for cluster, most_apart in pairs { ["2xRTX-5060-Ti-16G"] = 0, ["3xRTX-3090"] = 1 } do
      local model = most_apart == 0 and "gemma-3-27b" or "llama-3.1-70b"
      local plan = assert(ts.plan(problem(model, cluster, { kv_bitwidth = 8 })))
      local least, most = math.huge, 0
      for _, stage in ipairs(plan.stages) do
        least, most = math.min(least, stage.num_layers), math.max(most, stage.num_layers)
      end
      assert.is_true(#plan.stages > 1 and most - least <= most_apart, cluster .. ": " .. least .. " to " .. most)
      assert.is_true(ts.check(plan))
    end
  end)

  it("reads weights at a rate that follows the chip", function()
    -- More bandwidth of one family is faster, fewer bits are, and A100's twice as much is not twice as fast.
    assert.is_true(tok_s("llama-3.1-8b", "1xRTX-4090") > 1.5 * tok_s("llama-3.1-8b", "1xRTX-4070-Ti"))
    assert.is_true(tok_s("llama-3.1-8b", "1xA100-80G") < 1.5 * tok_s("llama-3.1-8b", "1xRTX-4090"))
    local before = math.huge
    for _, bits in ipairs { 4, 8, 16 } do
      local rate = tok_s("llama-3.1-8b", "1xM2-Ultra-192G", { bitwidths = { bits } })
      assert.is_true(rate < before)
      before = rate
    end
  end)

  it("is not taken for CPUs unasked", function()
    local cpu = ts.device { name = "a-cpu", memory_bytes = 64 * 2 ^ 30, memory_bytes_per_s = 80e9, backend = "cpu",
      flop_per_s = { fp16 = 1e12, fp32 = 1e12 } }
    local cluster = ts.cluster { { cpu, 1 } }
    assert.equal("tessera", ts.problem { model = "llama-3.1-8b", cluster = cluster }.kernel_sets[1])
    assert.equal("llama_cpp", problem("llama-3.1-8b", cluster).kernel_sets[1])
  end)
end)
