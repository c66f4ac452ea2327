-- ts.calibration_points(options): which matrix products to measure on a GPU that no profile covers, and in which order.

local core = require "tessera.core"
local cost = require "tessera.cost"
local options = require "tessera.options"

local read = options.card {
  name = "ts.calibration_points",
  doc = "What to measure before ts.calibrate, in the order in which to measure it: the products (or the attention) of "
    .. "a list of candidates that leave the least doubt about all of them. Samples that lack only latency_s; the "
    .. "first ones of a longer list are a shorter list. Several dtypes share the points.",
  returns = "table[]",
  options = {
    { name = "device", type = "string", required = true, doc = "Name of a device" },
    { name = "kernel_set", type = "string", default = "modern", doc = "What the products are run with" },
    { name = "dtype", type = "string", doc = "bfloat16, int8_wo, int4_wo, sq, fp8 ..." },
    { name = "dtypes", type = "table", lua_type = "string[]", doc = "Several of these, in place of dtype" },
    { name = "count", type = "integer", unit = "points", default = 20, min = 1, max = 1000, doc = "How many" },
    { name = "design", type = "choice", default = "least_variance",
      choices = { "least_variance", "d_optimal", "even" },
      doc = "What they make small: the mean variance of what a calibration predicts; the volume of its parameters' "
        .. "confidence region; or none, points spread evenly over the logarithms" },
    { name = "candidates", type = "table", lua_type = "table[]",
      doc = "Products { dtype, m, n, k } or attention to choose from, in place of the ranges and dtypes" },
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

local function product(opt, dtype, i)
  local function share(axis) return mirrored(i, bases[axis]) end
  return {
    op = "gemm", dtype = dtype, m = math.floor(between(1, opt.max_m, share "m") + 0.5), n = side(opt, share "n"),
    k = side(opt, share "k"),
  }
end

local function refuse(field, text)
  local path = "ts.calibration_points." .. field
  core.raise("invalid_argument", path .. ": " .. text, path)
end

-- The dtypes to spread points over.
local function dtypes_of(opt)
  if opt.dtype and opt.dtypes then refuse("dtypes", "given beside dtype; keep one of the two") end
  local dtypes = opt.dtypes or { opt.dtype }
  options.list(dtypes, "ts.calibration_points.dtypes", "a list of dtypes", options.item_of "string")
  if #dtypes == 0 then refuse("dtype", "missing; a dtype, a list of dtypes or candidates are needed") end
  return dtypes
end

local function spread(opt)
  local dtypes, points = dtypes_of(opt), {}
  for i = 1, opt.count do
    points[i] = product(opt, dtypes[1 + (i - 1) % #dtypes], 1 + math.floor((i - 1) / #dtypes))
  end
  return points
end

local most_compared = 1024 -- candidates: what more of them add to a design is little

-- Products over the ranges, none twice.
local function candidates_of(opt)
  local dtypes, list, seen = dtypes_of(opt), {}, {}
  local each = math.max(math.floor(most_compared / #dtypes), math.ceil(1.5 * opt.count / #dtypes))
  for _, dtype in ipairs(dtypes) do
    for i = 1, each do
      local candidate = product(opt, dtype, i)
      local key = ("%s %d %d %d"):format(dtype, candidate.m, candidate.n, candidate.k)
      if not seen[key] then seen[key], list[#list + 1] = true, candidate end
    end
  end
  return list
end

local copied = {
  "op", "dtype", "m", "n", "k", "phase", "kv_dtype", "batch_size", "tokens", "context_tokens", "num_heads",
  "num_kv_heads", "head_dim", "window",
}

local function plain(candidate)
  local copy = {}
  for _, key in ipairs(copied) do copy[key] = candidate[key] end
  return copy
end

local function designed(opt, device)
  local candidates = opt.candidates or candidates_of(opt)
  options.list(candidates, "ts.calibration_points.candidates", "a list of products", options.item_of "table")
  local queries, points = {}, {}
  for i, candidate in ipairs(candidates) do queries[i] = plain(candidate) end
  for i, index in ipairs(cost.design_points(device, queries, opt.count, opt.design)) do points[i] = queries[index] end
  return points
end

return function(given)
  local opt = read(given)
  if opt.min_side >= opt.max_side then
    refuse("min_side", ("%d is not below max_side, %d"):format(opt.min_side, opt.max_side))
  end
  if opt.candidates and (opt.dtype or opt.dtypes) then
    refuse("candidates", "given beside dtypes; candidates have their own")
  end
  if opt.candidates and opt.design == "even" then
    refuse("design", "points of candidates are not spread evenly; least_variance or d_optimal")
  end
  local device = core.device(opt.device)
  local points = opt.design == "even" and spread(opt) or designed(opt, device)
  for _, point in ipairs(points) do point.device, point.kernel_set = device.name, opt.kernel_set end
  return points
end
