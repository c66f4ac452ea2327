-- FP16 layers of LLaMA-1 30B under vLLM, as Helix measured them: each point predicted by a fit that has not seen it.
--
-- split = "third": every third point held out; split = "gpu": another GPU's form scaled to 20 points of this one, the
-- others predicted; split = "grouped": layers of Llama-2-70B by what ships for those of LLaMA-1 30B, with the share of
-- a read that further heads of a group take, which is fitted to them. Times above 100 requests and of prompts are
-- whole milliseconds, so `beyond_rounding_ratio` is what the error is without the rounding: 0 where the prediction
-- rounds to the measured number.
local ts = require "tessera"
local helix = require "fidelity.fit.helix"

local few = 20
local donors = { ["T4-16G"] = "V100-16G", ["V100-16G"] = "T4-16G", L4 = "T4-16G", ["A100-40G"] = "V100-16G" }

-- The rows that calibration sees, spread over the table: { [row] = true }.
local function measured_rows(count)
  local seen = {}
  for i = 1, few do seen[math.floor((i - 1) * (count - 1) / (few - 1)) + 1] = true end
  return seen
end

local points, all, why = {}, {}, nil
for _, gpu in ipairs(helix.devices) do
  for _, phase in ipairs(helix.phases) do
    local samples, problem = helix.samples(gpu, phase)
    why = why or problem
    all[gpu .. phase] = samples
    local seen = measured_rows(#(samples or {}))
    for i = 1, #(samples or {}) do
      points[#points + 1] = { split = "third", device = gpu, phase = phase, row = i }
      if not seen[i] then points[#points + 1] = { split = "gpu", device = gpu, phase = phase, row = i } end
    end
  end
end

local grouped, no_grouped = helix.grouped_samples()
for i = 1, #(grouped or {}) do
  points[#points + 1] = { split = "grouped", device = "A100-40G", phase = "decode", row = i }
end

local function layer_s(profile, sample)
  return (profile:layer_s {
    model = sample.model, phase = sample.phase, batch_size = sample.batch_size, tokens = sample.tokens,
    context_tokens = sample.context_tokens,
  })
end

local predictions = {} -- [split, device, phase] list of seconds
local makers = {}

function makers.third(gpu, _, samples)
  for i, sample in ipairs(samples) do sample.fold = i % 3 end
  local rows = ts.cross_validate { device = gpu, kernel_set = "vllm", samples = samples, method = "operator" }
  local found = {}
  for i, row in ipairs(rows) do found[i] = row.predicted_s end
  return found
end

function makers.gpu(gpu, phase, samples)
  local donor = ts.fit_profile {
    device = donors[gpu], kernel_set = "vllm", samples = all[donors[gpu] .. phase], method = "operator",
  }
  local measured, seen = {}, measured_rows(#samples)
  for i, sample in ipairs(samples) do
    if seen[i] then measured[#measured + 1] = sample end
  end
  local profile = ts.calibrate {
    device = gpu, kernel_set = "vllm", samples = measured, donor = donor, method = "operator",
  }
  local found = {}
  for i, sample in ipairs(samples) do found[i] = layer_s(profile, sample) end
  return found
end

-- What ships says of the other model.
function makers.grouped(gpu, _, samples)
  local profile, found = ts.profile { device = gpu, kernel_set = "vllm_2024" }, {}
  for i, sample in ipairs(samples) do found[i] = layer_s(profile, sample) end
  return found
end

local function samples_of(point)
  return point.split == "grouped" and grouped or all[point.device .. point.phase]
end

local function predicted_s(point)
  local key = point.split .. point.device .. point.phase
  predictions[key] = predictions[key] or makers[point.split](point.device, point.phase, samples_of(point))
  return predictions[key][point.row]
end

-- Half of the last digit that the table gives.
local function rounding_s(sample)
  return (sample.phase == "prefill" or sample.batch_size > 100) and 0.5e-3 or 0.05e-3
end

local function mean_and_median(rows, column)
  local list, sum = {}, 0
  for i, row in ipairs(rows) do
    list[i] = math.abs(row[column])
    sum = sum + list[i]
  end
  table.sort(list)
  return sum / #list, list[math.ceil(#list / 2)], list[#list], #list
end

local function expect_error(t, where, which, target)
  local rows = t:rows(where)
  if #rows == 0 then return end
  local mean, median, worst, count = mean_and_median(rows, "error_ratio")
  local beyond = mean_and_median(rows, "beyond_rounding_ratio")
  t:expect(("%s error at most %g %% (%s, %s, %s)"):format(which, 100 * target, where.split, where.device, where.phase),
    (which == "mean" and mean or median) <= target,
    ("mean %.1f %%, beyond the rounding %.1f %%, median %.1f %%, worst %.0f %%, %d points"):format(100 * mean,
      100 * beyond, 100 * median, 100 * worst, count))
end

return ts.experiment {
  name = "fidelity/helix",
  doc = "Helix's FP16 layers on T4, V100, L4 and A100, each point without it: unseen sizes, unseen GPU, grouped heads",
  grid = #points > 0 and points or { { split = "third", device = "T4-16G", phase = "decode", row = 1 } },
  columns = { "size", "measured_s", "predicted_s", "error_ratio", "beyond_rounding_ratio" },

  run = function(point)
    if why then return { status = why.code, message = why.message } end
    local sample, seconds = samples_of(point)[point.row], predicted_s(point)
    local distance = math.abs(seconds - sample.latency_s)
    return {
      size = sample.batch_size * sample.tokens, measured_s = sample.latency_s, predicted_s = seconds,
      error_ratio = seconds / sample.latency_s - 1,
      beyond_rounding_ratio = math.max(0, distance - rounding_s(sample)) / sample.latency_s,
    }
  end,

  check = function(t)
    if why then return t:skip("not checked: " .. why.message) end
    for _, gpu in ipairs(helix.devices) do
      for _, phase in ipairs(helix.phases) do
        expect_error(t, { split = "third", device = gpu, phase = phase }, "mean", 0.05)
        expect_error(t, { split = "gpu", device = gpu, phase = phase }, "median", 0.1)
      end
    end
    if no_grouped then return t:skip("grouped heads are not checked: " .. no_grouped.message) end
    expect_error(t, { split = "grouped", device = "A100-40G", phase = "decode" }, "mean", 0.12)
  end,
  plots = {
    { kind = "scatter", x = "measured_s", y = "predicted_s", by = "device", log_x = true, log_y = true },
    { kind = "lines", x = "size", y = "predicted_s", by = "device", facet = "phase", where = { split = "third" } },
  },
}
