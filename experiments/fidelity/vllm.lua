-- Kernels that vLLM runs, predicted against measured: products and attention of shapes that the fit has not seen (pairs
-- of n and k, geometries of heads), and a whole GPU left out, its times those of another one scaled by data sheet, and
-- then by 20 points of it. Between GPUs vLLM changes the kernel itself: FlashAttention 2 on A100 and RTX PRO 6000, 3 on
-- H200.
local ts = require "tessera"

local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."
local errors_row = dofile(folder .. "/fit/errors.lua").row
local drawn = dofile(folder .. "/fit/draws.lua")
local vllm = dofile(folder .. "/fit/vllm.lua")

local few = 20
local donors = { ["A100-80G"] = "H200-141G", ["H200-141G"] = "A100-80G", ["RTX-PRO-6000"] = "H200-141G" }
local target = { shapes = { 0.05, 0.15 }, gpu = { 0.10, 0.30 } }

-- BF16, which all three have; over 16-bit keys and values.
local function samples_of(device, kind, dtype)
  local all, why = vllm.samples(device, kind)
  if not all then return nil, why end
  local chosen = {}
  for _, sample in ipairs(all) do
    local name = kind == "gemm" and sample.dtype or sample.kv_dtype
    if name == dtype then chosen[#chosen + 1] = sample end
  end
  return chosen
end

local function predicted_s(profile, sample)
  if sample.op == "gemm" then
    return (profile:gemm_s { dtype = sample.dtype, m = sample.m, n = sample.n, k = sample.k })
  end
  return (profile:attention_s {
    phase = sample.phase, dtype = sample.dtype, kv_dtype = sample.kv_dtype, batch_size = sample.batch_size,
    tokens = sample.tokens, context_tokens = sample.context_tokens, num_heads = sample.num_heads,
    num_kv_heads = sample.num_kv_heads, head_dim = sample.head_dim, window = sample.window,
  })
end

-- What the tables have; a GPU is left out of BF16, which all of them have.
local points = {}
for _, device in ipairs(vllm.devices) do
  for _, kind in ipairs(vllm.kinds) do
    local dtypes = { "bfloat16" }
    if device ~= "A100-80G" then dtypes[2] = "fp8" end
    if device == "H200-141G" and kind == "gemm" then dtypes[3] = "fp8_block" end
    for _, dtype in ipairs(dtypes) do
      points[#points + 1] = { device = device, kind = kind, dtype = dtype, left_out = "shapes" }
    end
    points[#points + 1] = { device = device, kind = kind, dtype = "bfloat16", left_out = "gpu" }
  end
end

local measure = {}

function measure.shapes(point, samples)
  local rows = ts.cross_validate {
    device = point.device, kernel_set = "vllm", samples = samples, method = "operator",
    hold_out = vllm.hold_out[point.kind], folds = 5,
  }
  local errors = {}
  for i, row in ipairs(rows) do errors[i] = math.abs(row.predicted_s / row.latency_s - 1) end
  return errors
end

-- A seventh of the other points: enough for these figures.
function measure.gpu(point, samples, seed)
  local form = ts.fit_profile {
    device = donors[point.device], kernel_set = "vllm", method = "operator", folds = 2,
    samples = samples_of(donors[point.device], point.kind, point.dtype),
  }
  local chosen, measured, errors = drawn(#samples, few, 1 + seed), {}, {}
  for i in pairs(chosen) do measured[#measured + 1] = samples[i] end
  local profile = ts.calibrate { device = point.device, kernel_set = "vllm", samples = measured, donor = form }
  for i = 1, #samples, 7 do
    if not chosen[i] then
      errors[#errors + 1] = math.abs(predicted_s(profile, samples[i]) / samples[i].latency_s - 1)
    end
  end
  return errors
end

return ts.experiment {
  name = "fidelity/vllm",
  doc = "vLLM's products and attention: error on shapes and on GPUs that the fit has not seen",
  grid = points,
  quick = { device = { "A100-80G" }, kind = { "decode" }, dtype = { "bfloat16" }, left_out = { "shapes" } },
  columns = { "num_points", "median", "p90", "worst", "in_target" },
  time_limit_s = 300,

  run = function(point, context)
    local samples, why = samples_of(point.device, point.kind, point.dtype)
    if not samples then return { status = why.code } end
    local errors = measure[point.left_out](point, samples, context.seed % 1000000)
    table.sort(errors)
    return errors_row(errors, target[point.left_out])
  end,

  plots = { { kind = "bars", x = "device", y = "median", by = "kind" } },
}
