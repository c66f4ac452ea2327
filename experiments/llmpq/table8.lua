-- LLM-PQ, Table 8: grouping of layers and the heuristic, on clusters 3, 4, 6 and 10: throughput and solving time.
--
-- Settings as in table4.lua, eq. (4) as printed with decoding in the batch over the stages. group1 and group2 are the
-- exact search with one layer, or two together; heuristic is our bitwidth transfer, an extension of Algorithm 2. The
-- paper gave Gurobi 60 s for each programme; here every search ends with a proof. The printed programme under that
-- limit, and Algorithm 2 as printed, are in experiments/planner/time_limit.lua. group2_published is the plan that its
-- logs have for group = 2 on cluster 10, under our model of what it takes.
local ts = require "tessera"
local llmpq = require "lib.papers.llmpq"

local paper = ts.paper "llmpq/table8.csv"
local points = {}
for i, point in ipairs(paper.points) do points[i] = point end
points[#points + 1] = { cluster = "llmpq-10", method = "group2_published" }
local options = {
  group1 = { planner = "exact", group = 1 }, group2 = { planner = "exact", group = 2 },
  heuristic = { planner = "bitwidth_transfer" },
}

return ts.experiment {
  name = "llmpq/table8",
  doc = "LLM-PQ, Table 8: grouping of layers and bitwidth transfer, throughput and solving time",
  paper = paper,
  grid = points,
  quick = { cluster = { "llmpq-3" } },
  columns = { "model", "throughput_tok_s", "overhead_s", "solve_s", "objective_s", "mean_bitwidth" },
  notes = llmpq.notes_and {
    "objective paper, decoding in the batch over the stages; solve_s is of this machine, overhead_s the paper's",
    "a plan of least objective need not have the highest throughput: eq. (4) leaves most of decoding's pipeline out",
  },
  time_limit_s = 120,

  run = function(point)
    local problem = llmpq.problem(point.cluster)
    local plan, why
    if point.method == "group2_published" then
      plan, why = llmpq.published_plan(problem, "paper.c10.group2")
    else
      plan, why = llmpq.plan_printed(problem, options[point.method])
    end
    local model = llmpq.settings[point.cluster].model
    if not plan then return { status = why.code, model = model } end
    return {
      status = plan.status, model = model, plan = plan, throughput_tok_s = ts.simulate(plan).throughput_tok_s,
      solve_s = plan.solve_s, objective_s = plan.objective, mean_bitwidth = plan.mean_bitwidth,
    }
  end,

  check = function(t)
    local searched = { method = { "group1", "group2", "heuristic" } }
    local theorem = "a theorem: group 1 may choose what group 2 does, and both are proven"
    -- "Group = 1 covers the entire solution space and typically produces better results compared to group = 2" (6.7).
    t:expect_order {
      column = "objective_s", by = "method", order = { "group1", "group2" }, lowest = true, note = theorem,
    }
    -- Plans of one objective differ in the simulation by rounding.
    t:expect_order {
      column = "throughput_tok_s", by = "method", order = { "group1", "group2" }, within = 0.001,
      where = { cluster = { "llmpq-3", "llmpq-6", "llmpq-10" } },
    }
    -- The heuristic is last on clusters 3 and 6: 35.17 against 39.70, and 28.45 against 44.93 tok/s.
    t:expect_order {
      column = "throughput_tok_s", by = "method", order = { "group1", "heuristic" },
      where = { cluster = { "llmpq-3", "llmpq-6" } },
    }
    t:expect_all {
      column = "solve_s", at_most = 60, where = searched, note = "another machine and another search than the paper's",
    }
    t:expect_all { column = "status", equals = "optimal", where = { method = { "group1", "group2" } } }
    -- "On cluster 4, group = 1 cannot find a good solution within the time limit".
    t:expect_order {
      column = "throughput_tok_s", by = "method", order = { "heuristic", "group2", "group1" },
      where = { cluster = "llmpq-4" },
      not_reproduced = "Gurobi stopped at 60 s without a good plan; here group = 1 is solved to the proven optimum",
      here = { 0.99, 1.18 },
    }
    -- "It leads to the best throughput with the smallest overhead in clusters 4 and 10."
    t:expect_best {
      column = "throughput_tok_s", is = { method = "heuristic" },
      where = { cluster = { "llmpq-4", "llmpq-10" }, method = searched.method },
      not_reproduced = "it won where Gurobi ran out of its 60 s; here the ILP is solved to the proven optimum",
      here = { 0.85, 0.95 },
    }
    -- The plan that was logged for group = 2; 10 % is what digits are held to in Tables 4 and 5.
    t:expect_close {
      column = "throughput_tok_s", rel = 0.1, where = { cluster = "llmpq-10", method = "group2_published" },
      to = t:published({ cluster = "llmpq-10", method = "group2" }, "throughput_tok_s"),
    }
    -- "On cluster 3, group = 1 and group = 2 produce the same solution."
    t:expect_that {
      text = "group1 and group2 give the same throughput",
      where = { cluster = "llmpq-3", method = { "group1", "group2" } },
      holds = function(at)
        local one, two = at { method = "group1" }.throughput_tok_s, at { method = "group2" }.throughput_tok_s
        return math.abs(one / two - 1) < 1e-3, ("%.2f and %.2f tok/s"):format(one, two), one / two
      end,
      not_reproduced = "under these latencies and this indicator pairs of layers cost something",
      here = { 1.02, 1.045 },
    }
  end,
  plots = { { kind = "bars", x = "cluster", y = "throughput_tok_s", by = "method" } },
}
