-- LLM-PQ, Table 4: serving throughput on eight heterogeneous clusters, against PipeEdge, Uniform and FlexGen.
--
-- Settings: batches of 32, prompts of 512 tokens, 100 out (6.1); kernels of 2023; the memory model of the published
-- code, which decides who fits; theta of Table 9. `llm_pq` is the paper's method: eq. (4) as printed, decoding in the
-- batch over the stages, solved to the proven optimum. `exact` is ours: the steady objective, every order and pair of
-- micro-batch sizes. `uniform_last` is Uniform as the published code ran it: the last, largest prefill micro-batch.
-- Digits are claimed where 4 bits dominate. LLM.int8 took longer in the runs, with real weights and their outliers,
-- than in the single-layer profile that these latencies rest on.
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
    "llm_pq: objective paper, decoding in the batch over the stages; exact: objective steady, everything searched",
    "speedup is over PipeEdge; perplexity is the printed one, no weights are evaluated",
    "uniform takes the best micro-batch sizes, as the text says; uniform_last the last ones, as the published code",
    "cluster 5: FlexGen-int8's printed latency and throughput are of a batch of 36",
  },
  time_limit_s = 120,

  run = function(point) return llmpq.serving_row(point.cluster, point.planner) end,

  check = function(t)
    -- "LLM-PQ achieves the highest inference throughput" (6.3): among the schemes that keep the weights on the GPUs.
    t:expect_best {
      column = "throughput_tok_s", is = { planner = "llm_pq" }, within = 0.02,
      where = { planner = { "llm_pq", "pipeedge", "uniform" } },
    }
    t:expect_order { column = "throughput_tok_s", by = "planner", order = { "exact", "llm_pq" }, within = 0.01 }
    -- Up to 2.88x, and 2.26x on average: the mean of the printed factors, 2.00 without cluster 1's starred row.
    t:expect_that {
      text = "exact is 1.8x faster than PipeEdge on average, and 2.88x at most or more, both without cluster 1",
      where = { planner = "exact", cluster = { "llmpq-2", "llmpq-3", "llmpq-4", "llmpq-5", "llmpq-6", "llmpq-7",
        "llmpq-8" } },
      holds = function(_, rows)
        local sum, most = 0, 0
        for _, row in ipairs(rows) do sum, most = sum + row.speedup, math.max(most, row.speedup) end
        local mean = sum / #rows
        return mean >= 1.8 and most >= 2.88, ("mean %.2f, most %.2f; 2.00 and 2.88 in print"):format(mean, most)
      end,
    }
    -- Cluster 1: micro-batch sizing lets 8 bits fit, where PipeEdge's one micro-batch of 32 leaves room for 4.
    t:expect_ratio {
      column = "throughput_tok_s", of = { planner = "llm_pq" }, over = { planner = "pipeedge" }, at_least = 3,
      where = { cluster = "llmpq-1" },
    }
    -- Digits: PipeEdge where it has 4 bits in print and here.
    t:expect_close {
      column = "latency_s", to = "paper", rel = 0.15,
      where = { cluster = { "llmpq-1", "llmpq-4", "llmpq-5" }, planner = "pipeedge" },
    }
    -- Daggers: an even split does not fit.
    t:expect_all {
      column = "status", equals = "infeasible",
      where = { planner = "uniform", cluster = { "llmpq-4", "llmpq-5", "llmpq-7", "llmpq-8" } },
    }
    -- Cluster 3: 39.7, 21.86 and 3.37 tok/s in print, so 11.8x over Uniform.
    t:expect_order {
      column = "throughput_tok_s", by = "planner", order = { "llm_pq", "pipeedge", "uniform" },
      where = { cluster = "llmpq-3" },
    }
    t:expect_ratio {
      column = "throughput_tok_s", of = { planner = "llm_pq" }, over = { planner = "uniform" }, at_least = 5,
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
          return math.abs(last / printed - 1) < 0.15 and best < 0.85 * printed,
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
      column = "throughput_tok_s", of = { planner = "llm_pq" }, over = { planner = "pipeedge" }, at_least = 1.4,
      where = { cluster = "llmpq-2" },
      not_reproduced = "on one stage eq. (4) as printed prices decoding as a single step, and sees no gain in layers "
        .. "that decode faster; 1.50x in print, over baselines whose perplexity 11.38 is that of no bitwidth",
    }
    local printed = t:published({ cluster = "llmpq-8", planner = "pipeedge" }, "latency_s")
    t:expect_close {
      column = "latency_s", to = printed, rel = 0.15, where = { cluster = "llmpq-8", planner = "pipeedge_4bit" },
    }
    t:expect_close {
      column = "latency_s", to = printed, rel = 0.15, where = { cluster = "llmpq-8", planner = "pipeedge" },
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
