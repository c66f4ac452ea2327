-- Strategies that ship, and requests that a strategy routes or drops itself.
local buckets = require "tessera.serving.model_buckets"
local groups = require "tessera.serving.parallel_groups"
local sets = require "model_sets"
local support = require "support"
local ts = require "tessera"

local near, of_rows, with, deployment, rows_of = sets.near, sets.of_rows, sets.with, sets.deployment, sets.fingerprint

local function two_models(options)
  local map = rows_of(40, options) -- 17 GB
  return { { name = "a", estimates = map, slo = { e2e_s = 6 } }, { name = "b", estimates = map, slo = { e2e_s = 6 } } }
end

local function traffic(rate_per_s, num_requests)
  return ts.traffic { rate_per_s = rate_per_s, num_requests = num_requests or 300, seed = 2,
    output_tokens = { distribution = "geometric", mean = 40, max = 200 },
    classes = { { share = 0.5, model = "a" }, { share = 0.5, model = "b" } } }
end

describe("each strategy that ships", function()
  it("serves two models that have room, and tells of one that has none", function()
    for _, card in ipairs(ts.strategies()) do
      local models = two_models()
      local served = ts.serve(deployment(models, { strategy = card.name }), traffic(0.2))
      assert.equal(300, served.num_finished, card.name)
      assert.equal(0, served.num_unplaced, card.name)
      for _, model in ipairs(served.models) do
        assert.is_true(model.placed)
        assert.is_true(#model.devices >= 1)
        assert.is_string(model.configuration.scheme)
      end
      if card.name ~= "accelerate" then -- which keeps the rest on the host
        models[3] = { name = "c", estimates = rows_of(2000), at_s = 1 }
        served = ts.serve(deployment(models, { strategy = card.name }), traffic(0.2))
        assert.is_false(served.models[3].placed, card.name)
        assert.is_true(#served.models[3].why > 10, card.name)
      end
    end
  end)

  it("gives every model all GPUs, where that is its rule", function()
    for name, shape in pairs { tensorrt_llm_tp = { 8, 1 }, tensorrt_llm_pp = { 1, 8 }, accelerate = { 1, 8 } } do
      local served = ts.serve(deployment(two_models(), { strategy = name }), traffic(0.2))
      for _, model in ipairs(served.models) do
        assert.same({ 0, 1, 2, 3, 4, 5, 6, 7 }, model.devices)
        assert.equal(shape[1], model.configuration.tensor_parallel)
        assert.equal(shape[2], #model.layers)
      end
    end
  end)
end)

describe("accelerate", function()
  local requests = of_rows { { 1, "a", 11 } }
  local function e2e_s(num_layers, options)
    local served = ts.serve(deployment({ { name = "a", estimates = rows_of(num_layers) } },
      { strategy = with({ name = "accelerate" }, options) }), requests)
    return served.e2e_s.mean, served.models[1].configuration
  end

  it("reads from the host for every token what the GPUs have no room for", function()
    local _, row = e2e_s(40)
    assert.is_nil(row.hosted_bytes)
    local fast, more = e2e_s(1600, { host_bytes_per_s = 1e11 })
    local slow = e2e_s(1600, { host_bytes_per_s = 1e10 })
    -- 641 GB in layers of 0.4 GB; eight GPUs hold 128 of 200 each.
    near(8 * 72 * 641e9 / 1600, more.hosted_bytes, 1e-6)
    near(11 * more.hosted_bytes * (1e-10 - 1e-11), slow - fast, 1e-6)
  end)

  it("gathers all weights for every token in its other form", function()
    local fast, slow = e2e_s(40, { form = "all_gather", link_bytes_per_s = 2e10 }),
      e2e_s(40, { form = "all_gather", link_bytes_per_s = 1e10 })
    near(11 * 17e9 * 7 / 8 * (1e-10 - 5e-11), slow - fast, 1e-6)
    support.raises("invalid_argument", "no form is called 'fsdp'", function() e2e_s(40, { form = "fsdp" }) end)
  end)
end)

describe("alpaserve", function()
  it("has nine partitions of eight GPUs, TP 8 in none, and powers of two of what is left over", function()
    local ways, shapes = groups.partitions(8, 4), {}
    for i, way in ipairs(ways) do
      shapes[i] = ("%dx%dx%d"):format(#way, way[1].op, way[1].pp)
      for _, group in ipairs(way) do assert.same({ way[1].size, way[1].op }, { group.size, group.op }) end
    end
    assert.same({ "8x1x1", "4x1x2", "4x2x1", "2x1x4", "2x2x2", "2x4x1", "1x1x8", "1x2x4", "1x4x2" }, shapes)
    local seven = groups.partitions(7, 4)[5]
    assert.same({ { size = 4, op = 2, pp = 2 }, { size = 2, op = 1, pp = 2 }, { size = 1, op = 1, pp = 1 } }, seven)
  end)

  it("times requests as its simulator does, and drops what would be late", function()
    local group = { op = 1, pp = 2, clocks = { 0, 0 } }
    local row = { ttft_s = 1, tpot_s = 0.5 }
    local stage = 2 / 2 * 1.018 -- three tokens, two stages
    near(2 * stage + 0.011, groups.take(group, row, 0, 3, math.huge), 1e-12)
    near(3 * stage + 0.011, groups.take(group, row, 0, 3, math.huge), 1e-12) -- a stage behind the first
    assert.same({ 2 * stage, 3 * stage }, group.clocks)
    assert.is_nil(groups.take(group, row, 0, 3, 3 * stage))
    assert.same({ 2 * stage, 3 * stage }, group.clocks)
    assert.equal(3, groups.limit_of { slo = { e2e_s = 3 } })
    assert.equal(4, groups.limit_of { slo = { e2e_s = { p50 = 2, p99 = 4 } } })
    assert.equal(math.huge, groups.limit_of {})
  end)

  -- Where a request is one step, so that tokens of another cannot come between. Both models of a group take turns.
  it("serves first come, first served with a clock for each stage, as its simulator reckons", function()
    for _, case in ipairs { { 1, 4, 3.6 }, { 2, 2, 1.8 }, { 1, 1, 0.9 }, { 1, 4, 1, 2 } } do
      local tp, pp, rate_per_s, num_models = unpack(case)
      local stage_s = 1 / pp * (1 + groups.stage_overhead * pp)
      local row = { tensor_parallel = tp, pipeline_parallel = pp, ttft_s = 1, tpot_s = 1, memory_bytes = 1,
        base_bytes = 1 }
      local taken = with({}, row)
      taken.ttft_s = stage_s * pp
      local models, classes = {}, {}
      for i = 1, num_models or 1 do
        models[i] = { name = "m" .. i, estimates = { taken }, num_layers = 8 }
        classes[i] = { share = 1 / (num_models or 1), model = "m" .. i }
      end
      local group = { op = tp, pp = pp, devices = {}, clocks = {}, models = {} }
      for i = 1, tp * pp do group.devices[i] = i - 1 end
      for k = 1, pp do group.clocks[k] = 0 end
      for i in ipairs(models) do group.models[i] = taken end
      local requests = ts.traffic { rate_per_s = rate_per_s, num_requests = 2000, seed = 4, output_tokens = 1,
        classes = classes }
      local served = ts.serve(deployment(models, { api_s = groups.request_overhead_s, strategy = {
        place = function(_, model) return groups.places({ group }, model) end,
      } }), requests)
      local waited = 0
      for _, request in ipairs(served:requests()) do
        local done = groups.take(group, row, request.arrival_s, 1, math.huge)
        near(done - request.arrival_s, request.e2e_s, 1e-9)
        waited = waited + (done - request.arrival_s > stage_s * pp + 0.012 and 1 or 0)
      end
      assert.is_true(waited > 300, ("only %d requests waited"):format(waited))
    end
  end)

  describe("with buckets", function()
    local function model(name, index, seconds)
      local rows = {}
      for _, shape in ipairs { { 1, 1 }, { 1, 2 }, { 2, 1 } } do
        rows[#rows + 1] = { scheme = "fp16", tensor_parallel = shape[1], pipeline_parallel = shape[2],
          ttft_s = seconds / shape[1], tpot_s = 1e-9, base_bytes = 1e9, memory_bytes = 1e9, latency_s = seconds }
      end
      return { name = name, index = index, estimates = rows, num_layers = 8, slo = { e2e_s = 1.5 * seconds } }
    end
    local function requests(counts)
      local list = {}
      for i, count in ipairs(counts) do
        for _ = 1, count do list[#list + 1] = { model = i, num_tokens = 1 } end
      end
      return list
    end

    it("puts models beside each other whose times differ by less than 38 % from a first one's", function()
      local models = { model("a", 1, 1), model("b", 2, 1.37), model("c", 3, 1.39), model("d", 4, 0.63),
        model("e", 5, 0.61), model("f", 6, 1.9) }
      local names = {}
      for i, bucket in ipairs(buckets.of(models, requests { 1, 2, 3 }, "fp16")) do
        names[i] = #bucket.requests .. " "
        for _, own in ipairs(bucket.models) do names[i] = names[i] .. own.name end
      end
      assert.same({ "3 abd", "3 cf", "0 e" }, names)
      assert.is_nil(buckets.of({ { index = 1, estimates = {} } }, {}, "fp16"))
    end)

    it("splits GPUs in every way, and of many in those that are like the load", function()
      local three = buckets.of({ model("a", 1, 1), model("b", 2, 2), model("c", 3, 4) }, requests { 1, 1, 1 }, "fp16")
      local ways = buckets.splits(8, three)
      assert.equal(21, #ways)
      assert.same({ 1, 1, 6 }, ways[1])
      for _, way in ipairs(ways) do assert.equal(8, way[1] + way[2] + way[3]) end
      local few = buckets.splits(32, three)
      assert.is_true(#few < 100 and #few > 0)
      for _, way in ipairs(few) do
        local sum = way[1] + way[2] / 2 + way[3] / 4
        assert.is_true(math.abs(way[1] / sum - 1 / 3) < 0.5)
      end
      support.raises("invalid_argument", "use_separation: 1000 GPUs can be split among 3 buckets", function()
        buckets.splits(1000, three)
      end)
    end)

    local function search(models, rows, use_separation)
      local gpus = {}
      for i = 1, 4 do gpus[i] = { index = i - 1, free_bytes = 8e9 } end
      return groups.search(gpus, models, of_rows(rows), { schemes = { "fp16" }, most_op = 4, most_requests = 1000,
        drops = true, use_separation = use_separation })
    end

    -- One runs on one GPU alone, the other is in time on two alone.
    it("gives models of unlike size groups of unlike shapes, where that scores more", function()
      local short, long, rows = model("short", 1, 1), model("long", 2, 10), {}
      short.estimates, long.slo.e2e_s = { short.estimates[1] }, 6
      for i = 0, 99 do rows[i + 1] = { 1 + 2.5 * i, i % 4 == 0 and "long" or "short" } end
      local mixed, low = search({ short, long }, rows, false)
      local apart, high = search({ short, long }, rows, true)
      near(0.75, low, 1e-3)
      near(1, high, 1e-3)
      for _, group in ipairs(mixed) do assert.same({ 1, 1 }, { group.op, group.pp }) end
      local shapes = {}
      for _, group in ipairs(apart) do
        for index in pairs(group.models) do shapes[#shapes + 1] = ("%d: %d x %d"):format(index, group.op, group.pp) end
      end
      table.sort(shapes)
      assert.same({ "1: 1 x 1", "1: 1 x 1", "2: 2 x 1" }, shapes)
    end)

    it("looks at requests whose model is there when they come", function()
      local own, rows = model("a", 1, 1), {}
      for i = 1, 90 do rows[i] = { 1, "a" } end
      for i = 91, 100 do rows[i] = { 10 * i, "a" } end
      local _, all = search({ own }, rows)
      own.at_s = 2
      local _, of_its_time = search({ own }, rows)
      assert.is_true(all < 0.5, all)
      near(1, of_its_time, 1e-3)
    end)
  end)

  it("drops under load, which alpaserve_no_drop does not", function()
    local models = two_models()
    local dropping = ts.serve(deployment(models, { cluster = "2xA6000", strategy = "alpaserve" }), traffic(6))
    local keeping = ts.serve(deployment(models, { cluster = "2xA6000", strategy = "alpaserve_no_drop" }), traffic(6))
    assert.is_true(dropping.num_rejected > 10)
    assert.equal(0, dropping.num_unplaced)
    assert.equal(300, dropping.num_finished + dropping.num_rejected)
    assert.equal(300, keeping.num_finished)
    assert.is_true(dropping.e2e_s.mean < keeping.e2e_s.mean)
    assert.is_true(dropping.attainment_ratio > keeping.attainment_ratio)
    -- Its attainment counts what it drops.
    assert.is_true(dropping.attainment_ratio <= dropping.num_finished / 300)
  end)

  it("adds replicas where it has room, and places all or nothing where it must", function()
    local served = ts.serve(deployment(two_models(), { strategy = "alpaserve_no_drop" }), traffic(1))
    local replicas = 0
    for _, model in ipairs(served.models) do replicas = replicas + #model.devices / model.num_gpus end
    assert.is_true(replicas > 2)
    local models = two_models()
    models[3] = { name = "c", estimates = rows_of(2000) }
    served = ts.serve(deployment(models, { strategy = "alpaserve_no_drop" }), traffic(1))
    assert.equal("no partition has room for every model", served.models[1].why)
    assert.equal(300, served.num_unplaced)
  end)
end)

describe("a strategy that routes", function()
  local function run(route)
    return function()
      return ts.serve(deployment({ { name = "a", step_cost = { base_s = 1 } } }, { strategy = { route = route,
        place = function() return { { devices = { 0 } }, { devices = { 4 } } } end } }),
        of_rows { { 1, "a" }, { 2, "a" }, { 3, "a" } })
    end
  end

  it("says which engine takes a request, or drops it, which an SLO misses", function()
    local seen = {}
    local served = run(function(request, model)
      seen[#seen + 1] = ("%s %g %d %d"):format(model.name, request.now_s, request.request, request.max_tokens)
      return request.request < 2 and 2 - request.request or nil
    end)()
    assert.same({ "a 1 0 1", "a 2 1 1", "a 3 2 1" }, seen)
    local rows = served:requests()
    assert.equal(1, rows[1].replica)
    assert.equal(0, rows[2].replica)
    assert.equal("rejected", rows[3].outcome)
    assert.is_nil(rows[3].unplaced)
    assert.equal(0, served.num_unplaced)
  end)

  it("is refused for engines that are not there", function()
    support.raises("invalid_argument", "chose engine 2 of 2 (0-based)", run(function() return 3 end))
    support.raises("out_of_range", "the engine that route returns", run(function() return 0 end))
    support.raises("invalid_argument", "the engine that route returns", run(function() return "x" end))
  end)
end)
