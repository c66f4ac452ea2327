-- Sums, gathers, scatters and exchanges over the GPUs of a node, and transfers between two, predicted against measured:
-- sizes that the fit has not seen, and a whole GPU that it has not seen, whose times are those of the other on NVSwitch
-- at the ratio of their links, then calibrated on 20 points of it (the middle one of several draws, by the median).
-- Beside them what prices a node without measurements, whose numbers are in engine/cost/src/collectives.cpp.
local ts = require "tessera"

local errors_row = require "fidelity.fit.errors".row
local quantile = require "fidelity.fit.errors".quantile
local drawn = require "fidelity.fit.draws"
local collectives = require "fidelity.fit.collectives"

-- The other GPU on NVSwitch under the same runtime.
local other = {
  a100_trtllm = "h200_trtllm", h200_trtllm = "a100_trtllm", a100_vllm = "h200_vllm", h200_vllm = "a100_vllm",
}
local num_points, num_draws = 20, 7
local target = {
  bytes = { 0.10, 0.25 }, gpu = { 0.10, 0.30 }, ["gpu, 20 points"] = { 0.10, 0.30 }, default = { 0.20, 0.50 },
}

local function errors_of(samples, seconds, seen)
  local errors = {}
  for i, sample in ipairs(samples) do
    if not (seen and seen[i]) then errors[#errors + 1] = math.abs(seconds(sample) / sample.latency_s - 1) end
  end
  table.sort(errors)
  return errors
end

-- Seconds by a profile that has not seen the sample.
local function by_profile(profile)
  return function(sample)
    local query = { bytes = sample.bytes, num_devices = sample.num_devices, name = sample.name }
    if sample.op == "all_reduce" then query.dtype = sample.dtype end
    return (profile[sample.op .. "_s"](profile, query))
  end
end

local measure = {}

function measure.bytes(point, samples)
  local rows = ts.cross_validate {
    device = collectives.device(point.source), kernel_set = "modern", samples = samples,
    method = collectives.method_of(point.kernel), hold_out = { "bytes" },
  }
  return errors_of(rows, function(row) return row.predicted_s end)
end

function measure.gpu(point, samples)
  local donor = other[point.source] and collectives.profile(other[point.source], point.kernel)
  if not donor then return nil end
  local device = collectives.device(point.source)
  return errors_of(samples, by_profile(ts.profile { device = device, kernel_set = "modern", donor = donor }))
end

measure["gpu, 20 points"] = function(point, samples)
  local donor = other[point.source] and collectives.profile(other[point.source], point.kernel)
  if not donor then return nil end
  local draws = {}
  for draw = 1, num_draws do
    local seen, few = drawn(#samples, num_points, 10 + draw), {}
    for i, sample in ipairs(samples) do
      if seen[i] then few[#few + 1] = sample end
    end
    local profile = ts.calibrate {
      device = collectives.device(point.source), kernel_set = "modern", samples = few, donor = donor,
      method = collectives.method_of(point.kernel),
    }
    draws[draw] = errors_of(samples, by_profile(profile), seen)
  end
  table.sort(draws, function(a, b) return quantile(a, 0.5) < quantile(b, 0.5) end)
  return draws[(num_draws + 1) / 2]
end

-- What prices a node without a profile: sums, whatever sums them.
function measure.default(point, samples)
  for _, sample in ipairs(samples) do sample.name = nil end
  local device = collectives.device(point.source)
  return errors_of(samples, by_profile(ts.profile { device = device, kernel_set = "tessera" }))
end

return ts.experiment {
  name = "fidelity/collectives",
  doc = "Collectives and transfers within a node: error on sizes and on GPUs that the fit has not seen",
  grid = {
    source = { "a100_trtllm", "h200_trtllm", "a100_vllm", "h200_vllm", "rtx_pro_6000_vllm" },
    kernel = collectives.kernels,
    left_out = { "bytes", "gpu", "gpu, 20 points", "default" },
  },
  quick = { source = { "h200_vllm" }, kernel = { "custom", "nccl" } },
  columns = { "num_points", "median", "p90", "worst", "in_target" },

  run = function(point)
    local samples, why = collectives.samples(point.source, point.kernel)
    if not samples then return { status = why.code } end
    local errors = measure[point.left_out](point, samples)
    if not errors then return { status = "no_other_gpu" } end
    return errors_row(errors, target[point.left_out])
  end,

  plots = { { kind = "bars", x = "source", y = "median", by = "left_out", facet = "kernel" } },
}
