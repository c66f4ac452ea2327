-- Step 6: a table of your own: planners on clusters, as an experiment that is stored, resumed, checked and reported.
local ts = require "tessera"

return ts.experiment {
  name = "tutorial/table",
  doc = "Throughput of four planners on two small clusters, OPT-13B",
  seed = 42,
  grid = {
    cluster = { "1xT4-16G+1xV100-32G", "2xT4-16G" },
    planner = { "uniform", "het", "adabits", "exact" },
  },
  quick = { cluster = { "2xT4-16G" } },
  columns = { "throughput_tok_s", "mean_bitwidth", "omega" },
  notes = { "a named planner cuts one pipeline, so that they compare; left to itself ts.plan tries replicas (step 1)" },
  plots = { { kind = "bars", x = "cluster", y = "throughput_tok_s", by = "planner" } },
  run = function(point)
    local problem = ts.problem {
      model = "opt-13b", cluster = point.cluster, theta = 1,
      workload = ts.workload { prompt_tokens = 512, output_tokens = 100, batch_size = 16 },
    }
    local plan, why = ts.plan(problem, { planner = point.planner })
    if not plan then return { status = why.code } end -- infeasible is a result
    local run = ts.simulate(plan)
    return {
      status = plan.status, throughput_tok_s = run.throughput_tok_s, mean_bitwidth = plan.mean_bitwidth,
      omega = plan.omega, objective_s = plan.objective,
      plan = plan, timeline = run, -- objects are kept beside the row: the report draws them
    }
  end,
  check = function(t)
    t:expect_best { column = "objective_s", is = { planner = "exact" } }
    t:expect_ratio {
      column = "throughput_tok_s", of = { planner = "exact" }, over = { planner = "uniform" }, at_least = 1.2,
    }
  end,
}
