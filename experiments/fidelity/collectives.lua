-- Sums over the GPUs of a node, predicted against measured: sizes that the fit has not seen, and a whole GPU that it
-- has not seen, whose times are those of the other on NVSwitch at the ratio of their links. Beside them what prices a
-- node without measurements, whose six numbers per kind of link are in engine/cost/src/tensor_parallel.cpp.
local ts = require "tessera"

local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."
local quantile = dofile(folder .. "/fit/csv.lua").quantile
local collectives = dofile(folder .. "/fit/collectives.lua")

-- The other GPU on NVSwitch under the same runtime.
local other = {
  a100_trtllm = "h200_trtllm", h200_trtllm = "a100_trtllm", a100_vllm = "h200_vllm", h200_vllm = "a100_vllm",
}
local target = { bytes = { 0.10, 0.25 }, gpu = { 0.10, 0.30 }, default = { 0.20, 0.50 } }

local function errors_by(samples, seconds)
  local errors = {}
  for i, sample in ipairs(samples) do errors[i] = math.abs(seconds(sample) / sample.latency_s - 1) end
  return errors
end

-- Errors of every sample by a profile that has not seen them.
local function by_profile(profile, samples)
  return errors_by(samples, function(sample)
    return (profile:all_reduce_s { dtype = sample.dtype, bytes = sample.bytes, num_devices = sample.num_devices })
  end)
end

local measure = {}

function measure.bytes(source, samples)
  local rows = ts.cross_validate {
    device = collectives.device(source), kernel_set = "modern", samples = samples, method = "all_reduce",
    hold_out = { "bytes" },
  }
  local errors = {}
  for i, row in ipairs(rows) do errors[i] = math.abs(row.predicted_s / row.latency_s - 1) end
  return errors
end

function measure.gpu(source, samples)
  if not other[source] then return nil end
  local donor = collectives.profile(other[source])
  return by_profile(ts.profile { device = collectives.device(source), kernel_set = "modern", donor = donor }, samples)
end

function measure.default(source, samples)
  return by_profile(ts.profile { device = collectives.device(source), kernel_set = "tessera" }, samples)
end

return ts.experiment {
  name = "fidelity/collectives",
  doc = "All-reduce within a node: error on sizes and on GPUs that the fit has not seen",
  grid = {
    source = { "a100_trtllm", "h200_trtllm", "a100_vllm", "h200_vllm", "rtx_pro_6000_vllm" },
    left_out = { "bytes", "gpu", "default" },
  },
  quick = { source = { "h200_vllm" } },
  columns = { "num_points", "median", "p90", "worst", "in_target" },

  run = function(point)
    local samples, why = collectives.samples(point.source)
    if not samples then return { status = why.code } end
    local errors = measure[point.left_out](point.source, samples)
    if not errors then return { status = "no_other_gpu" } end
    table.sort(errors)
    local median, p90 = quantile(errors, 0.5), quantile(errors, 0.9)
    local limits = target[point.left_out]
    return {
      status = "ok", num_points = #errors, median = median, p90 = p90, worst = errors[#errors],
      in_target = median <= limits[1] and p90 <= limits[2],
    }
  end,

  plots = { { kind = "bars", x = "source", y = "median", by = "left_out" } },
}
