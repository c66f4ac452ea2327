-- Fig. 10: GPUs in use and time of requests by iServe's three ways to map a configuration to GPUs, and theta of
-- hybrid, which is not in print and so is swept. Eight models come every five minutes (set ii), for the cost intent.
--
-- Print: least-loaded uses 8 GPUs, packing few, hybrid between; least-loaded is the fastest, packing the slowest.
-- Bounds were set before any run; the code trace was taken after the conversation trace, at our load, had kept GPUs
-- busy for 6 % of the time and told nothing.
local iserve = require "lib.papers.iserve"
local serving = require "lib.papers.iserve_serving"
local ts = require "tessera"

return ts.experiment {
  name = "iserve/fig10",
  doc = "GPUs in use and time of requests by the policy that maps models to GPUs",
  grid = { policy = {
    "least_loaded", "hybrid 0.1", "hybrid 0.3", "hybrid 0.5", "hybrid 0.7", "hybrid 0.9", "packing",
  } },
  quick = {},
  columns = { "gpus", "p50_s", "p95_s", "busy_ratio" },
  notes = { "code trace at rate factor 0.4; busy_ratio: of the GPUs in use" },

  run = function(point)
    local traffic, why = serving.traffic("code", 0.4, serving.sets.ii)
    if not traffic then return { status = why.code, message = why.message } end
    local policy, theta = point.policy:match "^(%S+) ?(.*)$"
    local served = serving.serve { set = serving.sets.ii, traffic = traffic, intent = { minimise = "cost" },
      strategy = { name = "iserve", policy = policy, theta = tonumber(theta) or 0.5 } }
    local busy = 0
    for _, gpu in ipairs(served.gpus) do busy = busy + gpu.busy_ratio / served.num_gpus_used end
    return { gpus = served.num_gpus_used, p50_s = served.e2e_s.p50, p95_s = served.e2e_s.p95, busy_ratio = busy,
      configurations = serving.configurations(served) }
  end,

  check = function(t)
    local missing = serving.missing()
    if missing then return t:skip("not checked: " .. missing.message) end
    local function of(at, policy) return at({ policy = policy }) end
    local function hybrids(rows)
      local list = {}
      for _, row in ipairs(rows) do
        if row.point.policy:find "^hybrid" then list[#list + 1] = row end
      end
      return list
    end
    iserve.within(t, "GPUs of least-loaded", function(at) return of(at, "least_loaded").gpus end, 8, 8)
    iserve.within(t, "GPUs of packing", function(at) return of(at, "packing").gpus end, 2, 5)
    iserve.within(t, "thetas by which hybrid uses a number between", function(at, rows)
      local count = 0
      for _, row in ipairs(hybrids(rows)) do
        if row.gpus > of(at, "packing").gpus and row.gpus < of(at, "least_loaded").gpus then count = count + 1 end
      end
      return count
    end, 1, 5)
    local function over(column, a, b)
      return function(at) return of(at, a)[column] / of(at, b)[column] - 1 end
    end
    iserve.within(t, "median of packing over least-loaded", over("p50_s", "packing", "least_loaded"), 0, 20)
    iserve.within(t, "median of hybrid 0.1 over least-loaded", over("p50_s", "hybrid 0.1", "least_loaded"), 0, 1)
    iserve.within(t, "p95 of hybrid 0.1 over least-loaded", over("p95_s", "hybrid 0.1", "least_loaded"), 0.2, 2.5)
  end,
}
