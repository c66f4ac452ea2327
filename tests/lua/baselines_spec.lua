-- The baselines: their splits, what they say of themselves, and that none beats the proven optimum of its own space.
local ts = require "tessera"
local support = require "support"
local declines = support.declines

local splits = { "vllm_even", "memory_split", "flops_split" }
local all = { "uniform", "het", "pipeedge", "vllm_even", "memory_split", "flops_split", "best_homogeneous" }

local function counts_of(plan)
  local counts, sum = {}, 0
  for k, stage in ipairs(plan.stages) do
    counts[k], sum = stage.num_layers, sum + stage.num_layers
  end
  return counts, sum
end

local function problem_on(cluster, changes)
  changes = changes or {}
  changes.cluster = cluster
  return support.small_problem(changes)
end

-- One bitwidth for all layers.
local function bitwidth_of(plan)
  local bitwidth = plan.stages[1].bitwidths[1]
  for _, stage in ipairs(plan.stages) do
    for _, bit in ipairs(stage.bitwidths) do assert.equal(bitwidth, bit) end
  end
  return bitwidth
end

describe("vllm_even", function()
  local function counts(model, num_devices)
    local problem = problem_on({ { "A100-40G", num_devices } }, { model = model })
    local plan = assert(ts.plan(problem, { planner = "vllm_even" }))
    assert.equal(16, bitwidth_of(plan))
    return (counts_of(plan))
  end

  it("gives what is left over to the stages before the last, from the back", function()
    assert.same({ 12 }, counts("opt-125m", 1))
    assert.same({ 4, 4, 4 }, counts("opt-125m", 3))
    assert.same({ 2, 2, 3, 3, 2 }, counts("opt-125m", 5))
    assert.same({ 2, 2, 2, 2, 2, 2 }, counts("opt-125m", 6))
    assert.same({ 1, 2, 2, 2, 2, 2, 1 }, counts("opt-125m", 7))
  end)

  it("says in short how many layers many stages hold", function()
    local function note(num_devices)
      local problem = problem_on({ { "T4-16G", num_devices } }, { model = "opt-1.3b" })
      return assert(ts.plan(problem, { planner = "vllm_even" })).notes[1]
    end
    assert.equal("2+2+2+2+2+2+2+2+2+2+2+2 layers at 16 bits", note(12))
    assert.equal("13 stages of 1 to 2 layers at 16 bits", note(13))
    assert.equal("24 stages of 1 layers at 16 bits", note(24))
  end)

  it("has no plan with more stages than layers", function()
    declines("infeasible", "13 stages and only 12 layers",
      ts.plan(problem_on { { "T4-16G", 13 } }, { planner = "vllm_even" }))
  end)
end)

