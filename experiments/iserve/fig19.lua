-- Fig. 19: what fingerprints say of a whole model, against the whole model, both measured on this machine.
--
-- The paper's fingerprints have one and two layers. Extrapolating thirty layers from these multiplies noise by 40, from
-- one and eight by 5: both pairs stand here. Of the whole model's rounds every other one is the truth, and the rest are
-- method L1. Bounds are the design's, chosen before the first run: 5 % of latency and of memory in the median, nine of
-- ten cases within the interval that the fingerprint itself states.
local ts = require "tessera"
local by_engine = require "lib.papers.iserve_engine"
local median = require "tessera.median"
local steady = require "lib.runtime.steady"

local shared = "times of a machine that others use"

-- Every run that the estimates and the truth need.
local function runs_of(num_layers)
  local runs = {}
  for _, layers in ipairs { 1, 2, 4, 8, num_layers } do
    for _, stages in ipairs { 1, 2 } do
      runs[#runs + 1] = { num_layers = layers, pipeline_parallel = stages, timed = stages == 1 or layers == num_layers }
    end
  end
  return runs
end

local function estimates(subject, point, samples, repeats, layers)
  local map = ts.fingerprint { num_layers = subject.num_layers, measure = by_engine.replay(samples), repeats = repeats,
    configurations = ts.configurations { num_gpus = 2, tensor_parallel = { 1 }, pipeline_parallel = { 1, 2 },
      schemes = { point.scheme } },
    fingerprint_layers = layers, output_tokens = by_engine.output_tokens, prompt_tokens = subject.prompt_tokens }
  return map:estimates { output_tokens = by_engine.output_tokens[2] }, map
end

local function inside(row, truth) return truth >= row.latency_low_s and truth <= row.latency_high_s and 1 or 0 end

return ts.experiment {
  name = "iserve/fig19",
  doc = "Latency and memory by fingerprints against the whole model, measured on this machine",
  grid = { model = { by_engine.small, by_engine.shaped }, scheme = by_engine.schemes },
  quick = { model = { by_engine.small }, scheme = { "fp16", "int4_kv8" } },
  columns = { "measured_s", "measured_two_s", "latency_error", "latency_error_two", "stated_error", "inside",
    "inside_two", "memory_error", "memory_error_two", "l1_error", "l1_error_two", "later_error", "later_stated_error",
    "paper_error", "paper_stated_error", "paper_inside", "spread", "load" },
  notes = {
    "errors: estimate over measured, less 1, of 128 tokens of prompt and 64 of answer; _two: in two stages",
    "stated_error: the fingerprint's standard error; inside: 1 where what was measured lies within two of them",
    "fingerprints of 1 and 8 layers; later: of 4 and 8; paper: of 1 and 2",
    "spread: of single runs, deviation over median, the most",
    "load: processes on the machine's two cores while it ran",
  },
  time_limit_s = 3600,

  run = function(point, context)
    local subject, why = by_engine.subject(point.model)
    if not subject then return nil, why end
    local repeats, whole = context.quick and 4 or 12, subject.num_layers
    local samples = by_engine.rounds(subject, point.scheme, runs_of(whole), repeats)
    local function measured(stages, field, first)
      local list = by_engine.of(samples, { num_layers = whole, pipeline_parallel = stages }, point.scheme)
      return median(by_engine.values(list, field, first, 2))
    end
    local rows, map = estimates(subject, point, samples, repeats, { 1, 8 })
    local paper = estimates(subject, point, samples, repeats, { 1, 2 })
    local l1 = measured(1, by_engine.longest_s, 2)
    local row = { spread = 0, load = steady.load() }
    for i, ending in ipairs { "", "_two" } do
      local truth, bytes = measured(i, by_engine.longest_s, 1), measured(i, by_engine.memory, 1)
      row["measured" .. ending .. "_s"], row["latency_error" .. ending] = truth, rows[i].latency_s / truth - 1
      row["memory_error" .. ending] = rows[i].memory_bytes / bytes - 1
      row["inside" .. ending], row["l1_error" .. ending] = inside(rows[i], truth), l1 / truth - 1
    end
    row.stated_error = rows[1].error
    local later = estimates(subject, point, samples, repeats, { 4, 8 })
    row.later_error, row.later_stated_error = later[1].latency_s / row.measured_s - 1, later[1].error
    row.paper_error, row.paper_stated_error = paper[1].latency_s / row.measured_s - 1, paper[1].error
    row.paper_inside = inside(paper[1], row.measured_s)
    for _, run in ipairs(map.runs) do row.spread = math.max(row.spread, run.spread) end
    return row
  end,

  check = function(t)
    -- All values of two columns.
    local function both(rows, column, value)
      local list = {}
      for _, row in ipairs(rows) do
        for _, ending in ipairs { "", "_two" } do list[#list + 1] = value(row[column .. ending]) end
      end
      return list
    end
    local function claim(text, low, high, of, may_differ)
      t:expect_that { text = text, may_differ = may_differ, holds = function(_, rows)
        local found = of(rows)
        return found >= low and found <= high, ("%.4g in [%g, %g]"):format(found, low, high), found
      end }
    end
    claim("memory is off by 5 % in the median at most", 0, 0.05, function(rows)
      return median(both(rows, "memory_error", math.abs))
    end)
    claim("latency is off by 5 % in the median at most", 0, 0.05, function(rows)
      return median(both(rows, "latency_error", math.abs))
    end, shared)
    claim("nine of ten lie within the interval that is stated", 0.9, 1, function(rows)
      local list, sum = both(rows, "inside", function(value) return value end), 0
      for _, value in ipairs(list) do sum = sum + value / #list end
      return sum
    end, shared)
    claim("L2 is not further off than L1 by more than 5 points", -0.05, 0.05, function(rows)
      return median(both(rows, "latency_error", math.abs)) - median(both(rows, "l1_error", math.abs))
    end, shared)
    claim("from 1 and 8 layers less error is stated than from 1 and 2", 0, 0.7, function(rows)
      local ratios = {}
      for i, row in ipairs(rows) do ratios[i] = row.stated_error / row.paper_stated_error end
      return median(ratios)
    end, shared)
  end,
  plots = { { kind = "bars", x = "scheme", y = "latency_error", by = "model" } },
}
