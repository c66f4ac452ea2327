-- What is decided at plan level (explain, replan, beside, max_batch, pareto, gaps) on problems with side constraints
-- and open choices.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local function problem(changes)
  local description = { model = "opt-1.3b", cluster = "4xT4-16G", bitwidths = { 4, 16 },
    workload = { prompt_tokens = 512, output_tokens = 32, batch_size = 8 } }
  for key, value in pairs(changes) do description[key] = value end
  return ts.problem(support.settled(description))
end

local function constrained(changes)
  return problem(changes):add_constraint { name = "few", terms = { { bitwidth = 16 } }, sense = "<=", rhs = 3 }
end

local function high_layers(plan)
  local number = 0
  for _, stage in ipairs(plan.stages) do
    for _, bitwidth in ipairs(stage.bitwidths) do number = number + (bitwidth == 16 and 1 or 0) end
  end
  return number
end

describe("side constraints", function()
  local p = constrained { cluster = "2xT4-16G", theta = 100 }
  local plan = assert(ts.plan(p))

  it("are kept by what plan:explain solves for", function()
    local e = plan:explain { as = "table", robustness = 2, time_limit_s = 100 }
    assert.is_true(e.best.proven)
    assert.near(plan.objective, e.best.objective, 1e-6 * plan.objective) -- without them plans are better
    assert.is_true(ts.plan(p:with { constraints = {} }).objective < plan.objective)
    assert.equal(2, e.robustness.problems)
  end)

  it("are kept by ts.replan, ts.max_batch and ts.pareto", function()
    local again = assert(ts.replan(plan, "1xT4-16G"))
    assert.is_true(ts.check(again))
    assert.is_true(high_layers(again) <= 3)
    local _, most = ts.max_batch(p, { max_batch_size = 9 })
    assert.is_true(high_layers(most) <= 3)
    for _, point in ipairs(assert(ts.pareto(p, { max_points = 2, price = "none" }))) do
      assert.is_true(high_layers(point.plan) <= 3)
    end
  end)

  it("hold for what stands beside a plan", function()
    for _, row in ipairs(ts.beside(plan, { time_limit_s = 100 })) do
      local expected = row.planner == "best_homogeneous" and plan.status or "feasible"
      assert.is_true(row.status == expected or row.note:find("few", 1, true) ~= nil, row.note)
    end
  end)
end)

describe("open choices", function()
  it("are decided by ts.max_batch", function()
    local function most(kv) return (ts.max_batch(problem { kv_bitwidth = kv, cluster = "1xT4-16G" })) end
    assert.equal(most(4), most { 16, 4 })
    assert.is_true(most(16) < most(4))
  end)

  it("are decided by ts.pareto, on every part of the cluster that they fit", function()
    local prices = { ["T4-16G"] = 1 }
    local open = assert(ts.pareto(problem { tensor_parallel = { 1, 2 } }, { max_points = 2, prices = prices }))
    local best = ts.plan(problem { tensor_parallel = { 1, 2 }, theta = 0 })
    assert.near(best.latency_s, open[1].latency_s, 1e-5 * best.latency_s)
    for _, point in ipairs(assert(ts.pareto(problem { tensor_parallel = 2 }, { max_points = 2, prices = prices }))) do
      for _, stage in ipairs(point.plan.stages) do assert.equal("2xT4-16G", stage.device) end
    end
  end)

  it("are settled anew by ts.replan", function()
    local plan = ts.plan(problem { tensor_parallel = 2, kv_bitwidth = { 16, 8 } })
    local again, moves = ts.replan(plan, "3xT4-16G") -- one device is not in a group of 2
    assert.is_true(ts.check(again))
    assert.is_true(moves.moved_bytes > 0)
    assert.is_true(ts.check(assert(ts.replan(plan, problem { cluster = "3xT4-16G", tensor_parallel = { 1, 2 } }))))
  end)

  it("leaves replicas to the caller of ts.replan", function()
    local plan = ts.plan(problem { cluster = "2xT4-16G" }, { replicas = 2 })
    raises("unsupported", "plan.replicas", function() return ts.replan(plan, "1xT4-16G") end)
    assert.is_true(ts.check(assert(ts.replan(plan.replicas[1], "1xT4-16G"))))
  end)
end)

describe("plan:explain of an offloading plan", function()
  it("leaves it to FlexGen's cost model", function()
    local p = ts.problem(support.settled { model = "opt-13b",
      workload = { prompt_tokens = 512, output_tokens = 32, batch_size = 8 },
      cluster = ts.cluster { { "T4-16G", 2, node = "a" }, host_memory_gib = 64 } })
    local e = assert(ts.plan(p, { planner = "flexgen" })):explain { as = "table", time_limit_s = 100 }
    assert.same({}, e.binds) -- the pipeline's own model would have memory overrun
    assert.is_nil(e.robustness)
    assert.is_truthy(e.brief:find("prefill waits for", 1, true))
  end)
end)

describe("a gap", function()
  it("does not make a plan optimal", function()
    local p = problem { cluster = "3xT4-16G+1xV100-32G", model = "opt-13b", bitwidths = { 3, 4, 8, 16 } }
    for _, planner in ipairs { "exact", "ilp" } do
      local plan = ts.plan(p, { gap = 0.3, planner = planner })
      assert.equal(plan.gap > 1e-6 and "feasible" or "optimal", plan.status)
      assert.is_true(plan.gap <= 0.3 + 1e-9)
    end
    assert.equal("feasible", ts.plan(p, { gap = 0.3 }).status)
    assert.equal("optimal", ts.plan(p).status)
  end)
end)
