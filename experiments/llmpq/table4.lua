-- LLM-PQ, Table 4: serving throughput on eight heterogeneous clusters, against PipeEdge, Uniform and FlexGen.
--
-- Settings: batches of 32, prompts of 512 tokens, 100 out (6.1); kernels of 2023; the memory model of the published
-- code, which decides who fits; theta of Table 9. `llm_pq` is the paper's method: eq. (4) as printed, decoding in the
-- batch over the stages, solved to the proven optimum. `exact` is ours: the steady objective, every order and pair of
-- micro-batch sizes. `uniform_last` is Uniform as the published code ran it: the last, largest prefill micro-batch.
-- Digits are claimed for T4, P100 and V100. LLM.int8 decoding on the V100 is priced by rows read off the bars of
-- Fig. 5; on the P100 and the A100 all of it is carried over from T4 and V100, since nobody measured it there.
local ts = require "tessera"
local llmpq = require "tessera.papers.llmpq"

local paper = ts.paper "llmpq/table4.csv"
local points = llmpq.points(paper, { "exact", "uniform_last" })
points[#points + 1] = { cluster = "llmpq-8", planner = "pipeedge_4bit" }

return ts.experiment {
  name = "llmpq/table4",
  doc = "LLM-PQ, Table 4: serving throughput on eight clusters against PipeEdge, Uniform and FlexGen",
  paper = paper,
  grid = points,
  quick = { cluster = { "llmpq-1", "llmpq-3" } },
  columns = { "model", "latency_s", "throughput_tok_s", "speedup", "mean_bitwidth", "micro_batches", "perplexity" },
  notes = llmpq.notes_and {
    llmpq.planner_note,
    "speedup is over PipeEdge; perplexity is the printed one, no weights are evaluated",
    "uniform takes the best micro-batch sizes, as the text says; uniform_last the last ones, as the published code",
    "cluster 5: FlexGen-int8's printed latency and throughput are of a batch of 36",
  },
  time_limit_s = 120,

  run = function(point) return llmpq.serving_row(point.cluster, point.planner) end,

  check = function(t)
    llmpq.expect_fastest(t)
    t:expect_order { column = "throughput_tok_s", by = "planner", order = { "exact", "llm_pq" } }
    -- Up to 2.88x, and 2.26x on average: the mean of the printed factors, 2.00 without cluster 1's starred row.
    t:expect_that {
      text = "LLM-PQ is up to 2.88x faster than PipeEdge, 2.26x on average, and 2.00x without cluster 1",
      where = { planner = "llm_pq" },
      holds = function(_, rows)
        local sum, starred, most = 0, 0, 0
        for _, row in ipairs(rows) do
          sum = sum + row.speedup
          if row.point.cluster == "llmpq-1" then starred = row.speedup else most = math.max(most, row.speedup) end
        end
        local mean, others = sum / #rows, (sum - starred) / (#rows - 1)
        return mean >= 2.26 and others >= 2 and most >= 2.88,
          ("mean %.2f, without cluster 1 %.2f, at most %.2f there"):format(mean, others, most)
      end,
    }
    -- Cluster 1: micro-batch sizing lets 8 bits fit, where PipeEdge's one micro-batch of 32 leaves room for 4.
    t:expect_ratio {
      column = "throughput_tok_s", of = { planner = "llm_pq" }, over = { planner = "pipeedge" }, at_least = 4.06,
      where = { cluster = "llmpq-1" },
    }
    -- Digits: PipeEdge has the same plans in print and here.
    t:expect_close {
      column = "latency_s", to = "paper", rel = 0.1,
      where = { cluster = { "llmpq-1", "llmpq-3", "llmpq-4", "llmpq-5", "llmpq-6" }, planner = "pipeedge" },
    }
    t:expect_close {
      column = "latency_s", to = "paper", rel = 0.1,
      where = { cluster = { "llmpq-2", "llmpq-7" }, planner = "pipeedge" },
      not_reproduced = llmpq.a100_reason,
    }
    t:expect_close {
      column = "latency_s", to = "paper", rel = 0.1, where = { planner = "llm_pq" },
      not_reproduced = "clusters 2 and 6 come within 10 %. Print has the heuristic's plan on clusters 4 and 5, ours is "
        .. "the optimum; LLM.int8 on A100 and BLOOM's layers (7, 8) were never measured; on 1 and 3 the "
        .. "cause is not known",
    }
    -- Daggers: an even split does not fit.
    t:expect_all {
      column = "status", equals = "infeasible",
      where = { planner = "uniform", cluster = { "llmpq-4", "llmpq-5", "llmpq-7", "llmpq-8" } },
    }
    -- Cluster 3: 39.7, 21.86 and 3.37 tok/s in print, so 11.8x over Uniform with its last micro-batch size.
    t:expect_order {
      column = "throughput_tok_s", by = "planner", order = { "llm_pq", "pipeedge", "uniform" },
      where = { cluster = "llmpq-3" },
    }
    t:expect_ratio {
      column = "throughput_tok_s", of = { planner = "llm_pq" }, over = { planner = "uniform_last" }, at_least = 11.8,
      where = { cluster = "llmpq-3" },
    }
    -- The published Uniform keeps the last micro-batch size, not the best.
    for _, cluster in ipairs { "llmpq-3", "llmpq-6" } do
      local printed = t:published({ cluster = cluster, planner = "uniform" }, "latency_s")
      t:expect_that {
        text = "Uniform's printed latency is that of the last micro-batch size, not of the best",
        where = { cluster = cluster, planner = { "uniform", "uniform_last" } },
        holds = function(at)
          local last, best = at { planner = "uniform_last" }.latency_s, at { planner = "uniform" }.latency_s
          return math.abs(last / printed - 1) < 0.1 and best < 0.85 * printed,
            ("%.1f s with the last, %.1f s with the best, %.1f s in print"):format(last, best, printed)
        end,
      }
    end
    -- "outperforms FlexGen and FlexGen-int8 in most cases as they suffer from heavy swapping overhead"; FlexGen-int8 is
    -- ahead on cluster 1 in print as well.
    t:expect_best {
      column = "throughput_tok_s", is = { planner = "exact" }, where = { planner = { "exact", "flexgen" },
        cluster = { "llmpq-1", "llmpq-2", "llmpq-3", "llmpq-4", "llmpq-5", "llmpq-6" } },
    }
    t:expect_best {
      column = "throughput_tok_s", is = { planner = "llm_pq" }, where = { planner = { "llm_pq", "flexgen_int8" },
        cluster = { "llmpq-3", "llmpq-4", "llmpq-5" } },
    }
    t:expect_best {
      column = "throughput_tok_s", is = { planner = "flexgen_int8" }, where = { cluster = "llmpq-1" },
    }
    t:expect_best {
      column = "throughput_tok_s", is = { planner = "llm_pq" }, where = { planner = { "llm_pq", "flexgen_int8" },
        cluster = { "llmpq-2", "llmpq-6" } },
      not_reproduced = llmpq.flexgen_reason,
    }
    t:expect_ratio {
      column = "throughput_tok_s", of = { planner = "llm_pq" }, over = { planner = "pipeedge" }, at_least = 1.5,
      where = { cluster = "llmpq-2" },
      not_reproduced = "on one stage eq. (4) as printed prices decoding as a single step, and sees no gain in layers "
        .. "that decode faster; 1.50x in print, over baselines whose perplexity 11.38 is that of no bitwidth",
    }
    local printed = t:published({ cluster = "llmpq-8", planner = "pipeedge" }, "latency_s")
    t:expect_close {
      column = "latency_s", to = printed, rel = 0.1, where = { cluster = "llmpq-8", planner = "pipeedge_4bit" },
    }
    t:expect_close {
      column = "latency_s", to = printed, rel = 0.1, where = { cluster = "llmpq-8", planner = "pipeedge" },
      not_reproduced = "8 bits fit here with 20 MB to spare on the first V100; in print PipeEdge went on to 4 bits "
        .. "(perplexity 10.97), as pipeedge_4bit does",
    }
    t:expect_all {
      column = "status", equals = "infeasible", where = { cluster = "llmpq-5", planner = "flexgen" },
      not_reproduced = "the hosts have SSDs, which hold what memory does not; the published scripts gave FlexGen none",
    }
  end,
  plots = { { kind = "bars", x = "cluster", y = "throughput_tok_s", by = "planner", log_y = true } },
}
