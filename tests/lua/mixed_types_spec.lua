-- GPUs of several types in one cluster: a fingerprint of each, stages of several types, where they go and how long they
-- take there.
local sets = require "model_sets"
local support = require "support"
local ts = require "tessera"

local near = sets.near

local fast, slow = "A100-80G", "T4-16G"
local mixed = "2x" .. fast .. "+4x" .. slow

-- Of a whole model of 24 layers: by type, what a layer takes of a token and of a prompt, and the rest.
local kinds = {
  [fast] = { layer = 1e-3, rest = 2e-3, bytes = 1e9 }, [slow] = { layer = 4e-3, rest = 5e-3, bytes = 2e9 },
}

-- A machine whose runs are linear: function(run) with one type each, and what it was asked.
local function linear()
  local asked = {}
  return function(run)
    local key = table.concat(run.device_types, "+")
    asked[key] = (asked[key] or 0) + 1
    local times, seconds, bytes, tp = {}, 0, 0, run.tensor_parallel
    for _, name in ipairs(run.device_types) do
      local kind, share = kinds[name], 1 / run.pipeline_parallel
      seconds = seconds + share * (kind.rest + run.num_layers * kind.layer / tp)
      bytes = bytes + share * (kind.bytes + 4e8 * run.num_layers + (tp - 1) * 1e8)
    end
    for i, n in ipairs(run.output_tokens) do times[i] = 5 * seconds + n * seconds end
    return { memory_bytes = bytes + (run.pipeline_parallel > 1 and run.pipeline_parallel * 5e7 or 0),
      latency_s = times }
  end, asked
end

local function space(more)
  return ts.configurations(sets.with({ cluster = mixed, schemes = { "fp16" } }, more))
end

local function fingerprint(more)
  return ts.fingerprint(sets.with({ num_layers = 24, repeats = 1, configurations = space(), measure = linear() }, more))
end

local function name(row) return row.tensor_parallel .. ":" .. table.concat(row.device_types, "+") end

local function find(rows, wanted)
  for _, row in ipairs(rows) do
    if name(row) == wanted then return row end
  end
end

