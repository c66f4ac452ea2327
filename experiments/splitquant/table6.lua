-- SplitQuant, Table VI: deciding layers in pairs, one by one, or by the bitwidth-transfer heuristic.
--
-- group2 and group1 are the exact search here, which needs no time limit: the paper's ILP had 60 s per run and lost to
-- the heuristic where they ran out; experiments/planner/time_limit.lua imitates that. The table is LLM-PQ's Table 8
-- without one cluster. Its largest overheads, 204.59 s and 127.28 s, are beyond the 115.98 s that Sec. VI-A gives as
-- the longest.
local ts = require "tessera"
local splitquant = require "lib.papers.splitquant"

local paper = ts.paper "splitquant/table6.csv"

local options_of = {
  group2 = { planner = "exact", group = 2 }, group1 = { planner = "exact", group = 1 },
  heuristic = { planner = "bitwidth_transfer" },
}

return ts.experiment {
  name = "splitquant/table6",
  doc = "SplitQuant, Table VI: grouping and the heuristic under a time limit",
  paper = paper,
  grid = paper.points,
  quick = { cluster = { "splitquant-5" } },
  columns = { "model", "throughput_tok_s", "overhead_s", "solve_s", "objective_s", "mean_bitwidth" },
  time_limit_s = 180,
  notes = splitquant.notes_and(
    "theta 1 s per normalised omega; the paper's multiplies raw omega, and is not printed for these rows",
    "solve_s is the wall-clock time of the whole search, all orders and micro-batch sizes, on this machine; overhead_s "
      .. "is the paper's, on its own"),

  run = function(point)
    local problem = splitquant.problem(point.cluster)
    local options = { time_limit_s = 60 }
    for key, value in pairs(options_of[point.method]) do options[key] = value end
    local plan, why = ts.plan(problem, options)
    local row = splitquant.row(problem, plan, why)
    if plan then row.solve_s, row.objective_s = plan.solve_s, plan.objective end
    return row
  end,

  check = function(t)
    local theorem = "a theorem: group 1 may choose what the others do, and is proven"
    t:expect_order {
      column = "objective_s", by = "method", order = { "group1", "group2" }, lowest = true, note = theorem,
    }
    t:expect_order {
      column = "objective_s", by = "method", order = { "group1", "heuristic" }, lowest = true, note = theorem,
    }
    t:expect_all { column = "solve_s", at_most = 60, note = "another machine and another search than the paper's" }
    t:expect_that {
      text = "group=1 and group=2 give the same throughput",
      where = { cluster = "splitquant-5", method = { "group1", "group2" } },
      holds = function(at)
        local ratio = at { method = "group1" }.throughput_tok_s / at { method = "group2" }.throughput_tok_s
        return math.abs(ratio - 1) < 1e-3, ("%.3f; the same solution in print"):format(ratio), ratio
      end,
      not_reproduced = "an odd number of layers on some stage is worth that much under these latencies",
      here = { 1.06, 1.085 },
    }
    t:expect_order {
      column = "throughput_tok_s", by = "method", order = { "group1", "group2" }, where = { cluster = "splitquant-9" },
    }
    t:expect_order {
      column = "throughput_tok_s", by = "method", order = { "group1", "heuristic" },
      where = { cluster = "splitquant-5" },
    }
    t:expect_order {
      column = "throughput_tok_s", by = "method", order = { "group2", "heuristic" },
      where = { cluster = "splitquant-5" },
      not_reproduced = "the heuristic moves single layers: on this cluster that gains more than its search loses",
      here = { 1.04, 1.08 },
    }
    t:expect_order {
      column = "throughput_tok_s", by = "method", order = { "group2", "group1" }, where = { cluster = "splitquant-6" },
      not_reproduced = "the paper's group=1 ran out of its 60 s; the search here proves its optimum in about a second",
      here = { 1.02, 1.07 }, -- plans within 0.1 % of that optimum are 2 % apart in throughput, and trade it for omega
    }
    t:expect_that {
      text = "the heuristic is the best of the three",
      where = { cluster = { "splitquant-6", "splitquant-9" } },
      not_reproduced = "nothing beats a proven optimum by the same prediction", here = { 0.9, 0.98 },
      holds = function(at)
        local lines, holds, least = {}, true, math.huge
        for i, cluster in ipairs { "splitquant-6", "splitquant-9" } do
          local ours = at { cluster = cluster, method = "heuristic" }.throughput_tok_s
          local group1 = at { cluster = cluster, method = "group1" }.throughput_tok_s
          holds, least = holds and ours > group1, math.min(least, ours / group1)
          lines[i] = ("%s %.2f against %.2f tok/s"):format(cluster, ours, group1)
        end
        return holds, table.concat(lines, "; "), least
      end,
    }
    t:expect_close {
      column = "throughput_tok_s", to = "paper", rel = 0.06,
      not_reproduced = "the objective is the steady one here, every order and pair of micro-batch sizes is searched, "
        .. "and theta is not the paper's; eq. (4) as printed comes closer, in llmpq/table8", here = { 1.05, 1.75 },
    }
  end,
  plots = { { kind = "bars", x = "cluster", y = "throughput_tok_s", by = "method" } },
}
