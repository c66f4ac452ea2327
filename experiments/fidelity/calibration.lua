-- A GPU left out entirely: the GEMM form of another GPU, scaled by data sheet, then by 20 points of this one, and its
-- error on all the other points of its table. The points are those that ts.calibration_points proposes of the table's
-- sizes (by least variance, D-optimal), or drawn at random. `left_out` is what the calibration expects of itself, each
-- of the 20 points predicted from the other 19; `after` is what came of it; `form` the GPU and dtype whose form was
-- scaled, chosen by `left_out`, or none where the points alone did clearly better.
--
-- GPUs with tables of operators are here, of which every one is left out in every dtype; those with tables of layers in
-- experiments/fidelity/helix.lua.
local ts = require "tessera"

local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."
local left_out = dofile(folder .. "/fit/left_out.lua")
local quantile = dofile(folder .. "/fit/errors.lua").quantile
local drawn = dofile(folder .. "/fit/draws.lua")

local num_points = 20
local most_candidates = 1500 -- of a table: sizes to choose from
local target = { median = 0.1, p90 = 0.3 }

local dtypes = {
  ["trtllm, A100-80G"] = { "bfloat16", "int8_wo", "int4_wo", "sq" },
  ["trtllm, H200-141G"] = { "bfloat16", "int8_wo", "int4_wo", "sq", "fp8", "fp8_block" },
  ["vllm, A100-80G"] = { "bfloat16" },
  ["vllm, H200-141G"] = { "bfloat16", "fp8", "fp8_block" },
  ["vllm, RTX-PRO-6000"] = { "bfloat16", "fp8" }, -- of its block FP8 only two matrices were measured
}

local points = {}
for _, source in ipairs(left_out.sources) do
  for _, device in ipairs(left_out.devices[source]) do
    for _, dtype in ipairs(dtypes[source .. ", " .. device] or { "bfloat16" }) do
      for _, choice in ipairs { "least_variance", "d_optimal", "drawn 11", "drawn 12", "drawn 13" } do
        points[#points + 1] = { source = source, device = device, dtype = dtype, points = choice }
      end
    end
  end
end

-- 20 of the samples as a list and as a set.
local function chosen(samples, point)
  local list, set = {}, {}
  local seed = tonumber(point.points:match "%d+")
  if seed then
    for i in pairs(drawn(#samples, num_points, seed)) do set[samples[i]] = true end
  else
    local candidates, by_size = left_out.thinned(samples, most_candidates), {}
    local function key(sample) return ("%d %d %d"):format(sample.m, sample.n, sample.k) end
    for _, sample in ipairs(candidates) do by_size[key(sample)] = sample end
    local designed = ts.calibration_points {
      device = point.device, count = num_points, design = point.points, candidates = candidates,
    }
    for _, wanted in ipairs(designed) do set[by_size[key(wanted)]] = true end
  end
  for _, sample in ipairs(samples) do -- in the table's order: the same for the same set
    if set[sample] then list[#list + 1] = sample end
  end
  return list, set
end

return ts.experiment {
  name = "fidelity/calibration",
  doc = "Products of a GPU left out, from another GPU's form and 20 points: error on all others",
  grid = points,
  quick = { source = { "trtllm" }, device = { "A100-80G" }, dtype = { "int8_wo" }, points = { "least_variance" } },
  columns = { "form", "left_out", "after", "p90_after", "in_target" },
  time_limit_s = 300,

  run = function(point)
    local samples, kept_back = left_out.samples(point.source, point.device, point.dtype)
    if not samples then return { status = kept_back.code } end
    local few, measured = chosen(samples, point)
    local profile, errors, form = left_out.calibrate(point.source, point.device, point.dtype, few)
    local found = left_out.errors(profile, left_out.thinned(samples), measured)
    local after, p90_after = quantile(found, 0.5), quantile(found, 0.9)
    return {
      status = "ok", form = form, left_out = errors.after.median, after = after, p90_after = p90_after,
      in_target = after <= target.median and p90_after <= target.p90,
    }
  end,

  plots = { { kind = "bars", x = "dtype", y = "after", by = "points" } },
}
