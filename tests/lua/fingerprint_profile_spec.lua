-- ts.fingerprint with measure = "profile": the cost models answer, and say the same as plans and the simulator do.
local support = require "support"
local ts = require "tessera"

local function near(expected, found, ratio, what)
  assert.is_true(math.abs(found / expected - 1) <= ratio, ("%s: %g, expected %g"):format(what, found, expected))
end

local function estimates(options, tokens)
  options.configurations = options.configurations or ts.configurations { model = options.model }
  local map = ts.fingerprint(options)
  return map:estimates { output_tokens = tokens or 100 }, map
end

local function find(rows, scheme, tp, pp)
  for _, row in ipairs(rows) do
    if row.scheme == scheme and row.tensor_parallel == tp and row.pipeline_parallel == pp then return row end
  end
end

describe("a fingerprint by the cost models", function()
  local bridges = "8xA6000@bridges"

  -- A plan of the same shape, and the simulator's run of it.
  local function planned(model, cluster, tp, tokens)
    local plan = assert(ts.plan({
      model = model, cluster = cluster, kernel_set = "modern_2024", bitwidths = { 16 }, tensor_parallel = { tp },
      workload = { batch_size = 1, prompt_tokens = 512, output_tokens = tokens },
    }, { prefill_micro_batch_size = 1, decode_micro_batch_size = 1 }))
    local run, bytes = ts.simulate(plan), 0
    for _, stage in ipairs(plan.stages) do bytes = bytes + stage.memory.total_bytes end
    return run.prefill_s + run.decode_s, bytes, #plan.stages
  end

  it("says of whole models what plans and the simulator say", function()
    for _, degree in ipairs { 1, 2 } do
      local rows = estimates({ model = "llama-2-7b", cluster = bridges, kernel_set = "modern_2024",
        latency_method = "L1", memory_method = "M3", output_tokens = { 32, 64 } }, 64)
      local row = find(rows, "fp16", degree, 1)
      local seconds, bytes, stages = planned("llama-2-7b", degree == 1 and "1xA6000" or "2xA6000@bridges",
        degree, 64)
      assert.equal(1, stages)
      near(seconds, row.latency_s, 1e-6, "latency")
      near(bytes, row.memory_bytes, 1e-6, "memory")
    end
  end)

  it("is exact of layers, so that few tell of all, also of layers of several kinds", function()
    for _, model in ipairs { "llama-2-7b", "gemma-3-27b", "mixtral-8x7b" } do
      local configurations = ts.configurations { model = model, num_gpus = 2, pipeline_parallel = { 1 },
        schemes = { "fp16", "int4" } }
      local function of(method, memory)
        return estimates { model = model, cluster = bridges, configurations = configurations, latency_method = method,
          memory_method = memory }
      end
      local whole, few = of("L1", "M1"), of("L2", "M2")
      assert.equal(4, #whole)
      for i, row in ipairs(whole) do
        near(row.latency_s, few[i].latency_s, 1e-9, model)
        near(row.memory_bytes, few[i].memory_bytes, 1e-9, model)
      end
    end
  end)

  it("has two kernels of four bits, caches of eight, and pruned shapes", function()
    local rows = estimates { model = "llama-2-13b", cluster = bridges, num_layers = nil }
    local fp16, int4, gptq4 = find(rows, "fp16", 1, 1), find(rows, "int4", 1, 1), find(rows, "gptq4", 1, 1)
    -- A scale and a zero point for each 128 weights: 4.16 bits.
    near(1 + 0.156 / 4, (gptq4.base_bytes - 1e9) / (int4.base_bytes - 1e9), 0.03, "grouped over per channel")
    assert.is_true(gptq4.latency_s > int4.latency_s and gptq4.latency_s < 1.1 * int4.latency_s)
    assert.is_true(int4.latency_s < 0.5 * fp16.latency_s)
    local kv8 = find(rows, "int4_kv8", 1, 1)
    assert.is_true(kv8.memory_bytes < int4.memory_bytes and kv8.latency_s < int4.latency_s)
    near(9 / 16, find(rows, "wanda_2_4", 1, 1).weight_bytes / fp16.weight_bytes, 0.04, "2:4") -- embeddings stay
    near(0.76, find(rows, "llm_pruner_25", 1, 1).weight_bytes / fp16.weight_bytes, 0.02, "a quarter less")
    assert.equal("modelled", int4.provenance)
    assert.equal("fitted", find(estimates { model = "llama-2-13b", cluster = "8xA100-80G" }, "fp16", 1, 1).provenance)
  end)

  it("lists what heads, groups and kernels forbid, with the reason", function()
    local rows = estimates { model = "llama-2-7b", cluster = bridges }
    local why = {}
    for _, row in ipairs(rows) do
      if row.refused then why[row.scheme] = (why[row.scheme] or 0) + 1 end
    end
    assert.same({ gptq4 = 3, gptq4_kv8 = 3, wanda_4_8 = 15 }, why)
    assert.truthy(find(rows, "gptq4", 8, 1).refused:find("groups of 128 weights do not divide the 1376", 1, true))
    assert.truthy(find(rows, "wanda_4_8", 1, 1).refused:find("no kernel for wanda_4_8 weights", 1, true))
    assert.is_nil(find(rows, "gptq4", 2, 4).refused)
    -- On a P100 nothing reads 8 bits, nor a cache of them.
    for _, row in ipairs(estimates { model = "llama-2-7b", cluster = "8xP100-12G" }) do
      assert.equal(row.scheme ~= "fp16" and not row.scheme:find("^llm_pruner"), row.refused ~= nil, row.scheme)
    end
    -- Four GPUs have no configuration of eight.
    local four = estimates { model = "llama-2-7b", cluster = "4xA6000" }
    assert.truthy(find(four, "fp16", 8, 1).refused:find("8 GPUs, the cluster has 4", 1, true))
    assert.is_nil(find(four, "fp16", 4, 1).refused)
  end)

  it("runs two GPUs over their bridge and four over PCIe", function()
    local with = estimates { model = "llama-2-70b", cluster = bridges }
    local without = estimates { model = "llama-2-70b", cluster = "8xA6000" }
    assert.is_true(find(with, "fp16", 2, 1).latency_s < 0.998 * find(without, "fp16", 2, 1).latency_s)
    near(find(with, "fp16", 4, 1).latency_s, find(without, "fp16", 4, 1).latency_s, 1e-9, "four")
    near(find(with, "fp16", 1, 1).latency_s, find(without, "fp16", 1, 1).latency_s, 1e-9, "one")
  end)

  it("asks each run once, and counts those that were", function()
    local _, map = estimates { model = "llama-2-70b", cluster = bridges, repeats = 5 }
    assert.equal(106, map.cost.num_runs) -- of 120: 8 of wanda_4_8, 4 of llm_pruner_25 at TP 4 and 8 cannot be
    assert.is_nil(map.error.latency_ratio)
  end)

  it("takes refusals from functions too", function()
    local rows = estimates({ num_layers = 4, configurations = ts.configurations { num_gpus = 2,
      pipeline_parallel = { 1 }, schemes = { "fp16" } }, measure = function(run)
      if run.tensor_parallel == 2 then return { refused = "out of memory" } end
      return { memory_bytes = 1e9, latency_s = { 1, 2 } }
    end })
    assert.equal("out of memory", rows[2].refused)
    near(1 + 84 / 48, rows[1].latency_s, 1e-9, "latency")
  end)

  it("refuses in one line", function()
    local space = ts.configurations { schemes = { "fp16" } }
    local function given(options)
      return function()
        options.configurations = options.configurations or space
        ts.fingerprint(options)
      end
    end
    support.raises("invalid_argument", "give a cluster", given { model = "llama-2-7b" })
    support.raises("invalid_argument", "give it: the cost models", given { num_layers = 4, cluster = bridges })
    support.raises("invalid_argument", "engine or profile; not 'profil'; did you mean 'profile'?",
      given { model = "llama-2-7b", cluster = bridges, measure = "profil" })
    support.raises("invalid_argument", "the number 7 has the wrong type; give 'profile'|'engine'|function",
      given { model = "llama-2-7b", cluster = bridges, measure = 7 })
    support.raises("not_found", "modren", given { model = "llama-2-7b", cluster = bridges, kernel_set = "modren" })
    support.raises("not_found", "no scheme is called 'int5'", given { model = "llama-2-7b", cluster = bridges,
      configurations = { { scheme = "int5", tensor_parallel = 1, pipeline_parallel = 1, num_gpus = 1 } } })
    local map = ts.fingerprint { model = "llama-2-7b", cluster = bridges, configurations = space }
    support.raises("invalid_argument", "make a fingerprint with prompt_tokens = 100", function()
      map:estimates { prompt_tokens = 100 }
    end)
  end)
end)

describe("a fingerprint of batches", function()
  local shapes = ts.configurations { num_gpus = 2, schemes = { "fp16" } }

  it("says what every further request adds, and has room for them", function()
    local function of(batch_size)
      return ts.fingerprint { model = "llama-2-7b", cluster = "2xA6000@bridges", kernel_set = "modern_2024",
        configurations = shapes, batch_size = batch_size }:estimates {}
    end
    local one, batch = of(nil), of(16)
    for i, row in ipairs(batch) do
      assert.equal(one[i].latency_s, row.latency_s)
      assert.equal(16, row.batch_size)
      assert.is_true(row.further_s > 0.005 * row.tpot_s and row.further_s < 0.05 * row.tpot_s)
      assert.is_true(row.memory_bytes > one[i].memory_bytes + 15 * 512 * 2 * 4096 * 2 * 32)
      assert.is_nil(one[i].further_s)
    end
  end)

  it("makes a deployment batch as its plan does, and one seat what it was", function()
    local function rows_of(batch_size)
      return ts.fingerprint { model = "llama-2-7b", cluster = "2xA6000@bridges", kernel_set = "modern_2024",
        configurations = shapes, batch_size = batch_size }:estimates {}
    end
    local batched, single = rows_of(16), rows_of(nil)
    local function served(rows, degree, seats, traffic, options)
      local devices = {}
      for i = 1, degree do devices[i] = i - 1 end
      return ts.serve(ts.deployment { cluster = "2xA6000@bridges", engine = { max_num_seqs = seats }, models = {
        { name = "a", estimates = { find(rows, "fp16", degree, 1) }, num_layers = 32, devices = devices } } }, traffic,
        options)
    end
    for degree, cluster in pairs { "1xA6000", "2xA6000@bridges" } do
      for _, rate in ipairs { 0.2, 1, 3 } do
        local traffic = ts.traffic { rate_per_s = rate, num_requests = 200, prompt_tokens = 512, output_tokens = 100,
          seed = 3 }
        local plan = ts.serve(ts.deployment { model = "llama-2-7b", cluster = cluster, kernel_set = "modern_2024",
          tensor_parallel = degree, bitwidths = { 16 }, engine = { max_num_seqs = 16 } }, traffic)
        local own = served(batched, degree, 16, traffic)
        near(plan.e2e_s.mean, own.e2e_s.mean, 0.05, "E2E")
        near(plan.tpot_s.mean, own.tpot_s.mean, 0.05, "TPOT")
        assert.equal(served(single, degree, 1, traffic).e2e_s.mean, served(batched, degree, 1, traffic).e2e_s.mean)
        for _, field in ipairs { "e2e_s", "itl_s" } do -- stretches of steps are single steps
          local function of(skip) return served(batched, degree, 16, traffic, { record = false, skip = skip }) end
          assert.equal(of(false)[field].mean, of(true)[field].mean)
        end
        if rate == 3 then -- what seats without further_s do not give
          assert.is_true(served(single, degree, 16, traffic).e2e_s.mean > 4 * own.e2e_s.mean)
        end
      end
    end
    support.raises("invalid_argument", "32, but the estimates are of at most 16 requests at once", function()
      served(batched, 1, 32)
    end)
  end)

  it("takes functions that measure batches", function()
    local function map_of(result)
      return ts.fingerprint { num_layers = 4, batch_size = 5, configurations = ts.configurations { num_gpus = 1,
        pipeline_parallel = { 1 }, schemes = { "fp16" } }, measure = function(run)
        assert.equal(5, run.batch_size)
        return result
      end }
    end
    local row = map_of({ memory_bytes = 1e9, latency_s = { 1, 2 }, batch_latency_s = { 5, 8 } }):estimates {}[1]
    near((3 / 48 - 1 / 48) / 4, row.further_s, 1e-9, "further")
    support.raises("invalid_argument", "batch_latency_s[1] of 1 layers", function()
      map_of { memory_bytes = 1e9, latency_s = { 1, 2 } }
    end)
  end)
end)
