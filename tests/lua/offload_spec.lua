-- Offloading: flexgen and flexgen_int8, plans by hand that offload, and what refuses to handle them.
local ts = require "tessera"
local support = require "support"
local raises, declines = support.raises, support.declines

-- Two T4s on one node; OPT-30b does not fit at 16 bits.
local function problem_with(changes)
  local cluster = { { "T4-16G", 2, node = "a" }, host_memory_gib = 128, disk_bytes_per_s = 1e9 }
  local description = {
    model = "opt-30b", cluster = cluster,
    workload = { prompt_tokens = 256, output_tokens = 20, batch_size = 8 }, bitwidths = { 8, 16 },
  }
  for key, value in pairs(changes or {}) do
    if key == "host_memory_gib" or key == "disk_bytes_per_s" then
      cluster[key] = value or nil
    else
      description[key] = value
    end
  end
  return ts.problem(support.settled(description))
end

local plan
local function offloading_plan()
  plan = plan or assert(ts.plan(problem_with(), { planner = "flexgen" }))
  return plan
end

-- A plan by hand: 48 layers on two stages, all shares of both stages given.
local function by_hand(stage_offload, changes)
  local bits = {}
  for i = 1, 24 do bits[i] = 16 end
  local stages = {}
  for k = 1, 2 do stages[k] = { device = "T4-16G", bitwidths = bits, offload = stage_offload } end
  local candidate = {
    planner = "manual", stages = stages, prefill_micro_batch_size = 4, decode_micro_batch_size = 4,
    offload = { gpu_batch_size = 2 },
  }
  for key, value in pairs(changes or {}) do candidate[key] = value end
  return candidate
end

local all_on_host = { weights = { host = 1 }, kv_cache = { host = 1 }, activations = { host = 1 } }

