-- The papers' integer programme as printed, under the papers' time limit: whether bitwidth transfer wins where the
-- solver runs out of its 60 s (LLM-PQ, Table 8; SplitQuant, Table VI).
--
--   tessera run experiments/planner/time_limit.lua --jobs 1 --results limits.db
--
-- Takes up to an hour, so that it is part of no collection; --quick solves cluster 1 alone. group1 and group2 are eqs.
-- (4) to (16) with all their binaries (planner "ilp", form "paper"), one layer or two together, 60 s of wall clock for
-- each programme, on COIN-OR CBC, which is slower than the papers' Gurobi: where CBC finds the optimum, Gurobi had time
-- enough; where it does not, nothing follows of Gurobi. heuristic is Algorithm 2 as printed, heuristic_extended ours.
-- What a limited search finds depends on the machine: cpu_s says how much of it the search got.
local ts = require "tessera"
local llmpq = require "lib.papers.llmpq"

local paper = ts.paper "llmpq/table8.csv"
local printed_layers = { group1 = 1, group2 = 2 }
local planner_of = {
  heuristic = "bitwidth_transfer_paper", heuristic_extended = "bitwidth_transfer", exact = "exact",
}

return ts.experiment {
  name = "planner/time_limit",
  doc = "The papers' programme as printed, 60 s on CBC for each, against bitwidth transfer and the exact search",
  paper = paper,
  grid = {
    cluster = { "llmpq-1", "llmpq-2", "llmpq-4", "llmpq-10", "llmpq-3", "llmpq-6" },
    method = { "group2", "group1", "heuristic", "heuristic_extended", "exact" },
    limit_s = { 60 },
  },
  quick = { cluster = { "llmpq-1" } },
  columns = {
    "throughput_tok_s", "overhead_s", "solve_s", "cpu_s", "programmes", "proven", "with_plan", "objective_s",
    "over_optimum",
  },
  notes = llmpq.notes_and {
    "objective paper, decoding in the batch over the stages; programmes: orders by blocks of device types, times the "
      .. "prefill micro-batches that divide the decode one, as the published code enumerates them",
    "proven, with_plan: programmes solved to the end, and with a plan; over_optimum: the objective over that of the "
      .. "exact search over the same orders and more, less 1",
    "solve_s is wall time on this machine, other work on it included, cpu_s what the process got of it; overhead_s the "
      .. "paper's, with Gurobi",
  },
  time_limit_s = 3600,

  run = function(point)
    local problem = llmpq.problem(point.cluster)
    local started_s = os.clock()
    local plan, why, outcome
    if printed_layers[point.method] then
      plan, why, outcome =
        llmpq.plan_by_printed_programmes(problem, point.limit_s, printed_layers[point.method])
    else
      plan, why = llmpq.plan_printed(problem, { planner = planner_of[point.method] })
      outcome = { solve_s = plan and plan.solve_s }
    end
    local row = outcome
    row.cpu_s = os.clock() - started_s
    if not plan then
      row.status = why.code
      return row
    end
    row.status = (outcome.proven or 1) < (outcome.programmes or 1) and "feasible" or plan.status
    local optimum = assert(llmpq.plan_printed(problem, { planner = "exact" }))
    row.plan, row.throughput_tok_s = plan, ts.simulate(plan).throughput_tok_s
    row.objective_s, row.over_optimum = plan.objective, plan.objective / optimum.objective - 1
    return row
  end,

  check = function(t)
    local machine = "what a search finds within a limit depends on the machine"
    t:expect_close {
      column = "over_optimum", to = 0, abs = 1e-6,
      where = { cluster = { "llmpq-1", "llmpq-2" }, method = { "group1", "exact" } },
    }
    t:expect_all { column = "over_optimum", at_least = -1e-6, note = "a theorem: the exact search proves its optimum" }
    -- "It leads to the best throughput with the smallest overhead in clusters 4 and 10" (6.7): by what is printed, and
    -- by what all of them minimise.
    local printed = { "group1", "group2", "heuristic" }
    local why = "in pairs the limit is enough for the optimum of cluster 4, and no rule of Algorithm 2 helps there"
    for _, case in ipairs {
      { "llmpq-4", "throughput_tok_s", false, why, { 0.85, 0.87 } },
      { "llmpq-4", "objective_s", true, why, { 1.14, 1.15 } },
      { "llmpq-10", "throughput_tok_s", false }, { "llmpq-10", "objective_s", true },
    } do
      t:expect_best {
        column = case[2], is = { method = "heuristic" }, lowest = case[3] or nil,
        where = { cluster = case[1], method = printed }, not_reproduced = case[4], here = case[5],
        may_differ = not case[4] and machine or nil,
      }
    end
    -- "On cluster 4, group = 1 cannot find a good solution within the time limit".
    t:expect_all {
      column = "over_optimum", at_least = 0.01, where = { cluster = "llmpq-4", method = "group1" },
      may_differ = machine,
    }
    t:expect_order {
      column = "throughput_tok_s", by = "method", order = { "group2", "group1" }, where = { cluster = "llmpq-4" },
      may_differ = machine,
    }
    -- "Group = 1 [...] typically produces better results compared to group = 2 (on clusters 6 and 10)"; the heuristic
    -- is last on 3 and 6.
    t:expect_order {
      column = "throughput_tok_s", by = "method", order = { "group1", "group2" },
      where = { cluster = { "llmpq-6", "llmpq-10" } }, may_differ = machine,
    }
    t:expect_order {
      column = "throughput_tok_s", by = "method", order = { "group1", "heuristic" },
      where = { cluster = { "llmpq-3", "llmpq-6" } },
    }
    -- The digits, within 10 % as in Table 9. From what the limit left to what is optimal.
    local digits = "the optimum is faster than print by our latencies; 10 % short of it is, too"
    local start = "no rule of Algorithm 2 helps on these clusters, so the plan is adabits' best, which by our "
      .. "latencies is faster than print on 3 and 4 and slower on 6"
    t:expect_close {
      column = "throughput_tok_s", to = "paper", rel = 0.1, where = { cluster = "llmpq-10", method = printed },
      may_differ = machine,
    }
    for _, case in ipairs {
      { { "llmpq-3", "llmpq-4", "llmpq-6" }, { "group1", "group2" }, digits, { 1.12, 1.46 } },
      { { "llmpq-3", "llmpq-4", "llmpq-6" }, "heuristic", start, { 0.6, 1.45 } },
    } do
      t:expect_close {
        column = "throughput_tok_s", to = "paper", rel = 0.1, where = { cluster = case[1], method = case[2] },
        not_reproduced = case[3], here = case[4],
      }
    end
  end,
  plots = { { kind = "bars", x = "cluster", y = "throughput_tok_s", by = "method" } },
}
