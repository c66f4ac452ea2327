-- Strategies as plans with our prices, the best of all plans beside them, and the verb. The equations: flexllm_spec.
local host = require "tessera.host"
local solver = require "tessera.solver"
local support = require "support"
local ts = require "tessera"
local raises = support.raises

local function given(changes)
  local all = { model = "opt-1.3b", workload = { prompt_tokens = 256, output_tokens = 32, batch_size = 16 },
    devices = { "A10", "T4-16G" }, link_gbps = 16, prices = { A10 = 0.7, ["T4-16G"] = 0.35 } }
  for key, value in pairs(changes or {}) do all[key] = value end
  return all
end

local function select(changes) return ts.select_strategy(given(changes)) end

local function row_of(rows, strategy, configuration)
  for _, row in ipairs(rows) do
    if row.strategy == strategy and row.configuration == (configuration or 0) then return row end
  end
end

local function near(expected, found, tolerance)
  assert.near(expected, found, (tolerance or 1e-9) * math.abs(expected) + 1e-15)
end

describe("strategies by our prices", function()
  it("are plans that check, and rows that say what the plans say", function()
    local found = assert(select())
    assert.equal(3, #found)
    for i, row in ipairs(found) do
      assert.equal(i, row.rank)
      assert.is_true(ts.check(row.plan))
      assert.equal(row.strategy, row.plan.planner)
      assert.equal(row.provenance, row.plan.provenance)
      near(row.plan.latency_s, row.latency_s)
      near(row.prefill_s + 31 * row.decode_s, row.latency_s)
      near(row.latency_s / 32, row.s_per_token)
      near(3600 * 16 * 32 / (row.latency_s * 1.05), row.tokens_per_usd)
      assert.equal(2, #row.memory_bytes)
      assert.is_true(row.fits and row.meets_slo)
      assert.same({ "A10", "T4-16G" }, row.devices)
      if i > 1 then assert.is_true(row.tokens_per_usd <= found[i - 1].tokens_per_usd) end
    end
    local parallel, offload, stages = row_of(found, "data_parallel"), row_of(found, "attention_offload"),
      row_of(found, "model_parallel")
    assert.same({ 11, 5 }, parallel.batch) -- 125 to 65 TFLOP/s
    assert.equal(2, #parallel.plan.replicas)
    assert.same({ 12, 12 }, stages.layers)
    assert.equal(2, #stages.plan.stages)
    assert.equal(1, offload.attention_ratio)
    assert.equal("T4-16G", offload.plan.stages[1].attention.device)
    assert.equal(offload.plan.stages[1].attention.memory.total_bytes, offload.memory_bytes[2])
    assert.equal(parallel.plan.replicas[2].stages[1].memory.total_bytes, parallel.memory_bytes[2])
    for _, row in ipairs { parallel, offload } do
      near(row.latency_s, ts.simulate(row.plan).total_s, 1e-6)
    end
  end)

  it("have the micro-batches of least time", function()
    local stages = row_of(assert(select()), "model_parallel").plan
    local problem, least = stages:problem(), math.huge
    for _, prefill in ipairs(problem:micro_batch_sizes()) do
      for _, decode in ipairs(problem:micro_batch_sizes()) do
        local found = problem:evaluate { stages = stages.stages, prefill_micro_batch_size = prefill,
          decode_micro_batch_size = decode }
        if found.fits then least = math.min(least, found.latency_s) end
      end
    end
    near(least, stages.latency_s)
  end)

  it("keep to split, ratio and layers that are given", function()
    local found = assert(select { batch_split = 3, layers_on_first = 24, attention_ratio = 0.3 })
    assert.same({ 3, 13 }, row_of(found, "data_parallel").batch)
    local stages, offload = row_of(found, "model_parallel"), row_of(found, "attention_offload")
    assert.same({ 24, 0 }, stages.layers)
    assert.equal(1, #stages.plan.stages)
    assert.equal(0, stages.memory_bytes[2])
    assert.equal(10 / 32, offload.attention_ratio)
    assert.truthy(found.notes[1]:find("a ratio of 0.3 is no number of its 32 KV heads", 1, true))
    assert.is_nil(row_of(assert(select { attention_ratio = 0 }), "attention_offload").plan.stages[1].attention)
    assert.same({ 0, 16 }, row_of(assert(select { batch_split = 0 }), "data_parallel").batch)
    assert.equal("T4-16G", row_of(assert(select { batch_split = 0 }), "data_parallel").plan.stages[1].device)
  end)

  it("take grouped queries and gated layers, which the equations do not", function()
    local found = assert(select { model = "llama-3-8b", devices = { "A100-80G", "A10" },
      prices = { ["A100-80G"] = 2, A10 = 0.7 }, attention_ratio = 0.25 })
    assert.equal(0.25, row_of(found, "attention_offload").attention_ratio)
    raises("unsupported", "8 KV heads for 32", function() select { model = "llama-3-8b", formulas = "printed" } end)
  end)

  it("count one device as a pair without a second", function()
    local found = assert(select { devices = { { "A10", "T4-16G" }, { "A10" }, "T4-16G" } })
    assert.equal(9, #found)
    assert.equal(2, found.chosen.configuration) -- the cheapest
    local alone = row_of(found, "data_parallel", 1)
    for _, name in ipairs { "attention_offload", "model_parallel" } do
      near(alone.latency_s, row_of(found, name, 1).latency_s)
    end
    assert.equal("data_parallel", found.chosen.strategy) -- of ties the first
    local _, why = select { devices = "A10", prices = { A10 = 1 }, batch_split = 3, layers_on_first = 20,
      attention_ratio = 0.5 }
    for _, row in ipairs(why.candidates) do
      assert.equal("devices", row.reason)
      assert.is_nil(row.plan or row.latency_s)
    end
  end)

  it("meet a limit with equality, and say what breaks it", function()
    local best = assert(select()).chosen
    assert.equal(best.strategy, assert(select { slo = { s_per_token = best.s_per_token } }).chosen.strategy)
    local found, why = select { slo = { s_per_token = best.s_per_token * 0.999 } }
    assert.is_nil(found)
    assert.equal("infeasible", why.code)
    assert.equal("slo", why.candidates[1].reason)
    assert.truthy(why.candidates[1].plan)
  end)

  it("say what does not fit, with numbers", function()
    local found, why = select { model = "opt-13b" }
    assert.is_nil(found)
    for _, row in ipairs(why.candidates) do
      assert.equal("memory", row.reason)
      assert.is_false(row.fits)
      assert.truthy(row.why:find("GiB", 1, true), row.why)
      assert.is_nil(row.plan)
      assert.is_true(row.latency_s > 0)
    end
  end)

  it("take one request, one token and free devices", function()
    local one = row_of(assert(select { workload = { prompt_tokens = 256, output_tokens = 32, batch_size = 1 } }),
      "data_parallel")
    assert.same({ 1, 0 }, one.batch)
    assert.is_nil(one.plan.replicas)
    local token = assert(select { workload = { prompt_tokens = 256, output_tokens = 1, batch_size = 16 } })
    for _, row in ipairs(token) do near(row.prefill_s, row.latency_s) end
    local free = assert(select { prices = { A10 = 0, ["T4-16G"] = 0 } })
    assert.equal(math.huge, free.chosen.tokens_per_usd)
    for _, row in ipairs(free) do assert.is_true(free.chosen.latency_s <= row.latency_s) end
  end)

  it("have batches of their own, and corrections over their times", function()
    local found = assert(select { batch_sizes = { attention_offload = 64 },
      correction = { model_parallel = { prefill = { scale = 2, offset_s = 0.5 }, decode = { scale = -1 } } } })
    local plain = row_of(assert(select()), "model_parallel")
    local row = row_of(found, "model_parallel")
    near(2 * plain.prefill_s + 0.5, row.prefill_s)
    near(-plain.decode_s, row.decode_s)
    near(plain.plan.latency_s, row.plan.latency_s)
    assert.truthy(found.notes[1]:find("the scale is negative", 1, true))
    assert.equal(64, row_of(found, "attention_offload").batch_size)
  end)

  it("leave out what a model has no way of, not the model", function()
    local latent = { model = "deepseek-v2-lite", devices = { "A100-80G", "H100-80G" },
      prices = { ["A100-80G"] = 2, ["H100-80G"] = 3 }, exact = true }
    local found = assert(select(latent))
    local row = row_of(found, "attention_offload")
    assert.equal("attention", row.reason)
    assert.truthy(row.why:find("latent attention", 1, true))
    assert.is_nil(row.latency_s)
    assert.equal(3, row.rank)
    assert.is_true(found.exact.gain_ratio >= 1)
  end)

  it("take a link of 1 kB/s, over which nothing pays", function()
    local found = assert(select { link_gbps = 8e-6, exact = true })
    assert.is_true(row_of(found, "model_parallel").latency_s > 1e3)
    assert.equal("data_parallel", found.chosen.strategy)
  end)

  it("print as a table", function()
    local text = tostring(assert(select { exact = true }))
    assert.truthy(text:find("11%+5 requests"), text)
    assert.truthy(text:find("the best of all plans, optimal: ", 1, true), text)
  end)

  it("are refused where they make no sense", function()
    raises("unsupported", "ts.plan takes any number", function() select { devices = { "A10", "A10", "T4-16G" } } end)
    raises("invalid_argument", "of the equations", function() select { efficiency = 0.5 } end)
    raises("invalid_argument", "all has to fit", function() select { check_memory = true } end)
    raises("out_of_range", "attention_ratio", function() select { attention_ratio = 1.5 } end)
    local other = ts.device { name = "A10", memory_bytes = 1e10, memory_bytes_per_s = 1e11,
      flop_per_s = { fp16 = 1e12 }, compute_capability = 8, pcie_bytes_per_s = 3e10 }
    raises("invalid_argument", "both called A10", function() select { devices = { "A10", other },
      prices = { A10 = 1 } } end)
    local function mine()
      return ts.device { name = "mine", memory_bytes = 1e10, memory_bytes_per_s = 1e11, flop_per_s = { fp16 = 1e12 },
        compute_capability = 8, pcie_bytes_per_s = 3e10, price_usd_per_h = 1 }
    end
    assert(select { devices = { mine(), mine() }, prices = {} }) -- two that do not
    raises("not_found", "unknown kernel set", function() select { kernel_set = "none" } end)
  end)
end)

describe("strategies of scripts", function()
  it("are tables of the same kind", function()
    local seen
    local function split(case)
      seen = case
      return 16
    end
    local found = assert(select { strategies = { "model_parallel", { name = "mine", stages = 2, split = split } } })
    assert.equal(2, #found)
    assert.same({ 16, 8 }, row_of(found, "mine").layers)
    assert.equal(24, seen.num_layers)
    assert.equal(32, seen.num_kv_heads)
    assert.equal(16, seen.batch_size)
    assert.equal("T4-16G", seen.devices[2].name)
    near(row_of(assert(select { layers_on_first = 16 }), "model_parallel").latency_s, row_of(found, "mine").latency_s)
    local more = assert(select { strategies = { { name = "few", replicas = 2, split = function() return 15 end },
      { name = "half", attention_on = 2, split = function() return 0.5 end } } })
    assert.same({ 15, 1 }, row_of(more, "few").batch)
    assert.equal(0.5, row_of(more, "half").attention_ratio)
    -- By the equations too.
    local printed = assert(select { formulas = "printed",
      strategies = { { name = "mine", stages = 2, split = split } } })
    near(row_of(assert(select { formulas = "printed", layers_on_first = 16 }), "model_parallel").latency_s,
      printed.chosen.latency_s)
  end)

  it("are refused by what is wrong with them", function()
    local function with(strategy) return function() select { strategies = { strategy } } end end
    raises("invalid_argument", "a strategy is one of them", with { name = "m", stages = 2, replicas = 2 })
    raises("invalid_argument", "is of two devices", with { name = "m", stages = 3 })
    raises("invalid_argument", "did you mean 'split'", with { name = "m", stages = 2, spilt = print })
    raises("invalid_argument", "a name belongs here", with { stages = 2 })
    raises("invalid_argument", "give stages = 2", with { name = "m" })
    raises("invalid_argument", "did you mean 'data_parallel'", with "data_paralel")
    raises("out_of_range", "layers from 0 to 24", with { name = "m", stages = 2, split = function() return 25 end })
    raises("out_of_range", "requests from 0 to 16",
      with { name = "m", replicas = 2, split = function() return 1.5 end })
    raises("invalid_argument", "is there twice", function()
      select { strategies = { "model_parallel", "model_parallel" } }
    end)
  end)
end)

describe("the best of all plans", function()
  local function pair_problem(gbps)
    return ts.problem { model = "opt-125m", cluster = { { "A10", 1 }, { "T4-16G", 1 }, link_gbps = gbps },
      workload = { prompt_tokens = 256, output_tokens = 32, batch_size = 6 }, bitwidths = { 16 }, theta = 0,
      kernel_set = "modern", kv_bitwidth = 16, tensor_parallel = 1, use_all_devices = false }
  end

  local function bits(number)
    local list = {}
    for i = 1, number do list[i] = 16 end
    return list
  end

  local function least_of(problem, stages, batch_size)
    local least = math.huge
    for prefill = 1, batch_size do
      for decode = 1, batch_size do
        local found = problem:evaluate { stages = stages, prefill_micro_batch_size = prefill,
          decode_micro_batch_size = decode }
        if found.fits then least = math.min(least, found.latency_s) end
      end
    end
    return least
  end

  -- Every split of layers in both orders, every one of requests, every number of heads, by all micro-batches.
  local function brute_force(gbps)
    local problem, layers, batch, heads = pair_problem(gbps), 12, 6, 12
    local least = { stages = math.huge, replicas = math.huge, attention = math.huge }
    local function take(kind, seconds) least[kind] = math.min(least[kind], seconds) end
    for _, order in ipairs { { "A10", "T4-16G" }, { "T4-16G", "A10" } } do
      for first = 1, layers - 1 do
        take("stages", least_of(problem, { { device = order[1], bitwidths = bits(first) },
          { device = order[2], bitwidths = bits(layers - first) } }, batch))
      end
    end
    local function alone(device, requests)
      if requests == 0 then return 0 end
      local part = solver.on_devices(problem, { device }, requests)
      return least_of(part, { { device = part.devices[1], bitwidths = bits(layers) } }, requests)
    end
    for first = 0, batch do take("replicas", math.max(alone(0, first), alone(1, batch - first))) end
    for moved = 1, heads do
      take("attention", least_of(problem, { { device = "A10", bitwidths = bits(layers),
        attention = { device = "T4-16G", ratio = moved / heads } } }, batch))
    end
    return math.min(least.stages, least.replicas, least.attention), least
  end

  it("is what enumeration finds at 16 bits, over links slow and fast", function()
    for _, gbps in ipairs { 0.1, 16, 4000 } do
      local expected = brute_force(gbps)
      local found = assert(select { model = "opt-125m", link_gbps = gbps, exact = true,
        workload = { prompt_tokens = 256, output_tokens = 32, batch_size = 6 } })
      near(expected, found.exact.latency_16_bit_s)
      assert.equal("optimal", found.exact.status_16_bit)
      assert.is_true(ts.check(found.exact.plan_16_bit))
    end
  end)

  it("is never slower than the choice", function()
    local gains = {}
    for _, gbps in ipairs { 0.01, 16, 1000 } do
      for _, formulas in ipairs { "profile", "printed" } do
        local found = assert(select { link_gbps = gbps, formulas = formulas, exact = true })
        local exact = found.exact
        assert.is_true(exact.gain_16_bit_ratio >= 1)
        assert.is_true(exact.gain_ratio >= exact.gain_16_bit_ratio)
        near(3600 * 16 * 32 / (exact.latency_s * 1.05), exact.tokens_per_usd)
        assert.is_true(ts.check(exact.plan))
        near(exact.plan.latency_s, exact.latency_s)
        gains[#gains + 1] = exact.gain_16_bit_ratio
      end
    end
    table.sort(gains)
    assert.is_true(gains[#gains] > 1.05, "not even once faster than an even split")
  end)

  it("divides attention where that pays, and keeps to a bound on quality", function()
    -- Memory for the cache stands on a device that computes next to nothing.
    local slow = ts.device { name = "cache", memory_bytes = 80e9, memory_bytes_per_s = 1e12,
      flop_per_s = { fp16 = 1e11 }, compute_capability = 8, pcie_bytes_per_s = 3e10, price_usd_per_h = 0.1 }
    local found = assert(select { devices = { "A10", slow }, link_gbps = 4000, link_latency_s = 1e-6, exact = true,
      prices = { A10 = 0.7 }, workload = { prompt_tokens = 1900, output_tokens = 100, batch_size = 60 },
      strategies = { "attention_offload" }, slo = {}, bitwidths = { 16 } })
    assert.equal("attention_offload", found.exact.strategy_16_bit)
    local ratio = found.exact.plan_16_bit.stages[1].attention.ratio
    assert.is_true(ratio > 0.1 and ratio < 1)
    local strict = assert(select { exact = true, quality = { max_omega = 1e-6 } }).exact
    assert.equal(16, strict.plan.mean_bitwidth)
  end)

  it("says why there is none, or no gain", function()
    local given_up = assert(select { exact = true, bitwidths = { 4 }, quality = { max_omega = 1e-6 } })
    assert.is_nil(given_up.exact)
    assert.truthy(given_up.notes[1]:find("no plan to put beside it: ", 1, true))
    -- The equations know of no memory here.
    local large = assert(select { formulas = "printed", model = "opt-13b", exact = true,
      strategies = { "data_parallel" } })
    assert.is_nil(large.exact.gain_ratio)
    assert.equal("model_parallel", large.exact.strategy_16_bit) -- which has room for it
    assert.truthy(large.notes[1]:find("so there is no gain", 1, true))
  end)

  it("is of one device where there is no other", function()
    local exact = assert(select { devices = "A10", prices = { A10 = 1 }, exact = true }).exact
    assert.equal("one_device", exact.strategy)
    assert.equal(1, exact.gain_16_bit_ratio)
  end)
end)

describe("tessera strategies", function()
  local function run(...) return host.run_program({ host.program, "strategies", ... }, "") end

  it("prints the table, and data", function()
    local status, out = run("--model", "opt-1.3b", "--devices", "A10,T4-16G", "--usd-per-hour", "A10=0.7", "--exact")
    assert.equal(0, status, out)
    assert.truthy(out:find("data_parallel", 1, true), out)
    assert.truthy(out:find("the best of all plans", 1, true), out)
    assert.is_nil(out:find("no price", 1, true))
    status, out = run("--model", "opt-1.3b", "--devices", "A10+T4-16G,T4-16G", "--json")
    assert.equal(0, status, out)
    assert.truthy(out:find('"configuration": 1', 1, true))
    status, out = run("--model", "opt-1.3b", "--devices", "A10,T4-16G")
    assert.equal(0, status, out)
    assert.truthy(out:find("no price of A10", 1, true), out)
    assert.is_nil(out:find("USD/h", 1, true), "nothing is paid")
    assert.is_nil(out:find("inf", 1, true))
  end)

  it("ends with 3 where nothing meets the limit, and refuses three devices", function()
    local status, out = run("--model", "opt-1.3b", "--devices", "A10,T4-16G", "--slo-s-per-token", "0.0001")
    assert.equal(3, status)
    assert.truthy(out:find("above 0.0001", 1, true), out)
    local refused, _, err = run("--model", "opt-1.3b", "--devices", "A10,A10,A10")
    assert.not_equal(0, refused)
    assert.truthy(err:find("ts.plan", 1, true), err)
  end)
end)
