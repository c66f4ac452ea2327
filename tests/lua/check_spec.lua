-- ts.check: accepts what planners make and names what is wrong with anything else.
local ts = require "tessera"
local support = require "support"
local declines = support.declines

describe("ts.check", function()
  after_each(support.remove_files)

  it("accepts the plans of every planner", function()
    for _, planner in ipairs { "exact", "ilp", "uniform", "het" } do
      local plan = assert(ts.plan(support.small_problem(), { planner = planner, prefill_micro_batch_size = 4,
        decode_micro_batch_size = 4 }))
      assert.is_true(ts.check(plan))
    end
  end)

  -- A plan whose file was changed by hand: `from` (a pattern) becomes `to`.
  local function changed(from, to)
    local path = support.temporary()
    support.small_plan():save(path)
    local content, count = support.read(path):gsub(from, to, 1)
    assert.equal(1, count, from)
    local file = assert(io.open(path, "wb"))
    file:write(content)
    file:close()
    return ts.load_plan(path)
  end

  it("names what was changed in a file", function()
    for _, case in ipairs {
      { '("latency_s": )[%d.e-]+', "%19", "objective", "latency_s" },
      { '("objective": )[%d.e-]+', "%19", "objective", "objective" },
      { '("throughput_tok_s": )[%d.e-]+', "%19", "objective", "throughput_tok_s" },
      { '("omega": )[%d.e-]+,', "%19,", "objective", "omega" },
      { '("mean_bitwidth": )[%d.e-]+', "%19", "objective", "mean_bitwidth" },
      { '("weight_bytes": )[%d.e-]+', "%19", "objective", "weight_bytes" },
      { '("kv_cache_bytes": )[%d.e-]+', "%19", "objective", "kv_cache_bytes" },
      { '("capacity_bytes": )[%d.e-]+', "%19", "objective", "capacity_bytes" },
      { '("prefill_s": )[%d.e-]+', "%19", "objective", "time" },
      { '("bound": )[%d.e-]+', "%11e9", "objective", "bound" },
      { '("first_layer": )%d+', "%1999999", "contiguity", "layer" },
      { '("device_index": )%d+', "%1999999", "devices", "device" },
      { '("device_order": %[%s*)"[^"]*"', '%1"A100-40G"', "devices", "device_order" },
      { '("decode_micro_batch_size": )%d+', "%1999999", "micro_batch", "micro%-batch" },
    } do
      local plan = changed(case[1], case[2])
      local result, why = ts.check(plan)
      assert.is_nil(result, case[1])
      assert.equal(case[3], why.code, why.message)
      assert.matches(case[4], why.message)
      local ok, err = pcall(ts.simulate, plan) -- reads layers and devices by what the file says
      assert.is_false(ok)
      assert.matches("the plan is broken", err.message)
    end
  end)

  it("says so where the file names what the problem has not", function()
    for _, case in ipairs { { '("device": )"[^"]*"', '%1"B100"' }, { '("bitwidths": %[%s*)%d+', "%15" } } do
      local plan = changed(case[1], case[2])
      local ok, result, why = pcall(ts.check, plan)
      assert.is_true(not ok or result == nil)
      assert.is_string((ok and why or result).message)
    end
  end)

  it("refuses what is no plan", function()
    for _, value in ipairs { 3, "plan", {}, print, ts.model "opt-125m" } do
      support.raises("invalid_argument", "where a tessera.Plan belongs", function() return ts.check(value) end)
    end
    support.raises("invalid_argument", "ts.check plan", function() return ts.check() end)
  end)

  it("is told of a plan that does not fit by ts.plan", function()
    local bits = {}
    for i = 1, 12 do bits[i] = 8 end
    declines("infeasible", "layers 0 to 12 of 0 to", ts.plan(support.small_problem { model = "opt-350m" }, {
      planner = "manual", stages = { { device = "T4-16G", bitwidths = bits } }, prefill_micro_batch_size = 1,
      decode_micro_batch_size = 1 }))
  end)
end)
