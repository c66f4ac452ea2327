-- How far the latencies can be trusted, in one table: the error of every model on data that its fit has not seen,
-- beside the target that it was built for. The other scripts of this folder have the single points.
--
-- Targets: 5 % in the median, and 15 % for nine of ten, of products and attention of unseen sizes; 10 % in the median
-- for a GPU left out and calibrated from 20 points, and 30 % for nine of ten of its products, 5 % of attention; 10 %
-- and 30 % for nine of ten of experts in both cases; 10 %, and 25 % for nine of ten, of sums and other transfers of
-- unseen sizes, 30 % on a GPU left out; 6 % in the mean, the papers' figure, for LLM-PQ's layers and runs; 5 % in the
-- mean for Helix's layers. A target that is missed differs, and fails when its figure leaves the interval that it is
-- listed with.
local ts = require "tessera"
local measured = require "lib.measured"

local folder, why = measured.folder()

local function script(name) return require("fidelity." .. name) end

-- Rows of another experiment at the points that have these values.
local function rows_of(name, where, context)
  local experiment, rows = script(name), {}
  for _, point in ipairs(experiment.points) do
    local fits = true
    for key, value in pairs(where) do fits = fits and point[key] == value end
    if fits then
      local row = experiment.run(point, context)
      if row.status ~= "no_data" then
        row.point = point
        rows[#rows + 1] = row
      end
    end
  end
  return rows
end

local function mean_of(rows, column)
  local sum, worst = 0, 0
  for _, row in ipairs(rows) do
    sum, worst = sum + math.abs(row[column]), math.max(worst, math.abs(row[column]))
  end
  return sum / #rows, worst
end

local function median_of(rows, column)
  local list = {}
  for i, row in ipairs(rows) do list[i] = math.abs(row[column]) end
  table.sort(list)
  return (list[math.floor((#list + 1) / 2)] + list[math.ceil((#list + 1) / 2)]) / 2
end

local function figures_of(row, num_points)
  return { median = row.median, p90 = row.p90, worst = row.worst, num_points = num_points or row.num_points }
end

local targets = {} -- by name: { limits, measure(point, context) }

targets["gemm, unseen n and k"] = {
  limits = { median = 0.05, p90 = 0.15 },
  measure = function(point, context)
    local row = rows_of("gemm", { device = point.device, dtype = point.part, hold_out = "n_k" }, context)[1]
    return figures_of(row)
  end,
}

for _, split in ipairs { "batch", "length" } do
  targets["attention, unseen " .. split] = {
    limits = { median = 0.05 },
    measure = function(point, context)
      local phase, part = point.part:match "^(%a+), (.*)$"
      local row = rows_of("attention", { device = point.device, phase = phase, part = part, split = split }, context)[1]
      return {
        median = row.median_error_ratio, p90 = row.p90_error_ratio, worst = row.worst_error_ratio,
        num_points = row.num_points,
      }
    end,
  }
end

-- By the points that ts.calibration_points proposes. The part says the runtime too.
for name, limits in pairs { gemm = { median = 0.1, p90 = 0.3 }, attention = { median = 0.05 } } do
  targets["gpu left out, 20 points: " .. name] = {
    limits = limits,
    measure = function(point, context)
      local source, op, dtype = point.part:match "^(%w+), (%w+), (.*)$"
      local where = { source = source, device = point.device, op = op, dtype = dtype, points = "least_variance" }
      local row = rows_of("calibration", where, context)[1]
      return { median = row.after, p90 = row.p90_after, num_points = 20 }
    end,
  }
end

-- Shapes that no fit and no choice has seen.
local untouched_limits = {
  gemm = { shipped = { median = 0.05, p90 = 0.15 }, calibrated = { median = 0.1, p90 = 0.3 } },
  attention = { shipped = { median = 0.05 }, calibrated = { median = 0.05 } },
}
local untouched_name = {
  shipped = "untouched shapes: %s", calibrated = "untouched shapes, gpu left out, 20 points: %s",
}

for op, of_op in pairs(untouched_limits) do
  for by, limits in pairs(of_op) do
    targets[untouched_name[by]:format(op)] = {
      limits = limits,
      measure = function(point, context)
        local source, kind, dtype = point.part:match "^(%w+), (%w+), (.*)$"
        local where = { source = source, device = point.device, op = kind, dtype = dtype, by = by }
        return figures_of(rows_of("untouched", where, context)[1])
      end,
    }
  end
end

-- The device of these says the runtime too.
for split, name in pairs { shape = "experts, unseen model", ["gpu, 20 points"] = "gpu left out, 20 points: experts" } do
  targets[name] = {
    limits = { median = 0.1, p90 = 0.3 },
    measure = function(point, context)
      local dtype, tuned = point.part:match "^([%w_]+)(.*)$"
      local where = { source = point.device, dtype = dtype, left_out = split, tuned = tuned ~= "" }
      local row = rows_of("experts", where, context)[1]
      return figures_of(row, split ~= "shape" and 20 or nil)
    end,
  }
end

targets["vLLM, unseen shapes"] = {
  limits = { median = 0.05, p90 = 0.15 },
  measure = function(point, context)
    local kind, dtype = point.part:match "^(%a+), (.*)$"
    return figures_of(rows_of("vllm", { device = point.device, kind = kind, dtype = dtype }, context)[1])
  end,
}

for split, name in pairs {
  bytes = "transfers, unseen size", ["gpu, 20 points"] = "gpu left out, 20 points: transfers",
} do
  targets[name] = {
    limits = { median = 0.1, p90 = split == "bytes" and 0.25 or 0.3 },
    measure = function(point, context)
      local where = { source = point.device, kernel = point.part, left_out = split }
      local row = rows_of("collectives", where, context)[1]
      return figures_of(row, split ~= "bytes" and 20 or nil)
    end,
  }
end

targets["gpu left out, 20 points: layers"] = {
  limits = { median = 0.1 },
  measure = function(point, context)
    local rows = rows_of("helix", { device = point.device, phase = point.part, split = "gpu" }, context)
    local _, worst = mean_of(rows, "error_ratio")
    return { median = median_of(rows, "error_ratio"), worst = worst, num_points = 20 }
  end,
}

targets["Helix layers, every third point"] = {
  limits = { mean = 0.05 },
  measure = function(point, context)
    local rows = rows_of("helix", { device = point.device, phase = point.part, split = "third" }, context)
    local mean, worst = mean_of(rows, "error_ratio")
    return { mean = mean, median = median_of(rows, "error_ratio"), worst = worst, num_points = #rows }
  end,
}

-- Of May and June, and of August, whose kernels the papers' tables run on; there only T4 has three batches.
for name, kernel_set in pairs {
  ["LLM-PQ layers, unseen batch size"] = "llmpq_2023", ["LLM-PQ layers of August, unseen batch size"] = "llmpq_2023_08",
} do
  targets[name] = {
    limits = { mean = 0.06 },
    measure = function(point, context)
      local where = { split = "batch", kernel_set = kernel_set, part = "layer" }
      if point.device ~= "all" then where.device = point.device end
      if point.part ~= "all" then where.bitwidth = point.part end
      local rows = rows_of("llmpq_layers", where, context)
      local mean, worst = mean_of(rows, "error_ratio")
      return { mean = mean, median = median_of(rows, "error_ratio"), worst = worst, num_points = #rows }
    end,
  }
end

-- Runs by epoch. `figure`: V100's INT8 of August 2023, of which no measured row exists, as read off a figure.
local function runs_of(context, kernel_set, figure)
  local rows, replaced = {}, {}
  if figure then
    for _, row in ipairs(rows_of("llmpq_runs", { int8 = "figure" }, context)) do replaced[row.point.run] = row end
  end
  for _, row in ipairs(rows_of("llmpq_runs", { int8 = "measured" }, context)) do
    if not kernel_set or row.kernel_set == kernel_set then rows[#rows + 1] = replaced[row.point.run] or row end
  end
  return rows
end

local run_choices = {
  ["May and June 2023"] = { "llmpq_2023", false },
  ["all"] = { nil, false },
  ["all, INT8 of August off a figure"] = { nil, true },
}

targets["LLM-PQ runs of grade A"] = {
  limits = { mean = 0.06, worst = 0.12 },
  measure = function(point, context)
    local graded = {}
    for _, row in ipairs(runs_of(context, run_choices[point.part][1], run_choices[point.part][2])) do
      if row.grade == "A" then graded[#graded + 1] = row end
    end
    local mean, worst = mean_of(graded, "error_ratio")
    return { mean = mean, median = median_of(graded, "error_ratio"), worst = worst, num_points = #graded }
  end,
}

-- Pairs of runs of one cluster and workload that differ by more than 8 %, and how many come out the wrong way round.
targets["LLM-PQ runs, ordering"] = {
  limits = { wrong = 0 },
  measure = function(point, context)
    local rows, count, wrong = runs_of(context, run_choices[point.part][1], run_choices[point.part][2]), 0, 0
    for i, a in ipairs(rows) do
      for k = i + 1, #rows do
        local b = rows[k]
        local alike = a.cluster == b.cluster and a.kernel_set == b.kernel_set and a.decode_passes == b.decode_passes
        if alike and math.max(a.measured_s, b.measured_s) > 1.08 * math.min(a.measured_s, b.measured_s) then
          count = count + 1
          if (a.measured_s < b.measured_s) ~= (a.predicted_s < b.predicted_s) then wrong = wrong + 1 end
        end
      end
    end
    return { wrong = wrong, num_points = count }
  end,
}

local function all_points()
  local points = {}
  local function add(target, device, part) points[#points + 1] = { target = target, device = device, part = part } end
  for _, point in ipairs(script("gemm").points) do
    local known = not (point.device == "A100-80G" and point.dtype:find "^fp8") -- the A100 has no FP8
    if point.hold_out == "n_k" and known then add("gemm, unseen n and k", point.device, point.dtype) end
  end
  for _, point in ipairs(script("attention").points) do
    if point.split == "batch" or point.split == "length" then
      add("attention, unseen " .. point.split, point.device, point.phase .. ", " .. point.part)
    end
  end
  for _, point in ipairs(script("calibration").points) do
    local name = point.op == "gemm" and "gemm" or "attention"
    local part = ("%s, %s, %s"):format(point.source, point.op, point.dtype)
    if point.points == "least_variance" then add("gpu left out, 20 points: " .. name, point.device, part) end
  end
  local sources = require "fidelity.fit.experts".sources
  for _, source in ipairs { "a100_trtllm", "h200_trtllm", "a100_vllm", "h200_vllm", "rtx_pro_6000_vllm" } do
    for _, dtype in ipairs(sources[source].dtypes) do
      add("experts, unseen model", source, dtype)
      local tuned = sources[source].tuned
      if tuned and tuned[dtype] then add("experts, unseen model", source, dtype .. ", tuned") end
    end
    add("gpu left out, 20 points: experts", source, "bfloat16")
  end
  for _, point in ipairs(script("vllm").points) do
    add("vLLM, unseen shapes", point.device, point.kind .. ", " .. point.dtype)
  end
  for _, source in ipairs { "a100_trtllm", "h200_trtllm", "a100_vllm", "h200_vllm", "rtx_pro_6000_vllm" } do
    add("transfers, unseen size", source, "custom")
  end
  add("transfers, unseen size", "rtx_pro_6000_vllm", "nccl")
  add("transfers, unseen size", "a100_vllm", "send_recv")
  for _, kernel in ipairs { "nccl", "all_gather", "reduce_scatter", "all_to_all" } do
    for _, source in ipairs { "a100_vllm", "h200_vllm" } do
      add("transfers, unseen size", source, kernel)
      add("gpu left out, 20 points: transfers", source, kernel)
    end
  end
  for _, device in ipairs { "T4-16G", "V100-16G", "L4", "A100-40G" } do
    for _, phase in ipairs { "prefill", "decode" } do
      add("gpu left out, 20 points: layers", device, phase)
      add("Helix layers, every third point", device, phase)
    end
  end
  add("LLM-PQ layers, unseen batch size", "all", "all")
  for _, device in ipairs { "T4-16G", "V100-32G" } do
    for _, bitwidth in ipairs { "3", "4", "8", "16" } do add("LLM-PQ layers, unseen batch size", device, bitwidth) end
  end
  for _, bitwidth in ipairs { "all", "3", "4", "8" } do
    add("LLM-PQ layers of August, unseen batch size", "T4-16G", bitwidth)
  end
  for _, part in ipairs { "May and June 2023", "all", "all, INT8 of August off a figure" } do
    add("LLM-PQ runs of grade A", "all", part)
    add("LLM-PQ runs, ordering", "all", part)
  end
  for _, point in ipairs(script("untouched").points) do -- last: looked at once, at the end
    local name = untouched_name[point.by]:format(point.op == "gemm" and "gemm" or "attention")
    add(name, point.device, ("%s, %s, %s"):format(point.source, point.op, point.dtype))
  end
  return points
end

local points = folder and all_points() or { { target = "none", device = "none", part = "none" } }

-- The figure that is worst beside its limit, over that limit: at most 1 where the target is met.
local function over_limit(errors, limits)
  local most = 0
  for name, limit in pairs(limits) do
    most = math.max(most, limit > 0 and errors[name] / limit or 1 + errors[name])
  end
  return most
end

local function limits_text(limits)
  local words = {}
  for _, name in ipairs { "median", "p90", "mean", "worst", "wrong" } do
    local limit = limits[name]
    if limit then words[#words + 1] = name == "wrong" and "none wrong" or ("%s %g %%"):format(name, 100 * limit) end
  end
  return table.concat(words, ", ")
end

-- Targets that are missed: how many times the limit, from and to (3 % to either side of what came out, from 1 on). By
-- target, device and part. Why: the pages of the single experiments.
local missed = {
  ["gemm, unseen n and k, A100-80G, int4_wo"] = { 1.06, 1.13 },
  ["gemm, unseen n and k, H200-141G, int8_wo"] = { 1, 1.06 },
  ["gemm, unseen n and k, H200-141G, int4_wo"] = { 1.05, 1.12 },
  ["gemm, unseen n and k, H200-141G, sq"] = { 1.06, 1.13 },
  ["attention, unseen length, A100-80G, decode, bfloat16, head size 128"] = { 1.02, 1.08 },
  ["attention, unseen length, H200-141G, decode, bfloat16, fp8 KV, head size 64"] = { 1.29, 1.36 },
  ["attention, unseen batch, H200-141G, decode, bfloat16, fp8 KV, head size 64, window"] = { 1.13, 1.2 },
  ["attention, unseen length, H200-141G, decode, bfloat16, fp8 KV, head size 64, window"] = { 1.21, 1.28 },
  ["attention, unseen length, H200-141G, decode, bfloat16, head size 64"] = { 1.09, 1.16 },
  ["attention, unseen length, H200-141G, decode, bfloat16, head size 64, window"] = { 1.26, 1.34 },
  ["gpu left out, 20 points: gemm, H200-141G, trtllm, gemm, int4_wo"] = { 1.23, 1.31 },
  ["gpu left out, 20 points: gemm, H200-141G, trtllm, gemm, sq"] = { 1.02, 1.08 },
  ["gpu left out, 20 points: attention, H200-141G, trtllm, decode, bfloat16"] = { 1.32, 1.4 },
  ["gpu left out, 20 points: attention, A100-80G, vllm, prefill, bfloat16"] = { 1, 1.05 },
  ["gpu left out, 20 points: attention, A100-80G, vllm, decode, bfloat16"] = { 1.26, 1.34 },
  ["gpu left out, 20 points: gemm, H200-141G, vllm, gemm, fp8_block"] = { 1.32, 1.4 },
  ["gpu left out, 20 points: attention, H200-141G, vllm, prefill, bfloat16"] = { 1.77, 1.88 },
  ["gpu left out, 20 points: attention, H200-141G, vllm, decode, bfloat16"] = { 1.23, 1.3 },
  ["gpu left out, 20 points: gemm, RTX-PRO-6000, vllm, gemm, bfloat16"] = { 1.14, 1.21 },
  ["gpu left out, 20 points: attention, RTX-PRO-6000, vllm, prefill, bfloat16"] = { 2.11, 2.24 },
  ["gpu left out, 20 points: attention, RTX-PRO-6000, vllm, decode, bfloat16"] = { 1.28, 1.36 },
  ["gpu left out, 20 points: attention, A6000, llmservingsim, prefill, bfloat16"] = { 1.45, 1.53 },
  ["gpu left out, 20 points: attention, RTX-3090, llmservingsim, prefill, bfloat16"] = { 2.33, 2.47 },
  ["gpu left out, 20 points: attention, RTX-4090, llmservingsim, prefill, bfloat16"] = { 1.15, 1.22 },
  ["gpu left out, 20 points: attention, RTX-4090, llmservingsim, decode, bfloat16"] = { 1.4, 1.49 },
  ["experts, unseen model, a100_vllm, bfloat16"] = { 1.07, 1.14 },
  ["experts, unseen model, h200_vllm, bfloat16"] = { 1.04, 1.11 },
  ["gpu left out, 20 points: experts, a100_vllm, bfloat16"] = { 1.15, 1.23 },
  ["gpu left out, 20 points: experts, h200_vllm, bfloat16"] = { 1.18, 1.26 },
  ["vLLM, unseen shapes, A100-80G, prefill, bfloat16"] = { 1.06, 1.12 },
  ["vLLM, unseen shapes, H200-141G, gemm, fp8_block"] = { 1.26, 1.33 },
  ["vLLM, unseen shapes, H200-141G, prefill, bfloat16"] = { 1.06, 1.12 },
  ["vLLM, unseen shapes, H200-141G, prefill, fp8"] = { 1.25, 1.33 },
  ["vLLM, unseen shapes, RTX-PRO-6000, gemm, bfloat16"] = { 1.04, 1.1 },
  ["vLLM, unseen shapes, RTX-PRO-6000, prefill, fp8"] = { 1.25, 1.33 },
  ["transfers, unseen size, a100_trtllm, custom"] = { 1.04, 1.1 },
  ["transfers, unseen size, h200_trtllm, custom"] = { 1.31, 1.39 },
  ["transfers, unseen size, rtx_pro_6000_vllm, nccl"] = { 1.24, 1.31 },
  ["transfers, unseen size, a100_vllm, send_recv"] = { 1.4, 1.48 },
  ["transfers, unseen size, a100_vllm, nccl"] = { 1.15, 1.22 },
  ["transfers, unseen size, a100_vllm, all_gather"] = { 1.31, 1.39 },
  ["gpu left out, 20 points: transfers, a100_vllm, all_gather"] = { 1.12, 1.19 },
  ["gpu left out, 20 points: transfers, h200_vllm, all_gather"] = { 1, 1.03 },
  ["gpu left out, 20 points: transfers, a100_vllm, reduce_scatter"] = { 1.09, 1.16 },
  ["gpu left out, 20 points: transfers, h200_vllm, reduce_scatter"] = { 1.09, 1.16 },
  ["gpu left out, 20 points: transfers, a100_vllm, all_to_all"] = { 1, 1.05 },
  ["LLM-PQ layers, unseen batch size, V100-32G, 3"] = { 1.23, 1.31 },
  ["LLM-PQ layers, unseen batch size, V100-32G, 16"] = { 1.05, 1.12 },
  ["LLM-PQ layers of August, unseen batch size, T4-16G, 4"] = { 1.94, 2.06 },
  ["LLM-PQ runs of grade A, all, all"] = { 3.09, 3.28 },
  ["untouched shapes, gpu left out, 20 points: gemm, H200-141G, trtllm, gemm, int4_wo"] = { 1.2, 1.27 },
  ["untouched shapes: gemm, H200-141G, trtllm, gemm, sq"] = { 1, 1.06 },
  ["untouched shapes, gpu left out, 20 points: attention, H200-141G, trtllm, decode, bfloat16"] = { 1.52, 1.62 },
  ["untouched shapes: attention, A100-80G, vllm, prefill, bfloat16"] = { 1.32, 1.4 },
  ["untouched shapes, gpu left out, 20 points: attention, A100-80G, vllm, prefill, bfloat16"] = { 1.28, 1.36 },
  ["untouched shapes, gpu left out, 20 points: attention, A100-80G, vllm, decode, bfloat16"] = { 1.45, 1.54 },
  ["untouched shapes: gemm, H200-141G, vllm, gemm, fp8_block"] = { 1.22, 1.29 },
  ["untouched shapes, gpu left out, 20 points: gemm, H200-141G, vllm, gemm, fp8_block"] = { 1.09, 1.16 },
  ["untouched shapes, gpu left out, 20 points: attention, H200-141G, vllm, prefill, bfloat16"] = { 1.79, 1.9 },
  ["untouched shapes, gpu left out, 20 points: attention, H200-141G, vllm, decode, bfloat16"] = { 1.37, 1.45 },
  ["untouched shapes, gpu left out, 20 points: gemm, RTX-PRO-6000, vllm, gemm, bfloat16"] = { 1.3, 1.38 },
  ["untouched shapes, gpu left out, 20 points: attention, RTX-PRO-6000, vllm, prefill, bfloat16"] = { 2.05, 2.18 },
  ["untouched shapes, gpu left out, 20 points: attention, RTX-PRO-6000, vllm, decode, bfloat16"] = { 1.2, 1.27 },
}

return ts.experiment {
  name = "fidelity/targets",
  doc = "Held-out error of every latency model, beside its target",
  grid = points,
  quick = folder and { target = { "Helix layers, every third point", "LLM-PQ runs of grade A" } } or nil,
  columns = {
    "median_error_ratio", "p90_error_ratio", "mean_error_ratio", "worst_error_ratio", "wrong_pairs", "num_points",
    "limit", "over_limit", "met",
  },
  time_limit_s = 300,

  run = function(point, context)
    if not folder then return { status = why.code, message = why.message } end
    local target = targets[point.target]
    local errors = target.measure(point, { seed = context.seed, quick = false })
    return {
      median_error_ratio = errors.median, p90_error_ratio = errors.p90, mean_error_ratio = errors.mean,
      worst_error_ratio = errors.worst, wrong_pairs = errors.wrong, num_points = errors.num_points,
      limit = limits_text(target.limits), over_limit = over_limit(errors, target.limits),
      met = over_limit(errors, target.limits) <= 1,
    }
  end,

  check = function(t)
    if not folder then return t:skip("not checked: " .. why.message) end
    local count, num_met = 0, 0
    for _, row in ipairs(t:rows {}) do
      if row.met ~= nil then
        count, num_met = count + 1, num_met + (row.met and 1 or 0)
        local p = row.point
        local known = missed[("%s, %s, %s"):format(p.target, p.device, p.part)]
        t:expect_all {
          column = "over_limit", at_least = 0, at_most = 1, where = {
            target = p.target, device = p.device, part = p.part,
          },
          not_reproduced = known and "a target that is missed", here = known,
        }
      end
    end
    t:note("targets met", ("%d of %d"):format(num_met, count))
  end,
}
