-- ts.plan and the plan object.
local ts = require "tessera"
local support = require "support"
local raises, declines = support.raises, support.declines

local small = { prefill_micro_batch_size = 2, decode_micro_batch_size = 4 }
local function with(changes) return support.changed(small, changes) end

describe("a plan", function()
  it("has the fields of the contract", function()
    support.is_object(support.small_plan(), "tessera.Plan", {
      status = "string", objective = "number", bound = "number?", gap = "number?", solve_s = "number",
      planner = "string", device_order = "list", prefill_micro_batch_size = "integer",
      decode_micro_batch_size = "integer", latency_s = "number", throughput_tok_s = "number", omega = "number",
      mean_bitwidth = "number", provenance = "string", error = "number?", stages = "list", notes = "list",
      offload = "table?", quality = "table",
      kv_bitwidth = "number?", kv_omega = "number?", candidates = "list?", replicas = "list?", devices = "list?",
      pipelines = "list", placement = "table?",
      unused_devices = "list?",
    })
  end)

  it("has stages and their memory", function()
    local layer = 0
    for k, stage in ipairs(support.small_plan().stages) do
      support.is_object(stage, "tessera.Stage", {
        device = "string", node = "string", device_index = "integer", first_layer = "integer", num_layers = "integer",
        bitwidths = "list", prefill_s = "number", decode_s = "number", memory = "tessera.StageMemory",
        offload = "table?",
      })
      support.is_object(stage.memory, "tessera.StageMemory", {
        weight_bytes = "number", kv_cache_bytes = "number", activation_bytes = "number", embedding_bytes = "number",
        reserve_bytes = "number", total_bytes = "number", capacity_bytes = "number",
      })
      assert.equal(layer, stage.first_layer, "stage " .. k)
      assert.equal(stage.num_layers, #stage.bitwidths)
      layer = layer + stage.num_layers
      local m = stage.memory
      assert.near(m.total_bytes,
        m.weight_bytes + m.kv_cache_bytes + m.activation_bytes + m.embedding_bytes + m.reserve_bytes, 1)
      assert.is_true(m.total_bytes <= m.capacity_bytes)
    end
    assert.equal(12, layer)
  end)

  it("has numbers that fit each other", function()
    local plan = support.small_plan()
    assert.equal("optimal", plan.status)
    assert.equal("exact", plan.planner)
    assert.equal("modelled", plan.provenance)
    assert.is_true(plan.bound <= plan.objective * (1 + 1e-9))
    assert.is_true(plan.gap >= 0 and plan.gap < 1e-6)
    assert.near(4 * 8 / plan.latency_s, plan.throughput_tok_s, 1e-6 * plan.throughput_tok_s)
    assert.is_true(plan.mean_bitwidth >= 4 and plan.mean_bitwidth <= 16)
    assert.equal(#plan.stages, #plan.device_order)
    assert.equal("tessera.Problem", getmetatable(plan:problem()))
  end)

  it("is one line for tostring and a page for print", function()
    local plan = support.small_plan()
    assert.not_matches("\n", tostring(plan))
    assert.matches("\n.*\n", debug.getmetatable(plan).__full(plan)) -- what print shows
    local text = plan:explain()
    assert.is_string(text)
    assert.matches("memory is tightest on stage", text)
    assert.matches("^stage on ", tostring(plan.stages[1]))
    assert.matches("^memory: .* of ", tostring(plan.stages[1].memory))
  end)

  it("gives plain tables all the way down", function()
    local function plain(value)
      assert.not_equal("userdata", type(value))
      if type(value) == "table" then
        assert.is_nil(getmetatable(value))
        for _, item in pairs(value) do plain(item) end
      end
    end
    plain(support.small_plan():to_table())
    plain(support.small_problem():to_table())
    assert.same(support.small_plan():to_table(), support.small_plan():to_table())
  end)

  it("gives copies: changing a list changes no plan", function()
    local plan = support.small_plan()
    plan.stages[1] = nil
    plan.device_order[1] = "x"
    plan.stages[1].bitwidths[1] = 99
    assert.not_equal("x", plan.device_order[1])
    assert.not_equal(99, plan.stages[1].bitwidths[1])
  end)
end)

describe("ts.plan", function()
  it("keeps what is fixed", function()
    local plan = assert(ts.plan(support.small_problem(), with { device_order = { "V100-32G", "T4-16G" } }))
    assert.same({ "V100-32G", "T4-16G" }, plan.device_order)
    assert.equal(2, plan.prefill_micro_batch_size)
    assert.equal(4, plan.decode_micro_batch_size)
  end)

  it("takes the fields of a problem", function()
    assert.is_truthy(ts.plan({ model = "opt-125m", cluster = "1xT4-16G", workload = { batch_size = 1 } }, {
      planner = "uniform" }))
  end)

  it("reports incumbents, and errors of the function that hears of them", function()
    local seen = {}
    assert(ts.plan(support.small_problem(), with { on_incumbent = function(i) seen[#seen + 1] = i end }))
    assert.is_true(#seen >= 1)
    for _, incumbent in ipairs(seen) do
      assert.is_number(incumbent.objective)
      assert.is_number(incumbent.bound)
      assert.is_number(incumbent.gap)
    end
    local ok, err = pcall(ts.plan, support.small_problem(), with { on_incumbent = function() error "mine" end })
    assert.is_false(ok)
    assert.matches("mine", tostring(err))
    local thrown = {}
    ok, err = pcall(ts.plan, support.small_problem(), with { on_incumbent = function() error(thrown) end })
    assert.is_false(ok)
    assert.equal(thrown, err)
    ok = pcall(ts.plan, support.small_problem(), with { on_incumbent = function() coroutine.yield() end })
    assert.is_false(ok)
  end)

  it("says why there is no plan", function()
    local why = declines("infeasible", "GiB", ts.plan { model = "opt-175b", cluster = "1xT4-16G" })
    assert.equal("memory", why.constraint)
    assert.equal(why.message, tostring(why))
    assert.not_matches("\n", why.message)
    declines("infeasible", "", ts.plan(support.small_problem { quality = { max_omega = 0 }, bitwidths = { 4 } }))
    declines("time_limit", "time_limit_s", ts.plan(ts.problem {
      model = "opt-66b", cluster = "llmpq-11", bitwidths = { 3, 4, 8, 16 } }, { time_limit_s = 0 }))
  end)

  it("resolves quality floors without touching theta", function()
    local problem = support.small_problem { quality = { at_least = "uniform" }, theta = 5 }
    local plan = assert(ts.plan(problem, small))
    assert.equal(5, plan:problem().theta)
    assert.is_true(plan.omega <= plan:problem().quality.max_omega * (1 + 1e-6) + 1e-9)
    assert.matches("quality floor", plan.notes[#plan.notes])
    assert.same({ at_least = "uniform" }, problem.quality)
    raises("not_found", "ts.problem.quality.at_least: unknown planner 'unifrom'; did you mean 'uniform'", function()
      return ts.plan(support.small_problem { quality = { at_least = "unifrom" } })
    end)
  end)

  for _, planner in ipairs { "exact", "ilp", "uniform", "het" } do
    it("refuses bad options of " .. planner, function()
      for _, case in ipairs {
        { { time_limt_s = 3 }, "invalid_argument", "did you mean 'time_limit_s'" },
        { { time_limit_s = support.nan }, "invalid_argument", "ts.plan.time_limit_s: NaN" },
        { { time_limit_s = support.inf }, "invalid_argument", "inf is not finite" },
        { { time_limit_s = -1 }, "out_of_range", "(s)" },
        { { time_limit_s = "4" }, "invalid_argument", "the string '4' is not a number" },
        { { gap = 2 }, "out_of_range", "ts.plan.gap" },
        { { seed = 2 ^ 53 + 2 }, "out_of_range", "beyond 2^53" },
        { { threads = -1 }, "out_of_range", "ts.plan.threads" },
        { { prefill_micro_batch_size = 3.7 }, "invalid_argument", "3.7 is not an integer" },
        { { prefill_micro_batch_size = 0 }, "out_of_range", "(requests)" },
        { { decode_micro_batch_size = 5 }, "out_of_range", "more than the batch of 4 requests" },
        { { device_order = "T4-16G" }, "invalid_argument", "not a list" },
        { { device_order = {} }, "invalid_argument", "at least one device" },
        { { device_order = { 3 } }, "invalid_argument", "device_order[1]" },
        { { device_order = { "T4" } }, "not_found", "did you mean 'T4-16G'" },
        { { device_order = { "T4-16G", "T4-16G" } }, "invalid_argument", "no 'T4-16G' left" },
        { { on_incumbent = 5 }, "invalid_argument", "ts.plan.on_incumbent" },
        { { stages = {} }, "invalid_argument", "stages" },
      } do
        case[1].planner = planner
        raises(case[2], case[3], function() return ts.plan(support.small_problem(), case[1]) end)
      end
    end)
  end

  it("refuses wrong use", function()
    raises("invalid_argument", "ts.plan: give a problem", function() return ts.plan() end)
    raises("invalid_argument", "its options are a table", function() return ts.plan(support.small_problem(), 3) end)
    raises("invalid_argument", "a tessera.Plan where", function() return ts.plan(support.small_plan()) end)
    raises("not_found", "did you mean 'uniform'", function()
      return ts.plan(support.small_problem(), { planner = "unifrom" })
    end)
    raises("invalid_argument", "ts.plan.planner", function()
      return ts.plan(support.small_problem(), { planner = 3 })
    end)
    local plan = support.small_plan()
    raises("invalid_argument", "tessera.Plan", function() return plan.explain() end)
    raises("invalid_argument", "tessera.Plan", function() return plan.save(3, "x") end)
    raises("invalid_argument", "call methods with ':'", function() return plan.to_table {} end)
    raises("invalid_argument", "ts.pln does not exist; did you mean", function() return ts.pln end)
  end)
end)
