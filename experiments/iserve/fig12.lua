-- Fig. 12: the same for model set (ii), eight smaller models, on the code trace at rate factor 0.4.
--
-- Print: iServe's median and p95 are the lowest; AlpaServe deploys all models with TP 2 x PP 4, and does worse than
-- TensorRT-LLM_TP. Models come every 150 s, as at five minutes the trace ends before the last two come.
local iserve = require "lib.papers.iserve"
local serving = require "lib.papers.iserve_serving"
local ts = require "tessera"

return ts.experiment {
  name = "iserve/fig12",
  doc = "Time of requests of eight smaller models on eight shared GPUs, by strategy",
  grid = { strategy = { "iserve", "iserve_tp4", unpack(serving.baselines) } },
  quick = {},
  columns = { "p50_s", "p95_s", "p99_s", "answered", "busy_ratio", "gpus" },
  notes = { "code trace at rate factor 0.4", "configurations: by model, in the order in which they come" },

  run = function(point)
    local traffic, why = serving.traffic("code", 0.4, serving.sets.ii)
    if not traffic then return { status = why.code, message = why.message } end
    local is_tp4 = point.strategy == "iserve_tp4"
    return serving.row(serving.serve { set = serving.sets.ii, traffic = traffic, intent = { minimise = "latency" },
      strategy = is_tp4 and "iserve" or point.strategy, most_tp = is_tp4 and 4 or nil })
  end,

  check = function(t)
    local missing = serving.missing()
    if missing then return t:skip("not checked: " .. missing.message) end
    iserve.within(t, "iServe's median over the lowest of the others", function(at)
      local least = math.huge
      for _, strategy in ipairs(serving.baselines) do least = math.min(least, at({ strategy = strategy }).p50_s) end
      return at({ strategy = "iserve" }).p50_s / least
    end, 0, 1, { here = { 2.5, 4 }, why = "AlpaServe has replicas with TP 2 in FP16 on GPUs apart; iServe's models "
      .. "wait for each other on the GPUs that they share" })
    iserve.same(t, "AlpaServe's configurations", function(at)
      local seen, names = {}, {}
      for name in at({ strategy = "alpaserve" }).configurations:gmatch "[^(]*%(%d+, %d+%)" do
        name = name:gsub("^[, ]*", ""):gsub("not placed, ", "")
        if not seen[name] then seen[name], names[#names + 1] = true, name end
      end
      return table.concat(names, "; ")
    end, "fp16 (2, 4)", { here = "fp16 (2, 1)", why = "its search goes by limits, load and trace, which are ours" })
  end,
}
