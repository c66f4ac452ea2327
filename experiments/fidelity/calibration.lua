-- A GPU left out entirely: another GPU's form of products and of attention, scaled by data sheet, then by 20 points of
-- this one, and its error on the other points of its table. The points are those that ts.calibration_points proposes of
-- the table's sizes (by least variance, D-optimally), or drawn at random. `left_out` is what the calibration expects of
-- itself, each of the 20 points predicted from the other 19; `after` is what came of it; `form` the GPU and dtype whose
-- form was scaled, chosen by `left_out`, or none where the points alone did clearly better.
--
-- Every GPU that has a table by operator is left out in every dtype; those with tables of layers (T4, V100, L4, A100
-- with 40 GB) in experiments/fidelity/helix.lua.
local ts = require "tessera"

local left_out = require "fidelity.fit.left_out"
local quantile = require "fidelity.fit.errors".quantile
local drawn = require "fidelity.fit.draws"

local num_points = 20
local target = { gemm = { median = 0.1, p90 = 0.3 }, attention = { median = 0.05, p90 = 1 } }

local dtypes = {
  ["trtllm, A100-80G"] = { "bfloat16", "int8_wo", "int4_wo", "sq" },
  ["trtllm, H200-141G"] = { "bfloat16", "int8_wo", "int4_wo", "sq", "fp8", "fp8_block" },
  ["vllm, H200-141G"] = { "bfloat16", "fp8", "fp8_block" },
  ["vllm, RTX-PRO-6000"] = { "bfloat16", "fp8" }, -- of its block FP8 only two matrices were measured
}

local points = {}
for _, source in ipairs(left_out.sources) do
  for _, device in ipairs(left_out.devices[source]) do
    for _, choice in ipairs { "least_variance", "d_optimal", "drawn 11" } do
      for _, dtype in ipairs(dtypes[source .. ", " .. device] or { "bfloat16" }) do
        points[#points + 1] = { source = source, device = device, op = "gemm", dtype = dtype, points = choice }
      end
      for _, phase in ipairs(device == "RTX-3090" and { "prefill" } or { "prefill", "decode" }) do
        points[#points + 1] = { source = source, device = device, op = phase, dtype = "bfloat16", points = choice }
      end
    end
  end
end

-- 20 of the samples.
local function chosen(samples, point)
  local seed = tonumber(point.points:match "%d+")
  if not seed then return left_out.designed(samples, point.device, point.points) end
  local set, list = drawn(#samples, num_points, seed), {}
  for i, sample in ipairs(samples) do
    if set[i] then list[#list + 1] = sample end
  end
  return list
end

return ts.experiment {
  name = "fidelity/calibration",
  doc = "Products and attention of a GPU left out, from another GPU's form and 20 points: error on all others",
  grid = points,
  quick = {
    source = { "trtllm" }, device = { "A100-80G" }, op = { "gemm" }, dtype = { "int8_wo" },
    points = { "least_variance" },
  },
  columns = { "form", "left_out", "after", "p90_after", "in_target" },
  time_limit_s = 300,

  run = function(point)
    local samples, why = left_out.samples(point.source, point.device, point.op, point.dtype)
    if not samples then return { status = why.code } end
    local few, measured = chosen(samples, point), {}
    for _, sample in ipairs(few) do measured[sample] = true end
    local profile, errors, form = left_out.calibrate(point.source, point.device, point.op, point.dtype, few)
    local found = left_out.errors(profile, left_out.thinned(samples), measured)
    local limit = target[point.op == "gemm" and "gemm" or "attention"]
    local after, p90_after = quantile(found, 0.5), quantile(found, 0.9)
    return {
      status = "ok", form = form, left_out = errors.after.median, after = after, p90_after = p90_after,
      in_target = after <= limit.median and p90_after <= limit.p90,
    }
  end,

  plots = { { kind = "cdf", x = "after", by = "points", facet = "op" } },
}
