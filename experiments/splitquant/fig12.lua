-- SplitQuant, Fig. 12: adabits alone, which gives layers as many bits as memory holds and knows no latency, against the
-- joint search, on clusters 5 to 8.
--
-- The figure has no printed values; its text: SplitQuant outperforms adabits in all selected cases.
local ts = require "tessera"
local splitquant = require "lib.papers.splitquant"

return ts.experiment {
  name = "splitquant/fig12",
  doc = "SplitQuant, Fig. 12: pure adaptive quantisation against the joint search",
  grid = {
    cluster = { "splitquant-5", "splitquant-6", "splitquant-7", "splitquant-8" }, planner = { "adabits", "exact" },
  },
  quick = { cluster = { "splitquant-5" } },
  columns = { "model", "throughput_tok_s", "omega", "mean_bitwidth" },
  time_limit_s = 120,
  notes = splitquant.notes_and(
    "theta 1 s per normalised omega; the models are those of Tables V and VI: the text names none for this figure"),

  run = function(point)
    local problem = splitquant.problem(point.cluster)
    return splitquant.row(problem, ts.plan(problem, { planner = point.planner, time_limit_s = 60 }))
  end,

  check = function(t)
    -- "SplitQuant outperforms adabits in all selected cases" (VI-H).
    t:expect_best { column = "throughput_tok_s", is = { planner = "exact" } }
    -- What adabits is for.
    t:expect_best {
      column = "omega", is = { planner = "adabits" }, lowest = true, note = "adabits minimises omega",
    }
  end,
  plots = { { kind = "bars", x = "cluster", y = "throughput_tok_s", by = "planner", log_y = true } },
}
