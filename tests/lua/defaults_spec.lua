-- What a problem is made of where a script does not say: kernels, groups, KV cache, replicas and devices that suit the
-- cluster; the papers' settings by name.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local workload = { prompt_tokens = 128, output_tokens = 32, batch_size = 8 }

local function problem(changes)
  return ts.problem(support.changed({ model = "opt-1.3b", cluster = "2xT4-16G", workload = workload }, changes))
end

describe("kernel_set = \"auto\"", function()
  it("is the best measured set that a public runtime has, and what each device has alone", function()
    for cluster, expected in pairs {
      ["8xH200-141G"] = { "vllm_fp8" }, -- FP8 before INT8
      ["4xT4-16G"] = { "vllm" }, -- FP8 has nothing of its own there
      ["2xA100-80G+4xT4-16G"] = { "vllm_fp8", "vllm" }, -- 8 bits of either kind on the A100s, INT8 alone on the T4s
      ["1xMI300X"] = { "vllm_rocm" },
      ["2xP100-12G"] = { "llama_cpp" }, -- no other public runtime runs there
      ["1xT4-16G+1xP100-12G"] = { "vllm", "llama_cpp" }, -- the P100 may be left out, or the plan be what it has alone
      ["1xMI300X+1xT4-16G"] = { "vllm", "vllm_rocm" },
      ["1xRTX-PRO-6000"] = { "vllm_fp8" },
    } do
      assert.same(expected, problem { cluster = cluster }.kernel_sets, cluster)
      assert.equal(expected[1], problem { cluster = cluster }.kernel_set, cluster)
    end
  end)

  it("follows the cluster, the bitwidths and the runtime until somebody names one", function()
    local p = problem()
    assert.equal("vllm", p.kernel_set)
    assert.equal("vllm_fp8", p:with { cluster = "1xH200-141G" }.kernel_set)
    assert.equal("vllm", p:with { theta = 3 }.kernel_set)
    local named = p:with { kernel_set = "modern" }
    assert.equal("modern", named:with { cluster = "1xH200-141G" }.kernel_set)
    assert.equal("vllm_fp8", named:with { cluster = "1xH200-141G", kernel_set = "auto" }.kernel_set)
    assert.equal("vllm_fp8", problem { cluster = "1xH200-141G", runtime = "vllm" }.kernel_set)
  end)

  it("takes that of the profiles that are given", function()
    local profile = ts.profile { device = "T4-16G", kernel_set = "llmpq_2023_08" }
    assert.equal("llmpq_2023_08", problem { profiles = { profile } }.kernel_set)
    assert.equal("vllm", problem { profiles = {} }.kernel_set)
  end)

  it("says which device no set runs on", function()
    raises("unsupported", "no kernel set has a kernel for these bitwidths on T4-16G; give other bitwidths", function()
      return problem { bitwidths = { 5 } }
    end)
  end)
end)

