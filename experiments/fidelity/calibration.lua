-- A GPU left out entirely: the GEMM form of the other GPU, scaled by data sheet, then by 20 points of this one, and its
-- error on all the other points. The points are drawn at random, or are those of the table nearest to what
-- ts.calibration_points proposes. `left_out` is what the calibration expects of itself, each of the 20 points predicted
-- from the other 19; `after` is what came of it; `form` the GPU whose form was scaled, or none where the points alone
-- did clearly better.
local ts = require "tessera"

local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."
local aiconfigurator = dofile(folder .. "/fit/aiconfigurator.lua")
local drawn = dofile(folder .. "/fit/draws.lua")

local num_points = 20
local donor_of = { ["A100-80G"] = "H200-141G", ["H200-141G"] = "A100-80G" }

-- The donor is fitted to a part of its points: enough for its form, in a fraction of the time. The errors are taken
-- over a part of the others, a third of all.
local stride = 3

local samples_of, donors = {}, {}

local function samples(device)
  if not samples_of[device] then
    local by_dtype, why = aiconfigurator.gemm(device)
    if not by_dtype then return nil, why end
    samples_of[device] = by_dtype
  end
  return samples_of[device]
end

-- Fitted once for all draws.
local function donor(device, dtype, kernel_set)
  local key = device .. " " .. dtype
  if not donors[key] then
    local form, all = {}, samples(device)[dtype]
    for i = 1, #all, stride do form[#form + 1] = all[i] end
    donors[key] = ts.fit_profile {
      device = device, kernel_set = kernel_set, samples = form, method = "operator", hold_out = { "n", "k" }, folds = 2,
    }
  end
  return donors[key]
end

local function errors_of(profile, all, skip)
  local errors = {}
  for i = 1, #all, stride do
    local sample = all[i]
    if not skip[i] then
      local predicted_s = profile:gemm_s { dtype = sample.dtype, m = sample.m, n = sample.n, k = sample.k }
      errors[#errors + 1] = math.abs(predicted_s / sample.latency_s - 1)
    end
  end
  table.sort(errors)
  return errors[math.ceil(#errors / 2)], errors[math.ceil(#errors * 0.9)]
end

-- The points of the table nearest to the proposed ones, by the logarithms of m, n and k.
local function proposed(all, device, dtype)
  local chosen = {}
  for _, point in ipairs(ts.calibration_points { device = device, dtype = dtype, count = num_points }) do
    local nearest, least = nil, math.huge
    for i, sample in ipairs(all) do
      local distance = math.log(sample.m / point.m) ^ 2 + math.log(sample.n / point.n) ^ 2
        + math.log(sample.k / point.k) ^ 2
      if distance < least and not chosen[i] then nearest, least = i, distance end
    end
    chosen[nearest] = true
  end
  return chosen
end

return ts.experiment {
  name = "fidelity/calibration",
  doc = "A100 GEMM from the H200's form and back, calibrated on 20 points: error on all others",
  grid = {
    device = { "A100-80G", "H200-141G" },
    dtype = { "bfloat16", "int8_wo", "int4_wo", "sq" },
    points = { "proposed", "drawn 11", "drawn 12", "drawn 13", "drawn 14", "drawn 15", "drawn 16" },
  },
  quick = { device = { "A100-80G" }, dtype = { "int8_wo" }, points = { "proposed", "drawn 11" } },
  columns = { "form", "left_out", "after", "p90_after", "in_target" },
  time_limit_s = 300,

  run = function(point)
    local own, why = samples(point.device)
    if not own then return { status = why.code } end
    local kernel_set = point.dtype == "sq" and "modern_w8a8" or "modern"
    samples(donor_of[point.device])
    local form = donor(donor_of[point.device], point.dtype, kernel_set)
    local all = own[point.dtype]
    local seed = tonumber(point.points:match "%d+")
    local chosen = seed and drawn(#all, num_points, seed) or proposed(all, point.device, point.dtype)
    local few = {}
    for i, sample in ipairs(all) do
      if chosen[i] then few[#few + 1] = sample end
    end
    local profile, errors = ts.calibrate {
      device = point.device, kernel_set = kernel_set, samples = few, donor = form, method = "operator",
    }
    local after, p90_after = errors_of(profile, all, chosen)
    return {
      status = "ok", form = errors.donor or "none", left_out = errors.after.median, after = after,
      p90_after = p90_after, in_target = after <= 0.10,
    }
  end,

  plots = { { kind = "bars", x = "dtype", y = "after", by = "points" } },
}
