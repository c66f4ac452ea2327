-- ts.pareto: against every plan of tiny instances, and on small clusters.
local ts = require "tessera"
local support = require "support"
local enumerate = require "enumerate"
local raises, declines = support.raises, support.declines

local function price_of(order, usd)
  local total = 0
  for _, name in ipairs(order) do total = total + usd[name] end
  return total
end

-- Every plan that fits: { latency_s, omega, usd }.
local function every_plan(problem, types, usd)
  local plans = {}
  for _, order in ipairs(enumerate.orders(types)) do
    enumerate.plans(problem, order, function(_, priced)
      plans[#plans + 1] = { latency_s = priced.latency_s, omega = priced.omega, usd = price_of(order, usd) }
    end)
  end
  return plans
end

-- As good in everything and better, beyond what ties may hide, in something.
local function dominates(a, b)
  local slack = 1 + 1e-5
  return a.latency_s <= b.latency_s * (1 + 1e-9) and a.omega <= b.omega * (1 + 1e-9) and a.usd <= b.usd * (1 + 1e-9)
    and (a.latency_s * slack < b.latency_s or a.omega * slack < b.omega or a.usd * slack < b.usd)
end

local function front_of(plans)
  local front = {}
  for _, plan in ipairs(plans) do
    local kept = true
    for _, other in ipairs(plans) do kept = kept and not dominates(other, plan) end
    for _, other in ipairs(front) do -- of equals one
      kept = kept and not (math.abs(other.latency_s - plan.latency_s) < 1e-5 * plan.latency_s
        and math.abs(other.omega - plan.omega) < 1e-5 * plan.omega and other.usd == plan.usd)
    end
    if kept then front[#front + 1] = plan end
  end
  table.sort(front, function(a, b)
    if a.latency_s ~= b.latency_s then return a.latency_s < b.latency_s end
    return a.omega < b.omega
  end)
  return front
end

local tiny = {
  { { name = "A", count = 1, mem_gb = 7 }, { name = "B", count = 1, mem_gb = 5 } },
  { { name = "A", count = 2, mem_gb = 4 }, { name = "B", count = 1, mem_gb = 9, speed = 3 } },
  { { name = "A", count = 1, mem_gb = 9, speed = 2 },
    { name = "B", count = 1, mem_gb = 3, speed = 1, link_gbs = 0.02 } },
}
local usd = { A = 1, B = 0.7 }

describe("ts.pareto", function()
  after_each(support.remove_files)

  for number, types in ipairs(tiny) do
    it("finds the whole front of tiny instance " .. number, function()
      local problem = ts.problem { instance = support.tiny_instance(types), allow_empty_stage = false }
      -- Subsets of the devices are allowed to the enumeration, so it may leave devices out.
      local plans = every_plan(problem, types, usd)
      local expected = front_of(plans)
      local points, info = ts.pareto(problem, { max_points = 1000, prices = usd })
      assert.is_true(info.complete)
      assert.is_false(info.stopped)
      local found = {}
      for i, point in ipairs(points) do
        found[i] = { latency_s = point.latency_s, omega = point.omega, usd = point.price_usd_per_h }
        for _, plan in ipairs(plans) do assert.is_false(dominates(plan, found[i])) end
        assert.is_true(ts.check(point.plan))
        assert.is_true(i == 1 or points[i - 1].latency_s <= point.latency_s)
      end
      assert.equal(#expected, #found)
      for i, plan in ipairs(expected) do
        assert.near(plan.latency_s, found[i].latency_s, 1e-5 * plan.latency_s)
        assert.near(plan.omega, found[i].omega, 1e-5)
        assert.near(plan.usd, found[i].usd, 1e-9)
      end
      assert.is_true(#found > 3)
    end)
  end

  it("gives few points of a large front, none dominated, the same every time", function()
    local problem = support.small_problem { bitwidths = { 4, 8, 16 } }
    local options = { max_points = 4, prices = { ["V100-32G"] = 2 } }
    local points, info = ts.pareto(problem, options)
    assert.equal(3, info.subsets)
    for i, a in ipairs(points) do
      assert.near(a.price_usd_per_h / 3600 / a.throughput_tok_s * 1e6, a.usd_per_million_tokens, 1e-9)
      for j, b in ipairs(points) do
        local as_good = a.latency_s <= b.latency_s and a.omega <= b.omega and a.price_usd_per_h <= b.price_usd_per_h
        assert.is_false(i ~= j and as_good)
      end
    end
    local again = ts.pareto(problem, options)
    assert.equal(#points, #again)
    for i, point in ipairs(points) do
      assert.equal(point.latency_s, again[i].latency_s)
      assert.same(point.plan.device_order, again[i].plan.device_order)
    end
    assert.is_string(ts.table(points, { columns = { "latency_s", "omega", "price_usd_per_h", "devices" } }))
  end)

  it("takes the cost of a token as the price", function()
    local options = { max_points = 3, prices = { ["V100-32G"] = 2 }, price = "usd_per_million_tokens" }
    local points = ts.pareto(support.small_problem(), options)
    for i, a in ipairs(points) do
      for j, b in ipairs(points) do
        local as_good = a.latency_s <= b.latency_s and a.omega <= b.omega
          and a.usd_per_million_tokens <= b.usd_per_million_tokens
        assert.is_false(i ~= j and as_good)
      end
    end
  end)

  it("leaves prices out where there are none", function()
    local points, info = ts.pareto(support.small_problem(), { price = "none", max_points = 3 })
    assert.equal(1, info.subsets)
    assert.is_nil(points[1].price_usd_per_h)
    assert.is_true(#points <= 3)
    assert.near(assert(ts.plan(support.small_problem { theta = 0 })).latency_s, points[1].latency_s, 1e-5)
  end)

  it("keeps the problem's floor", function()
    local points = ts.pareto(support.small_problem { quality = { max_omega = 0.2 } }, { price = "none" })
    for _, point in ipairs(points) do assert.is_true(point.omega <= 0.2 * (1 + 1e-6)) end
  end)

  it("says what stops it", function()
    declines("infeasible", "no choice", ts.pareto(support.small_problem { model = "opt-175b" }, { price = "none" }))
    declines("time_limit", "", ts.pareto(support.small_problem(), { price = "none", time_limit_s = 0 }))
  end)

  it("refuses what it does not know", function()
    local problem = support.small_problem()
    for _, case in ipairs {
      { { points = 3 }, "unknown option 'points'" }, { { max_points = 1 }, "an integer in [2, 10000]", "out_of_range" },
      { { price = "eur" }, "'eur' is not a choice" }, { { prices = 3 }, "give table<string, number>" },
      { { prices = { V100 = 1 } }, "no device is called 'V100'" },
      { { prices = { 1 } }, "got the key 1" }, { { max_subsets = 0 }, "out of range", "out_of_range" },
      { { max_subsets = 2, prices = { ["V100-32G"] = 2 } }, "3 choices of devices are more than max_subsets = 2" },
      { { time_limit_s = support.inf }, "inf is not finite" },
    } do
      raises(case[3] or "invalid_argument", case[2], function() ts.pareto(problem, case[1]) end)
    end
    local unpriced = support.small_problem { cluster = { { "P40", 1 } } }
    raises("invalid_argument", "no price of P40 is known", function() ts.pareto(unpriced) end)
    raises("invalid_argument", "a tessera.Problem belongs here", function() ts.pareto { model = "opt-125m" } end)
    raises("invalid_argument", "the number 3 where a table", function() ts.pareto(problem, 3) end)
    local instance = ts.problem { instance = support.tiny_instance() }
    raises("invalid_argument", "no price of A is known", function() ts.pareto(instance) end)
  end)
end)
