-- LLM-PQ, Table 4: serving throughput on eight heterogeneous clusters, against PipeEdge, Uniform and FlexGen.
--
-- Settings: batches of 32, prompts of 512 tokens, 100 out (6.1); kernels of 2023; the memory model of the published
-- code, which decides who fits; theta of Table 9. `llm_pq` is the paper's method: eq. (4) as printed, decoding in the
-- batch over the stages, solved to the proven optimum. `exact` is ours: the steady objective, every order and pair of
-- micro-batch sizes. `uniform_last` is Uniform as the published code ran it: the last, largest prefill micro-batch.
-- Digits are claimed for T4, P100 and V100. LLM.int8 decoding on the V100 is priced by rows read off the bars of
-- Fig. 5; on the P100 and the A100 all of it is carried over from T4 and V100, since nobody measured it there.
local ts = require "tessera"
local llmpq = require "lib.papers.llmpq"

local paper = ts.paper "llmpq/table4.csv"
local points = llmpq.points(paper, { "llm_pq_equal", "exact", "uniform_last" })
points[#points + 1] = { cluster = "llmpq-8", planner = "pipeedge_4bit" }
points[#points + 1] = { cluster = "llmpq-3", planner = "published" }

return ts.experiment {
  name = "llmpq/table4",
  doc = "LLM-PQ, Table 4: serving throughput on eight clusters against PipeEdge, Uniform and FlexGen",
  paper = paper,
  grid = points,
  quick = { cluster = { "llmpq-1", "llmpq-3" } },
  columns = { "model", "latency_s", "throughput_tok_s", "speedup", "bits", "omega", "micro_batches" },
  notes = llmpq.serving_notes {
    "uniform takes the best micro-batch sizes, as the text says; uniform_last the last ones, as the published code",
    "published: LLM-PQ's own plan of cluster 3, from its logs, with the time that our model gives it",
    "cluster 5: FlexGen-int8's printed latency and throughput are of a batch of 36",
  },
  time_limit_s = 120,

  run = function(point) return llmpq.serving_row(point.cluster, point.planner) end,

  check = function(t)
    llmpq.note_differences(t)
    llmpq.expect_fastest(t)
    t:expect_order { column = "throughput_tok_s", by = "planner", order = { "exact", "llm_pq" } }
    -- "up to 2.88x (2.26x on average) throughput improvement" (abstract), of the printed factors; and each of them.
    -- Both at PipeEdge's quality, which is what the comparison means, and as the paper's method runs.
    for _, scheme in ipairs { "llm_pq_equal", "llm_pq" } do
      t:expect_ratio {
        column = "throughput_tok_s", of = { planner = scheme }, over = { planner = "pipeedge" }, mean = "arithmetic",
        to = 2.26, rel = llmpq.speedup_tolerance,
      }
    end
    llmpq.expect_speedups(t, llmpq.clusters_of(paper), {
      ["llmpq-2"] = {
        why = "on one stage eq. (4) as printed prices decoding as a single step, and sees no gain in layers "
          .. "that decode "
          .. "faster; 1.50x in print, over baselines whose perplexity 11.38 is that of no bitwidth",
        llm_pq_equal = { 1, 1.04 }, llm_pq = { 1, 1.04 },
      },
      ["llmpq-3"] = {
        why = "print's plan (8 bits and 16, eta = xi = 8) is priced 8 % below its printed time; ours takes prompts one "
          .. "by one, which was not measured, and 3 bits in one layer",
        llm_pq = { 2.16, 2.26 },
      },
      ["llmpq-4"] = {
        why = "print has the heuristic's plan, ours is the optimum under eq. (4), and takes prompts one by one",
        llm_pq_equal = { 2.71, 2.83 }, llm_pq = { 2.71, 2.83 },
      },
      ["llmpq-5"] = {
        why = "print has the heuristic's plan, ours is the optimum under eq. (4), and takes prompts one by one",
        llm_pq_equal = { 2.76, 2.88 }, llm_pq = { 3.37, 3.52 },
      },
      ["llmpq-7"] = {
        why = llmpq.a100_reason .. "; prompts are taken one by one", llm_pq_equal = { 2.5, 2.62 },
        llm_pq = { 2.98, 3.12 },
      },
      ["llmpq-8"] = {
        why = "PipeEdge keeps 8 bits here, with 20 MB to spare on the first V100; in print it went on to 4 "
          .. "bits, which is "
          .. "what the printed factor is over", llm_pq_equal = { 1, 1.04 }, llm_pq = { 1.22, 1.28 },
      },
    })
    -- "and the best model accuracy in clusters 3, 4, 6, 7, and 8" (6.3), by omega: the other half of the same sentence.
    llmpq.expect_best_quality(t, { "llmpq-4", "llmpq-6" })
    for _, case in ipairs { { "llmpq-3", { 37, 40 } }, { "llmpq-7", { 1.8, 1.95 } }, { "llmpq-8", { 400, 420 } } } do
      local cluster, here = case[1], case[2]
      llmpq.expect_best_quality(t, { cluster }, { not_reproduced = llmpq.quality_reason, here = here })
    end
    -- Digits: PipeEdge has the same plans in print and here.
    t:expect_close {
      column = "latency_s", to = "paper", rel = 0.1,
      where = { cluster = { "llmpq-1", "llmpq-3", "llmpq-4", "llmpq-5", "llmpq-6" }, planner = "pipeedge" },
    }
    t:expect_close {
      column = "latency_s", to = "paper", rel = 0.1,
      where = { cluster = { "llmpq-2", "llmpq-7" }, planner = "pipeedge" },
      not_reproduced = llmpq.a100_reason, here = { 0.62, 0.82 },
    }
    t:expect_close {
      column = "latency_s", to = "paper", rel = 0.1,
      where = { cluster = { "llmpq-2", "llmpq-6" }, planner = "llm_pq" },
    }
    -- The one plan of LLM-PQ's that is known bit by bit; 10 % is what all digits here are held to.
    t:expect_close {
      column = "latency_s", to = t:published({ cluster = "llmpq-3", planner = "llm_pq" }, "latency_s"), rel = 0.1,
      where = { cluster = "llmpq-3", planner = "published" },
    }
    -- LLM.int8 on the V100 at a batch of 32, beyond what was measured; elsewhere see the speed-ups.
    t:expect_close {
      column = "latency_s", to = "paper", rel = 0.1, where = { cluster = "llmpq-1", planner = "llm_pq" },
      not_reproduced = "our plan is the one that was logged; INT8 on the V100 at batches of 32 was not measured",
      here = { 0.87, 0.9 },
    }
    local other_plan = "another plan than print's, with prompts one by one, which was not measured"
    local bloom = other_plan .. "; nor was any layer of BLOOM"
    for _, case in ipairs {
      { "llmpq-3", { 0.74, 0.78 }, other_plan }, { "llmpq-4", { 0.72, 0.76 }, other_plan },
      { "llmpq-5", { 0.66, 0.69 }, other_plan }, { "llmpq-7", { 0.43, 0.46 }, bloom },
      { "llmpq-8", { 0.78, 0.82 }, bloom },
    } do
      local cluster, here, why = case[1], case[2], case[3]
      t:expect_close {
        column = "latency_s", to = "paper", rel = 0.1, where = { cluster = cluster, planner = "llm_pq" },
        not_reproduced = why, here = here,
      }
    end
    -- Daggers: an even split does not fit.
    t:expect_all {
      column = "status", equals = "infeasible",
      where = { planner = "uniform", cluster = { "llmpq-4", "llmpq-5", "llmpq-7", "llmpq-8" } },
    }
    -- Cluster 3: 39.7, 21.86 and 3.37 tok/s in print: 11.8x over Uniform with its last micro-batch size.
    t:expect_order {
      column = "throughput_tok_s", by = "planner", order = { "llm_pq", "pipeedge", "uniform" },
      where = { cluster = "llmpq-3" },
    }
    for _, case in ipairs { { "llm_pq_equal", { 14.4, 15.1 } }, { "llm_pq", { 15.3, 15.95 } } } do
      local scheme, here = case[1], case[2]
      t:expect_ratio {
        column = "throughput_tok_s", of = { planner = scheme }, over = { planner = "uniform_last" },
        to = 11.8, rel = llmpq.speedup_tolerance, where = { cluster = "llmpq-3" },
        not_reproduced = "Uniform and PipeEdge take what is printed, our plan is faster than the printed one",
          here = here,
      }
    end
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
      not_reproduced = llmpq.flexgen_reason, here = { 0.74, 0.78 },
    }
    local printed = t:published({ cluster = "llmpq-8", planner = "pipeedge" }, "latency_s")
    t:expect_close {
      column = "latency_s", to = printed, rel = 0.1, where = { cluster = "llmpq-8", planner = "pipeedge_4bit" },
    }
    t:expect_close {
      column = "latency_s", to = printed, rel = 0.1, where = { cluster = "llmpq-8", planner = "pipeedge" },
      not_reproduced = "8 bits fit here with 20 MB to spare on the first V100; in print PipeEdge went on to 4 bits "
        .. "(perplexity 10.97), as pipeedge_4bit does", here = { 0.34, 0.36 },
    }
    t:expect_all {
      column = "status", equals = "infeasible", where = { cluster = "llmpq-5", planner = "flexgen" },
      not_reproduced = "the hosts have SSDs, which hold what memory does not; the published scripts gave FlexGen none",
      here = "feasible",
    }
  end,
  plots = { { kind = "bars", x = "cluster", y = "throughput_tok_s", by = "planner", log_y = true } },
}
