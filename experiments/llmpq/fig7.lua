-- LLM-PQ, Fig. 7: fidelity of the memory and the latency model.
--
-- The paper's protocol: memory on BLOOM-560m/1b7 and OPT-13b/30b/66b with prompts of 128-512, batches of 2, 4 and 8,
-- 100-200 tokens out and random bits; latency on 50 unseen workloads per device, batches 3, 5, 7, past 384 and 768. It
-- quotes "almost negligible" memory errors and latency errors under 6 % on average, and prints no value.
--
-- Here: memory as far as counts exist that are not ours (experiments/fidelity/memory.lua). Latency: nobody published
-- the 50 workloads, so each batch size of the published rows is held out in turn. kind = "llmpq_2023_08" are the
-- profiles that the tables run on, with the errors that they state: of 13 parts with points 7 rest on one each, and
-- have no error. kind = "latency" are the fuller rows of May and June (kernel set llmpq_2023, T4 and V100), held out
-- here, where predictions at batch 3, 5 and 7 must also lie between the measured neighbours. What is held out is the
-- batch size alone, of three: prompts, contexts and other models are not tested by it (fidelity/llmpq_layers has what
-- there is on widths). Memory preset llm-pq; no theta, no objective.
local ts = require "tessera"
local llmpq = require "fidelity.fit.llmpq"
local memory = require "fidelity.memory"
local shipped = require "fidelity.fit.shipped"

local samples, why = llmpq.samples()
local models = { "bloom-560m", "bloom-1b7", "opt-13b", "opt-30b", "opt-66b" }
local table_points, part_of = shipped.parts({ "T4-16G", "V100-32G", "P100-12G", "A100-40G" }, { "llmpq_2023_08" })

local function points_of()
  local points = memory.points(models, 4)
  for _, point in ipairs(table_points) do points[#points + 1] = point end
  for _, device in ipairs { "T4-16G", "V100-32G" } do
    for _, phase in ipairs { "prefill", "decode" } do
      for _, bitwidth in ipairs { 3, 4, 8, 16 } do
        local case = ("%s %s %d"):format(device, phase, bitwidth)
        points[#points + 1] = { kind = "latency", model = "opt-30b", case = case }
      end
    end
  end
  return points
end

-- Predictions at the paper's batch sizes stay between what was measured on both sides.
local function is_between(part)
  local profile, at = llmpq.fitted(part, part[1].device, "llmpq_2023"), {}
  for _, row in ipairs(part) do at[row.batch_size] = row.latency_s end
  for batch_size, around in pairs { [3] = { 2, 4 }, [5] = { 4, 8 }, [7] = { 4, 8 } } do
    local seconds = profile:layer_s {
      model = "opt-30b", bitwidth = part[1].bitwidth, phase = part[1].phase, batch_size = batch_size,
      tokens = part[1].tokens, context_tokens = part[1].context_tokens,
    }
    if seconds <= at[around[1]] or seconds >= at[around[2]] then return false end
  end
  return true
end

local function latency_row(point)
  if not samples then return { status = why.code, message = why.message } end
  local device, phase, bitwidth = point.case:match "(%S+) (%a+) (%d+)"
  local part = llmpq.of(samples, {
    device = device, kernel_set = "llmpq_2023", phase = phase, bitwidth = tonumber(bitwidth), model = "opt-30b",
  })
  local rows = ts.cross_validate {
    device = device, kernel_set = "llmpq_2023", method = "regression", hold_out = { "batch_size" }, folds = 0,
    samples = part,
  }
  local sum, worst = 0, 0
  for _, row in ipairs(rows) do
    sum, worst = sum + math.abs(row.error_ratio), math.max(worst, math.abs(row.error_ratio))
  end
  return { error_ratio = sum / #rows, worst_error_ratio = worst, num_rows = #rows, between = is_between(part) }
end

return ts.experiment {
  name = "llmpq/fig7",
  doc = "LLM-PQ, Fig. 7: fidelity of memory and latency",
  grid = points_of(),
  columns = {
    "ours_bytes", "other_bytes", "error_ratio", "worst_error_ratio", "num_points", "provenance", "between",
  },

  run = function(point)
    if point.kind == "latency" then return latency_row(point) end
    local part = part_of(point)
    return part and shipped.row(part) or memory.row(point)
  end,

  check = function(t)
    for _, kind in ipairs(memory.kinds) do
      t:expect_close {
        column = "ours_bytes", to = "other_bytes", rel = 0.01, where = { kind = kind },
        note = kind == "plan" and "the published code's formula, written once more" or nil,
      }
    end
    shipped.expect_mean(t, "llmpq_2023_08", 0.06)
    if not samples then return t:skip("not checked: " .. why.message) end
    local sum, worst, rows = 0, {}, t:rows { kind = "latency" }
    for _, row in ipairs(rows) do
      sum = sum + row.error_ratio
      if not worst.error_ratio or row.error_ratio > worst.error_ratio then worst = row end
    end
    t:expect("kernels of May and June: mean error on unseen batches under 6 %", sum / #rows < 0.06,
      ("%.1f %% over %d parts; the worst: %s bit %.1f %%"):format(100 * sum / #rows, #rows, worst.point.case,
        100 * worst.error_ratio), { value = sum / #rows })
    t:expect_all { column = "between", equals = true, where = { kind = "latency" } }
  end,
  plots = { { kind = "bars", x = "case", y = "error_ratio", by = "kind", facet = "model" } },
}
