-- ts.calibration_points(options): which matrix products to measure on a GPU that no profile covers.

local core = require "tessera.core"
local options = require "tessera.options"

local read = options.card {
  name = "ts.calibration_points",
  doc = "Matrix products to measure before ts.calibrate: spread evenly over the logarithms of m, n and k, so that "
    .. "start-up, memory and arithmetic each bound some of them. Samples that lack only latency_s; the first ones of "
    .. "a longer list are a shorter list.",
  returns = "table[]",
  options = {
    { name = "device", type = "string", required = true, doc = "Name of a device" },
    { name = "kernel_set", type = "string", default = "modern", doc = "What the products are run with" },
    { name = "dtype", type = "string", required = true, doc = "bfloat16, int8_wo, int4_wo, sq, fp8 ..." },
    { name = "count", type = "integer", unit = "points", default = 20, min = 1, max = 1000, doc = "How many" },
    { name = "max_m", type = "integer", unit = "rows", default = 8192, min = 2, max = 1e6,
      doc = "Most tokens of a pass; the least is 1" },
    { name = "min_side", type = "integer", default = 256, min = 64, max = 65536, doc = "Least n and k" },
    { name = "max_side", type = "integer", default = 32768, min = 128, max = 1e6, doc = "Largest n and k" },
  },
}

-- Halton's sequence: the digits of 1, 2, 3 ... in a base of its own for each axis, mirrored at the point, fill a cube
-- evenly and each edge of it too (J. H. Halton, Numerische Mathematik 2, 1960).
local bases = { m = 2, n = 3, k = 5 }

local function mirrored(i, base)
  local share, digit = 0, 1
  while i > 0 do
    digit = digit / base
    share = share + digit * (i % base)
    i = math.floor(i / base)
  end
  return share
end

local side_unit = 64 -- widths of models are multiples of this, and kernels are made for such

local function between(least, most, share) return least * (most / least) ^ share end

local function side(opt, share)
  local value = between(opt.min_side, opt.max_side, share)
  return math.max(side_unit, side_unit * math.floor(value / side_unit + 0.5))
end

return function(given)
  local opt = read(given)
  if opt.min_side >= opt.max_side then
    core.raise("invalid_argument", ("ts.calibration_points.min_side: %d is not below max_side, %d")
      :format(opt.min_side, opt.max_side), "ts.calibration_points.min_side")
  end
  local device = core.device(opt.device).name
  local points = {}
  for i = 1, opt.count do
    local function share(axis) return mirrored(i, bases[axis]) end
    points[i] = {
      op = "gemm", device = device, kernel_set = opt.kernel_set, dtype = opt.dtype,
      m = math.floor(between(1, opt.max_m, share "m") + 0.5), n = side(opt, share "n"), k = side(opt, share "k"),
    }
  end
  return points
end
