-- Kernels that vLLM runs, predicted against measured: products and attention of shapes that the fit has not seen (pairs
-- of n and k, geometries of heads). experiments/fidelity/calibration.lua leaves whole GPUs out.
local ts = require "tessera"

local errors_row = require "fidelity.fit.errors".row
local vllm, untouched = require "fidelity.fit.vllm", require "fidelity.fit.untouched"

local target = { 0.05, 0.15 }

local function samples_of(device, kind, dtype)
  local all, why = vllm.samples(device, kind)
  if not all then return nil, why end
  local chosen = {}
  for _, sample in ipairs((untouched.split(all))) do
    local name = kind == "gemm" and sample.dtype or sample.kv_dtype
    if name == dtype then chosen[#chosen + 1] = sample end
  end
  return chosen
end

-- What the tables have.
local points = {}
for _, device in ipairs(vllm.devices) do
  for _, kind in ipairs(vllm.kinds) do
    local dtypes = { "bfloat16" }
    if device ~= "A100-80G" then dtypes[2] = "fp8" end
    if device == "H200-141G" and kind == "gemm" then dtypes[3] = "fp8_block" end
    for _, dtype in ipairs(dtypes) do
      points[#points + 1] = { device = device, kind = kind, dtype = dtype }
    end
  end
end

-- Each predicted by a fit without its shape.
local function errors_of(point, samples)
  local rows = ts.cross_validate {
    device = point.device, kernel_set = "vllm", samples = samples, method = "operator",
    hold_out = vllm.hold_out[point.kind], folds = 5,
  }
  local errors = {}
  for i, row in ipairs(rows) do errors[i] = math.abs(row.predicted_s / row.latency_s - 1) end
  table.sort(errors)
  return errors
end

return ts.experiment {
  name = "fidelity/vllm",
  doc = "vLLM's products and attention: error on shapes that the fit has not seen",
  grid = points,
  quick = { device = { "A100-80G" }, kind = { "decode" }, dtype = { "bfloat16" } },
  columns = { "num_points", "median", "p90", "worst", "in_target" },
  time_limit_s = 300,

  run = function(point)
    local samples, why = samples_of(point.device, point.kind, point.dtype)
    if not samples then return { status = why.code } end
    return errors_row(errors_of(point, samples), target)
  end,

  plots = { { kind = "bars", x = "device", y = "median", by = "kind", facet = "dtype" } },
}
