-- Experts spread over a group and attention in parts of it: from ts.plan_serving to the flags of vLLM.

local folders = require "launch_folders"
local support = require "support"
local ts = require "tessera"

local fresh = folders.fresh
folders.keep(setup, teardown)

local function search(changes)
  return ts.plan_serving(support.changed({
    model = "qwen3-30b-a3b", cluster = "4xH100", bitwidths = { 16 }, kv_bitwidths = { 16 }, tensor_parallel = { 4 },
    traffic = { arrivals = "poisson", rate_per_s = 1, prompt_tokens = 512, output_tokens = 128, seed = 1 },
    slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.05 } }, disaggregated = false, num_requests = 200,
  }, changes))
end

describe("a split of a group", function()
  it("is looked at where a model has experts", function()
    local seen = {}
    for _, row in ipairs(search()) do seen[row.layout] = true end
    assert.is_true(seen["1 x H100-80G TP4EP4"] or false)
    for _, row in ipairs(search { model = "llama-3.1-8b" }) do
      assert.equal(1, row.parts[1].expert_parallel)
      assert.equal(1, row.parts[1].attention_data_parallel)
    end
  end)

  it("goes to vLLM's flags and comes back", function()
    local list = search { expert_parallel = { 4 }, attention_data_parallel = { 4 } }
    local row = list[1]
    assert.equal("1 x H100-80G TP4EP4DP4", row.layout)
    local path = fresh()
    assert(list:export("vllm", path, { rank = 1 }))
    local options = assert(ts.load_launch(path)).engines[1].options
    assert.equal("1", options["--tensor-parallel-size"])
    assert.equal("4", options["--data-parallel-size"])
    assert.is_true(options["--enable-expert-parallel"])
    assert.equal(tostring(row.parts[1].engine.max_num_seqs / 4), options["--max-num-seqs"])
    local plan = assert(ts.load_plan(path .. "/plan.json"))
    assert.same({ attention_data_parallel = 4, expert_parallel = 4 }, plan:problem().split)
  end)

  it("is refused by the runtime, which has none", function()
    local deployment = ts.deployment { model = "qwen3-30b-a3b", cluster = "4xH100", tensor_parallel = 4,
      expert_parallel = 4 }
    support.raises("invalid_argument", "spreads experts over devices",
      function() ts.execute(deployment.plan, { model = "nowhere", prompts = { "one" } }) end)
  end)

  it("is refused where vLLM has none like it", function()
    local list, why = search { expert_parallel = { 2 } }
    assert.is_nil(list)
    assert.matches("spread over 2 of 4 devices", why.message)
  end)
end)
