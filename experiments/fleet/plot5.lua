-- Mélange (arXiv 2404.14527), Plot 5: what Llama-2-7B costs by rate on A10G alone, on A100 alone, on the best mix. An
-- A10G carries 0.37 requests/s for $1.01 an hour, an A100 2.0 for $3.67, as printed: a staircase that a programme with
-- given columns has to hit exactly.
--
--   tessera run experiments/fleet/plot5.lua
local ts = require "tessera"

local a10g = { usd_per_h = 1.01, rate_per_s = 0.37 }
local a100 = { usd_per_h = 3.67, rate_per_s = 2.0 }

local function instance(rate_per_s)
  return {
    format = "tessera-fleet-1", objective = "cost",
    device_types = { { name = "A10G", usd_per_h = a10g.usd_per_h }, { name = "A100", usd_per_h = a100.usd_per_h } },
    node_classes = {
      { name = "a10g", count = 30, devices = { A10G = 1 }, usd_per_h = a10g.usd_per_h },
      { name = "a100", count = 8, devices = { A100 = 1 }, usd_per_h = a100.usd_per_h },
    },
    models = { { name = "llama2-7b", demand = { rate_per_s } } },
    columns = {
      { model = 0, devices = { A10G = 1 }, rate = { a10g.rate_per_s } },
      { model = 0, devices = { A100 = 1 }, rate = { a100.rate_per_s } },
    },
  }
end

local function alone(type, rate_per_s) return math.ceil(rate_per_s / type.rate_per_s - 1e-9) * type.usd_per_h end

-- Every mix of few, by hand.
local function enumerated(rate_per_s)
  local best = math.huge
  for x = 0, 30 do
    for y = 0, 8 do
      if x * a10g.rate_per_s + y * a100.rate_per_s >= rate_per_s - 1e-9 then
        best = math.min(best, x * a10g.usd_per_h + y * a100.usd_per_h)
      end
    end
  end
  return best
end

return ts.experiment {
  name = "fleet/plot5",
  doc = "Mélange's Plot 5: the cheapest mix of A10G and A100 by rate, against either alone",
  grid = { rate_per_s = { 0.2, 0.37, 0.5, 0.74, 1, 1.5, 2, 2.37, 3, 4, 4.2, 4.37, 5, 6, 8 } },
  quick = { rate_per_s = { 0.37, 2, 4.2 } },
  columns = { "usd_per_h", "enumerated_usd_per_h", "a10g_usd_per_h", "a100_usd_per_h", "saving", "gap" },
  notes = { "saving: of the mix against the better of the two alone" },

  run = function(point)
    local rate_per_s = point.rate_per_s
    local fleet = assert(ts.plan_fleet { instance = instance(rate_per_s), gap = 0 })
    local a, b = alone(a10g, rate_per_s), alone(a100, rate_per_s)
    return { usd_per_h = fleet.usd_per_h, enumerated_usd_per_h = enumerated(rate_per_s), a10g_usd_per_h = a,
      a100_usd_per_h = b, saving = 1 - fleet.usd_per_h / math.min(a, b), gap = fleet.gap,
      over = fleet.usd_per_h - enumerated(rate_per_s) }
  end,

  check = function(t)
    t:expect_close { column = "over", to = 0, abs = 1e-6 }
    t:expect_close { column = "saving", to = 0.24, abs = 0.005, where = { rate_per_s = { 4.2 } } } -- print: 24 %
    t:expect_close { column = "usd_per_h", to = 1.01, abs = 1e-6, where = { rate_per_s = { 0.37 } } }
    t:expect_close { column = "usd_per_h", to = 3.67, abs = 1e-6, where = { rate_per_s = { 2 } } }
    t:expect_all { column = "saving", at_least = -1e-9, at_most = 0.5 } -- a mix may be one type
  end,
}
