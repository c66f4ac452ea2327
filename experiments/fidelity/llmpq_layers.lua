-- Single decoder layers under LLM-PQ's kernels of 2023, each predicted by a fit that has not seen it.
--
-- split = "batch": one batch size left out of its part (device, bitwidth, phase), as the papers' protocol asks for
--   unseen workloads; every other row of the part is fitted.
-- split = "shape": OPT-175b self-attention blocks from OPT-30b layers.
-- split = "gpu":   another GPU calibrated on its 8 rows of batch 4 (one per bitwidth and phase), the others held out.
--
-- Rows of kind `measured` only, the two epochs (kernel sets) apart. What does not come out: FP16 prefill and 3-bit
-- decode on V100 bend between batch 4 and 8, where no smooth law sees it coming, as 4-bit decode on T4 does between 2
-- and 4; low-bit decode does not carry over between T4 and V100; and OPT-175b blocks, measured by another notebook,
-- take 1.5 to 2 times as long in FP16 and in decode as any width of OPT-30b's rows explains (4-bit prefill fits).
local ts = require "tessera"
local core = require "tessera.core"
local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local llmpq = dofile(here .. "/fit/llmpq.lua")

local samples, why = llmpq.samples()

local function text_of(sample)
  return ("%s %s %s %s %s %s"):format(sample.kernel_set, sample.device, sample.model, sample.name or "layer",
    sample.phase, sample.dtype or sample.bitwidth)
end

-- Parts in the order of the file, each with its rows.
local function parts_of(rows)
  local parts, by_text = {}, {}
  for _, sample in ipairs(rows) do
    local text = text_of(sample)
    if not by_text[text] then
      by_text[text] = {}
      parts[#parts + 1] = by_text[text]
    end
    table.insert(by_text[text], sample)
  end
  return parts
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
  for _, part in ipairs(parts_of(samples)) do
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

-- GPTQ's 8 bit and CUTLASS's are not the kernels of the OPT-30b rows.
local function other_shapes(found)
  local profile
  for _, sample in ipairs(llmpq.of(samples, { device = "V100-32G", name = "self_attn" })) do
    if sample.bitwidth ~= 8 then
      found[#found + 1] = { point = point_of("shape", sample), sample = sample, predict = function()
        profile = profile or llmpq.fitted(samples, "V100-32G", "llmpq_2023")
        return layer_s(profile, llmpq.as_layers({ sample })[1])
      end }
    end
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
  other_shapes(cells)
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

-- Mean errors on OPT-175b's attention blocks where they miss the target, and why.
local other_widths = { prefill16 = { 0.48, 0.52 }, decode16 = { 0.44, 0.48 }, decode4 = { 0.32, 0.34 } }
local other_width_reason = "blocks of twice the width take up to twice the time that layers of OPT-30b scaled by shape "
  .. "say, all predicted too fast; FP16 prefill more than doubles from a batch of 4 to one of 8, which no part of the "
  .. "model does. The cause is not known"

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

-- Every cell of every part, on a line each.
local function print_cells(t)
  local lines, order = {}, {}
  for _, row in ipairs(t:rows { split = "batch", part = "layer" }) do
    local p = row.point
    local name = ("%s, %s, %s bit %s"):format(p.kernel_set, p.device, p.bitwidth, p.phase)
    if not lines[name] then lines[name], order[#order + 1] = {}, name end
    table.insert(lines[name], ("batch %d %+.1f %%"):format(p.batch_size, 100 * row.error_ratio))
  end
  for _, name in ipairs(order) do t:note("cells of " .. name, table.concat(lines[name], ", ")) end
end

return ts.experiment {
  name = "fidelity/llmpq_layers",
  doc = "LLM-PQ's single-layer latencies, each predicted without it: unseen batch, width, GPU",
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
    for _, phase in ipairs { "prefill", "decode" } do
      for _, bitwidth in ipairs { "3", "4", "8", "16" } do
        if #t:rows { split = "shape", bitwidth = bitwidth, phase = phase } > 0 then
          local interval = other_widths[phase .. bitwidth]
          expect_error(t, "mean", { split = "shape", bitwidth = bitwidth, phase = phase }, 0.06,
            interval and other_width_reason, interval)
        end
      end
    end
    expect_error(t, "median", { split = "gpu" }, 0.1)
    expect_error(t, "mean", {
      split = "gpu" }, 0.1, "single parts are carried over badly, most of all decoding", { 0.1, 0.125,
    })
    print_cells(t)
  end,
  plots = {
    { kind = "scatter", x = "measured_s", y = "predicted_s", by = "device", log_x = true, log_y = true },
  },
}