describe("memory_split and flops_split", function()
  local cluster = { { "T4-16G", 2, node = "a" }, { "V100-32G", 1, node = "b" }, { "A100-40G", 1, node = "c" } }

  it("are proportional within one layer", function()
    local problem = problem_on(cluster, { model = "opt-1.3b" })
    local facts = problem:device_facts {
      device_order = problem.devices, prefill_micro_batch_size = 1, decode_micro_batch_size = 1,
    }
    for name, field in pairs { memory_split = "usable_bytes", flops_split = "fp16_flop_per_s" } do
      local total = 0
      for _, device in ipairs(facts) do total = total + device[field] end
      -- llama.cpp's output layer is one more unit, on the last device
      local units = problem.num_layers + (name == "memory_split" and 1 or 0)
      local counts, sum = counts_of(assert(ts.plan(problem, { planner = name })))
      assert.equal(problem.num_layers, sum)
      for k, device in ipairs(facts) do
        local held = counts[k] + (k == #facts and units - problem.num_layers or 0)
        assert.is_true(math.abs(held - units * device[field] / total) < 1, ("%s, device %d: %d"):format(name, k, held))
      end
    end
  end)

  it("follow the order that is given", function()
    local problem = problem_on(cluster, { model = "opt-1.3b" })
    for _, name in ipairs(splits) do
      local plan = assert(ts.plan(problem, { planner = name, device_order = { "A100-40G", "T4-16G" } }))
      assert.same({ "A100-40G", "T4-16G" }, plan.device_order)
      if name ~= "vllm_even" then assert.is_true(plan.stages[1].num_layers > plan.stages[2].num_layers) end
    end
  end)

  it("leave out devices too small for a layer, and say so", function()
    local plan = assert(ts.plan(problem_on { { "T4-16G", 13, node = "a" }, { "A100-40G", 2, node = "b" } },
      { planner = "flops_split" }))
    local _, sum = counts_of(plan)
    assert.equal(12, sum)
    assert.is_true(#plan.stages < 15)
    assert.matches("no layer on .*T4%-16G@a", plan.notes[1])
  end)

  it("say what they chose", function()
    for _, name in ipairs(splits) do
      local plan = assert(ts.plan(problem_on(cluster), { planner = name }))
      assert.equal(table.concat((counts_of(plan)), "+") .. " layers at 16 bits", plan.notes[1])
    end
  end)
end)

describe("pipeedge", function()
  it("balances prefill alone, with one size of micro-batch", function()
    local problem = problem_on({ { "T4-16G", 1, node = "a" }, { "V100-32G", 1, node = "b" } }, { model = "opt-1.3b" })
    local plan = assert(ts.plan(problem, { planner = "pipeedge" }))
    assert.equal(2, plan.prefill_micro_batch_size) -- 4 requests over 2 stages
    assert.equal(2, plan.decode_micro_batch_size)
    local longest = math.max(plan.stages[1].prefill_s, plan.stages[2].prefill_s)
    local bits = {}
    for i = 1, 24 do bits[i] = bitwidth_of(plan) end
    for first = 1, 23 do -- every other boundary is no better
      local other = assert(ts.plan(problem, { planner = "manual", prefill_micro_batch_size = 2,
        decode_micro_batch_size = 2, stages = {
          { device = "T4-16G", bitwidths = { unpack(bits, 1, first) } },
          { device = "V100-32G", bitwidths = { unpack(bits, first + 1) } },
        } }))
      assert.is_true(math.max(other.stages[1].prefill_s, other.stages[2].prefill_s) >= longest * (1 - 1e-12))
    end
  end)

  it("balances decoding instead when asked, as LLM-PQ's code does", function()
    local problem = problem_on({ { "P100-12G", 1 }, { "V100-32G", 1 } }, { model = "opt-6.7b" })
    local function slowest(phase)
      local plan = assert(ts.plan(problem, { planner = "pipeedge", phase = phase }))
      assert.matches("balanced for " .. phase .. " alone", plan.notes[1])
      return math.max(plan.stages[1].prefill_s, plan.stages[2].prefill_s),
        math.max(plan.stages[1].decode_s, plan.stages[2].decode_s)
    end
    local prefill_of_prefill, decode_of_prefill = slowest "prefill"
    local prefill_of_decode, decode_of_decode = slowest "decode"
    assert.is_true(prefill_of_prefill < prefill_of_decode)
    assert.is_true(decode_of_decode < decode_of_prefill)
    support.raises("invalid_argument", "ts.plan.phase: 'both' is neither 'prefill' nor 'decode'",
      function() return ts.plan(problem, { planner = "pipeedge", phase = "both" }) end)
  end)

  it("takes the sizes that are fixed", function()
    local problem = support.small_problem()
    local function sizes(options)
      options.planner = "pipeedge"
      local plan = assert(ts.plan(problem, options))
      return { plan.prefill_micro_batch_size, plan.decode_micro_batch_size }
    end
    assert.same({ 1, 1 }, sizes { prefill_micro_batch_size = 1 })
    assert.same({ 4, 4 }, sizes { decode_micro_batch_size = 4 })
    assert.same({ 1, 4 }, sizes { prefill_micro_batch_size = 1, decode_micro_batch_size = 4 })
  end)
end)

describe("best_homogeneous", function()
  it("is the best of the types, each searched exactly", function()
    local problem = support.small_problem { model = "opt-1.3b" }
    local plan = assert(ts.plan(problem, { planner = "best_homogeneous" }))
    local t4 = assert(ts.plan(problem, { device_order = { "T4-16G" } }))
    local v100 = assert(ts.plan(problem, { device_order = { "V100-32G" } }))
    assert.near(math.min(t4.objective, v100.objective), plan.objective, 1e-9 * plan.objective)
    assert.matches("^1 x V100%-32G alone; 1 x T4%-16G left out %([%d.]+ s alone%)$", plan.notes[1])
  end)

  it("tells of each type why none fits", function()
    local why = declines("infeasible", "no type of device holds the model alone",
      ts.plan(support.small_problem { model = "opt-175b" }, { planner = "best_homogeneous" }))
    assert.matches("T4%-16G: .*V100%-32G: ", why.message)
    local late = declines("time_limit", "T4-16G: ",
      ts.plan(support.small_problem(), { planner = "best_homogeneous", time_limit_s = 0 }))
    assert.matches("time limit", late.message)
  end)
end)

describe("every baseline", function()
  it("is listed with a source, passes the checker and is no better than the optimum of its devices", function()
    local known = {}
    for _, card in ipairs(ts.planners()) do known[card.name] = card end
    for _, problem in ipairs {
      support.small_problem(),
      support.small_problem { model = "opt-13b", objective = "paper", memory = "llm-pq" },
      support.small_problem { model = "opt-13b", workload = { prompt_tokens = 700, chunk_tokens = 256,
        output_tokens = 30, batch_size = 6 } },
    } do
      for _, name in ipairs(all) do
        assert.is_true(#known[name].source > 0, name)
        local plan = assert(ts.plan(problem, { planner = name }))
        local _, sum = counts_of(plan)
        assert.equal(problem.num_layers, sum, name)
        assert.is_true(ts.check(plan), name)
        local order = {}
        for k, stage in ipairs(plan.stages) do order[k] = stage.device .. "@" .. stage.node end
        local best = assert(ts.plan(problem, { device_order = order }))
        assert.is_true(plan.objective >= best.bound * (1 - 1e-9), name)
      end
    end
  end)

  it("has no plan where nothing fits, and says why", function()
    local problem = support.small_problem { model = "opt-175b" }
    for _, name in ipairs(all) do
      local plan, why = ts.plan(problem, { planner = name })
      assert.is_nil(plan)
      assert.equal("infeasible", why.code)
      assert.is_true(#why.message > 20, name)
    end
  end)

  it("keeps the quality floor or says that it cannot", function()
    local problem = support.small_problem { quality = { max_omega = 1e-4 } } -- 16 bits fit
    for _, name in ipairs(all) do
      assert.is_true(assert(ts.plan(problem, { planner = name })).omega <= 1e-4, name)
    end
    local tight = support.small_problem { bitwidths = { 4 }, quality = { max_omega = 0.5 } }
    for _, name in ipairs(all) do
      local plan, why = ts.plan(tight, { planner = name })
      assert.is_nil(plan, name)
      assert.is_string(why.message)
    end
  end)

  it("stops at the time limit", function()
    for _, name in ipairs(all) do
      local plan, why = ts.plan(support.small_problem(), { planner = name, time_limit_s = 0 })
      assert.is_nil(plan, name)
      assert.equal("time_limit", why.code, name)
    end
  end)

  it("refuses options that it does not have", function()
    for _, name in ipairs(all) do
      support.raises("invalid_argument", "has no option 'slack'",
        function() return ts.plan(support.small_problem(), { planner = name, slack = 1 }) end)
    end
  end)
end)

describe("an instance", function()
  local here = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$"

  it("has all baselines that stay on the devices", function()
    local problem = ts.problem { instance = here .. "/../fuzz/corpus/instance/c3.json" }
    for _, name in ipairs(all) do
      local plan = assert(ts.plan(problem, { planner = name }))
      assert.is_true(ts.check(plan), name)
      local _, sum = counts_of(plan)
      assert.equal(problem.num_layers, sum)
    end
    local rows = ts.beside(assert(ts.plan(problem, { planner = "uniform" })))
    assert.equal(4, #rows) -- no groups of devices that nothing is known of
    assert.equal("best_homogeneous", rows[1].planner)
  end)

  it("is split by the speed of a layer where no data sheet is", function()
    local problem = ts.problem { instance = here .. "/../fuzz/corpus/instance/c3.json" }
    local size = math.ceil(problem.batch_size / #problem.devices)
    local facts = problem:device_facts {
      device_order = problem.devices, prefill_micro_batch_size = size, decode_micro_batch_size = size,
    }
    local total, top = 0, problem.bitwidths[#problem.bitwidths]
    for _, device in ipairs(facts) do
      assert.is_nil(device.fp16_flop_per_s)
      total = total + 1 / device.prefill_layer_s[top]
    end
    local counts = counts_of(assert(ts.plan(problem, { planner = "flops_split" })))
    for k, device in ipairs(facts) do
      assert.is_true(math.abs(counts[k] - problem.num_layers / device.prefill_layer_s[top] / total) < 1)
    end
  end)
end)

describe("problem:device_facts", function()
  it("tells memory and speed by position", function()
    local facts = support.small_problem():device_facts {
      device_order = { "V100-32G", "T4-16G" }, prefill_micro_batch_size = 1, decode_micro_batch_size = 4,
    }
    assert.equal("V100-32G@b", facts[1].name)
    assert.equal("T4-16G", facts[2].device)
    assert.is_true(facts[1].usable_bytes > facts[2].usable_bytes)
    assert.is_true(facts[1].fp16_flop_per_s > facts[2].fp16_flop_per_s)
    for _, device in ipairs(facts) do
      for _, bitwidth in ipairs { 4, 8, 16 } do
        assert.is_true(device.prefill_layer_s[bitwidth] > 0 and device.decode_layer_s[bitwidth] > 0)
      end
    end
  end)

  it("refuses what it cannot tell", function()
    local p = support.small_problem()
    support.raises("out_of_range", "more than the batch of 4", function()
      return p:device_facts { device_order = p.devices, prefill_micro_batch_size = 1, decode_micro_batch_size = 5 }
    end)
    support.raises("invalid_argument", "device_order", function() return p:device_facts {} end)
    support.raises("invalid_argument", "phase", function()
      return p:balanced_partition { device_order = p.devices, bitwidth = 8, prefill_micro_batch_size = 1,
        decode_micro_batch_size = 1, phase = "both " }
    end)
  end)
end)

describe("ts.beside", function()
  it("has a row for each of what people run", function()
    local rows = ts.beside(support.small_plan())
    local names = {}
    for i, row in ipairs(rows) do
      names[i] = row.planner
      local problem, name = support.small_problem(), row.planner
      if name == "best_homogeneous" then problem, name = problem:with { use_all_devices = false }, "exact" end
      if name:find "bit$" then
        problem, name = problem:with { bitwidths = { tonumber(name:match "(%d+)bit$") }, theta = 0 }, "vllm_even"
      end
      local plan = assert(ts.plan(problem, { planner = name }))
      assert.equal(plan.latency_s, row.latency_s)
      assert.equal(plan.omega, row.omega)
      assert.equal(row.latency_s / support.small_plan().latency_s, row.speedup)
      assert.is_true(#row.note > 0)
    end
    assert.same({ "best_homogeneous", "vllm_even", "memory_split", "flops_split" }, names)
  end)

  it("has vLLM at the plan's own bits, and with groups of devices that are alike", function()
    local problem = ts.problem(support.settled {
      model = "llama-3-8b", cluster = "2xA100-80G", kernel_set = "modern_fp8", bitwidths = { 4, 8, 16 },
      workload = { batch_size = 4, prompt_tokens = 64, output_tokens = 8 },
    })
    local plan = assert(ts.plan(problem, { planner = "uniform" }))
    local function names(of)
      local list, by_name = {}, {}
      for i, row in ipairs(of) do list[i], by_name[row.planner] = row.planner, row end
      return list, by_name
    end
    local list, row = names(ts.beside(plan, { time_limit_s = 30 }))
    assert.same({ "best_homogeneous", "vllm_even", "vllm_tp2", "memory_split", "flops_split" }, list)
    local grouped = assert(ts.plan(problem:with { tensor_parallel = 2, theta = 0 }, { planner = "vllm_even" }))
    assert.equal(grouped.latency_s, row.vllm_tp2.latency_s)
    assert.equal(grouped.latency_s / plan.latency_s, row.vllm_tp2.speedup)
    local bits = {}
    for layer = 1, 16 do bits[layer] = layer == 1 and 16 or 4 end -- 4.75 in the mean
    local four = assert(ts.plan(problem, {
      planner = "manual", prefill_micro_batch_size = 1, decode_micro_batch_size = 2,
      stages = { { device = "A100-80G", bitwidths = bits }, { device = "A100-80G", bitwidths = bits } },
    }))
    list, row = names(ts.beside(four, { time_limit_s = 30 }))
    assert.same({ "best_homogeneous", "vllm_even", "vllm_even_4bit", "vllm_tp2", "memory_split", "flops_split" }, list)
    assert.equal("32 x 4-bit", row.vllm_even_4bit.bits)
    -- An H100 has a kernel for 8 bits in this set.
    list, row = names(ts.beside(assert(ts.plan(problem:with { cluster = "4xH100-80G" }, { planner = "uniform" })),
      { time_limit_s = 30 }))
    local eight
    for _, name in ipairs(list) do eight = name:match "^vllm_tp%d+_fp8$" or eight end
    assert.equal("32 x 8-bit", row[eight].bits)
    -- No two of a kind in a node: no groups.
    local pair = problem:with { cluster = "1xA100-80G+1xH100-80G" }
    list = names(ts.beside(assert(ts.plan(pair, { planner = "uniform" })), { time_limit_s = 30 }))
    for _, name in ipairs(list) do assert.is_nil(name:find "tp") end
  end)

  it("says where one does not fit or came too late", function()
    local problem = support.small_problem { model = "opt-13b", cluster = { { "P100-12G", 1, node = "a" },
      { "A100-40G", 1, node = "b" } }, bitwidths = { 16 } }
    local rows = ts.beside(assert(ts.plan(problem)))
    assert.equal("optimal", rows[1].status)
    assert.equal("infeasible", rows[2].status)
    assert.matches("^does not fit: vllm_even fits at no bitwidth: stage 1 on P100%-12G needs", rows[2].note)
    assert.is_nil(rows[2].latency_s)
    for _, row in ipairs(ts.beside(support.small_plan(), { time_limit_s = 0 })) do
      assert.equal("time_limit", row.status)
    end
  end)

  it("refuses wrong use", function()
    support.raises("invalid_argument", "a tessera.Plan belongs here", function() return ts.beside(3) end)
    support.raises("invalid_argument", "a tessera.Plan belongs here",
      function() return ts.beside(support.small_problem()) end)
    support.raises("invalid_argument", "the number 3 where a table of options belongs",
      function() return ts.beside(support.small_plan(), 3) end)
    support.raises("invalid_argument", "did you mean 'time_limit_s'", function()
      return ts.beside(support.small_plan(), { time_limit = 3 })
    end)
  end)
end)
