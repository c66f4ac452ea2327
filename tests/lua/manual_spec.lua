-- planner = "manual": plans made by hand.
local ts = require "tessera"
local support = require "support"
local raises, declines = support.raises, support.declines

local function bits(bitwidth, count)
  local list = {}
  for i = 1, count do list[i] = bitwidth end
  return list
end

local function by_hand(changes)
  local options = {
    planner = "manual", prefill_micro_batch_size = 2, decode_micro_batch_size = 4,
    stages = { { device = "T4-16G", bitwidths = bits(8, 5) }, { device = "V100-32G", bitwidths = bits(16, 7) } },
  }
  for key, value in pairs(changes or {}) do options[key] = value end
  return options
end

local function plan(changes) return ts.plan(support.small_problem(), by_hand(changes)) end

describe("a plan by hand", function()
  it("is priced and checked like any other", function()
    local made = assert(plan())
    assert.equal("manual", made.planner)
    assert.equal("feasible", made.status)
    assert.is_nil(made.bound)
    assert.same({ "T4-16G", "V100-32G" }, made.device_order)
    assert.equal(5, made.stages[2].first_layer)
    assert.near((5 * 8 + 7 * 16) / 12, made.mean_bitwidth, 1e-9)
    assert.is_true(ts.check(made))
  end)

  it("takes the stages of another plan", function()
    local found = support.small_plan()
    local again = assert(plan { stages = found.stages, prefill_micro_batch_size = found.prefill_micro_batch_size,
      decode_micro_batch_size = found.decode_micro_batch_size })
    assert.equal(found.objective, again.objective)
    assert.equal(found.stages[1].memory.total_bytes, again.stages[1].memory.total_bytes)
  end)

  it("names the node of a device", function()
    local made = assert(plan { stages = { { device = "V100-32G@b", bitwidths = bits(8, 12) } } })
    assert.equal("b", made.stages[1].node)
    raises("not_found", "the cluster has no 'V100-32G@a'", function()
      return plan { stages = { { device = "V100-32G@a", bitwidths = bits(8, 12) } } }
    end)
  end)

  it("may not fit", function()
    declines("infeasible", "layers 0 to 11 of 0 to 12",
      plan { stages = { { device = "T4-16G", bitwidths = bits(8, 11) } } })
    declines("infeasible", "layers 0 to 13 of 0 to 12",
      plan { stages = { { device = "T4-16G", bitwidths = bits(8, 13) } } })
    declines("infeasible", "holds no decoder layer", plan { stages = { { device = "T4-16G", bitwidths = bits(8, 12) },
      { device = "V100-32G", bitwidths = {} } } })
    declines("infeasible", "micro-batch size 5 is outside [1, 4]", plan { decode_micro_batch_size = 5 })
    local why = declines("infeasible", "lower bitwidths or move layers",
      ts.plan({ model = "opt-30b", cluster = "1xT4-16G" },
        { planner = "manual", stages = { { device = "T4-16G", bitwidths = bits(16, 48) } },
          prefill_micro_batch_size = 1, decode_micro_batch_size = 1 }))
    assert.equal("memory", why.constraint)
  end)

  it("refuses wrong use by path", function()
    for _, case in ipairs {
      { { stages = 3 }, "invalid_argument", "ts.plan.stages" },
      { { stages = {} }, "invalid_argument", "ts.plan.stages: give a list of at least one stage" },
      { { stages = { x = 1 } }, "invalid_argument", "ts.plan.stages: give a list" },
      { { stages = { 3 } }, "invalid_argument", "ts.plan.stages[1]" },
      { { stages = { {} } }, "invalid_argument", "ts.plan.stages[1].device: missing" },
      { { stages = { { device = "T4-16G" } } }, "invalid_argument", "ts.plan.stages[1].bitwidths: missing" },
      { { stages = { { device = "T4-16G", bitwidhts = { 8 } } } }, "invalid_argument", "did you mean 'bitwidths'" },
      { { stages = { { device = 3, bitwidths = { 8 } } } }, "invalid_argument", "ts.plan.stages[1].device" },
      { { stages = { { device = "T4", bitwidths = bits(8, 12) } } }, "not_found", "did you mean 'T4-16G'" },
      { { stages = { { device = "T4-16G", bitwidths = { 5 } } } }, "invalid_argument", "5 is not one of" },
      { { stages = { { device = "T4-16G", bitwidths = { 3.7 } } } }, "invalid_argument", "bitwidths[1]: 3.7" },
      { { stages = { { device = "T4-16G", bitwidths = { support.nan } } } }, "invalid_argument", "NaN" },
      { { stages = { { device = "T4-16G", bitwidths = { 8, nil, 8 } } } }, "invalid_argument", "gaps" },
      { { stages = { { device = "T4-16G", bitwidths = 8 } } }, "invalid_argument", "not a list" },
      { { prefill_micro_batch_size = "2" }, "invalid_argument", "ts.plan.prefill_micro_batch_size" },
      { { decode_micro_batch_size = 0 }, "out_of_range", "ts.plan.decode_micro_batch_size" },
      { { stage = {} }, "invalid_argument", "did you mean 'stages'" },
    } do
      raises(case[2], case[3], function() return plan(case[1]) end)
    end
    raises("invalid_argument", "ts.plan.stages: missing", function()
      return ts.plan(support.small_problem(), { planner = "manual" })
    end)
    raises("invalid_argument", "no 'T4-16G' left", function()
      return plan { stages = { { device = "T4-16G", bitwidths = bits(8, 6) },
        { device = "T4-16G", bitwidths = bits(8, 6) } } }
    end)
  end)
end)
