-- A GPU left out entirely: the GEMM form of the other GPU, scaled by data sheet, then by 20 random points of this one,
-- and its error on all the other points. `left_out` is what the calibration expects of itself, each of
-- the 20 points predicted from the other 19; `after` is what came of it.
local ts = require "tessera"

local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."
local aiconfigurator = dofile(folder .. "/fit/aiconfigurator.lua")

local num_points = 20
local donor_of = { ["A100-80G"] = "H200-141G", ["H200-141G"] = "A100-80G" }

-- The donor is fitted to a part of its points: enough for its form, in a fraction of the time.
local donor_stride = 3

local function median_error(profile, samples, skip)
  local errors = {}
  for i, sample in ipairs(samples) do
    if not skip[i] then
      local predicted_s = profile:gemm_s { dtype = sample.dtype, m = sample.m, n = sample.n, k = sample.k }
      errors[#errors + 1] = math.abs(predicted_s / sample.latency_s - 1)
    end
  end
  table.sort(errors)
  return errors[math.ceil(#errors / 2)], errors[math.ceil(#errors * 0.9)]
end

-- 20 of n, the same for the same seed.
local function picks(n, seed)
  local chosen, count, state = {}, 0, seed
  while count < num_points do
    state = (state * 16807) % 2147483647 -- Park and Miller's generator: the same everywhere
    local i = 1 + state % n
    if not chosen[i] then chosen[i], count = true, count + 1 end
  end
  return chosen
end

return ts.experiment {
  name = "fidelity/calibration",
  doc = "A100 GEMM from the H200's form and back, calibrated on 20 random points: error on all others",
  grid = {
    device = { "A100-80G", "H200-141G" },
    dtype = { "bfloat16", "int8_wo", "int4_wo", "sq" },
    draw = { 11, 12, 13 },
  },
  quick = { device = { "A100-80G" }, dtype = { "int8_wo" }, draw = { 11 } },
  columns = { "left_out", "after", "p90_after", "in_target" },
  time_limit_s = 300,

  run = function(point)
    local own, why = aiconfigurator.gemm(point.device)
    if not own then return { status = why.code } end
    local other = aiconfigurator.gemm(donor_of[point.device])
    local kernel_set = point.dtype == "sq" and "modern_w8a8" or "modern"
    local form = {}
    for i = 1, #other[point.dtype], donor_stride do form[#form + 1] = other[point.dtype][i] end
    local donor = ts.fit_profile {
      device = donor_of[point.device], kernel_set = kernel_set, samples = form, method = "operator",
      hold_out = { "n", "k" }, folds = 2,
    }
    local samples = own[point.dtype]
    local chosen, few = picks(#samples, point.draw), {}
    for i, sample in ipairs(samples) do
      if chosen[i] then few[#few + 1] = sample end
    end
    local profile, errors = ts.calibrate {
      device = point.device, kernel_set = kernel_set, samples = few, donor = donor, method = "operator",
    }
    local after, p90_after = median_error(profile, samples, chosen)
    return {
      status = "ok", left_out = errors.after.median, after = after, p90_after = p90_after, in_target = after <= 0.10,
    }
  end,

  plots = { { kind = "bars", x = "dtype", y = "after", by = "device" } },
}
