-- Compute-bound or memory-bound: the ridge point of a GPU, the intensity of a matrix product, and where prefill and
-- decode stand.
--
-- Three parts. `ridge`: dense FP16 FLOP/s over bytes/s of 16 data sheets; below so many FLOP for each byte moved, a GPU
-- waits for its memory. The lecture's 295 is the H100's. `matmul`: [B, D] times [D, F] with D = F = 8192 in two bytes:
-- intensity, and the time on an A100 by a profile that was fitted to measurements. `prefill`, `decode`: a layer of
-- Llama-3-8B at a context of 1,024 tokens by batch size, priced by the profiles of vLLM's kernels: its intensity, and
-- what share of the data sheet's FLOP/s and bytes/s that time is. Column provenance says which times are fitted; the
-- L4's are modelled.
--
-- Bounds are the roofline's with room for real kernels, written after a first look at the table: a share above 1 is
-- impossible, decode of one request moves its weights at no less than half of the sheet's rate, and the knee of the
-- fitted times lies within a factor 1.5 of the sheet's.
local ts = require "tessera"

local paper = ts.paper "lecture/roofline.csv"

local sheets = {
  "P100-12G", "T4-16G", "V100-32G", "RTX-3090", "RTX-4090", "A10G", "L4", "L40S", "A100-40G", "A100-80G", "H20-96G",
  "H100-PCIe", "H100-80G", "H200-141G", "B200-180G", "MI300X",
}
local profiled = { "A100-80G", "H200-141G", "L4", "RTX-4090" }
local model = ts.model "llama-3-8b"
local width, context_tokens = 8192, 1024
local token_counts = { 1, 8, 64, 128, 256, 295, 512, 4096 }
local batch_sizes = { 1, 16, 64, 256, 1024 }

