-- Single decoder layers under LLM-PQ's kernels of 2023, each predicted by a fit that has not seen it.
--
-- split = "batch": one batch size left out of its part (device, bitwidth, phase), as the papers' protocol asks for
--   unseen workloads; every other row of the part is fitted.
-- split = "shape": OPT-175b self-attention blocks on V100 from OPT-30b layers on V100.
-- split = "shape, A100": the same blocks on A100 from OPT-30b layers on V100, by data sheet.
-- split = "width": layers of OPT-13b on V100 as end-to-end runs took them (rows `e2e_derived`: a run's time over its
--   layers, the head and the embeddings in it), from OPT-30b layers.
-- split = "gpu":   another GPU calibrated on its 8 rows of batch 4 (one per bitwidth and phase), the others held out.
--
-- Fitted are rows of kind `measured` only, the two epochs (kernel sets) apart. What does not come out: FP16 prefill on
-- V100 bends between batch 4 and 8, where no smooth law sees it coming, as 4-bit decode on T4 does between 2 and 4;
-- low-bit decode does not carry over between T4 and V100. 3-bit decode on V100 bends because a layer cannot be issued
-- faster: at batch 2 it takes 2.09 ms and 4 bits take 2.04, where the lines through batches 4 and 8, which start at the
-- same 0.7 ms, say 1.70 and 1.97. No row of one part alone shows that floor, so the model has none.
--
-- Why OPT-175b blocks take longer than layers of OPT-30b say (public history of LLM-PQ, QLLM and LPTorch):
-- * They were timed otherwise. The rows are in seconds and list a cache of context + 1 tokens, twice over, which only
--   the profiler of that day did: one block per call, a synchronisation after each, gradients recorded. Whole layers
--   could only be timed by the next one, which ran four in a row without either. And the GPTQ layer of the time asked
--   the device at every call whether its bias is zero, so each product waited for the one before: no launch is hidden.
-- * Contexts were not attended to, as far as the stored versions show: that profiler left the cache's length at 0, so
--   a step fills the cache of `context` tokens and reads none. What grows with the context there is no attention.
-- * FP16 on that V100 is slow in both phases, and it is neither the width nor the block: the same block on A100, same
--   day and script, takes what OPT-30b's layers say by data sheet (split "shape, A100"), and 4-bit prompts, timed in
--   the same loop on the same V100, take what they say too.
-- * Other widths carry over where whole runs measured them (split "width"; fidelity/llmpq_runs has OPT-66b).
-- So no coefficient was added for these rows.
local ts = require "tessera"
local core = require "tessera.core"
local grouped = require "tessera.grouped"
local llmpq = require "fidelity.fit.llmpq"

local samples, why = llmpq.samples()

local function text_of(sample)
  return ("%s %s %s %s %s %s"):format(sample.kernel_set, sample.device, sample.model, sample.name or "layer",
    sample.phase, sample.dtype or sample.bitwidth)
end

local function point_of(split, sample)
  return {
    split = split, kernel_set = sample.kernel_set, device = sample.device, model = sample.model,
    part = sample.name or "layer", phase = sample.phase,
    bitwidth = sample.dtype or tostring(sample.bitwidth),
    batch_size = sample.batch_size, tokens = sample.tokens, context_tokens = sample.context_tokens,
  }
end

local function num_batches(part)
  local seen, count = {}, 0
  for _, sample in ipairs(part) do
    if not seen[sample.batch_size] then seen[sample.batch_size], count = true, count + 1 end
  end
  return count
end

local function layer_s(profile, sample)
  return (profile:layer_s {
    model = sample.model, bitwidth = sample.bitwidth, phase = sample.phase, batch_size = sample.batch_size,
    tokens = sample.tokens, context_tokens = sample.context_tokens,
  })
end

-- Each adds { point, sample, predict }, predict() giving the seconds of a fit that has not seen the sample.
local function held_out_batches(found, name)
  for _, part in ipairs(grouped(samples, text_of)) do
    part.key = nil -- a part is a list of samples
    if num_batches(part) >= 3 and part[1].name == name then
      for i, sample in ipairs(part) do
        found[#found + 1] = { point = point_of("batch", sample), sample = sample, predict = function()
          local rows = ts.cross_validate {
            device = sample.device, kernel_set = sample.kernel_set, method = "regression", hold_out = { "batch_size" },
            folds = 0, samples = part,
          }
          return rows[i].predicted_s
        end }
      end
    end
  end