describe("flexgen", function()
  it("keeps on the host what does not fit, and passes the checker", function()
    local made = offloading_plan()
    assert.is_true(ts.check(made))
    assert.equal("feasible", made.status)
    assert.is_nil(made.bound)
    assert.equal(4, made.prefill_micro_batch_size) -- the batch over the stages
    assert.equal(4, made.decode_micro_batch_size)
    assert.near(16, made.mean_bitwidth, 1e-9)
    local layers = 0
    for _, stage in ipairs(made.stages) do
      layers = layers + stage.num_layers
      assert.equal(24, stage.num_layers) -- an even split
      for _, kind in ipairs { "weights", "kv_cache", "activations" } do
        local r = stage.offload[kind]
        assert.near(1, r.device + r.host + r.disk, 1e-9)
      end
      assert.is_true(stage.offload.weights.host > 0.3) -- 30 GB of weights, 15 GB of device
      assert.is_true(stage.offload.host_bytes > 0)
      assert.is_true(stage.memory.total_bytes <= stage.memory.capacity_bytes)
    end
    assert.equal(48, layers)
    assert.near(8 * 20 / made.latency_s, made.throughput_tok_s, 1e-6)
    assert.matches("24%+24 layers, weights stored at 16 bits", made.notes[1])
  end)

  it("is no worse than any plan by hand of its shape", function()
    local problem, best = problem_with(), offloading_plan()
    for _, w in ipairs { 0, 0.2, 0.4 } do
      for _, c in ipairs { 0, 0.5, 1 } do
        local shares = {
          weights = { device = w, host = 1 - w }, kv_cache = { device = c, host = 1 - c }, activations = { device = 1 },
        }
        for _, gpu_batch_size in ipairs { 1, 2, 4 } do
          local other = ts.plan(problem, by_hand(shares, { offload = { gpu_batch_size = gpu_batch_size } }))
          if other then assert.is_true(best.latency_s <= other.latency_s * (1 + 1e-7)) end
        end
      end
    end
  end)

  it("moves half the bytes with 8-bit weights", function()
    local int8 = assert(ts.plan(problem_with(), { planner = "flexgen_int8" }))
    assert.is_true(ts.check(int8))
    assert.near(8, int8.mean_bitwidth, 1e-9)
    assert.is_true(int8.latency_s < offloading_plan().latency_s)
    assert.is_true(int8.omega > offloading_plan().omega)
  end)

  it("goes to disk when the host is full, and is slower for it", function()
    local made = assert(ts.plan(problem_with { host_memory_gib = 32 }, { planner = "flexgen" }))
    assert.is_true(ts.check(made))
    assert.is_true(made.stages[1].offload.disk_bytes > 2 ^ 30)
    assert.is_true(made.latency_s > 2 * offloading_plan().latency_s)
    assert.matches("reads from disk", made:explain())
    local why = declines("infeasible", "node 'a' has to keep at least",
      ts.plan(problem_with { host_memory_gib = 32, disk_bytes_per_s = false }, { planner = "flexgen" }))
    assert.matches("may use 25%.60 GiB %(80 %% of its memory%)", why.message)
  end)

  it("leaves all on the devices where it fits", function()
    local made = assert(ts.plan(problem_with { model = "opt-1.3b" }, { planner = "flexgen" }))
    for _, stage in ipairs(made.stages) do
      assert.equal(0, stage.offload.host_bytes)
      assert.equal(0, stage.offload.disk_bytes)
      assert.equal(1, stage.offload.weights.device)
    end
  end)

  it("takes sizes, order and options", function()
    local problem = problem_with()
    local function sizes(options)
      options.planner = "flexgen"
      local made = assert(ts.plan(problem, options))
      assert.equal(made.prefill_micro_batch_size, made.decode_micro_batch_size)
      assert.is_true(made.offload.gpu_batch_size <= made.prefill_micro_batch_size)
      return made.prefill_micro_batch_size, made
    end
    assert.equal(2, sizes { prefill_micro_batch_size = 2 })
    assert.equal(8, (sizes { decode_micro_batch_size = 8 }))
    local _, searched = sizes { search_blocks = true }
    assert.is_true(searched.latency_s <= offloading_plan().latency_s)
    local _, one = sizes { device_order = { "T4-16G" } }
    assert.equal(1, #one.stages)
    local _, slow = sizes { host_attention_bytes_per_s = 1e8 }
    assert.equal(1e8, slow.offload.host_attention_bytes_per_s)
    assert.is_true(slow.latency_s >= offloading_plan().latency_s)
    local _, frugal = sizes { host_memory_ratio = 0.3 }
    assert.is_true(frugal.stages[1].offload.host_bytes + frugal.stages[2].offload.host_bytes <= 0.3 * 128 * 2 ^ 30)
    assert.is_true(ts.check(slow) and ts.check(frugal))
    raises("out_of_range", "host_memory_ratio: 2 is out of range; give a number in [0, 1]",
      function() return ts.plan(problem, { planner = "flexgen", host_memory_ratio = 2 }) end)
  end)

  it("says what it needs", function()
    local function refuses(text, problem, options)
      options = options or {}
      options.planner = options.planner or "flexgen"
      return declines("infeasible", text, ts.plan(problem, options))
    end
    refuses("does not say how much memory node 'a' has; give host_memory_gib", problem_with { host_memory_gib = false })
    refuses("flexgen_int8 stores weights at 8 bits, which is not one of the problem's bitwidths (16)",
      problem_with { bitwidths = { 16 } }, { planner = "flexgen_int8" })
    refuses("one block size for both phases, not 1 in prefill and 2 in decode", problem_with(),
      { prefill_micro_batch_size = 1, decode_micro_batch_size = 2 })
    refuses("omega is", problem_with { bitwidths = { 8, 16 }, quality = { max_omega = 1e-6 } },
      { planner = "flexgen_int8" })
    refuses("13 stages and only 12 layers", problem_with { model = "opt-125m",
      cluster = { { "T4-16G", 13 }, host_memory_gib = 9 } })
    refuses("GPU batch of 1 even with everything else offloaded", problem_with {
      workload = { prompt_tokens = 2000, output_tokens = 20, batch_size = 1 }, model = "bloom-176b" })
    declines("time_limit", "raise time_limit_s", ts.plan(problem_with(), { planner = "flexgen", time_limit_s = 0 }))
  end)

  it("knows no instances", function()
    local here = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$"
    local problem = ts.problem { instance = here .. "/../fuzz/corpus/instance/c1.json" }
    declines("infeasible", "an instance file says nothing of host memory", ts.plan(problem, { planner = "flexgen" }))
  end)
end)

describe("an offloading plan", function()
  after_each(support.remove_files)

  it("comes back exactly from a file", function()
    local path = support.temporary()
    offloading_plan():save(path)
    local again = ts.load_plan(path)
    assert.same(offloading_plan():to_table(), again:to_table())
    assert.is_true(offloading_plan() == again)
    assert.is_true(ts.check(again))
  end)

  it("is checked in every number and share", function()
    local path = support.temporary()
    offloading_plan():save(path)
    local content = support.read(path)
    for _, case in ipairs {
      { '("latency_s": )[%d.e-]+', "%11", "objective", "latency_s is 1" },
      { '("throughput_tok_s": )[%d.e-]+', "%1999", "objective", "throughput_tok_s" },
      { '(\n "omega": )[%d.e-]+', "%10.5", "objective", "omega" },
      { '("host_bytes": )[%d.e+-]+', "%11", "objective", "stages%[1%]%.offload%.host_bytes" },
      { '("disk_bytes": )[%d.e+-]+', "%11", "objective", "stages%[1%]%.offload%.disk_bytes" },
      { '("gpu_batch_size": )%d+', "%12", "memory", "stage 1 on T4%-16G needs" },
      { '("gpu_batch_size": )%d+', "%15", "micro_batch", "GPU batch of 5 does not fit" },
      { '("host_memory_ratio": )[%d.]+', "%10.1", "memory", "on the host, which may use 12.80 GiB" },
      { '("host_attention_bytes_per_s": )[%d.e+-]+', "%11e9", "objective", "decode_s" },
      { '("activations": {%s*"device": )[%d.]+', "%10.5", "offload", "activations on device, host and disk" },
      { '("prefill_s": )[%d.e-]+', "%19", "objective", "prefill_s" },
      { '("kv_cache_bytes": )[%d.e+-]+', "%19", "objective", "kv_cache_bytes" },
      { '("capacity_bytes": )[%d.e+-]+', "%19", "objective", "capacity_bytes" },
      { '("reserve_bytes": )[%d.e+-]+', "%19", "objective", "reserve_bytes" },
      { '("device_index": )%d+', "%17", "devices", "device 7" },
      { '("bound": )null', "%11", "objective", "has no bound" },
      { '("decode_micro_batch_size": )%d+', "%12", "micro_batch", "one block size" },
    } do
      local changed, count = content:gsub(case[1], case[2], 1)
      assert.equal(1, count, case[1])
      local result, why = ts.check(ts.load_plan(support.temporary(changed)))
      assert.is_nil(result, case[1])
      assert.equal(case[3], why.code, why.message)
      assert.matches(case[4], why.message)
    end
    local half = content:gsub('"offload": {%s*"gpu_batch_size".-},?\n', "", 1)
    raises("invalid_argument", "says for itself and for every stage how it offloads",
      function() return ts.load_plan(support.temporary(half)) end)
  end)

  it("is not simulated, and says why", function()
    raises("unsupported", "priced by FlexGen's cost model alone", function() return ts.simulate(offloading_plan()) end)
  end)

  it("prints and explains itself", function()
    local text = debug.getmetatable(offloading_plan()).__full(offloading_plan())
    assert.matches("offloading: GPU batches of 1, shares on device/host/disk in %%", text)
    assert.matches("weights %d+/%d+/0, KV cache %d+/%d+/0, activations 100/0/0; [%d.]+ GiB on the host", text)
    local why = offloading_plan():explain()
    assert.matches("decoding waits for stage %d %(T4%-16G, .* per block%), which waits for copies from host", why)
    assert.matches("node a keeps [%d.]+ GiB of the 102.40 GiB", why)
  end)

  it("stands beside what people run", function()
    local rows = ts.beside(offloading_plan())
    assert.equal(4, #rows)
    assert.is_true(rows[1].latency_s == nil or rows[1].speedup > 0)
  end)

  it("may be made by hand", function()
    local problem = problem_with()
    local made = assert(ts.plan(problem, by_hand(all_on_host)))
    assert.is_true(ts.check(made))
    assert.equal("manual", made.planner)
    assert.same({ device = 0, host = 1, disk = 0 }, made.stages[1].offload.weights)
    assert.is_true(made.latency_s > offloading_plan().latency_s)
    local again = assert(ts.plan(problem, { planner = "manual", stages = made.stages, offload = made.offload,
      prefill_micro_batch_size = 4, decode_micro_batch_size = 4 }))
    assert.equal(made.latency_s, again.latency_s)
    declines("infeasible", "offload more of it", ts.plan(problem, by_hand(nil)))
    declines("infeasible", "whose rate the cluster does not say", ts.plan(problem_with { disk_bytes_per_s = false },
      by_hand { weights = { disk = 1 } }))
    declines("infeasible", "must be at least 0 and sum to 1", ts.plan(problem, by_hand { weights = { host = 0.5 } }))
    declines("infeasible", "on the host, which may use 25.60 GiB",
      ts.plan(problem_with { host_memory_gib = 32 }, by_hand(all_on_host)))
    declines("infeasible", "does not fit into micro-batches of 4",
      ts.plan(problem, by_hand(all_on_host, { offload = { gpu_batch_size = 5 } })))
  end)

  it("is handed on by another planner", function()
    ts.register_planner { name = "hands_on", doc = "For the tests", plan = function(problem)
      return ts.plan(problem, { planner = "flexgen" })
    end }
    local made = assert(ts.plan(problem_with(), { planner = "hands_on" }))
    assert.equal(offloading_plan().latency_s, made.latency_s)
    assert.same(offloading_plan().offload, made.offload)
  end)

  it("is refused when it is written wrongly", function()
    local problem = problem_with()
    for _, case in ipairs {
      { by_hand({ weight = { host = 1 } }), "ts.plan.stages[1].offload" },
      { by_hand({ weights = { hots = 1 } }), "did you mean 'host'" },
      { by_hand({ weights = { host = 2 } }), "host" },
      { by_hand({ weights = 3 }), "weights" },
      { by_hand(all_on_host, { offload = { host_memory_ratio = 1 } }), "gpu_batch_size" },
      { by_hand(all_on_host, { offload = { gpu_batch_size = 2, host = 3 } }), "host" },
    } do
      local ok, err = pcall(ts.plan, problem, case[1])
      assert.is_false(ok, case[2])
      assert.truthy(err.message:find(case[2], 1, true), err.message)
    end
    local without = by_hand(all_on_host)
    without.offload = nil
    raises("invalid_argument", "says offload = { gpu_batch_size = } for itself as well",
      function() return ts.plan(problem, without) end)
  end)
end)

describe("problem:offload", function()
  local function candidate(changes)
    local given = by_hand(nil, changes)
    given.planner = nil
    return given
  end

  it("gives shares and latency, as the planner has them", function()
    local shares, latency_s = problem_with():offload(candidate { offload = { gpu_batch_size = 1 } })
    assert.equal(2, #shares)
    assert.near(offloading_plan().latency_s, latency_s, 1e-9 * latency_s)
  end)

  it("refuses what it cannot do", function()
    raises("invalid_argument", "give { gpu_batch_size = 4 }", function()
      local given = candidate()
      given.offload = nil
      return problem_with():offload(given)
    end)
    declines("infeasible", "does not say how much memory",
      problem_with { host_memory_gib = false }:offload(candidate()))
    raises("unsupported", "ask problem:offload", function() return problem_with():evaluate(candidate()) end)
  end)
end)
