-- The untouched split: shapes that no fit, calibration or choice has seen (fit/untouched.lua says which), predicted
-- by the profile that ships, and by another GPU's form scaled to 20 points of its other shapes. Looked at
-- after the models were settled; nothing may be tuned by it.
local ts = require "tessera"
local left_out = require "fidelity.fit.left_out"
local errors_row = require "fidelity.fit.errors".row
local calibration = require "fidelity.calibration"

local limits = { shipped = { 0.05, 0.15 }, calibrated = { 0.1, 0.3 } }

-- Of each table once; consumer GPUs have one geometry only, of which nothing is kept back.
local points, seen = {}, {}
for _, point in ipairs(calibration.points) do
  local key = ("%s %s %s %s"):format(point.source, point.device, point.op, point.dtype)
  if not seen[key] and point.source ~= "llmservingsim" then
    seen[key] = true
    for _, by in ipairs { "shipped", "calibrated" } do
      points[#points + 1] = {
        source = point.source, device = point.device, op = point.op, dtype = point.dtype, by = by,
      }
    end
  end
end

local function profile_of(point, samples)
  if point.by == "calibrated" then
    local few = left_out.designed(samples, point.device, "least_variance")
    return (left_out.calibrate(point.source, point.device, point.op, point.dtype, few))
  end
  return ts.profile { device = point.device, kernel_set = left_out.kernel_set(point.source, point.dtype) }
end

return ts.experiment {
  name = "fidelity/untouched",
  doc = "Products and attention of shapes that nothing was fitted to or chosen by",
  grid = points,
  quick = { source = { "trtllm" }, device = { "A100-80G" }, op = { "gemm" }, dtype = { "int8_wo" } },
  columns = { "num_points", "median", "p90", "worst", "in_target" },
  time_limit_s = 300,

  run = function(point)
    local samples, kept_back = left_out.samples(point.source, point.device, point.op, point.dtype)
    if not samples then return { status = kept_back.code } end
    local profile = profile_of(point, samples)
    return errors_row(left_out.errors(profile, left_out.thinned(kept_back)), limits[point.by])
  end,

  plots = { { kind = "cdf", x = "median", by = "by", facet = "op" } },
}
