-- Configurations of a model, fingerprints, intents and placement: against cases from an independent reference, against
-- closed forms, and what they refuse.
local core = require "tessera.core"
local data_sets = require "tessera.desk.data_sets"
local support = require "support"
local ts = require "tessera"

local path, missing = data_sets.path("instances", "iserve/cases.json")
local cases = path and core.from_json(core.read_file(path)) or {}

-- A test of every case of a kind.
local function each(kind, text, check)
  if not path then
    it(text, function() pending(missing.message) end)
    return
  end
  local count = 0
  for _, case in ipairs(cases) do
    if case.kind == kind then
      count = count + 1
      it(("%s: %s"):format(text, case.name), function() check(case.given, case.expected) end)
    end
  end
  it(text .. ": there are cases", function() assert.is_true(count > 0) end)
end

local function near(expected, found, what)
  assert.is_number(found, what)
  local scale = math.max(math.abs(expected), 1e-12)
  assert.is_true(math.abs(found - expected) <= 1e-6 * scale, ("%s: %g, expected %g"):format(what, found, expected))
end

local function compare(expected, found, what)
  for field, value in pairs(expected) do
    if type(value) == "number" then
      near(value, found[field], what .. "." .. field)
    else
      assert.same(value, found[field], what .. "." .. field)
    end
  end
end

