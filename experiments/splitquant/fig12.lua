-- SplitQuant, Fig. 12: adabits alone, which gives layers as many bits as memory holds and knows no latency, against the
-- joint search, on clusters 5 to 8.
--
-- The figure has no printed values; its text: SplitQuant outperforms adabits in all selected cases.
local ts = require "tessera"

local clusters = { "splitquant-5", "splitquant-6", "splitquant-7", "splitquant-8" }
local model_of = {}
for _, row in ipairs(ts.paper("splitquant/models.csv").rows) do model_of[row.point.cluster] = row.model end

return ts.experiment {
  name = "splitquant/fig12",
  doc = "SplitQuant, Fig. 12: pure adaptive quantisation against the joint search",
  grid = { cluster = clusters, planner = { "adabits", "exact" } },
  quick = { cluster = { "splitquant-5" } },
  columns = { "model", "throughput_tok_s", "omega", "mean_bitwidth" },
  time_limit_s = 120,
  notes = {
    "Kernel set llmpq_2023, memory preset llm-pq, theta 1 s per normalised omega (constant indicator), objective "
      .. "steady.",
    "The paper does not print the models and theta of this figure; the models are those of Tables V and VI.",
  },

  run = function(point)
    local model = model_of[point.cluster]
    local problem = ts.problem {
      model = model, cluster = point.cluster, workload = "splitquant-custom", kernel_set = "llmpq_2023",
      memory = "llm-pq", theta = 1,
    }
    local plan, why = ts.plan(problem, { planner = point.planner, time_limit_s = 60 })
    if not plan then return { status = why.code, model = model } end
    return {
      status = plan.status, model = model, plan = plan, throughput_tok_s = plan.throughput_tok_s, omega = plan.omega,
      mean_bitwidth = plan.mean_bitwidth,
    }
  end,

  check = function(t)
    t:expect_best { column = "throughput_tok_s", is = { planner = "exact" } }
    for _, cluster in ipairs(clusters) do
      t:expect_ratio {
        column = "throughput_tok_s", of = { planner = "exact" }, over = { planner = "adabits" }, at_least = 1.05,
        where = { cluster = cluster },
      }
    end
    -- What adabits is for: no plan loses less quality, but for micro-batches that leave room for another bit.
    t:expect_best { column = "omega", is = { planner = "adabits" }, lowest = true, within = 0.1 }
  end,
  plots = { { kind = "bars", x = "cluster", y = "throughput_tok_s", by = "planner", log_y = true } },
}
