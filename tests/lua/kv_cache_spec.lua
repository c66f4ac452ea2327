-- The KV cache's bitwidth as a decision: memory, attention time, and its price in omega.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local function problem(changes)
  local fields = {
    model = "opt-1.3b", cluster = "1xT4-16G", bitwidths = { 4, 16 }, theta = 1,
    workload = { prompt_tokens = 512, output_tokens = 100, batch_size = 32 },
  }
  for key, value in pairs(changes or {}) do fields[key] = value end
  return ts.problem(support.settled(fields))
end

local function only_plan(p)
  local bits = {}
  for i = 1, p.num_layers do bits[i] = 16 end
  return assert(ts.plan(p, {
    planner = "manual", stages = { { device = "T4-16G", bitwidths = bits } },
    prefill_micro_batch_size = 1, decode_micro_batch_size = 32,
  }))
end

describe("kv_bitwidth", function()
  it("halves the cache and speeds up decoding", function()
    local wide, narrow = only_plan(problem()), only_plan(problem { kv_bitwidth = 8 })
    local wide_memory, narrow_memory = wide.stages[1].memory, narrow.stages[1].memory
    assert.near(0.5 * wide_memory.kv_cache_bytes, narrow_memory.kv_cache_bytes, 1)
    assert.equal(wide_memory.weight_bytes, narrow_memory.weight_bytes)
    assert.is_true(narrow.stages[1].decode_s < wide.stages[1].decode_s)
    assert.equal(16, wide.kv_bitwidth)
    assert.equal(8, narrow.kv_bitwidth)
  end)

  it("grows by the layers that attend, beside states that do not grow", function()
    local function cache(tokens)
      local plan = ts.plan { model = "lfm2-1.2b", cluster = "1xL4",
        workload = { prompt_tokens = tokens - 1, output_tokens = 1, batch_size = 1 } }
      return plan.stages[1].memory.kv_cache_bytes
    end
    assert.equal(1000 * 6 * 2 * 512 * 2, cache(2000) - cache(1000)) -- 6 of 16 layers, 8 heads of 64
    assert.equal(10 * 2048 * 2 * 2, cache(1000) - 1000 * 6 * 2 * 512 * 2) -- two inputs of each convolution
  end)

  it("holds no prefixes of models with a state, and says so", function()
    local notes = ts.deployment { model = "lfm2-1.2b", cluster = "1xL4" }.notes
    assert.matches("^prefixes are not cached: lfm2%-1.2b keeps 80.0 KiB of state a sequence", notes[1])
    for _, note in ipairs(ts.deployment { model = "llama-3.2-1b", cluster = "1xL4" }.notes) do
      assert.no_match("prefixes", note)
    end
    notes = ts.deployment { model = "lfm2-1.2b", pools = { { role = "prefill", cluster = "1xL4" },
      { role = "decode", cluster = "1xL4" } }, transfer = { link_gbps = 100 } }.notes
    assert.matches("80.0 KiB of state a request is not counted", table.concat(notes, "; "))
  end)

  it("costs omega, as rounding the K and V projections would", function()
    assert.equal(0, only_plan(problem()).kv_omega)
    for bitwidth, ratio in pairs { [8] = (7 / 127) ^ 2, [4] = 1, [2] = 49 } do
      local plan = only_plan(problem { kv_bitwidth = bitwidth })
      -- Two of the twelve h x h matrices of an OPT layer.
      assert.near(ratio * 2 / 12, plan.kv_omega, 1e-9 * ratio)
      assert.near(only_plan(problem()).omega + plan.kv_omega, plan.omega, 1e-12)
      assert.near(plan.latency_s + plan.omega, plan.objective, 1e-9 * plan.objective)
      assert.is_true(ts.check(plan))
    end
  end)

  it("takes omega in the indicator's units", function()
    local per_layer = {}
    for i = 1, 24 do per_layer[i] = i end
    local at_4 = 24 * (1 / 7) ^ 2
    for given, raw in pairs { [0.25] = 24 * 0.25, [per_layer] = 300 } do
      local p = problem { kv_bitwidth = 8, kv_omega = { [8] = given } }
      assert.near(raw / at_4, only_plan(p).kv_omega, 1e-9 * raw)
      assert.near(raw, only_plan(p:with { theta_unit = "ms_per_raw_omega" }).kv_omega, 1e-9 * raw)
    end
    local path = support.temporary ""
    local plan = only_plan(problem { kv_bitwidth = 8, kv_omega = { [8] = per_layer } })
    plan:save(path)
    assert.is_true(ts.check(ts.load_plan(path)))
    assert.equal(plan.kv_omega, ts.load_plan(path).kv_omega)
    local text = support.read(path)
    for broken, message in pairs {
      ['"kv_omega": { "8": [1], "4": '] = "kv_omega: it is of 1 layers",
      ['"kv_omega": { "8": [1], "x": '] = "kv_omega.x: a bitwidth in [2, 16] belongs here",
      ['"kv_omega": 3, "was": '] = "an object by bitwidth",
      ['"kv_omega": { "32": [1], "x": '] = "kv_omega.32",
    } do
      local changed, count = text:gsub('"kv_omega": {%s*"8": ', function() return broken end, 1)
      assert.equal(1, count)
      changed = changed:gsub('"kv_omega": 3, "was": (%b[])%s*}', '"kv_omega": 3')
      local ok, err = pcall(ts.load_plan, support.temporary(changed))
      assert.is_false(ok)
      assert.truthy(tostring(err):find(message, 1, true), tostring(err))
    end
    support.remove_files()
  end)

  it("is chosen by theta", function()
    local open = problem { kv_bitwidth = { 16, 8, 4 } }
    assert.same({ 16, 8, 4 }, open.kv_bitwidths)
    assert.equal(16, open.kv_bitwidth)
    local cheap, dear = assert(ts.plan(open:with { theta = 0 })), assert(ts.plan(open:with { theta = 1e6 }))
    assert.equal(4, cheap.kv_bitwidth)
    assert.equal(16, dear.kv_bitwidth)
    for _, theta in ipairs { 0, 0.3, 3 } do
      local best = math.huge
      for _, bitwidth in ipairs { 16, 8, 4 } do
        best = math.min(best, assert(ts.plan(problem { kv_bitwidth = bitwidth, theta = theta })).objective)
      end
      local plan = assert(ts.plan(open:with { theta = theta }))
      assert.near(best, plan.objective, 1e-8 * best)
      assert.equal("optimal", plan.status)
      assert.is_true(ts.check(plan))
    end
  end)

  it("counts towards the quality floor", function()
    local floor = 1e-3
    local plan = assert(ts.plan(problem { kv_bitwidth = { 4, 8, 16 }, quality = { max_omega = floor } }))
    assert.is_true(plan.omega <= floor * (1 + 1e-6))
    assert.equal(8, plan.kv_bitwidth)
    local above = assert(ts.plan(problem { kv_bitwidth = { 4, 8, 16 }, quality = { at_least = "uniform" } }))
    local uniform = assert(ts.plan(problem { theta = 0 }, { planner = "uniform" }))
    assert.is_true(above.omega <= uniform.omega * (1 + 1e-6))
  end)

  it("refuses what cannot be", function()
    raises("out_of_range", "ts.problem.kv_bitwidth", function() problem { kv_bitwidth = 1 } end)
    raises("out_of_range", "ts.problem.kv_bitwidth", function() problem { kv_bitwidth = { 8, 17 } } end)
    raises("invalid_argument", "each once", function() problem { kv_bitwidth = { 8, 8 } } end)
    raises("invalid_argument", "ts.problem.kv_omega", function() problem { kv_omega = 3 } end)
    raises("out_of_range", "kv_omega bitwidth", function() problem { kv_omega = { [32] = 1 } } end)
    raises("invalid_argument", "a list of 24", function() problem { kv_omega = { [8] = { 1, 2 } } } end)
    raises("out_of_range", "kv_omega[8]", function() problem { kv_omega = { [8] = -1 } } end)
    raises("invalid_argument", "kv_omega[8]", function() problem { kv_omega = { [8] = "much" } } end)
    raises("invalid_argument", "it is of 24 layers, opt-125m has 12",
      function() problem { kv_omega = { [8] = 1 } }:with { model = "opt-125m" } end)
  end)
end)
