-- The experts of a layer, predicted against measured: models whose shapes the fit has not seen, on one device or shared
-- by up to eight; a dtype that it has not seen, by the kernel of BF16; and a whole GPU that it has not seen, whose
-- times are those of the other under the same runtime by data sheet, then calibrated on 20 points of it (the middle one
-- of several draws, by the median). Kernels that vLLM ships tuned, and those that it does not, each by themselves.
local ts = require "tessera"

local errors_row = require "fidelity.fit.errors".row
local quantile = require "fidelity.fit.errors".quantile
local drawn = require "fidelity.fit.draws"
local experts = require "fidelity.fit.experts"

local other = {
  a100_trtllm = "h200_trtllm", h200_trtllm = "a100_trtllm", a100_vllm = "h200_vllm", h200_vllm = "a100_vllm",
  rtx_pro_6000_vllm = "h200_vllm",
}
local num_points, num_draws = 20, 7
local target = { 0.10, 0.30 }

local function alone(samples)
  local chosen = {}
  for _, sample in ipairs(samples) do
    if sample.num_devices == 1 then chosen[#chosen + 1] = sample end
  end
  return chosen
end

-- Errors and ratios of samples by a function that has not seen them, leaving out those in `seen`.
local function compared(samples, seconds, seen)
  local errors, ratios = {}, {}
  for i, sample in ipairs(samples) do
    if not (seen and seen[i]) then
      local ratio = seconds(sample, i) / sample.latency_s
      errors[#errors + 1], ratios[#ratios + 1] = math.abs(ratio - 1), ratio
    end
  end
  table.sort(errors)
  table.sort(ratios)
  return { errors = errors, ratio = quantile(ratios, 0.5) }
end

local function by_profile(profile)
  return function(sample)
    return (profile:experts_s {
      dtype = sample.dtype, tokens = sample.tokens, hidden_size = sample.hidden_size, inner_size = sample.inner_size,
      num_experts = sample.num_experts, top_k = sample.top_k, routing = sample.routing,
      num_devices = sample.num_devices,
    })
  end
end

local function unseen_shapes(point, samples, chosen)
  local rows = ts.cross_validate {
    device = experts.device(point.source), kernel_set = "modern", samples = samples, method = "experts",
    hold_out = experts.held_out[point.dtype],
  }
  local kept = {}
  for _, row in ipairs(rows) do
    if chosen(row.num_devices or 1) then kept[#kept + 1] = row end
  end
  if #kept == 0 then return nil end
  return compared(kept, function(row) return row.predicted_s end)
end

-- What was measured of a source in a dtype, tuned or not; nil where nothing was.
local function samples_of(name, dtype, tuned)
  local samples = experts.samples(name)[dtype]
  if not samples then return nil end
  local plain, of_tuned = experts.split(name, dtype, samples)
  local chosen = tuned and of_tuned or plain
  return chosen and #chosen > 0 and chosen or nil
end

-- The other GPU's kernel of this dtype, fitted once.
local donors = {}
local function donor(point)
  local name = other[point.source]
  local key = name .. " " .. point.dtype .. " " .. tostring(point.tuned)
  if not donors[key] then
    local samples = samples_of(name, point.dtype, point.tuned) or samples_of(name, point.dtype, false)
    donors[key] = samples and ts.fit_profile {
      device = experts.device(name), kernel_set = "modern", samples = samples, method = "experts",
      hold_out = experts.held_out[point.dtype],
    }
  end
  return donors[key]
end

local measure = {}

-- The kernel that was fitted in BF16, at the bytes and rates of the dtype.
function measure.dtype(point, samples)
  if point.dtype == "bfloat16" then return nil end
  local sixteen_bits = ts.fit_profile {
    device = experts.device(point.source), kernel_set = "modern", samples = samples_of(point.source, "bfloat16", false),
    method = "experts", hold_out = experts.held_out.bfloat16,
  }
  return compared(alone(samples), by_profile(sixteen_bits))
end

function measure.shape(point, samples)
  return unseen_shapes(point, samples, function(num_devices) return num_devices == 1 end)
end

function measure.shape_shared(point, samples)
  return unseen_shapes(point, samples, function(num_devices) return num_devices > 1 end)
end

function measure.gpu(point, samples)
  local form = donor(point)
  if not form then return nil end
  local device = experts.device(point.source)
  return compared(alone(samples), by_profile(ts.profile { device = device, kernel_set = "modern", donor = form }))
end

measure["gpu, 20 points"] = function(point, samples)
  local form = donor(point)
  if not form then return nil end
  local own, draws = alone(samples), {}
  for draw = 1, num_draws do
    local seen, few = drawn(#own, num_points, 10 + draw), {}
    for i, sample in ipairs(own) do
      if seen[i] then few[#few + 1] = sample end
    end
    local profile = ts.calibrate {
      device = experts.device(point.source), kernel_set = "modern", samples = few, donor = form, method = "experts",
    }
    draws[draw] = compared(own, by_profile(profile), seen)
  end
  table.sort(draws, function(a, b) return quantile(a.errors, 0.5) < quantile(b.errors, 0.5) end)
  return draws[(num_draws + 1) / 2]
end

return ts.experiment {
  name = "fidelity/experts",
  doc = "Experts of a layer: error on models and on GPUs that the fit has not seen",
  grid = {
    source = { "a100_trtllm", "h200_trtllm", "a100_vllm", "h200_vllm", "rtx_pro_6000_vllm" },
    dtype = experts.dtypes,
    left_out = { "shape", "shape_shared", "dtype", "gpu", "gpu, 20 points" }, tuned = { false, true },
  },
  quick = { source = { "a100_trtllm" }, dtype = { "bfloat16" }, left_out = { "shape" }, tuned = { false } },
  columns = { "num_points", "ratio", "median", "p90", "worst", "in_target" },
  time_limit_s = 300,

  run = function(point)
    local _, why = experts.samples(point.source)
    if why then return { status = why.code } end
    local samples = samples_of(point.source, point.dtype, point.tuned)
    local found = samples and measure[point.left_out](point, samples)
    if not found then return { status = "no_data" } end
    local row = errors_row(found.errors, target)
    row.ratio = found.ratio
    return row
  end,

  plots = {
    { kind = "bars", x = "source", y = "median", by = "left_out", facet = "dtype", where = { tuned = false } },
  },
}
