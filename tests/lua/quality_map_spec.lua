-- ts.quality_map on points that are made up: what it must recover, how often its bands hold, and what it refuses. What
-- it says of a real model is experiments/quality/map.lua.
local core = require "tessera.core"
local plan_omega = require "tessera.planning.plan_omega"
local student_t = require "tessera.models.student_t"
local summary = require "lib.quality.summary"
local support = require "support"
local ts = require "tessera"
local raises = support.raises

local seed = 20261123

local function point(omega, kl_nats, rise)
  return {
    omega = omega, kl_nats = kl_nats, loss_increase_nats = rise or kl_nats, base_perplexity = 4, model = "m",
    indicator = "variance paper 01234567", settings = "group_size=64",
  }
end

local function with(list, index, fields)
  local copy = {}
  for i, one in ipairs(list) do
    copy[i] = {}
    for key, value in pairs(one) do copy[i][key] = value end
  end
  for key, value in pairs(fields) do copy[index][key] = value end
  return copy
end

local three = { point(0.5, 0.05, 0.04), point(1, 0.1, 0.08), point(2, 0.2, 0.16) }

-- Normal draws from the generator that is the same everywhere (Box and Muller).
local function normal_from(draw)
  local most = 2 ^ 30
  return function()
    return math.sqrt(-2 * math.log(draw(most) / most)) * math.cos(2 * math.pi * draw(most) / most)
  end
end

local function plan_of(changes)
  local given = {
    model = "opt-125m", cluster = "1xT4-16G+1xV100-32G", bitwidths = { 4, 8 },
    workload = { prompt_tokens = 16, output_tokens = 4, batch_size = 2 },
  }
  for key, value in pairs(changes or {}) do given[key] = value end
  return assert(ts.plan(ts.problem(given),
    { prefill_micro_batch_size = 1, decode_micro_batch_size = 1, time_limit_s = 10 }))
end

describe("Student's t", function()
  it("has the quantiles that are printed everywhere", function()
    for degrees, expected in pairs { [1] = 6.3138, [2] = 2.9200, [3] = 2.3534, [9] = 1.8331, [30] = 1.6973 } do
      assert.near(expected, student_t.within(0.9, degrees), 1e-4)
    end
    assert.near(4.3027, student_t.within(0.95, 2), 1e-4)
  end)
end)

