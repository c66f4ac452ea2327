-- Table V: latency and tokens per dollar of three strategies on three pairs: in print, by the equations as printed, and
-- as the table was computed.
--
-- No unequal pair was ever measured: every row at 0.5 and 0.1 takes the correction of two equal GPUs, whose offset is
-- then the same for a GPU of a tenth of the speed, and knows nothing of memory bandwidth.
local claims = require "lib.claims"
local flexllm = require "lib.papers.flexllm"
local ts = require "tessera"

local paper = ts.paper "flexllm/table5.csv"
local workload_of = { ["opt-1.3b"] = "medium", ["opt-2.7b"] = "large" }

local printed = {} -- by model, ratio and strategy
local function key_of(at) return ("%s|%g|%s"):format(at.model, at.ratio, at.strategy) end
for _, row in ipairs(paper.rows) do
  printed[key_of(row.point)] = { batch_size = row.batch_size, latency_s = row.latency_s,
    tokens_per_usd = row.tokens_per_usd }
end
-- 3.99 s in print, of which 32 requests of 64 tokens would cost 205K tokens per dollar; 274K is printed.
printed["opt-1.3b|0.5|data_parallel"].latency_s = 2.99

-- Relative errors of a column against print, over all rows: mean, largest, rows within 5 %.
local function errors(rows, column)
  local mean, most, near = 0, 0, 0
  for _, row in ipairs(rows) do
    local off = math.abs(row[column] / printed[key_of(row.point)].latency_s - 1)
    mean, most, near = mean + off / #rows, math.max(most, off), near + (off <= 0.05 and 1 or 0)
  end
  return mean, most, near
end

return ts.experiment {
  name = "flexllm/table5",
  doc = "FlexLLM, Table V: three strategies on three pairs, as printed and as simulated",
  paper = paper,
  grid = paper.points,
  quick = {},
  columns = { "batch_size", "latency_s", "latency_printed_s", "latency_profile_s", "fits", "tokens_per_usd",
    "usd_per_h" },
  notes = {
    "latency_s and tokens_per_usd: by `simulated` (MP at the pace of its slower half, AO's projections on the second "
      .. "GPU); latency_printed_s: by (7)-(17) as printed; C_eff: the nearest of each strategy and model",
    "latency_profile_s: by our prices (FP16, kernel set modern), micro-batches of least time; fits: in 8 GB by our "
      .. "memory",
    "rows at 0.5 and 0.1 were never measured: print extrapolates the correction of two equal GPUs",
    "batch sizes are the table's; no memory model in print explains them",
    "contradictions in print: \"for a fixed batch size\" (IV-D) against unequal ones; DP \"in proportion by "
      .. "default\" (IV-C) against 1:1 (VI-A); pairs \"H-H, H-L, L-L (1:0.1)\" (VI-A) against H-L; the latency 3.99",
    "c_s is one for all strategies of a pair: (4) chooses between pairs, tokens per dollar between strategies",
    "(15) and (16) take the slower GPU in each phase, which is more than any GPU takes where they differ",
    "layers \"by memory capacity\" (IV-C) against evenly (VI-A); activations \"at each layer boundary\" (II-B) against "
      .. "once (7); AO moves \"the entire KV cache\" (II-B) against Q, K, V, Z of a token (11)",
  },

  run = function(point)
    local row = { batch_size = printed[key_of(point)].batch_size }
    local given = { model = point.model, workload = workload_of[point.model], batch_size = row.batch_size }
    for formulas, column in pairs { simulated = "latency_s", printed = "latency_printed_s" } do
      given.formulas = formulas
      local found = flexllm.row(point.strategy, point.ratio, given)
      row[column], row.usd_per_h = found.latency_s, found.usd_per_h
      if formulas == "simulated" then row.tokens_per_usd = found.tokens_per_usd end
    end
    local found, why = flexllm.by_profile { model = point.model, workload = given.workload,
      strategies = { point.strategy }, batch_sizes = { [point.strategy] = row.batch_size },
      devices = { { flexllm.device(1), flexllm.device(point.ratio) } } }
    local own = (found or why.candidates)[1]
    row.latency_profile_s, row.fits = own.latency_s, own.fits
    return row
  end,

  check = function(t)
    for _, at in ipairs(paper.points) do
      t:expect_close { column = "latency_s", to = printed[key_of(at)].latency_s, rel = 0.05, where = at }
    end
    claims.within(t, "`simulated` is 0.5 to 1 % off in the mean of 18 cells",
      function(_, rows) return (errors(rows, "latency_s")) end, 0.005, 0.01)
    claims.within(t, "the equations as printed are 5.5 to 7 % off in the mean",
      function(_, rows) return (errors(rows, "latency_printed_s")) end, 0.055, 0.07)
    claims.within(t, "and have 11 to 13 cells within 5 %",
      function(_, rows) return (select(3, errors(rows, "latency_printed_s"))) end, 11, 13)
    claims.within(t, "MP of 1.3B at 1:0.1 as printed is 22 to 24 % short", function(at)
      return 1 - at({ model = "opt-1.3b", ratio = 0.1, strategy = "model_parallel" }).latency_printed_s / 12.60
    end, 0.22, 0.24)
    for _, at in ipairs(paper.points) do
      local off_by_rounding = 500 / printed[key_of(at)].tokens_per_usd
      t:expect_close { column = "tokens_per_usd", to = printed[key_of(at)].tokens_per_usd,
        rel = 0.05 + off_by_rounding, where = at }
    end
  end,
}
