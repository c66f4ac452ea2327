-- LLM-PQ, Table 7: serving throughput with shorter prompts (128 tokens, 200 out), against PipeEdge, Uniform and
-- FlexGen.
--
-- Settings and schemes as in table4.lua.
local ts = require "tessera"
local llmpq = require "lib.papers.llmpq"

local paper = ts.paper "llmpq/table7.csv"

return ts.experiment {
  name = "llmpq/table7",
  doc = "LLM-PQ, Table 7: serving throughput with shorter prompts",
  paper = paper,
  grid = llmpq.points(paper, { "llm_pq_equal", "exact", "uniform_last" }),
  quick = { cluster = { "llmpq-1" } },
  columns = { "model", "latency_s", "throughput_tok_s", "speedup", "speedup_512_tokens", "bits",
    "omega", "micro_batches" },
  notes = llmpq.serving_notes {
    "speedup_512_tokens: speedup with the workload of Table 4",
  },
  time_limit_s = 120,

  run = function(point)
    local row = llmpq.serving_row(point.cluster, point.planner, { workload = "llmpq-short" })
    if point.planner == "llm_pq" then
      row.speedup_512_tokens = llmpq.serving_row(point.cluster, point.planner).speedup
    end
    return row
  end,

  check = function(t)
    -- "LLM-PQ achieves substantial inference speed-ups without any accuracy degradation" (6.6): 1.78x, 1.40x and 1.74x.
    llmpq.note_differences(t)
    llmpq.expect_fastest(t)
    t:expect_order { column = "throughput_tok_s", by = "planner", order = { "exact", "llm_pq" } }
    llmpq.expect_speedups(t, llmpq.clusters_of(paper), {
      ["llmpq-4"] = {
        why = "print has the heuristic's plan; ours is the optimum under eq. (4), and takes prompts one by one",
        llm_pq_equal = { 1.95, 2.03 }, llm_pq = { 3.9, 4.06 },
      },
      ["llmpq-6"] = {
        why = "the plan takes 3 bits in 11 layers, faster at decoding and worse in quality", llm_pq = { 2.17, 2.26 },
      },
    })
    llmpq.expect_best_quality(t, { "llmpq-1" })
    for _, case in ipairs { { "llmpq-4", { 1130, 1180 } }, { "llmpq-6", { 300, 316 } } } do
      local cluster, here = case[1], case[2]
      llmpq.expect_best_quality(t, { cluster }, { not_reproduced = llmpq.quality_reason, here = here })
    end
    t:expect_close {
      column = "latency_s", to = "paper", rel = 0.1,
      where = { cluster = { "llmpq-4", "llmpq-6" }, planner = "pipeedge" },
    }
    for _, case in ipairs { { "llmpq-1", { 0.87, 0.9 } }, { "llmpq-4", { 0.36, 0.39 } }, { "llmpq-6", { 0.76,
      0.79 } } } do
      local cluster, here = case[1], case[2]
      t:expect_close {
        column = "latency_s", to = "paper", rel = 0.1, where = { cluster = cluster, planner = "llm_pq" }, here = here,
        not_reproduced = "on cluster 4 print has the heuristic's plan, and ours takes 3 and 16 bits; otherwise "
          .. "the cause "
          .. "is not known",
      }
    end
    t:expect_close {
      column = "latency_s", to = "paper", rel = 0.1, where = { cluster = "llmpq-1", planner = "pipeedge" },
      not_reproduced = "just beyond a tenth; prompts of 128 tokens are below those that were measured",
      here = { 0.89, 0.9 },
    }
    -- "the throughput gain of LLM-PQ in cluster 4 is much lower than that with prompt length 512": 1.40x against 2.10x.
    t:expect_that {
      text = "On cluster 4 the gain over PipeEdge is at most 0.8 of that with 512 tokens",
      where = { cluster = "llmpq-4", planner = "llm_pq" },
      holds = function(_, rows)
        local short, long = rows[1].speedup, rows[1].speedup_512_tokens
        return short <= 0.8 * long, ("%.2f against %.2f; 1.40 and 2.10 in print"):format(short, long), short / long
      end,
      not_reproduced = "the proven optimum of eq. (4) takes 3 and 16 bits and prompts one by one, and 0.37 of the "
        .. "printed time. Print has the heuristic's plan there, with which we gain 2.0 against 2.4: still not 0.8",
      here = { 1.4, 1.47 },
    }
    -- Swapping costs more where more tokens are generated.
    t:expect_best {
      column = "throughput_tok_s", is = { planner = "llm_pq" }, where = { planner = { "llm_pq", "flexgen" } },
    }
    t:expect_best {
      column = "throughput_tok_s", is = { planner = "llm_pq" },
      where = { cluster = "llmpq-4", planner = { "llm_pq", "flexgen_int8" } },
    }
    t:expect_best {
      column = "throughput_tok_s", is = { planner = "llm_pq" },
      where = { cluster = { "llmpq-1", "llmpq-6" }, planner = { "llm_pq", "flexgen_int8" } },
      not_reproduced = llmpq.flexgen_reason, here = { 0.5, 0.98 },
    }
    -- Cluster 4: Uniform has 4 bits in print as here (perplexity 10.80), again with the last micro-batch size ...
    t:expect_close {
      column = "latency_s", to = t:published({ cluster = "llmpq-4", planner = "uniform" }, "latency_s"), rel = 0.1,
      where = { cluster = "llmpq-4", planner = "uniform_last" },
    }
    -- ... and is ahead of PipeEdge at 8 bits.
    t:expect_best {
      column = "throughput_tok_s", is = { planner = "uniform" },
      where = { cluster = "llmpq-4", planner = { "uniform", "pipeedge" } },
    }
  end,
  plots = { { kind = "bars", x = "cluster", y = "throughput_tok_s", by = "planner", log_y = true } },
}
