-- Matrix products of TensorRT-LLM on A100 and H200, predicted against measured, for matrices that the fit has not seen:
-- unseen pairs of n and k, all of one n, all of one k, and numbers of rows between the fitted ones, five folds each;
-- and all widths between 8,192 and 65,536 at once, as the table has none between 16,384 and 65,536, where models have
-- theirs.
local ts = require "tessera"

local errors_row = require "fidelity.fit.errors".row
local aiconfigurator, untouched = require "fidelity.fit.aiconfigurator", require "fidelity.fit.untouched"

-- Fold 0: what a gap as wide as the table's would leave out.
local function in_gap(sample) return sample.n > 8192 and sample.n < 65536 end

local splits = { n_k = { "n", "k" }, n = { "n" }, k = { "k" }, m = { "m" } }
local kernel_set = { sq = "modern_w8a8", fp8 = "modern_fp8", fp8_static = "modern_fp8", fp8_block = "modern_fp8" }
local target = { 0.05, 0.15 }

return ts.experiment {
  name = "fidelity/gemm",
  doc = "GEMM latency of A100 and H200 by dtype: error on matrices that the fit has not seen",
  grid = {
    device = { "A100-80G", "H200-141G" },
    dtype = { "bfloat16", "int8_wo", "int4_wo", "sq", "fp8", "fp8_static", "fp8_block" },
    hold_out = { "n_k", "n", "k", "m", "gap" },
  },
  quick = { device = { "A100-80G" }, dtype = { "int8_wo" }, hold_out = { "n_k" } },
  columns = { "kernel_set", "num_points", "median", "p90", "worst", "in_target" },
  time_limit_s = 300,

  run = function(point)
    local by_dtype, why = aiconfigurator.gemm(point.device)
    if not by_dtype then return { status = why.code } end
    if not by_dtype[point.dtype] then return { status = "no_data" } end
    local samples = untouched.split(by_dtype[point.dtype])
    local gap = point.hold_out == "gap"
    if gap then
      for _, sample in ipairs(samples) do sample.fold = in_gap(sample) and 0 or 1 end
    end
    local rows = ts.cross_validate {
      device = point.device, kernel_set = kernel_set[point.dtype] or "modern", samples = samples, method = "operator",
      hold_out = splits[point.hold_out], folds = 5,
    }
    local errors = {}
    for i, row in ipairs(rows) do
      if not gap or in_gap(samples[i]) then
        errors[#errors + 1] = math.abs(row.predicted_s / row.latency_s - 1)
      end
    end
    table.sort(errors)
    local row = errors_row(errors, target)
    row.kernel_set = kernel_set[point.dtype] or "modern"
    return row
  end,

  plots = { { kind = "bars", x = "dtype", y = "p90", by = "hold_out", facet = "device" } },
}
