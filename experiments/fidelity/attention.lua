-- Attention kernels of TensorRT-LLM, each point predicted by a fit that has not seen it.
--
-- split = "batch":  whole batch sizes held out, 5 folds;
-- split = "length": whole prompt or context lengths;
-- split = "cell":   pairs of both;
-- split = "gpu":    the other GPU's form, scaled to 20 points of this one; all its other points are predicted.
--
-- What does not come out: tails. Runtimes change kernels at thresholds where the slower one is taken, so times jump and
-- fall again (one block more than multiprocessors: +60 %), and a model that never falls passes between them. Decode
-- steps over an FP8 cache of a few us scatter by 20 % from run to run.
local ts = require "tessera"
local attention, untouched = require "fidelity.fit.attention", require "fidelity.fit.untouched"

local few = 20
local splits = { "batch", "length", "cell" }
local other = { ["A100-80G"] = "H200-141G", ["H200-141G"] = "A100-80G" }

-- Of one device and phase by name of part, "bfloat16, head size 128".
local function parts_of(device, phase)
  local samples, why = attention.samples(device, phase)
  if not samples then return nil, why end
  local parts, names = {}, {}
  local by_dtype, dtypes = attention.by_dtype((untouched.split(samples)))
  for _, dtype in ipairs(dtypes) do
    for _, sample in ipairs(by_dtype[dtype]) do
      local window = sample.window or 0
      local name = ("%s, head size %d%s"):format(dtype, sample.head_dim, window > 0 and ", window" or "")
      if not parts[name] then parts[name], names[#names + 1] = {}, name end
      table.insert(parts[name], sample)
    end
  end
  table.sort(names)
  return parts, names
end

local cache = {}
local function cached(device, phase)
  local key = device .. phase
  cache[key] = cache[key] or { parts_of(device, phase) }
  return cache[key][1], cache[key][2]
end

local shared_part = "bfloat16, head size 128" -- what both GPUs were measured with

local function all_points()
  local points = {}
  for _, device in ipairs(attention.devices) do
    for _, phase in ipairs { "prefill", "decode" } do
      local parts, names = cached(device, phase)
      if not parts then return nil, names end
      for _, name in ipairs(names) do
        for _, split in ipairs(splits) do
          points[#points + 1] = { device = device, phase = phase, part = name, split = split }
        end
      end
      points[#points + 1] = { device = device, phase = phase, part = shared_part, split = "gpu" }
    end
  end
  return points
end

local points, why = all_points()

-- A seeded order of the indices: the first `few` are what is measured of a new GPU.
local function dealt(samples, seed)
  local order, state = {}, seed + 1
  for i = 1, #samples do order[i] = i end
  for i = #order, 2, -1 do
    state = (state * 16807) % 2147483647 -- Park and Miller's generator
    local j = state % i + 1
    order[i], order[j] = order[j], order[i]
  end
  return order
end

local function by_other_gpu(point, samples, seed)
  local donor_samples = cached(other[point.device], point.phase)[shared_part]
  local donor = ts.fit_profile {
    device = other[point.device], kernel_set = "modern", samples = donor_samples, method = "operator",
  }
  local order, measured, rest = dealt(samples, seed), {}, {}
  for i, index in ipairs(order) do table.insert(i <= few and measured or rest, samples[index]) end
  local profile, errors = ts.calibrate {
    device = point.device, kernel_set = "modern", samples = measured, donor = donor, method = "operator",
  }
  local found = {}
  for i, sample in ipairs(rest) do
    found[i] = math.abs(profile:attention_s {
      phase = sample.phase, dtype = sample.dtype, kv_dtype = sample.kv_dtype, batch_size = sample.batch_size,
      tokens = sample.tokens, context_tokens = sample.context_tokens, num_heads = sample.num_heads,
      num_kv_heads = sample.num_kv_heads, head_dim = sample.head_dim, window = sample.window,
    } / sample.latency_s - 1)
  end
  table.sort(found)
  local sum = 0
  for _, value in ipairs(found) do sum = sum + value end
  return {
    median = found[math.ceil(#found / 2)], p90 = found[math.ceil(0.9 * #found)], worst = found[#found],
    mean = sum / #found, num_points = #found, before = errors.before.median,
    donor = errors.donor or "none",
  }
end

local function held_out(point, samples)
  local length = attention.length_of[point.phase]
  local fields = { batch = { "batch_size" }, length = { length }, cell = { "batch_size", length } }
  local _, errors = ts.cross_validate {
    device = point.device, kernel_set = "modern", samples = samples, method = "operator",
    hold_out = fields[point.split], folds = 5,
  }
  return errors
end

local jumps = "kernels change at thresholds where times jump and fall again, which no model that never falls follows"
local scatter = "steps of a few us over an FP8 cache scatter by 20 % from run to run"

-- What misses the target, its median error in percent, and why: [device, phase, part].
local missed = {
  ["A100-80G, decode, bfloat16, head size 128"] = { 5.2, jumps },
  ["H200-141G, decode, bfloat16, fp8 KV, head size 64"] = { 6.6, scatter },
  ["H200-141G, decode, bfloat16, fp8 KV, head size 64, window"] = { 6.2, scatter },
  ["H200-141G, decode, bfloat16, head size 64"] = { 5.8, jumps },
  ["H200-141G, decode, bfloat16, head size 64, window"] = { 6.4, jumps },
}

local function expect_median(t, where, target, what)
  local name = ("%s, %s, %s"):format(where.device, where.phase, where.part)
  local known = where.split ~= "gpu" and missed[name]
  t:expect_that {
    text = ("median error at most %g %%: %s, %s"):format(100 * target, name, what), where = where,
    not_reproduced = known and known[2] or nil,
    here = known and { (known[1] - 0.1) / 100, (known[1] + 0.1) / 100 } or nil,
    holds = function(_, rows)
      local hardest = rows[1]
      for _, row in ipairs(rows) do
        if row.median_error_ratio > hardest.median_error_ratio then hardest = row end
      end
      return hardest.median_error_ratio <= target, ("%.1f %%, p90 %.0f %%, split %s"):format(
        100 * hardest.median_error_ratio, 100 * hardest.p90_error_ratio, hardest.point.split),
        hardest.median_error_ratio
    end,
  }
end

local function expect_part(t, where)
  where.split = splits
  expect_median(t, where, 0.05, "unseen batch or length")
end

return ts.experiment {
  name = "fidelity/attention",
  doc = "Attention on A100 and H200, each point predicted without it: unseen batches, lengths, GPU",
  grid = points or { { device = "A100-80G", phase = "decode", part = shared_part, split = "batch" } },
  quick = points and { device = { "A100-80G" } } or nil,
  columns = { "median_error_ratio", "p90_error_ratio", "worst_error_ratio", "num_points", "before_error_ratio" },

  run = function(point, context)
    if not points then return { status = why.code, message = why.message } end
    local samples = cached(point.device, point.phase)[point.part]
    local errors = point.split == "gpu" and by_other_gpu(point, samples, context.seed % 1000000)
      or held_out(point, samples)
    return {
      median_error_ratio = errors.median, p90_error_ratio = errors.p90, worst_error_ratio = errors.worst,
      mean_error_ratio = errors.mean, num_points = errors.num_points, before_error_ratio = errors.before,
      donor = errors.donor,
    }
  end,

  check = function(t)
    if not points then return t:skip("not checked: " .. why.message) end
    -- Every part that was measured, by its hardest split.
    for _, device in ipairs(attention.devices) do
      for _, phase in ipairs { "prefill", "decode" } do
        local _, names = cached(device, phase)
        for _, part in ipairs(names) do expect_part(t, { device = device, phase = phase, part = part }) end
        expect_median(t, { device = device, phase = phase, part = shared_part, split = "gpu" }, 0.1, "a GPU left out")
      end
    end
  end,
  plots = {
    { kind = "bars", x = "part", y = "median_error_ratio", by = "split", facet = "device",
      where = { phase = "prefill" } },
    { kind = "bars", x = "part", y = "median_error_ratio", by = "split", facet = "device",
      where = { phase = "decode" } },
  },
}
