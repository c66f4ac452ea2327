-- LLM-PQ, Table 9: theta and solver of each cluster; and what that theta weighs.
--
-- Table 9 is settings, not results. Ours beside them: the plan of eq. (4) with the printed theta, which multiplies raw
-- omega and milliseconds, the share of the quality term in its objective, and how much latency it costs against
-- theta = 0. Theta was tuned by hand to the values of an indicator that was never published; with an indicator of the
-- magnitude that the published logs imply (about 1e-4 a layer at 8 bits) it hardly weighs.
--
-- Where Table 9 says heuristic, twice: latency_s is of our bitwidth transfer, which has more rules than Algorithm 2,
-- and printed_latency_s of Algorithm 2 as printed (planner "bitwidth_transfer_paper").
local ts = require "tessera"
local llmpq = require "lib.papers.llmpq"

local paper = ts.paper "llmpq/table9.csv"

return ts.experiment {
  name = "llmpq/table9",
  doc = "LLM-PQ, Table 9: theta and solver of each cluster, and what that theta weighs",
  paper = paper,
  grid = paper.points,
  quick = { cluster = { "llmpq-1", "llmpq-3", "llmpq-4" } },
  columns = { "theta", "group", "solver", "quality_share", "latency_s", "latency_without_s", "mean_bitwidth",
    "printed_latency_s", "adabits_latency_s" },
  notes = llmpq.notes_and {
    "theta and group are settings, printed only; objective paper, decoding in the batch over the stages",
    "quality_share: theta times omega over the objective; latency_without_s: the same with theta = 0",
    "printed_latency_s: of Algorithm 2 as printed, where Table 9 has the heuristic; adabits_latency_s: of adabits, "
      .. "which it starts from, in adabits' own order and micro-batches",
    "the published script has theta 50000 for cluster 3, where 1 is printed",
  },
  time_limit_s = 120,

  run = function(point)
    local setting = llmpq.settings[point.cluster]
    local options = llmpq.solver_of(point.cluster)
    local plan = assert(llmpq.plan_printed(llmpq.problem(point.cluster), options))
    local without = assert(llmpq.plan_printed(llmpq.problem(point.cluster, { theta = 0 }), options))
    local row = {
      status = plan.status, plan = plan, solver = setting.heuristic and "bitwidth_transfer" or "exact",
      quality_share = llmpq.quality_s(plan, setting.theta) / plan.objective, latency_s = llmpq.latency_s(plan),
      latency_without_s = llmpq.latency_s(without), mean_bitwidth = plan.mean_bitwidth,
    }
    if setting.heuristic then
      local function latency_of(planner)
        return llmpq.latency_s(assert(llmpq.plan_printed(llmpq.problem(point.cluster), { planner = planner })))
      end
      row.printed_latency_s, row.adabits_latency_s = latency_of "bitwidth_transfer_paper", latency_of "adabits"
    end
    return row
  end,

  check = function(t)
    t:expect_that {
      text = "The quality term is below 0.1 % of the objective in most set-ups",
      holds = function(_, rows)
        local small, most = 0, 0
        for _, row in ipairs(rows) do
          small, most = small + (row.quality_share < 1e-3 and 1 or 0), math.max(most, row.quality_share)
        end
        return small > #rows / 2, ("in %d of %d; at most %.2g %%"):format(small, #rows, 100 * most)
      end,
    }
    -- Tables 4 and 5 have the heuristic's plans of four clusters. Within 10 % for both, a bound that was there before
    -- the printed algorithm was run.
    local start = "adabits' plan, from which no rule helps, is faster than print by our latencies"
    local int8 = "LLM.int8 was never measured on an A100, and is twice as slow as printed here"
    local printed_s = { ["llmpq-4"] = 214.19, ["llmpq-5"] = 320.84, ["llmpq-10"] = 178.11, ["llmpq-11"] = 45.45 }
    for _, case in ipairs {
      { "latency_s", "llmpq-4", start, { 0.84, 0.88 } }, { "latency_s", "llmpq-5" }, { "latency_s", "llmpq-10" },
      { "latency_s", "llmpq-11", int8, { 1.9, 2 } },
      { "printed_latency_s", "llmpq-4", start, { 0.84, 0.88 } },
      { "printed_latency_s", "llmpq-5", "no exchange of one layer for those that weigh as much both fits and helps; "
        .. "larger sets, weighed with their KV cache, do", { 2.38, 2.5 } },
      { "printed_latency_s", "llmpq-10" },
      { "printed_latency_s", "llmpq-11", int8, { 1.9, 2 } },
    } do
      t:expect_close {
        column = case[1], to = printed_s[case[2]], rel = 0.1, where = { cluster = case[2] }, not_reproduced = case[3],
        here = case[4],
      }
    end
    t:expect_that {
      text = "Algorithm 2 as printed improves on adabits by more than 2 % on some cluster",
      where = { cluster = { "llmpq-4", "llmpq-5", "llmpq-10", "llmpq-11" } },
      not_reproduced = "no rule both fits and helps on any of them; on 5 another order of devices is a better start",
      here = { 1, 1.02 },
      holds = function(_, rows)
        local most, at = 0, ""
        for _, row in ipairs(rows) do
          local factor = row.adabits_latency_s / row.printed_latency_s
          if factor > most then most, at = factor, row.point.cluster end
        end
        return most > 1.02, ("at most %.4fx, on %s"):format(most, at), most
      end,
    }
  end,
}