end

local v100 -- OPT-30b's layers of May and June

local function fitted_v100()
  v100 = v100 or llmpq.fitted(samples, "V100-32G", "llmpq_2023")
  return v100
end

-- GPTQ's 8 bit and CUTLASS's are not the kernels of the OPT-30b rows.
local function other_shapes(found, device, split)
  local profile
  for _, sample in ipairs(llmpq.of(samples, { device = device, name = "self_attn" })) do
    if sample.bitwidth ~= 8 then
      found[#found + 1] = { point = point_of(split, sample), sample = sample, predict = function()
        profile = profile or (device == "V100-32G" and fitted_v100())
          or ts.profile { device = device, donor = fitted_v100() }
        return layer_s(profile, llmpq.as_layers({ sample })[1])
      end }
    end
  end
end

local function other_widths(found)
  for _, sample in ipairs(llmpq.of(assert(llmpq.samples { "e2e_derived" }), { model = "opt-13b" })) do
    local point = point_of("width", sample)
    point.part = "layer, run of " .. sample.source:match "[%d-]+$"
    found[#found + 1] = { point = point, sample = sample, predict = function()
      return layer_s(fitted_v100(), sample)
    end }
  end
end

local function other_gpu(found, device, donor)
  local rows = llmpq.of(samples, { device = device, kernel_set = "llmpq_2023", model = "opt-30b" })
  local few, profile = {}, nil
  for _, sample in ipairs(rows) do
    if sample.batch_size == 4 then few[#few + 1] = sample end
  end
  for _, sample in ipairs(rows) do
    if sample.batch_size ~= 4 then
      found[#found + 1] = { point = point_of("gpu", sample), sample = sample, predict = function()
        profile = profile or llmpq.scaled(few, device, "llmpq_2023", llmpq.fitted(samples, donor, "llmpq_2023"))
        return layer_s(profile, sample)
      end }
    end
  end
end

local cells, points, cell_of = {}, {}, {}
if samples then
  held_out_batches(cells) -- whole layers first: a table of many rows is cut
  held_out_batches(cells, "self_attn")
  other_shapes(cells, "V100-32G", "shape")
  other_shapes(cells, "A100-40G", "shape, A100")
  other_widths(cells)
  other_gpu(cells, "T4-16G", "V100-32G")
  other_gpu(cells, "V100-32G", "T4-16G")
  for i, cell in ipairs(cells) do points[i], cell_of[core.to_json(cell.point)] = cell.point, cell end
else
  points[1] = { split = "batch", kernel_set = "llmpq_2023" }
end

-- Of |error| over the rows.
local function errors_of(rows)
  local list, sum = {}, 0
  for i, row in ipairs(rows) do
    list[i] = math.abs(row.error_ratio)
    sum = sum + list[i]
  end
  table.sort(list)
  local middle = (#list + 1) / 2
  return {
    mean = sum / #list, worst = list[#list], count = #list,
    median = (list[math.floor(middle)] + list[math.ceil(middle)]) / 2,
  }
end

-- Mean errors at other shapes and widths where they miss the target: why (more above), and the interval they stay in.
local timed_otherwise = "steps of blocks in 4 bits were timed call by call, each product waiting for the one before"
local slow_fp16 = "FP16 of that V100 took twice what the block takes on A100 by data sheet and what OPT-30b's layers "
  .. "take, in both phases; not for its width, since 4-bit prompts of the same loop come out. Why is not known"
local by_data_sheet = "data sheets compare tensor cores, which the kernels of 4 bits do not use"
local of_runs = "32 sequences, four times as many as layers were measured with; a run's head and embeddings are in it"
local elsewhere = {
  ["shape prefill 16"] = { slow_fp16, 0.49, 0.51 },
  ["shape decode 16"] = { slow_fp16, 0.45, 0.47 },
  ["shape decode 4"] = { timed_otherwise, 0.32, 0.34 },
  ["shape, A100 prefill 4"] = { by_data_sheet, 0.385, 0.405 },
  ["shape, A100 decode 4"] = { timed_otherwise .. "; and " .. by_data_sheet, 0.425, 0.445 },
  ["shape, A100 decode 16"] = { "carried to another GPU by data sheet alone, a little too slow", 0.08, 0.086 },
  ["width decode 4"] = { of_runs, 0.0615, 0.0645 },
  ["width decode 8"] = { of_runs, 0.09, 0.097 },
}

local function expect_error(t, which, where, target, reason, interval)
  local errors = errors_of(t:rows(where))
  local words = {}
  for key, value in pairs(where) do words[#words + 1] = ("%s %s"):format(key, value) end
  table.sort(words)
  t:expect(("%s error at most %g %% (%s)"):format(which, 100 * target, table.concat(words, ", ")),
    errors[which] <= target, ("mean %.1f %%, median %.1f %%, worst %.0f %%, %d cells"):format(100 * errors.mean,
      100 * errors.median, 100 * errors.worst, errors.count), {
        value = errors[which], not_reproduced = reason, here = interval,
      })
end

-- All cells of a split, a claim for each bitwidth and phase.
local function expect_elsewhere(t, split)
  for _, phase in ipairs { "prefill", "decode" } do
    for _, bitwidth in ipairs { "3", "4", "8", "16" } do
      local where = { split = split, bitwidth = bitwidth, phase = phase }
      if #t:rows(where) > 0 then
        local known = elsewhere[("%s %s %s"):format(split, phase, bitwidth)]
        expect_error(t, "mean", where, 0.06, known and known[1], known and { known[2], known[3] })
      end
    end
  end
end

-- Every cell of every part, on a line each.
local function print_cells(t, where)
  local function name_of(row)
    local p = row.point
    return ("%s%s, %s, %s bit %s"):format(where.split == "batch" and "" or where.split .. ", ", p.kernel_set, p.device,
      p.bitwidth, p.phase)
  end
  for _, part in ipairs(grouped(t:rows(where), name_of)) do
    local words = {}
    for i, row in ipairs(part) do
      local p = row.point
      local size = p.phase == "prefill" and ("%d x %d"):format(p.batch_size, p.tokens)
        or ("%d after %d"):format(p.batch_size, p.context_tokens)
      if where.split == "batch" then size = ("batch %d"):format(p.batch_size) end
      words[i] = ("%s %+.1f %%"):format(size, 100 * row.error_ratio)
    end
    t:note("cells of " .. part.key, table.concat(words, ", "))
  end
end

return ts.experiment {
  name = "fidelity/llmpq_layers",
  doc = "LLM-PQ's single-layer latencies, each predicted without it: unseen batch, shape, width, GPU",
  grid = points,
  columns = { "measured_s", "predicted_s", "error_ratio" },

  run = function(point)
    if not samples then return { status = why.code, message = why.message } end
    local cell = cell_of[core.to_json(point)]
    local predicted_s = cell.predict()
    return {
      measured_s = cell.sample.latency_s, predicted_s = predicted_s,
      error_ratio = predicted_s / cell.sample.latency_s - 1, source = cell.sample.source,
    }
  end,

  check = function(t)
    if not samples then return t:skip("not checked: " .. why.message) end
    -- "under 6 %" is the papers' figure for unseen workloads (LLM-PQ 6.2, SplitQuant VI-B).
    expect_error(t, "mean", { split = "batch", kernel_set = "llmpq_2023", part = "layer" }, 0.06)
    expect_error(t, "mean", { split = "batch", kernel_set = "llmpq_2023", part = "layer", device = "T4-16G" }, 0.06)
    expect_error(t, "mean", { split = "batch", kernel_set = "llmpq_2023", part = "layer", device = "V100-32G" }, 0.06)
    expect_error(t, "mean", { split = "batch", kernel_set = "llmpq_2023_08" }, 0.06)
    for _, split in ipairs { "shape", "shape, A100", "width" } do expect_elsewhere(t, split) end
    expect_error(t, "median", { split = "gpu" }, 0.1)
    expect_error(t, "mean", {
      split = "gpu" }, 0.1, "single parts are carried over badly, most of all decoding", { 0.1, 0.125,
    })
    print_cells(t, { split = "batch", part = "layer" })
    for _, split in ipairs { "shape", "shape, A100", "width" } do print_cells(t, { split = split }) end
  end,
  plots = {
    { kind = "scatter", x = "measured_s", y = "predicted_s", by = "device", log_x = true, log_y = true },
  },
}