describe("ts.quality_map", function()
  it("recovers one scale exactly", function()
    local draw = summary.generator(seed)
    for _ = 1, 50 do
      local scale, slope, points = 0.01 + draw(1000) / 500, draw(1000) / 500, {}
      for i = 1, 2 + draw(8) do
        local omega = 0.001 * i + draw(1000) / 200
        points[i] = point(omega, scale * omega, slope * omega)
      end
      if #points >= 3 then
        local map = ts.quality_map { points = points }
        local middle = (map.min_omega + map.max_omega) / 2
        local found = map:predict(middle)
        assert.near(scale, map.kl_nats_per_omega, 1e-9, "seed " .. seed)
        assert.near(slope, map.loss_nats_per_omega, 1e-9)
        assert.near(1, map.spread_ratio, 1e-6)
        for _, edge in ipairs { "low", "mid", "high" } do
          assert.near(scale * middle, found.kl_nats[edge], 1e-6)
          assert.near(math.exp(slope * middle) - 1, found.perplexity_increase[edge], 1e-4 * math.exp(slope * middle))
        end
        assert.equal(#points, found.num_points)
      end
    end
  end)

  -- 2,000 maps: the standard error of a share of 0.9 is 0.7 %; four of them are allowed.
  it("has bands that hold nine times of ten", function()
    local draw = summary.generator(seed)
    local normal = normal_from(draw)
    local repeats, held, held_rise = 2000, 0, 0
    local function drawn(omega)
      return point(omega, 0.3 * omega * math.exp(0.4 * normal()), 0.25 * omega + 0.05 * math.sqrt(omega) * normal())
    end
    for i = 1, repeats do
      local points = {}
      for k = 1, 3 + i % 6 do points[k] = drawn(0.1 + draw(1000) / 500) end
      local map = ts.quality_map { points = points }
      local new = drawn(0.1 + draw(1000) / 500)
      local found = map:predict(new.omega, { extrapolate = true })
      local rise = math.exp(new.loss_increase_nats) - 1
      if new.kl_nats >= found.kl_nats.low and new.kl_nats <= found.kl_nats.high then held = held + 1 end
      if rise >= found.perplexity_increase.low and rise <= found.perplexity_increase.high then
        held_rise = held_rise + 1
      end
    end
    local text = ("%d and %d of %d, seed %d"):format(held, held_rise, repeats, seed)
    assert.near(0.9, held / repeats, 0.027, text)
    assert.near(0.9, held_rise / repeats, 0.027, text)
  end)

  it("does not depend on the order of the points", function()
    local one = ts.quality_map { points = three }
    local other = ts.quality_map { points = { three[3], three[1], three[2] } }
    assert.same(one:to_table(), other:to_table())
    assert.equal(0.5, one.points[1].omega)
  end)

  it("writes itself and reads it back", function()
    local map, file = ts.quality_map { points = with(three, 2, { kl_nats = 0.13 }) }, os.tmpname()
    map:save(file)
    local again = ts.quality_map { file = file }
    assert.same(map:to_table(), again:to_table())
    assert.equal(tostring(map), tostring(again))
    assert.same(map:predict(1.5), again:predict(1.5))
    core.write_file(file, '{"format":"tessera.quality_map/2","points":[]}')
    raises("invalid_argument", "its format is not 'tessera.quality_map/1'",
      function() ts.quality_map { file = file } end)
    core.write_file(file, '{"format":"tessera.quality_map/1","points":[1,2]}')
    raises("invalid_argument", "points", function() ts.quality_map { file = file } end)
    core.write_file(file,
      '{"format":"tessera.quality_map/1","points":[{"omega":1,"kl_nats":1,"loss_increase_nats":1}]}')
    raises("invalid_argument", "points[1].model: a string belongs here, not a nil",
      function() ts.quality_map { file = file } end)
    os.remove(file)
  end)

  it("is read-only, and says what it is", function()
    local map = ts.quality_map { points = three }
    assert.equal("fitted", map.provenance)
    assert.matches("^quality map of m, variance paper 01234567: 0%.1 nats per omega, within a factor of 1 "
      .. "%(3 points, omega 0%.5 to 2%)$", tostring(map))
    raises("invalid_argument", "read-only", function() map.model = "x" end)
    raises("invalid_argument", "'spread' does not exist", function() return map.spread end)
    map.points[1].omega = 7
    assert.equal(0.5, map.points[1].omega)
  end)

  it("refuses points that are no points of one map", function()
    local cases = {
      { "at least 3", { three[1], three[2] } },
      { "its model is 'other'", with(three, 2, { model = "other" }) },
      { "its indicator is 'hessian", with(three, 3, { indicator = "hessian 0" }) },
      { "its settings is 'group_size=128'", with(three, 2, { settings = "group_size=128" }) },
      { "another text, or other weights", with(three, 3, { base_perplexity = 4.1 }) },
      { "nothing is lost", with(three, 1, { omega = 0 }) },
      { "nothing is lost", with(three, 1, { kl_nats = -1e-9 }) },
      { "interrupted", with(three, 1, { partial = true }) },
      { "no finite number", with(three, 1, { kl_nats = 0 / 0 }) },
      { "one measurement counts once", { three[1], three[2], three[2] } },
    }
    for _, case in ipairs(cases) do
      raises("invalid_argument", case[1], function() ts.quality_map { points = case[2] } end)
    end
    local without = with(three, 1, {})
    without[1].omega = nil
    raises("invalid_argument", "points[1]: it has no omega", function() ts.quality_map { points = without } end)
    raises("invalid_argument", "give either points or file", function() ts.quality_map {} end)
    raises("invalid_argument", "unknown option 'point'", function() ts.quality_map { point = three } end)
  end)

  it("predicts for plans of its model and indicator, and no others", function()
    local plan = plan_of()
    local omega, indicator = plan_omega.of(plan)
    local function map_with(fields)
      local points = {}
      for i, factor in ipairs { 0.5, 1, 2 } do
        points[i] = point(factor * omega, 0.1 * factor * omega)
        points[i].model, points[i].indicator = fields.model or "opt-125m", fields.indicator or indicator
      end
      return ts.quality_map { points = points }
    end
    assert.near(0.1 * omega, map_with({}):predict(plan).kl_nats.mid, 1e-9)
    raises("invalid_argument", "it is a plan of 'opt-125m', the map is of 'opt-1b'",
      function() map_with({ model = "opt-1b" }):predict(plan) end)
    raises("invalid_argument", "', the map's of 'variance 0'",
      function() map_with({ indicator = "variance 0" }):predict(plan) end)
    raises("invalid_argument", "it is not negative", function() map_with({}):predict(-1) end)
    raises("invalid_argument", "a plan or its normalised omega", function() map_with({}):predict "plan" end)
  end)

  it("does not go beyond what was measured without being asked", function()
    local map = ts.quality_map { points = three }
    raises("out_of_range", "omega 2.5 is outside of what was measured, 0.5 to 2", function() map:predict(2.5) end)
    assert.is_true(map:predict(2.5, { extrapolate = true }).extrapolated)
    assert.is_false(map:predict(2).extrapolated)
  end)
end)

describe("omega of a plan", function()
  it("is normalised whatever unit theta is in", function()
    local normalised, name = plan_omega.of(plan_of { theta = 0 })
    local raw, raw_name = plan_omega.of(plan_of { theta = 0, theta_unit = "ms_per_raw_omega" })
    assert.near(normalised, raw, 1e-9 * normalised)
    assert.equal(name, raw_name)
    local uniform = plan_of { bitwidths = { 4 } }
    assert.near(1, (plan_omega.of(uniform)), 1e-9)
  end)

  it("names indicators apart", function()
    local _, constant = plan_omega.of(plan_of())
    local _, one = plan_omega.of(plan_of { indicator = ts.indicator { kind = "random", model = "opt-125m", seed = 1 } })
    local _, two = plan_omega.of(plan_of { indicator = ts.indicator { kind = "random", model = "opt-125m", seed = 2 } })
    assert.matches("^constant ", constant)
    assert.matches("^random ", one)
    assert.not_equal(one, two)
    local _, narrow = plan_omega.of(plan_of { bitwidths = { 4 } })
    assert.equal(constant, narrow)
  end)
end)