local points = {}
for _, name in ipairs(sheets) do points[#points + 1] = { part = "ridge", name = name, batch_size = 0 } end
for _, tokens in ipairs(token_counts) do
  points[#points + 1] = { part = "matmul", name = "A100-80G", batch_size = tokens }
end
for _, name in ipairs(profiled) do
  points[#points + 1] = { part = "prefill", name = name, batch_size = 1 }
  for _, batch_size in ipairs(batch_sizes) do
    points[#points + 1] = { part = "decode", name = name, batch_size = batch_size }
  end
end

local function ridge_of(device) return device.flop_per_s.fp16 / device.memory_bytes_per_s end

-- Where so much work in so much time stands under a device's roof.
local function placed(device, flop, bytes, seconds, provenance)
  return {
    intensity_flop_per_byte = flop / bytes, ridge_flop_per_byte = ridge_of(device), time_s = seconds,
    flop_share = flop / seconds / device.flop_per_s.fp16,
    bandwidth_share = bytes / seconds / device.memory_bytes_per_s, provenance = provenance,
  }
end

local function matmul(device, tokens)
  local flop, bytes = 2 * tokens * width * width, 2 * (tokens * width + width * width + tokens * width)
  local seconds, source = ts.profile { device = device, kernel_set = "vllm" }:gemm_s {
    dtype = "bfloat16", m = tokens, n = width, k = width,
  }
  return placed(device, flop, bytes, seconds, source.provenance)
end

-- FLOP and bytes of a layer: matrices once, attention over the context, and the cache that decode reads.
local function layer(device, phase, batch_size)
  local tokens = phase == "prefill" and context_tokens or 1
  local pairs_of_tokens = phase == "prefill" and tokens * (tokens + 1) / 2 or context_tokens + 1
  local flop = 2 * model.layer_parameters * tokens * batch_size
    + 4 * model.num_heads * model.head_dim * pairs_of_tokens * batch_size
  local cache = model:kv_bytes_per_token(16) / model.num_layers * batch_size
    * (phase == "prefill" and tokens or context_tokens + 1)
  local bytes = model:layer_bytes(16) + cache
  local seconds, source = ts.profile { device = device, kernel_set = "vllm" }:layer_s {
    model = model, bitwidth = 16, phase = phase, batch_size = batch_size, tokens = tokens,
    context_tokens = phase == "prefill" and 0 or context_tokens,
  }
  return placed(device, flop, bytes, seconds, source.provenance)
end

-- Tokens at which a product takes twice the time of one token, between the two nearest that were asked for.
local function knee_of(at)
  local once = at { batch_size = 1 }.time_s
  for i = 2, #token_counts do
    local low, high = token_counts[i - 1], token_counts[i]
    local before, after = at { batch_size = low }.time_s, at { batch_size = high }.time_s
    if after >= 2 * once then return low + (high - low) * (2 * once - before) / (after - before) end
  end
end

local function expect_between(t, column, low, high, where)
  t:expect_all { column = column, at_least = low, at_most = high, where = where }
end

return ts.experiment {
  name = "lecture/roofline",
  doc = "Ridge points, the intensity of a product, and the place of prefill and decode",
  paper = paper,
  grid = points,
  columns = {
    "ridge_flop_per_byte", "intensity_flop_per_byte", "time_s", "flop_share", "bandwidth_share", "provenance",
  },
  notes = {
    "shares: of the data sheet's dense FP16 FLOP/s and of its bytes/s, at the predicted time",
    "batch_size: tokens of the product, requests of a phase; 0: neither",
    "with D = F = 8192 the product of B tokens has B / (1 + B / 4096) FLOP per byte, not B",
  },

  run = function(point)
    local device = ts.device(point.name)
    if point.part == "ridge" then return { ridge_flop_per_byte = ridge_of(device) } end
    if point.part == "matmul" then return matmul(device, point.batch_size) end
    return layer(device, point.part, point.batch_size)
  end,

  check = function(t)
    t:expect_close { column = "ridge_flop_per_byte", to = "paper", abs = 0.5 } -- printed without decimals
    t:note("the slide's own figures, 989e12 FLOP/s and 3.36e12 bytes/s, give another one", ("%.1f"):format(989 / 3.36))
    expect_between(t, "ridge_flop_per_byte", 30, 450)
    t:expect_that { -- cut down in FLOP/s, not in bytes/s: a GPU for decode
      text = "the H20's ridge is 6 to 10 times below the H100's",
      where = { part = "ridge", name = { "H20-96G", "H100-80G" } },
      holds = function(at)
        local ratio = at { name = "H100-80G" }.ridge_flop_per_byte / at { name = "H20-96G" }.ridge_flop_per_byte
        return ratio >= 6 and ratio <= 10, ("%.2f times"):format(ratio)
      end,
    }
    t:expect_that { -- "I = B (if we assume B is much less than D and F)"
      text = "the intensity is B to 0.1 % for one token, to 10 % for 295, and half of it for 4,096",
      where = { part = "matmul", batch_size = { 1, 295, 4096 } },
      holds = function(at)
        local function share(tokens) return at { batch_size = tokens }.intensity_flop_per_byte / tokens end
        local one, ridge, many = share(1), share(295), share(4096)
        return one > 0.999 and one < 1 and ridge > 0.9 and ridge < 0.95 and many > 0.49 and many < 0.51,
          ("%.4f, %.3f, %.3f"):format(one, ridge, many)
      end,
    }
    t:expect_that { -- where 2 B D F / FLOP/s = 2 x (bytes / bytes/s): at twice the ridge
      text = "by its fit an A100 takes twice the time of one token at 0.67 to 1.5 of the B that the roofline says",
      where = { part = "matmul" },
      holds = function(at)
        local ratio = knee_of(at) / (2 * at { batch_size = 1 }.ridge_flop_per_byte)
        return ratio >= 0.67 and ratio <= 1.5, ("%.2f"):format(ratio)
      end,
    }
    t:expect_that { -- the roofline has 1.02 and 8
      text = "64 tokens take at most 1.25 times as long as one, 4,096 take 4 to 10 times as long as 512",
      where = { part = "matmul", batch_size = { 1, 64, 512, 4096 } },
      holds = function(at)
        local function ratio(a, b) return at { batch_size = a }.time_s / at { batch_size = b }.time_s end
        local few, many = ratio(64, 1), ratio(4096, 512)
        return few >= 1 and few <= 1.25 and many >= 4 and many <= 10, ("%.3f and %.2f"):format(few, many)
      end,
    }
    local phases = { part = { "matmul", "prefill", "decode" } }
    expect_between(t, "flop_share", 0.001, 1, phases)
    expect_between(t, "bandwidth_share", 0.01, 1, phases)
    local alone = { part = "decode", batch_size = 1 }
    expect_between(t, "intensity_flop_per_byte", 0.9, 1.2, alone) -- "extreme case; B = 1, then I = 1"
    expect_between(t, "bandwidth_share", 0.5, 1, alone)
    expect_between(t, "flop_share", 0.001, 0.02, alone)
    expect_between(t, "flop_share", 0.3, 1, { part = "prefill" })
    expect_between(t, "bandwidth_share", 0.05, 0.3, { part = "prefill" })
    t:expect_that {
      text = "prefill of 1,024 tokens is above the ridge, decode of one request 100 times below",
      where = { part = { "prefill", "decode" }, batch_size = 1 },
      holds = function(at)
        for _, name in ipairs(profiled) do
          local prefill, decode = at { part = "prefill", name = name }, at { part = "decode", name = name }
          if prefill.intensity_flop_per_byte < prefill.ridge_flop_per_byte
            or decode.intensity_flop_per_byte > decode.ridge_flop_per_byte / 100 then
            return false, name
          end
        end
        return true
      end,
    }
    -- As the batch grows, the cache is read for every request of it, and weights are no longer what is waited for:
    -- (2 x parameters + attention) / (cache of 1,025 tokens) = 108 FLOP/byte at most.
    t:expect_that {
      text = "decode at this context stays memory-bound at 1,024 requests: 90 to 108 FLOP/byte, below every ridge here",
      where = { part = "decode", batch_size = 1024 },
      holds = function(_, rows)
        for _, row in ipairs(rows) do
          local intensity = row.intensity_flop_per_byte
          if intensity < 90 or intensity > 108 or intensity > row.ridge_flop_per_byte
            or row.bandwidth_share < row.flop_share then
            return false, ("%.1f of %.1f"):format(intensity, row.ridge_flop_per_byte)
          end
        end
        return true, ("%.1f"):format(rows[1].intensity_flop_per_byte)
      end,
    }
  end,
  plots = { {
    kind = "lines", x = "batch_size", y = "intensity_flop_per_byte", by = "name", where = { part = "decode" },
  } },
}