describe("configurations", function()
  each("enumerate", "lists them in order", function(given, expected)
    local space = ts.configurations(given)
    assert.equal(expected.count, #space)
    for _, row in ipairs(expected.some) do compare(row, space[row.index + 1], "row " .. row.index) end
  end)

  it("leaves out what a model's heads and layers forbid, with the reason", function()
    local space = ts.configurations { model = "falcon-7b" }
    assert.equal(96, #space)
    assert.equal(7, #space.left_out)
    for _, left in ipairs(space.left_out) do assert.truthy(left.why:find("71 heads", 1, true)) end
    local smol = ts.configurations { model = "smollm2-135m", tensor_parallel = { 1, 2, 3 }, pipeline_parallel = { 1 },
      schemes = { "fp16" } }
    assert.equal(2, #smol)
    assert.equal(3, smol[2].tensor_parallel)
  end)

  it("knows twelve schemes, whose cards are the caller's own", function()
    local list = ts.schemes()
    assert.equal(12, #list)
    list[9].pruning.ratio = 7
    assert.equal(0.5, ts.schemes()[9].pruning.ratio)
    for _, card in ipairs(list) do assert.is_true(#card.doc > 10 and card.bitwidth >= 4 and card.kv_bitwidth >= 8) end
  end)

  it("refuses by name", function()
    support.raises("not_found", "no scheme is called 'int5'; did you mean", function()
      ts.configurations { schemes = { "int5" } }
    end)
    support.raises("out_of_range", "tensor_parallel[2]", function()
      ts.configurations { tensor_parallel = { 1, 0 } }
    end)
    support.raises("invalid_argument", "2 is there twice", function()
      ts.configurations { pipeline_parallel = { 2, 2 } }
    end)
    support.raises("invalid_argument", "the list is empty", function() ts.configurations { schemes = {} } end)
  end)
end)

-- A measurement that looks runs up.
local function looked_up(runs)
  local by_key, asked = {}, {}
  local function key(run)
    return table.concat({ run.num_layers, run.tensor_parallel, run.pipeline_parallel, run.scheme }, "|")
  end
  for _, run in ipairs(runs) do by_key[key(run)] = run end
  return function(run)
    local found = by_key[key(run)] or error("nobody measured " .. key(run), 0)
    asked[key(run)] = (asked[key(run)] or 0) + 1
    local timed = #found.latency_s > 0
    if timed ~= (#run.output_tokens > 0) then error("timed otherwise: " .. key(run), 0) end
    return { memory_bytes = found.memory_bytes, latency_s = found.latency_s }
  end, asked
end

local space_of_two = { num_gpus = 4, tensor_parallel = { 1, 2 }, pipeline_parallel = { 1, 2 }, schemes = { "fp16" } }

-- Of mean 0 and deviation 1 (Box and Muller).
local function normal()
  return math.sqrt(-2 * math.log(1 - math.random())) * math.cos(2 * math.pi * math.random())
end

-- A machine whose time and memory are linear in layers, with noise on top: function(run).
local function linear(noise)
  return function(run)
    local layers, tp, pp = run.num_layers, run.tensor_parallel, run.pipeline_parallel
    local times = {}
    for i, n in ipairs(run.output_tokens) do
      times[i] = (0.01 + 0.002 * layers + n * (0.001 + 0.0004 * layers / tp)) * (1 + noise * normal())
    end
    return { memory_bytes = 1e9 + 2e8 * layers + (tp - 1) * 1e8 + (pp > 1 and pp * 5e7 or 0), latency_s = times }
  end
end

describe("a fingerprint", function()
  each("extrapolate", "says of the whole model", function(given, expected)
    local measure, asked = looked_up(given.runs)
    local map = ts.fingerprint { num_layers = given.num_layers,
      configurations = ts.configurations(given.configurations), latency_method = given.latency_method,
      memory_method = given.memory_method, repeats = 2,
      fingerprint_layers = given.fingerprint_layers, output_tokens = given.output_tokens, measure = measure }
    assert.equal(expected.num_runs, map.cost.num_runs)
    assert.equal(expected.num_runs, #given.runs)
    for key, count in pairs(asked) do assert.equal(2, count, key) end
    for tokens, rows in pairs(expected.estimates) do
      local found = map:estimates { output_tokens = tonumber(tokens) }
      for _, row in ipairs(rows) do
        local own = found[row.position + 1]
        if row.refused then
          assert.is_string(own.refused)
        else
          row.position = nil
          compare(row, own, "estimate")
        end
      end
    end
  end)

  it("is exact of a linear machine, and needs as many runs as the paper counts", function()
    local all = ts.configurations {}
    for _, case in ipairs { { "L1", "M1", 60 }, { "L2", "M2", 120 }, { "L2", "M3", 360 } } do
      local map = ts.fingerprint { num_layers = 80, configurations = all, latency_method = case[1],
        memory_method = case[2], repeats = 1, measure = linear(0) }
      assert.equal(case[3], map.cost.num_runs)
      local row = map:estimates { output_tokens = 100, price_usd_per_h = 2 }[9] -- TP 2, PP 1
      assert.equal(2, row.tensor_parallel)
      near(0.01 + 0.16 + 100 * (0.001 + 0.016), row.latency_s, "latency")
      near(17.1e9, row.memory_bytes, "memory")
      near(row.latency_s * 2 / 3600 * 2, row.usd, "usd")
    end
  end)

  it("states an error that holds what noise does to it", function()
    math.randomseed(7)
    local space, truth, held, errors = ts.configurations(space_of_two), 0.01 + 0.064 + 64 * (0.001 + 0.0128), 0, {}
    for i = 1, 60 do
      local map = ts.fingerprint { num_layers = 32, configurations = space, repeats = 9, measure = linear(0.01) }
      local row = map:estimates { output_tokens = 64 }[1]
      errors[i] = map.error.latency_ratio
      if math.abs(row.latency_s / truth - 1) <= 2 * row.error then held = held + 1 end
    end
    assert.is_true(held >= 50, held .. " of 60 within two standard errors") -- 57 expected; medians are a bit wider
    table.sort(errors)
    assert.is_true(errors[30] > 0.01 and errors[30] < 0.2, tostring(errors[30]))
  end)

  it("chooses layers and repeats for an error, and for a time", function()
    math.randomseed(5)
    local space = ts.configurations(space_of_two)
    local function map_of(more)
      local given = { num_layers = 80, configurations = space, measure = linear(0.01) }
      for key, value in pairs(more) do given[key] = value end
      return ts.fingerprint(given)
    end
    -- One or two layers of 80 and 3 repeats: 1 % comes out as more than 20 %.
    local first, last = map_of { repeats = 3 }, 0
    for _, wanted in ipairs { 0.2, 0.05, 0.02 } do
      local held, stated = 0, {}
      for i = 1, 20 do
        local map = map_of { max_error = wanted }
        assert.is_true(map.chosen.error_ratio <= wanted * (1 + 1e-9))
        assert.is_true(map.chosen.repeats >= 3 and map.chosen.fingerprint_layers[2] > 1)
        local row, truth = map:estimates { output_tokens = 64 }[1], 0.01 + 0.16 + 64 * (0.001 + 0.032)
        stated[i] = row.error
        if math.abs(row.latency_s / truth - 1) <= 2 * wanted then held = held + 1 end
      end
      assert.is_true(held >= 17, ("%d of 20 within twice %g"):format(held, wanted))
      table.sort(stated)
      assert.is_true(stated[10] < 1.5 * wanted, ("stated %g of %g"):format(stated[10], wanted))
      local cost = map_of { max_error = wanted }.cost.gpu_s
      assert.is_true(cost >= last, "a smaller error takes no less time")
      last = cost
    end
    for _, seconds in ipairs { 30, 300 } do
      local map = map_of { max_gpu_s = seconds }
      -- Runs for memory alone take no time here, and are expected to take that of others: up to 40 % of all.
      assert.is_true(map.cost.gpu_s <= 1.05 * seconds and map.cost.gpu_s > 0.4 * seconds, tostring(map.cost.gpu_s))
      assert.is_true(map.error.latency_ratio < first.error.latency_ratio)
    end
    support.raises("infeasible", "max_gpu_s: 1.00 s of devices are too few", function() map_of { max_gpu_s = 1 } end)
    support.raises("infeasible", "out of reach", function() map_of { max_error = 1e-6 } end)
    support.raises("infeasible", "for an error of 0.5 %", function() map_of { max_error = 0.005, max_gpu_s = 10 } end)
    support.raises("invalid_argument", "leave one out", function() map_of { max_error = 0.1, repeats = 4 } end)
    support.raises("invalid_argument", "L1 has none", function() map_of { max_error = 0.1, latency_method = "L1" } end)
  end)

  it("refuses measurements that are none", function()
    local function given(measure, more)
      local options = { num_layers = 4, configurations = ts.configurations(space_of_two), measure = measure }
      for key, value in pairs(more or {}) do options[key] = value end
      return function() ts.fingerprint(options) end
    end
    support.raises("invalid_argument", "memory_bytes of 1 layers, TP 1, PP 1, fp16 is nil", given(function(run)
      return { latency_s = run.output_tokens }
    end))
    support.raises("invalid_argument", "latency_s[2] of 1 layers", given(function()
      return { memory_bytes = 1, latency_s = { 1, 0 / 0 } }
    end))
    support.raises("invalid_argument", "it returned a nil", given(function() end))
    support.raises("invalid_argument", "both are 16", given(linear(0), { output_tokens = { 16, 16 } }))
    support.raises("invalid_argument", "both are 2", given(linear(0), { fingerprint_layers = { 2, 2 } }))
    support.raises("invalid_argument", "give model, or num_layers", function()
      ts.fingerprint { configurations = ts.configurations(space_of_two), measure = linear(0) }
    end)
  end)
end)

describe("an intent", function()
  each("rank", "orders rows", function(given, expected)
    local rows = given.estimates
    for i, row in ipairs(rows) do row.position = i - 1 end
    local ranked, positions, meets = ts.intent(given.intent):rank(rows), {}, {}
    for i, row in ipairs(ranked) do positions[i], meets[i] = row.position, row.meets end
    assert.same(expected.positions, positions)
    assert.same(expected.meets, meets)
    for i, value in ipairs(expected.values) do near(value, ranked[i].value, "value " .. i) end
  end)

  it("aims at what is not limited, and leaves the rows alone", function()
    assert.equal("cost", ts.intent {}.minimise)
    assert.equal("cost", ts.intent { latency_s = 2 }.minimise)
    assert.equal("latency", ts.intent { memory_bytes = 2 }.minimise)
    local rows = { { num_gpus = 1, memory_bytes = 1, latency_s = 1, cost_byte_s = 1 } }
    local ranked = ts.intent({ latency_s = 0.5 }):rank(rows)
    assert.is_nil(rows[1].rank)
    assert.is_false(ranked[1].meets)
    assert.equal(2, ranked[1].excess)
  end)

  it("refuses what it cannot know", function()
    support.raises("invalid_argument", "minimise", function() ts.intent { minimise = "latencyy" } end)
    support.raises("out_of_range", "latency_s", function() ts.intent { latency_s = -1 } end)
    support.raises("invalid_argument", "price_usd_per_h", function()
      ts.intent({ minimise = "usd" }):rank { { num_gpus = 1, memory_bytes = 1, latency_s = 1 } }
    end)
  end)
end)

describe("placement", function()
  each("place", "finds room", function(given, expected)
    local placed, why = ts.place(given.ranked, given.gpus, { num_layers = given.num_layers, policy = given.policy,
      theta = given.theta })
    if expected.none then
      assert.is_nil(placed)
      assert.equal("infeasible", why.code)
      return assert.same(expected.reasons, why.reasons)
    end
    compare(expected, placed, "placed")
  end)

  each("sequence", "takes memory and gives it back", function(given, expected)
    local free, held, order = { unpack(given.free_bytes) }, {}, {}
    for _, step in ipairs(given.steps) do
      if step.remove then
        for _, part in ipairs(held[step.remove] or {}) do free[part[1]] = free[part[1]] + part[2] end
        order[#order + 1] = false
      else
        local gpus = {}
        for i, bytes in ipairs(free) do gpus[i] = { free_bytes = bytes, load = step.loads[i] } end
        local placed = ts.place(step.ranked, gpus, { num_layers = step.num_layers, policy = step.policy,
          theta = step.theta })
        order[#order + 1] = placed or false
        if placed then
          local tp, parts = placed.configuration.tensor_parallel, {}
          for i, device in ipairs(placed.devices) do
            local bytes = placed.layers[math.ceil(i / tp)] * placed.block_bytes
            free[device + 1] = free[device + 1] - bytes
            parts[i] = { device + 1, bytes }
          end
          held[step.name] = parts
        end
      end
    end
    for i, bytes in ipairs(expected.free_bytes) do near(bytes, free[i], "free bytes of GPU " .. i - 1) end
    for i, placed in ipairs(expected.placed) do
      if type(placed) == "table" and placed.devices then compare(placed, order[i], "step " .. i) end
    end
  end)

  local gpus = { { free_bytes = 10, load = 0.9 }, { free_bytes = 20, load = 0.1 }, { free_bytes = 5, load = 0 } }
  local row = { tensor_parallel = 1, pipeline_parallel = 2, base_bytes = 8, memory_bytes = 26 }

  it("asks a policy in Lua, and counts what is replicated where that is asked", function()
    local placed = ts.place({ row }, gpus, { num_layers = 4, policy = function(view, k)
      assert.equal(2, k)
      assert.equal(3, #view)
      return { 2, 0, 1 }
    end })
    assert.same({ 0, 2 }, placed.devices)
    assert.is_true(placed.even)
    assert.equal(2, placed.block_bytes)
    local whole = ts.place({ row }, gpus, { num_layers = 4, account = "footprint" })
    assert.equal(6.5, whole.block_bytes)
    assert.same({ 1, 0 }, whole.devices) -- 13 bytes have room on one alone, 6.5 on two
    assert.same({ 3, 1 }, whole.layers)
  end)

  it("refuses policies and numbers that are none", function()
    local function given(more, list)
      local options = { num_layers = 4 }
      for key, value in pairs(more) do options[key] = value end
      return function() ts.place({ row }, list or gpus, options) end
    end
    support.raises("invalid_argument", "no policy is called 'packin'; did you mean 'packing'?",
      given { policy = "packin" })
    support.raises("invalid_argument", "GPU 1 is there twice", given { policy = function() return { 1, 1 } end })
    support.raises("invalid_argument", "there is no GPU 3 of 3", given { policy = function() return { 3 } end })
    support.raises("out_of_range", "theta", given { theta = 1.5 })
    support.raises("out_of_range", "gpus[1].free_bytes", given({}, { { free_bytes = -1 } }))
    support.raises("invalid_argument", "the list is empty", given({}, {}))
  end)
end)
