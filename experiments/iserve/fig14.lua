-- Fig. 14: the share of requests within their limit, model set (i), code trace, at four rate factors. Limits are 2.5 to
-- 7.5 times the time at least parallelism in FP16, of a request as long as the trace's mean.
--
-- Print: iServe's is the highest at every limit and factor, 3.03 to 7.09 times AlpaServe's as the rate grows. Its
-- intent is the limit; among what keeps it, which print does not say, it takes the least memory x time. iserve_latency
-- takes the least time. Requests for a model that got no place are missed, those from before it came are not counted.
-- Bounds were set before any run; the claims that do not hold are named after it.
local iserve = require "lib.papers.iserve"
local serving = require "lib.papers.iserve_serving"
local ts = require "tessera"

return ts.experiment {
  name = "iserve/fig14",
  doc = "Share of requests within their limit, by limit, rate and strategy",
  grid = { scale = { 2.5, 5, 7.5 }, factor = serving.factors,
    strategy = { "iserve", "iserve_latency", unpack(serving.baselines) } },
  quick = {},
  columns = { "attainment", "p50_s", "answered", "gpus" },
  notes = { "code trace", "configurations: by model, in the order in which they come" },

  run = function(point)
    local traffic, why = serving.traffic("code", point.factor, serving.sets.i)
    if not traffic then return { status = why.code, message = why.message } end
    local options = { set = serving.sets.i, traffic = traffic, slo_scale = point.scale,
      strategy = point.strategy:match "^iserve" or point.strategy }
    -- Of the request that configurations are ranked for.
    function options.intent(kind)
      return { minimise = point.strategy == "iserve_latency" and "latency" or "cost",
        latency_s = point.scale * iserve.find(iserve.estimates(kind), "fp16", 1, 1).latency_s }
    end
    local served = serving.serve(options)
    local row = serving.row(served)
    row.attainment = serving.attainment(served, traffic, options)
    return row
  end,

  check = function(t)
    local missing = serving.missing()
    if missing then return t:skip("not checked: " .. missing.message) end
    local drops = "AlpaServe drops on arrival what would be late, which leaves GPUs to the others; iServe serves all"
    local spread = "AlpaServe spreads models over all eight GPUs; iServe packs them onto four"
    local below = {
      [2.5] = { [0.1] = { here = { -0.08, -0.02 }, why = spread }, [0.3] = { here = { -0.12, -0.03 }, why = drops },
        [0.4] = { here = { -0.15, -0.04 }, why = drops } },
      [5] = { [0.1] = { here = { -0.04, -0.005 }, why = spread } },
    }
    for _, scale in ipairs { 2.5, 5, 7.5 } do
      for _, factor in ipairs(serving.factors) do
        local function attainment(at, strategy)
          return at({ scale = scale, factor = factor, strategy = strategy }).attainment
        end
        local cell = ("limit x%g, factor %g: "):format(scale, factor)
        iserve.within(t, cell .. "iServe's share less the highest of the baselines",
          function(at)
            local most = 0
            for _, strategy in ipairs(serving.baselines) do most = math.max(most, attainment(at, strategy)) end
            return attainment(at, "iserve") - most
          end, 0, 1, below[scale] and below[scale][factor])
        if factor >= 0.3 then
          iserve.within(t, cell .. "over AlpaServe's, print 3.03 to 7.09",
            function(at) return attainment(at, "iserve") / attainment(at, "alpaserve") end, 1.5, 12,
            { here = { 0.8, 1.2 }, why = drops .. ". Here its pipelines fill up, and it keeps 70B" })
        end
      end
    end
  end,
  plots = { { kind = "lines", x = "factor", y = "attainment", by = "strategy", facet = "scale" } },
}
