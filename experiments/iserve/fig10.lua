-- Fig. 10: GPUs in use and time of requests by iServe's three ways to map a configuration to GPUs, and theta of
-- hybrid, which is not in print and so is swept. Eight models come, one every 150 s (set ii), for the cost intent.
--
-- Print: least-loaded uses 8 GPUs, packing 4, hybrid 5; least-loaded is the fastest, packing the slowest. Claims on
-- hybrid are of the least theta that uses a number of GPUs between. Bounds were set before any run; the code trace was
-- taken after the conversation trace, at our load, had kept GPUs busy for 6 % of the time and told nothing.
local iserve = require "lib.papers.iserve"
local serving = require "lib.papers.iserve_serving"
local ts = require "tessera"

return ts.experiment {
  name = "iserve/fig10",
  doc = "GPUs in use and time of requests by the policy that maps models to GPUs",
  grid = { policy = {
    "least_loaded", "hybrid 0.1", "hybrid 0.2", "hybrid 0.3", "hybrid 0.5", "hybrid 0.7", "hybrid 0.9", "packing",
  } },
  quick = {},
  columns = { "gpus", "p50_s", "p95_s", "busy_ratio" },
  notes = { "code trace at rate factor 0.4; busy_ratio: of all GPUs, over the run" },

  run = function(point)
    local traffic, why = serving.traffic("code", 0.4, serving.sets.ii)
    if not traffic then return { status = why.code, message = why.message } end
    local policy, theta = point.policy:match "^(%S+) ?(.*)$"
    local served = serving.serve { set = serving.sets.ii, traffic = traffic, intent = { minimise = "cost" },
      strategy = { name = "iserve", policy = policy, theta = tonumber(theta) or 0.5 } }
    return serving.row(served)
  end,

  check = function(t)
    local missing = serving.missing()
    if missing then return t:skip("not checked: " .. missing.message) end
    local function of(at, policy) return at({ policy = policy }) end
    local function between(at, row)
      return row.gpus > of(at, "packing").gpus and row.gpus < of(at, "least_loaded").gpus
    end
    local function hybrid(at, rows)
      local found
      for _, row in ipairs(rows) do
        local theta = tonumber(row.point.policy:match "^hybrid (.*)$")
        if theta and between(at, row) and (not found or theta < found.theta) then
          found = { theta = theta, row = row }
        end
      end
      return found.row
    end
    iserve.within(t, "GPUs of least-loaded", function(at) return of(at, "least_loaded").gpus end, 8, 8)
    iserve.within(t, "GPUs of packing", function(at) return of(at, "packing").gpus end, 2, 5)
    iserve.within(t, "thetas by which hybrid uses a number between", function(at, rows)
      local count = 0
      for _, row in ipairs(rows) do
        if row.point.policy:find "^hybrid" and between(at, row) then count = count + 1 end
      end
      return count
    end, 1, 6)
    iserve.within(t, "median of packing over least-loaded", function(at)
      return of(at, "packing").p50_s / of(at, "least_loaded").p50_s - 1
    end, 0, 20)
    for _, case in ipairs { { "p50_s", 0, 1 }, { "p95_s", 0.2, 2.5 } } do
      local column, low, high = unpack(case)
      iserve.within(t, column .. " of hybrid over least-loaded", function(at, rows)
        return hybrid(at, rows)[column] / of(at, "least_loaded")[column] - 1
      end, low, high)
      iserve.within(t, column .. " of hybrid over packing", function(at, rows)
        return hybrid(at, rows)[column] / of(at, "packing")[column] - 1
      end, -1, 0)
    end
  end,
}
