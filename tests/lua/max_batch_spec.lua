-- ts.max_batch: against every batch around the answer.
local ts = require "tessera"
local support = require "support"
local raises, declines = support.raises, support.declines

local function problem(changes)
  local description = { model = "opt-1.3b", cluster = { { "T4-16G", 1, node = "a" }, { "P100-12G", 1, node = "b" } },
    workload = { prompt_tokens = 1500, output_tokens = 100, batch_size = 2 }, bitwidths = { 4, 16 } }
  for key, value in pairs(changes or {}) do description[key] = value end
  return ts.problem(support.settled(description))
end

local function with_batch(p, batch_size)
  return p:with { workload = { prompt_tokens = 1500, output_tokens = 100, batch_size = batch_size }, theta = p.theta }
end

describe("ts.max_batch", function()
  it("finds the last batch that fits", function()
    for _, changes in ipairs { {}, { memory = "llm-pq" }, { quality = { max_omega = 0.3 } } } do
      local p = problem(changes)
      local batch_size, plan = ts.max_batch(p)
      assert.equal(batch_size, plan:problem().batch_size)
      assert.is_true(ts.check(plan))
      assert.equal("optimal", plan.status)
      declines("infeasible", "", ts.plan(with_batch(p, batch_size + 1))) -- with every micro-batch size
      -- And below it every batch fits: memory grows with the batch.
      for b = 1, batch_size, math.ceil(batch_size / 7) do
        assert.is_truthy(ts.plan(with_batch(p, b), { gap = 1 }), b)
      end
      assert.near(ts.plan(with_batch(p, batch_size)).objective, plan.objective, 1e-8 * plan.objective)
    end
  end)

  it("does not depend on the problem's own batch", function()
    assert.equal(ts.max_batch(problem()), (ts.max_batch(with_batch(problem(), 7))))
  end)

  it("keeps the floor of the problem's own batch", function()
    local p = problem { quality = { at_least = "uniform" }, bitwidths = { 4, 8, 16 } }
    local free, strict = ts.max_batch(problem { bitwidths = { 4, 8, 16 } }), ts.max_batch(p)
    assert.is_true(strict < free) -- uniform takes 16 bits at a batch of 2
    local batch_size, plan = ts.max_batch(p)
    assert.equal(strict, batch_size)
    assert.near(16, plan.mean_bitwidth, 1e-9)
  end)

  it("stops at the limit and says so", function()
    local batch_size, plan = ts.max_batch(problem(), { max_batch_size = 5 })
    assert.equal(5, batch_size)
    assert.matches("max_batch_size = 5 was the limit", plan.notes[1])
    assert.equal(1, (ts.max_batch(problem(), { max_batch_size = 1 })))
  end)

  it("keeps micro-batch sizes that are given", function()
    local batch_size, plan = ts.max_batch(problem(), { prefill_micro_batch_size = 3, decode_micro_batch_size = 4 })
    assert.equal(3, plan.prefill_micro_batch_size)
    assert.equal(4, plan.decode_micro_batch_size)
    assert.is_true(batch_size <= ts.max_batch(problem()))
    local paper = problem { objective = "paper" }
    assert.is_true((ts.max_batch(paper)) > 0)
  end)

  it("says why there is none", function()
    declines("infeasible", "need", ts.max_batch(problem { model = "opt-66b" }))
    declines("infeasible", "micro-batches of 9 requests",
      ts.max_batch(problem(), { prefill_micro_batch_size = 9, max_batch_size = 8 }))
    declines("time_limit", "", ts.max_batch(problem(), { time_limit_s = 0 }))
  end)

  it("refuses what it does not know", function()
    for _, case in ipairs {
      { { max_batch = 3 }, "unknown option 'max_batch'; did you mean 'max_batch_size'" },
      { { max_batch_size = 0 }, "an integer in [1, 100000]", "out_of_range" },
      { { max_batch_size = 1.5 }, "not an integer" },
      { { prefill_micro_batch_size = 0 }, "out of range", "out_of_range" },
      { { decode_micro_batch_size = "2" }, "the string '2' is not a number" },
      { { time_limit_s = -1 }, "out of range", "out_of_range" },
    } do
      raises(case[3] or "invalid_argument", case[2], function() ts.max_batch(problem(), case[1]) end)
    end
    raises("invalid_argument", "a tessera.Problem belongs here", function() ts.max_batch {} end)
    raises("invalid_argument", "a tessera.Problem belongs here", function() ts.max_batch() end)
    raises("invalid_argument", "the number 3 where a table", function() ts.max_batch(problem(), 3) end)
    local instance = ts.problem { instance = support.tiny_instance() }
    raises("invalid_argument", "its own batch", function() ts.max_batch(instance) end)
    support.remove_files()
  end)
end)