describe("configurations of several types of GPUs", function()
  it("share stages out among the types, a stage being of one", function()
    local names = {}
    for i, row in ipairs(space { pipeline_parallel = { 1, 2, 3 }, tensor_parallel = { 1, 2, 4 } }) do
      names[i] = name(row)
      assert.equal(i - 1, row.index)
      assert.equal(row.tensor_parallel * #row.device_types, row.num_gpus)
    end
    local f, s = fast, slow
    assert.same({ "1:" .. f, "1:" .. s, ("1:%s+%s"):format(f, f), ("1:%s+%s"):format(f, s), ("1:%s+%s"):format(s, s),
      ("1:%s+%s+%s"):format(f, f, s), ("1:%s+%s+%s"):format(f, s, s), ("1:%s+%s+%s"):format(s, s, s), "2:" .. f,
      "2:" .. s, ("2:%s+%s"):format(f, s), ("2:%s+%s"):format(s, s), ("2:%s+%s+%s"):format(f, s, s), "4:" .. s }, names)
    local left = space({ pipeline_parallel = { 1 }, tensor_parallel = { 2, 6 } }).left_out
    assert.equal(1, #left)
    assert.truthy(left[1].why:find("no 1 times 6 GPUs of one type", 1, true))
    local alone = ts.configurations { cluster = "8xA6000@bridges" }
    assert.equal(180, #alone)
    assert.same({ "A6000", "A6000" }, alone[2].device_types)
    support.raises("invalid_argument", "configurations, more than 100000", function()
      local words = {}
      for i, own in ipairs { "A100-80G", "A100-40G", "T4-16G", "V100-32G", "A10", "L4", "L40S", "H100" } do
        words[i] = "8x" .. own
      end
      ts.configurations { cluster = table.concat(words, "+") }
    end)
  end)
end)

describe("a fingerprint of several types", function()
  it("measures each type alone and has stages take their share of each", function()
    local measure, asked = linear()
    local rows = fingerprint({ measure = measure }):estimates { output_tokens = 10 }
    local single = 0
    for key, count in pairs(asked) do
      if not key:find("+", 1, true) then single = single + count end
    end
    -- By type: TP 1, 2 (and 4) at two numbers of layers; two more of each for what stages add.
    assert.equal(4 + 6, single)
    assert.same({ [fast] = 4, [slow] = 6, [("%s+%s"):format(fast, fast)] = 2, [("%s+%s"):format(slow, slow)] = 2 },
      asked)
    local function whole(own, tp) return kinds[own].rest + 24 * kinds[own].layer / tp end
    local row = find(rows, ("2:%s+%s+%s"):format(fast, slow, slow))
    local tpot = whole(fast, 2) / 3 + whole(slow, 2) * 2 / 3
    near(tpot, row.tpot_s, 1e-9, "TPOT")
    near(15 * tpot, row.latency_s, 1e-9, "latency")
    near(whole(slow, 2), row.by_type[slow].tpot_s, 1e-9, "TPOT on the slow type")
    near(6 * whole(fast, 2), row.by_type[fast].ttft_s, 1e-9, "TTFT on the fast type")
    near(1e9 + 24 * 4e8, row.by_type[fast].base_bytes, 1e-9, "base")
    near((1e9 + 2e9 * 2) / 3 + 24 * 4e8 + 1e8 + 3 * 5e7, row.memory_bytes, 1e-9, "memory")
    assert.is_nil(find(rows, "2:" .. fast).by_type)
    near(whole(fast, 2), find(rows, "2:" .. fast).tpot_s, 1e-9, "alone")
  end)

  it("says of each type what a cluster of that type alone does", function()
    local function of(cluster)
      return ts.select({ model = "llama-2-7b", cluster = cluster, schemes = { "fp16", "int8", "gptq4" } }).ranked
    end
    local both, seen = of(mixed), 0
    for _, alone in ipairs { of("2x" .. fast), of("4x" .. slow) } do
      for _, row in ipairs(alone) do
        for _, other in ipairs(both) do
          if other.scheme == row.scheme and name(other) == name(row) then
            for _, field in ipairs { "latency_s", "ttft_s", "memory_bytes", "base_bytes", "usd", "cost_byte_s" } do
              near(row[field], other[field], 1e-9, field)
            end
            seen = seen + 1
          end
        end
      end
    end
    assert.is_true(seen >= 20, seen)
  end)

  it("prices stages of several types as they are", function()
    local function of(stages)
      return find(ts.fingerprint({ model = "llama-2-7b", cluster = mixed, configurations = space(), stages = stages })
        :estimates {}, ("1:%s+%s"):format(fast, slow))
    end
    local reused, priced = of "reused", of "priced"
    assert.is_true(priced.latency_s > reused.latency_s and priced.latency_s < 1.1 * reused.latency_s)
    near(priced.tpot_s, (priced.by_type[fast].tpot_s + priced.by_type[slow].tpot_s) / 2, 1e-9, "shares")
  end)

  it("costs what GPUs of each type do", function()
    local map = fingerprint()
    local row = find(map:estimates { prices = { [fast] = 3, [slow] = 1 } }, ("2:%s+%s"):format(fast, slow))
    near(row.latency_s * (2 * 3 + 2 * 1) / 3600, row.usd, 1e-9, "USD")
    assert.is_nil(find(map:estimates { prices = { [fast] = 3 } }, "1:" .. slow).usd)
    support.raises("invalid_argument", "give one or the other", function()
      map:estimates { prices = { [fast] = 3 }, price_usd_per_h = 1 }
    end)
    support.raises("out_of_range", "prices.A100-80G", function() map:estimates { prices = { [fast] = -3 } } end)
  end)

  it("refuses types that are not there", function()
    local rows = space()
    support.raises("invalid_argument", "'T4-16G' is not among the GPUs of", function()
      ts.fingerprint { model = "llama-2-7b", cluster = "4xA100-80G", configurations = rows }
    end)
    rows[1].device_types = { fast, slow }
    support.raises("invalid_argument", "2 types for 1 stages", function()
      ts.fingerprint { num_layers = 4, configurations = rows, measure = linear() }
    end)
    support.raises("invalid_argument", "on none but this machine's", function()
      ts.fingerprint { model = "smollm2-135m", configurations = space(), measure = "engine" }
    end)
  end)
end)

describe("placement on several types", function()
  local function gpus(free_fast, free_slow, load_of)
    local list = {}
    for i = 1, 6 do
      list[i] = { free_bytes = i <= 2 and free_fast or free_slow, device = i <= 2 and fast or slow,
        load = load_of and load_of[i] or 0 }
    end
    return list
  end
  local rows = fingerprint():estimates {}
  local three = find(rows, ("1:%s+%s+%s"):format(fast, slow, slow))

  it("has blocks and an order of its own for each type", function()
    local placed = ts.place({ three }, gpus(80e9, 16e9, { 0.2, 0.1, 0.9, 0.3, 0.2, 0.8 }), { num_layers = 24,
      policy = "least_loaded" })
    assert.same({ 1, 3, 4 }, placed.devices)
    assert.same({ 8, 8, 8 }, placed.layers)
    assert.is_true(placed.even)
    near(10.6e9 / 24, placed.stage_block_bytes[1], 1e-9)
    near(11.6e9 / 24, placed.stage_block_bytes[3], 1e-9)
    -- 2.1 GB have room for four blocks of 0.48 GB on each of the slow GPUs; the rest goes to the fast one.
    local uneven = ts.place({ three }, gpus(80e9, 2.1e9), { num_layers = 24 })
    assert.same({ 16, 4, 4 }, uneven.layers)
    assert.same({ 0, 2, 3 }, uneven.devices)
    assert.is_false(uneven.even)
  end)

  it("passes over what has too few GPUs of a type, or no room", function()
    local few = gpus(80e9, 16e9)
    few[6].device, few[5].device, few[4].device = fast, fast, fast
    local _, why = ts.place({ three }, few, { num_layers = 24 })
    assert.same({ "too_few_gpus" }, why.reasons)
    _, why = ts.place({ three }, gpus(8e9, 1e9), { num_layers = 24 })
    assert.same({ "no_room" }, why.reasons)
    support.raises("invalid_argument", "gpus[1].device: name its type", function()
      ts.place({ three }, { { free_bytes = 1e9 } }, { num_layers = 24 })
    end)
  end)

  it("never joins GPUs of two types, whatever the memory and the loads", function()
    math.randomseed(11)
    local held = 0
    for _ = 1, 300 do
      local list = {}
      for i = 1, 6 do
        list[i] = { free_bytes = math.random() * 3e10, load = math.random(), device = math.random() < 0.5 and fast
          or slow }
      end
      local row = rows[math.random(#rows)]
      local placed = ts.place({ row }, list, { num_layers = 24, policy = ({ "hybrid", "packing", "least_loaded" })[
        math.random(3)], theta = math.random() })
      if placed then
        held = held + 1
        local seen, layers = {}, 0
        for i, device in ipairs(placed.devices) do
          local k = math.ceil(i / row.tensor_parallel)
          assert.is_nil(seen[device])
          seen[device] = true
          assert.equal(row.device_types[k], list[device + 1].device)
          local block = placed.stage_block_bytes and placed.stage_block_bytes[k] or placed.block_bytes
          assert.is_true(placed.layers[k] * block <= list[device + 1].free_bytes * (1 + 1e-9))
        end
        for _, count in ipairs(placed.layers) do layers = layers + count end
        assert.equal(24, layers)
      end
    end
    assert.is_true(held > 60, held)
  end)
end)

describe("models on several types", function()
  local map = fingerprint()
  local function whole(own) return kinds[own].rest + 24 * kinds[own].layer end

  it("take on each stage what its GPUs do", function()
    for _, layers in ipairs { { 12, 12 }, { 20, 4 } } do
      local served = ts.serve(sets.deployment({ { name = "a", estimates = map, num_layers = 24, devices = { 1, 2 },
        layers = layers } }, { cluster = mixed }), sets.of_rows { { 1, "a", 40 } })
      local tpot = layers[1] / 24 * whole(fast) + layers[2] / 24 * whole(slow)
      near(6 * tpot, served.ttft_s.mean, 1e-8, "TTFT")
      near(45 * tpot, served.e2e_s.mean, 1e-8, "E2E")
      near(layers[1] * 10.6e9 / 24, served.gpus[2].peak_bytes, 1e-9, "fast")
      near(layers[2] * 11.6e9 / 24, served.gpus[3].peak_bytes, 1e-9, "slow")
      near(layers[1] * whole(fast) / (layers[2] * whole(slow)), served.gpus[2].busy_ratio / served.gpus[3].busy_ratio,
        1e-6, "busy")
    end
  end)

  it("are placed by iserve, and refused on GPUs of another type", function()
    local served = ts.serve(sets.deployment({ { name = "a", estimates = map, num_layers = 24,
      intent = { minimise = "memory" } } }, { cluster = mixed }), sets.of_rows { { 1, "a", 40 } })
    assert.same({ fast }, served.models[1].configuration.device_types)
    assert.is_true(served.models[1].devices[1] < 2)
    local row = find(map:estimates {}, "1:" .. fast)
    support.raises("invalid_argument", "GPU 3 is of type T4-16G, but the configuration was estimated on A100-80G",
      function()
        ts.serve(sets.deployment({ { name = "a", estimates = map, num_layers = 24 } }, { cluster = mixed, strategy = {
          place = function() return { devices = { 3 }, layers = { 24 }, configuration = row } end } }),
          sets.of_rows { { 1, "a", 40 } })
      end)
    support.raises("invalid_argument", "no configuration runs on 2 GPUs", function()
      sets.deployment({ { name = "a", estimates = map, devices = { 2, 1 } } }, { cluster = mixed })
    end)
  end)
end)

describe("rows of types that are none", function()
  local function row(more)
    return sets.with({ tensor_parallel = 1, pipeline_parallel = 2, num_gpus = 2, ttft_s = 1, tpot_s = 1, latency_s = 2,
      memory_bytes = 3, base_bytes = 3, cost_byte_s = 6, device_types = { fast, slow } }, more)
  end
  local function by_type(of_slow)
    return { [fast] = { ttft_s = 1, tpot_s = 1, base_bytes = 1 }, [slow] = of_slow }
  end
  local cases = {
    { { device_types = 5 }, "device_types: a list of types of GPUs belongs here, not a number" },
    { { device_types = { fast } }, "1 types for 2 stages" },
    { { device_types = { fast, {} } }, "device_types[2]: a string belongs here" },
    { { by_type = 7 }, "by_type: a table by type belongs here, not a number" },
    { { by_type = by_type(nil) }, "by_type.T4-16G: what the whole model takes" },
    { { by_type = by_type { base_bytes = "x" } }, "by_type.T4-16G.base_bytes: a number belongs here" },
  }

  it("are refused by ts.place and by deployments", function()
    local gpus = { { free_bytes = 10, device = fast }, { free_bytes = 10, device = slow } }
    for _, case in ipairs(cases) do
      support.raises("invalid_argument", case[2], function() ts.place({ row(case[1]) }, gpus, { num_layers = 4 }) end)
      support.raises("invalid_argument", case[2]:match "%S+ belongs" or case[2], function()
        ts.serve(sets.deployment({ { name = "a", estimates = { row(case[1]) }, num_layers = 4 } }, { cluster = mixed,
          strategy = { place = function(_, model)
            return { devices = { 0, 2 }, layers = { 2, 2 }, configuration = model.estimates[1] }
          end } }), sets.of_rows { { 1, "a", 4 } })
      end)
    end
    support.raises("invalid_argument", "1 stages, but the configuration has 2", function()
      ts.serve(sets.deployment({ { name = "a", estimates = { row { by_type = by_type { ttft_s = 1, tpot_s = 1,
        base_bytes = 1 } } }, num_layers = 4 } }, { cluster = mixed, strategy = { place = function(_, model)
          return { devices = { 0, 2 }, layers = { 4 }, configuration = model.estimates[1] }
        end } }), sets.of_rows { { 1, "a", 4 } })
    end)
    support.raises("invalid_argument", "3 stages, but 1 of stage_ttft_s", function()
      ts.deployment { step_cost = { stage_ttft_s = { 1 }, stage_tpot_s = { 1, 2, 3 } } }
    end)
  end)
end)
