-- SplitQuant, Fig. 11: throughput and quality by theta, OPT-66b on cluster 7 and OPT-30b on cluster 8.
--
-- The figure has no printed values; its text: a larger theta generally gives less throughput and more accuracy. The
-- paper's 10x is the theta of its Table V, which is not printed and multiplies raw omega. Here 10x is 1 s per unit of
-- normalised omega, which is what all layers at 4 bits cost. Omega stands for the perplexity, which takes the weights
-- of these models; experiments/quality/theta.lua measures it of models that are on disk.
local ts = require "tessera"
local indicator_rows = require "lib.papers.indicator_rows"
local splitquant = require "lib.papers.splitquant"

return ts.experiment {
  name = "splitquant/fig11",
  doc = "SplitQuant, Fig. 11: sensitivity to theta",
  grid = { cluster = { "splitquant-7", "splitquant-8" }, theta = { 0.1, 1, 10, 100, 1000 } },
  quick = { cluster = { "splitquant-8" }, theta = { 1, 100 } },
  columns = { "model", "throughput_tok_s", "latency_s", "omega", "mean_bitwidth", "kl_nats", "note" },
  time_limit_s = 120,
  notes = splitquant.notes_and(
    "theta in seconds per normalised omega: the paper's 1x, 10x and 100x are 0.1, 1 and 10; 100 and 1000 go beyond",
    "odd in LLM-PQ's version of this figure: the value that its Table 4 prints for cluster 5 (9.97 tok/s) is the 10x "
      .. "bar, the one that Table 5 prints for cluster 9 (7.85) the 100x bar"),

  run = function(point)
    local problem = splitquant.problem(point.cluster, { theta = point.theta })
    local row = splitquant.row(problem, ts.plan(problem, { time_limit_s = 60 }))
    row.note = indicator_rows.not_measured(row.model)
    return row
  end,

  check = function(t)
    for _, cluster in ipairs { "splitquant-7", "splitquant-8" } do
      t:expect_that {
        text = "the larger theta, the less throughput and the less omega", where = { cluster = cluster },
        note = "a theorem for an exact minimiser of latency plus theta times omega",
        holds = function(_, rows)
          table.sort(rows, function(a, b) return a.point.theta < b.point.theta end)
          for i = 2, #rows do
            local low, high = rows[i - 1], rows[i]
            if high.throughput_tok_s > low.throughput_tok_s * (1 + 1e-9) or high.omega > low.omega * (1 + 1e-9) then
              return false, ("not from theta %g to %g"):format(low.point.theta, high.point.theta)
            end
          end
          return true
        end,
      }
    end
    for _, cluster in ipairs { "splitquant-7", "splitquant-8" } do
      t:expect_that {
        text = "theta trades throughput for quality: both move between the least and the largest",
        where = { cluster = cluster, theta = { 0.1, 1000 } },
        holds = function(at)
          local low, high = at { theta = 0.1 }, at { theta = 1000 }
          return low.throughput_tok_s > high.throughput_tok_s and low.omega > high.omega,
            ("%.2f tok/s at omega %.3g, %.2f tok/s at omega %.3g"):format(low.throughput_tok_s, low.omega,
              high.throughput_tok_s, high.omega)
        end,
      }
    end
  end,
  plots = {
    { kind = "lines", x = "theta", y = "throughput_tok_s", by = "cluster", log_x = true },
    { kind = "lines", x = "theta", y = "omega", by = "cluster", log_x = true },
  },
}
