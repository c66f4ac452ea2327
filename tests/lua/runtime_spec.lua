-- ts.problem { runtime = ... }: only plans that the runtime launches, none of them better than what is found, and the
-- cost against the free optimum said.

local solver = require "tessera.solver"
local support = require "support"
local ts = require "tessera"

local function problem(changes)
  return ts.problem(support.settled(support.changed({
    model = "opt-1.3b", cluster = "(2xA100-40G)+1xL4", kernel_set = "vllm", bitwidths = { 4, 8, 16 },
    tensor_parallel = { 1, 2 }, workload = { prompt_tokens = 512, output_tokens = 64, batch_size = 32 },
  }, changes)))
end

local obstacles = solver.launch_obstacles
local function notes(plan) return table.concat(plan.notes, "\n") end

describe("runtime = \"vllm\"", function()
  it("keeps one degree of tensor parallelism and says what that costs", function()
    local free = assert(ts.plan(problem()))
    local plan = assert(ts.plan(problem { runtime = "vllm" }))
    assert.equal("vllm", plan:problem().runtime)
    assert.same({}, obstacles(plan, "vllm"))
    assert.is_true(plan.objective >= free.objective * (1 - 1e-9))
    if #obstacles(free, "vllm") > 0 then
      assert.matches("runtime vllm: .* the free optimum", notes(plan))
    else
      assert.equal(free.objective, plan.objective)
      assert.matches("can be launched as it is", notes(plan))
    end
    assert.is_true(ts.check(plan))
  end)

  it("finds the best of all plans that can be launched", function()
    -- Devices of two nodes that the free optimum may mix: every order and degree tried by hand.
    local open = problem { cluster = "(1xL4+1xA100-40G)+1xA100-40G", tensor_parallel = 1 }
    local best = math.huge
    for _, order in ipairs(open:device_orders(1000)) do
      local plan = ts.plan(open, { device_order = order })
      if plan and #obstacles(plan, "vllm") == 0 then best = math.min(best, plan.objective) end
    end
    local plan = assert(ts.plan(open:with { runtime = "vllm" }))
    assert.is_true(best < math.huge)
    assert.near(best, plan.objective, 1e-9 * best)
  end)

  it("leaves out bitwidths without a kernel and second schemes", function()
    local plan = assert(ts.plan(problem { runtime = "vllm", kernel_set = "tessera", bitwidths = { 3, 4, 8 },
      theta = 0 }))
    for _, stage in ipairs(plan.stages) do
      for _, bitwidth in ipairs(stage.bitwidths) do assert.is_true(bitwidth ~= 3) end
    end
    plan = assert(ts.plan(problem { runtime = "vllm", kernel_set = "vllm_fp8", cluster = "2xL4",
      tensor_parallel = 1, theta = 10 }))
    assert.same({}, obstacles(plan, "vllm"))
  end)

  it("plans what one checkpoint can have, each at its own prices", function()
    local open = problem { runtime = "vllm", kernel_set = "vllm_fp8", cluster = "(1xL4+1xA100-40G)+1xL4",
      tensor_parallel = 1, use_all_devices = true }
    local best = math.huge
    for _, bitwidths in ipairs { { 8 }, { 4, 16 } } do
      local own = ts.plan(open:with { bitwidths = bitwidths })
      if own then best = math.min(best, own.objective) end
    end
    local plan = assert(ts.plan(open))
    assert.near(best, plan.objective, 1e-9 * best)
    assert.is_true(ts.check(plan))
  end)

  it("has no plan where nothing can be launched", function()
    support.declines("infeasible", "vllm can launch no plan", ts.plan(problem { runtime = "vllm",
      kernel_set = "tessera", bitwidths = { 3 } }))
    support.declines("infeasible", "no KV cache of 4 bits", ts.plan(problem { runtime = "vllm", kv_bitwidth = 4 }))
    local bitwidths = {}
    for i = 1, 12 do bitwidths[i] = 8 end
    support.declines("infeasible", "tensor parallelism 2 and 1", ts.plan(problem { runtime = "vllm" }, {
      planner = "manual", stages = { { device = "2xA100-40G", bitwidths = bitwidths },
        { device = "L4", bitwidths = bitwidths } }, prefill_micro_batch_size = 8, decode_micro_batch_size = 8 }))
  end)

  it("plans replicas, each of which can be launched", function()
    local plan = assert(ts.plan(problem { runtime = "vllm", cluster = "(4xA100-40G)" }, { replicas = { 1, 2, 4 } }))
    assert.same({}, obstacles(plan, "vllm"))
  end)

  it("lets baselines be what they are", function()
    local plan = assert(ts.plan(problem { runtime = "vllm" }))
    for _, row in ipairs(ts.beside(plan, { time_limit_s = 5 })) do assert.not_matches("runtime", row.note or "") end
  end)
end)

describe("other runtimes", function()
  it("llama.cpp has no tensor parallelism, and one node", function()
    local plan = assert(ts.plan(problem { runtime = "llama.cpp", cluster = "(2xA100-40G+1xL4)" }))
    for _, stage in ipairs(plan.stages) do assert.not_matches("^%d+x", stage.device) end
    support.declines("infeasible", "GPUs of one node", ts.plan(problem { runtime = "llama.cpp" }))
  end)
  it("Tessera's own runs every plan", function()
    local free = assert(ts.plan(problem()))
    assert.equal(free.objective, assert(ts.plan(problem { runtime = "tessera" })).objective)
  end)
  it("refuses what is no runtime, and keeps it in files", function()
    support.raises("invalid_argument", "runtime", function() problem { runtime = "vlm" } end)
    local file = support.temporary()
    assert(ts.plan(problem { runtime = "vllm" })):save(file)
    assert.equal("vllm", ts.load_plan(file):problem().runtime)
    support.remove_files()
  end)
end)