describe("what is searched", function()
  it("is what the cluster can do", function()
    local p = problem { cluster = "(8xH200-141G)", model = "llama-3.1-8b" }
    assert.same({ 1, 2, 4, 8 }, p.tensor_parallel)
    assert.same({ 16, 8 }, p.kv_bitwidths)
    assert.same({ 1, 2 }, p:with { cluster = "3xA100-80G" }.tensor_parallel)
    assert.same({ 16 }, p:with { cluster = "3xA100-80G" }.kv_bitwidths) -- no FP8
    assert.same({ 16, 8 }, p:with { cluster = "1xH200-141G+1xA100-80G" }.kv_bitwidths) -- of the H200
    assert.same({ 16 }, p:with { kernel_set = "modern" }.kv_bitwidths) -- nobody looked
    assert.same({ 1 }, p:with { tensor_parallel = 1 }:with { cluster = "4xH200-141G" }.tensor_parallel)
    assert.same({ 8 }, p:with { kv_bitwidth = 8 }:with { cluster = "2xL4" }.kv_bitwidths)
    -- Who names a bitwidth knows where his kernels read it.
    local named = p:with { kv_bitwidth = 8, cluster = "3xA100-80G" }
    assert.same({ 8 }, named.kv_bitwidths)
    assert.equal(8, assert(ts.plan(named)).kv_bitwidth)
  end)

  it("leaves out degrees that do not divide the heads, without a word", function()
    local p = problem { model = "falcon-7b", cluster = "4xL4" } -- 71 heads
    assert.same({ 1 }, p.tensor_parallel)
    for _, note in ipairs(assert(ts.plan(p)).notes) do assert.is_nil(note:find("tensor parallelism", 1, true)) end
  end)

  it("has replicas, unless a planner or anything of a pipeline is given", function()
    local p = problem { cluster = { { "T4-16G", 1, node = "a" }, { "T4-16G", 1, node = "b" }, link_gbps = 10 } }
    local plan = assert(ts.plan(p))
    assert.equal(2, #plan.replicas) -- each T4 holds the model
    assert.is_true(ts.check(plan))
    for _, options in ipairs { { planner = "exact" }, { replicas = 1 }, { decode_micro_batch_size = 4 },
      { device_order = { "T4-16G", "T4-16G" } } } do
      assert.is_nil(assert(ts.plan(p, options)).replicas)
    end
    assert.is_true(plan.objective <= ts.plan(p, { planner = "exact" }).objective)
    for _, settled in ipairs { { tensor_parallel = 1 }, { use_all_devices = true }, { allow_empty_stage = true } } do
      local own = p:with(settled)
      assert.is_true(p.searches_replicas and not own.searches_replicas)
      assert.is_nil(assert(ts.plan(own)).replicas)
      assert.equal(2, #assert(ts.plan(own, { replicas = "all" })).replicas)
    end
    assert.is_true(p:with { use_all_devices = false, theta = 0 }.searches_replicas)
    assert.is_nil(assert(ts.plan(problem { preset = "splitquant", cluster = p.cluster })).replicas)
  end)

  it("is open again in the plan's problem", function()
    local p = problem { cluster = "4xT4-16G" }
    local plan = assert(ts.plan(p))
    assert.same({ 1, 2, 4 }, plan:problem().tensor_parallel)
    local path = support.temporary()
    plan:save(path)
    local again = ts.load_plan(path):problem()
    assert.same({ 1, 2, 4 }, again.tensor_parallel)
    assert.near(plan.objective, assert(ts.plan(again)).objective, 1e-9 * plan.objective)
    support.remove_files()
  end)
end)

describe("use_all_devices", function()
  local mixed = { { "A100-80G", 1, node = "a" }, { "P100-12G", 1, node = "b" }, link_gbps = 0.001 }

  it("is false by default: a device that costs time is left out, down to one", function()
    local p = problem { cluster = mixed, kernel_set = "tessera" }
    local best = assert(ts.plan(p, { planner = "exact" }))
    assert.equal(1, #best.stages)
    assert.equal("A100-80G", best.stages[1].device)
    assert.equal("optimal", best.status)
    assert.is_true(ts.check(best))
    local all = assert(ts.plan(p:with { use_all_devices = true }, { planner = "exact" }))
    assert.equal(2, #all.stages)
    assert.is_true(all.objective > best.objective)
    assert.near(best.objective, assert(ts.plan(p, { planner = "ilp" })).objective, 1e-6 * best.objective)
  end)

  it("gives way to allow_empty_stage, and does not contradict it", function()
    local p = problem { cluster = mixed, kernel_set = "tessera" }
    local middle = p:with { allow_empty_stage = true } -- first and last stage hold layers
    assert.equal(2, #assert(ts.plan(middle, { planner = "exact" })).stages)
    assert.is_false(p:with { allow_empty_stage = false }.allow_empty_stage)
    assert.is_true(p:with { allow_empty_stage = false }.use_all_devices)
    assert.is_true(p:with { use_all_devices = true }:with { use_all_devices = false }.allow_empty_stage)
    raises("invalid_argument", "every device is to hold a layer, and allow_empty_stage", function()
      return problem { use_all_devices = true, allow_empty_stage = true }
    end)
    raises("invalid_argument", "devices may be left out, and allow_empty_stage = false", function()
      return problem { use_all_devices = false, allow_empty_stage = false }
    end)
  end)
end)

describe("preset", function()
  it("has the papers' settings, which options change one by one", function()
    for preset, objective in pairs { splitquant = "steady", ["llm-pq"] = "paper" } do
      local p = problem { preset = preset }
      assert.equal(objective, p.objective)
      assert.same({ 3, 4, 8, 16 }, p.bitwidths)
      assert.equal("llmpq_2023_08", p.kernel_set)
      assert.equal("llm-pq", p.memory)
      assert.same({ 1 }, p.tensor_parallel)
      assert.same({ 16 }, p.kv_bitwidths)
      assert.is_true(p.use_all_devices)
      assert.is_false(p.allow_empty_stage)
      assert.equal("vllm", problem { preset = preset, kernel_set = "vllm" }.kernel_set)
    end
    assert.equal("ms_per_raw_omega", problem { preset = "llm-pq" }.theta_unit)
  end)

  it("is refused where it means nothing", function()
    raises("invalid_argument", "'recommended', 'splitquant', 'llm-pq'", function()
      return problem { preset = "paper" }
    end)
    raises("invalid_argument", "give it to ts.problem", function() return problem():with { preset = "splitquant" } end)
    raises("invalid_argument", "leave out preset", function()
      return ts.problem { instance = support.tiny_instance(), preset = "splitquant" }
    end)
    support.remove_files()
  end)
end)
