-- ts.size: against enumerating and solving every mix.
local ts = require "tessera"
local solver = require "tessera.solver"
local support = require "support"
local raises, declines = support.raises, support.declines

local workload = { prompt_tokens = 256, output_tokens = 32, batch_size = 8 }

local function ask(changes)
  local options = { model = "opt-6.7b", workload = workload, devices = { "T4-16G", "A10G" }, max_devices = 4,
    bitwidths = { 4, 8, 16 }, link_gbps = 10, target = { latency_s = 2 } }
  for key, value in pairs(changes or {}) do options[key] = value end
  return ts.size(options)
end

-- Every mix of T4s and A10s with its exact plan, as a user would do it by hand.
local function every_mix(max_devices, max_omega)
  local mixes = {}
  for t4 = 0, max_devices do
    for a10 = 0, max_devices - t4 do
      local cluster = { link_gbps = 10 }
      if t4 > 0 then cluster[#cluster + 1] = { "T4-16G", t4, node = "t" } end
      if a10 > 0 then cluster[#cluster + 1] = { "A10G", a10, node = "a" } end
      if #cluster > 0 then
        local problem = ts.problem(support.settled { model = "opt-6.7b", workload = workload, cluster = cluster,
          bitwidths = { 4, 8, 16 }, quality = { max_omega = max_omega } })
        local plan = ts.plan(problem)
        mixes[#mixes + 1] = { number = t4 + a10, price = t4 * 0.526 + a10 * 1.006,
          latency_s = plan and plan.latency_s or math.huge }
      end
    end
  end
  return mixes
end

local function least(mixes, field, latency_s)
  local best = math.huge
  for _, mix in ipairs(mixes) do
    if mix.latency_s <= latency_s then best = math.min(best, mix[field]) end
  end
  return best
end

describe("ts.size", function()
  it("finds what enumeration finds", function()
    for _, max_omega in ipairs { 1, 0.2 } do
      local mixes = every_mix(4, max_omega)
      local met = 0
      for _, latency_s in ipairs { 0.3, 0.6, 0.8, 1, 1.3, 1.6, 2, 3 } do
        local result, why = ask { target = { latency_s = latency_s }, quality = { max_omega = max_omega },
          kernel_set = "tessera" }
        local price, number = least(mixes, "price", latency_s), least(mixes, "number", latency_s)
        if price == math.huge then
          declines("infeasible", "none of the 14 mixes", result, why)
        else
          met = met + 1
          assert.near(price, result.cheapest.price_usd_per_h, 1e-9)
          assert.equal(number, result.fewest.num_devices)
          for _, found in ipairs { result.cheapest, result.fewest } do
            assert.is_true(found.plan.latency_s <= latency_s)
            assert.is_true(found.plan.omega <= max_omega * (1 + 1e-6))
            assert.is_true(ts.check(found.plan))
            assert.equal(found.num_devices, #found.cluster.devices)
          end
          assert.is_true(result.refused_by_bound + result.refused_by_solve < result.mixes)
        end
      end
      assert.is_true(met >= 3 and met < 8, met) -- some targets must be met and some not, or the test says little
    end
  end)

  it("bounds every mix from below", function()
    local problem = ts.problem(support.settled { model = "opt-6.7b", workload = workload, bitwidths = { 4, 8, 16 },
      cluster = { { "T4-16G", 2, node = "t" }, { "A10G", 1, node = "a" }, { "P100-12G", 1, node = "p" } },
      quality = { max_omega = 0.5 } })
    local lists = {}
    for t4 = 0, 2 do
      for a10 = 0, 1 do
        for p100 = 0, 1 do lists[#lists + 1] = { t4, a10, p100 } end
      end
    end
    local bounds = solver.mix_bounds(problem, lists)
    assert.equal(math.huge, bounds[1])
    for i = 2, #lists do
      local plan = ts.plan(solver.with_devices(problem, lists[i]))
      if plan then
        assert.is_true(bounds[i] <= plan.latency_s, i)
        assert.is_true(bounds[i] >= 0.6 * plan.latency_s, i) -- a bound that says nothing would pass as well
      end
    end
    raises("invalid_argument", "2 counts for 3", function() solver.mix_bounds(problem, { { 1, 1 } }) end)
    raises("out_of_range", "", function() solver.mix_bounds(problem, { { 1, -1, 0 } }) end)
    raises("out_of_range", "[0, 2]", function() solver.with_devices(problem, { 3, 0, 0 }) end)
    raises("out_of_range", "not all 0", function() solver.with_devices(problem, { 0, 0, 0 }) end)
  end)

  it("takes throughput, limits, prices and nodes", function()
    local a = ask { target = { throughput_tok_s = 8 * 32 / 2 } }
    assert.equal(ask().cheapest.price_usd_per_h, a.cheapest.price_usd_per_h)
    local both = ask { target = { throughput_tok_s = 1, latency_s = 2 } }
    assert.equal(ask().cheapest.price_usd_per_h, both.cheapest.price_usd_per_h)
    local dear = ask { prices = { ["T4-16G"] = 100 }, target = { latency_s = 3 } }
    assert.matches("A10G", dear.cheapest.devices)
    local limited = ask { devices = { { "T4-16G", 1 }, "A10G" }, target = { latency_s = 1.2 } }
    for _, device in ipairs { limited.cheapest, limited.fewest } do
      assert.not_matches("[2-9] x T4", device.devices)
    end
    local wide = ask { devices = { "T4-16G" }, devices_per_node = 1, target = { latency_s = 1.6 } }
    assert.equal(wide.cheapest.num_devices, #wide.cheapest.cluster.nodes)
    local own = ts.device { name = "Own", memory_bytes = 20e9, memory_bytes_per_s = 800e9,
      flop_per_s = { fp16 = 1e14 } }
    local found = ask { devices = { own }, prices = { Own = 1 }, target = { latency_s = 4 } }
    assert.matches("1 x Own", found.cheapest.devices)
  end)

  it("says what stops it", function()
    declines("infeasible", "lower target", ask { target = { latency_s = 1e-3 } })
    declines("infeasible", "refused by", ask { devices = { { "T4-16G", 1 } }, model = "opt-66b" })
    declines("time_limit", "raise time_limit_s", ask { time_limit_s = 0 })
  end)

  it("refuses what it does not know", function()
    for _, case in ipairs {
      { { modle = "x" }, "unknown option 'modle'; did you mean 'model'" },
      { { devices = {} }, "at least one device" }, { { devices = "T4-16G" }, "has the wrong type; give a table" },
      { { devices = { "T4-16G", "T4-16G" } }, "T4-16G is there twice" }, { { devices = { {} } }, "write \"T4-16G\"" },
      { { devices = { { "T4-16G", 0 } } }, "0 is no number of devices" },
      { { devices = { { "T4-16G", 1.5 } } }, "1.5 is no number" },
      { { devices = { { "T4-16G", count = 2 } } }, "unknown key 'count'" },
      { { devices = { "P40" } }, "no price of P40 is known" },
      { { target = {} }, "give throughput_tok_s, latency_s, or both" },
      { { target = 3 }, "the number 3 has the wrong type" },
      { { target = { latency = 3 } }, "unknown target 'latency'; did you mean 'latency_s'" },
      { { target = { latency_s = 0 } }, "0 is no target" },
      { { target = { latency_s = support.nan } }, "is no target" },
      { { max_devices = 0 }, "an integer in [1, 64]", "out_of_range" },
      { { prices = { ["T4-16G"] = -1 } }, "-1 is no price" },
      { { prices = { ["T4"] = 1 } }, "no device is called 'T4'" },
      { { quality = { at_least = "uniform" } }, "differs" },
      { { quality = { max_omga = 1 } }, "max_omga" }, { { time_limit_s = -1 }, "out of range", "out_of_range" },
      { { link_gbps = 0 }, "out of range", "out_of_range" },
      { { devices_per_node = 0 }, "out of range", "out_of_range" },
    } do
      raises(case[3] or "invalid_argument", case[2], function() ask(case[1]) end)
    end
    for _, name in ipairs { "model", "workload", "devices", "target" } do
      local options = { model = "opt-6.7b", workload = workload, devices = { "A10G" }, target = { latency_s = 1 } }
      options[name] = nil
      raises("invalid_argument", "ts.size." .. name .. ": missing", function() ts.size(options) end)
    end
    raises("invalid_argument", "ts.size: a table of options is needed, got nil", function() ts.size() end)
    raises("invalid_argument", "the number 3 where a table", function() ts.size(3) end)
    raises("not_found", "A11", function() ask { devices = { "A11" } } end)
    raises("invalid_argument", "lower max_devices", function()
      ask { devices = { "A10G", "T4-16G", "L4", "A100-40G", "A100-80G", "H100-80G", "L40S", "H200-141G" },
        max_devices = 64 }
    end)
  end)
end)
