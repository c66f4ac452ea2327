-- Fewer bits: of weights, of activations, of the KV cache; what that saves, what it gains in a server, what it costs.
--
-- Llama-3.1-8B with weights of 16, 8 (FP8: weights and activations, on the A100 weights alone) and 4 bits (weights
-- alone), and a KV cache of 16 or 8 bits, on an H200 and an A100, of which 16 bits, and the H200's FP8, are fitted, and
-- on an L4, modelled, whose 24 GB hardly hold the model. The chat service of parts/chat.lua: TTFT and TPOT well below
-- capacity, and the requests per second that are completed when all come at once. No vLLM kernel here reads a cache of
-- 8 bits on an A100. Quality is plan.quality's: published measurements of models of the family, on other models.
--
-- Bounds: bytes by arithmetic. A decode step of one request reads its layers and the LM head, which stays at 16 bits:
-- the lecture's "theoretical 4x" of 4 bits can be 3.3 (15.0 GB over 4.5 GB); kernels and what is not a weight take more
-- off, so 1.3 to 3.3. Others were chosen from a first look: what comes of that under load depends on kernels.
local ts = require "tessera"
local chat = require "lecture.parts.chat"

local rates = { ["H200-141G"] = 5, ["A100-80G"] = 1.5, L4 = 0.2 } -- well below capacity
local devices = { "H200-141G", "A100-80G", "L4" }

local points = {}
for _, device in ipairs(devices) do
  for _, bitwidth in ipairs { 16, 8, 4 } do
    for _, kv_bitwidth in ipairs(device == "A100-80G" and { 16 } or { 16, 8 }) do
      points[#points + 1] = { device = device, bitwidth = bitwidth, kv_bitwidth = kv_bitwidth }
    end
  end
end

local function expect_gain(t, text, device, column, of, over, low, high)
  t:expect_that {
    text = ("%s: %s, %g to %g times"):format(device, text, low, high), where = { device = device },
    holds = function(at)
      local ratio = at(of)[column] / at(over)[column]
      return ratio >= low and ratio <= high, ("%.3f"):format(ratio)
    end,
  }
end

local full, fp8, four = { bitwidth = 16, kv_bitwidth = 16 }, { bitwidth = 8, kv_bitwidth = 16 },
  { bitwidth = 4, kv_bitwidth = 16 }

return ts.experiment {
  name = "lecture/quantisation",
  doc = "Bits of weights and KV cache: memory, TTFT, TPOT, capacity, and the quality they cost",
  grid = points,
  columns = {
    "kv_tokens", "decode_s", "prefill_s", "ttft_mean_s", "tpot_mean_s", "capacity_per_s", "perplexity_increase",
    "perplexity_low", "perplexity_high", "accuracy_recovery", "provenance",
  },
  notes = {
    "decode_s: a step of one request with 1,000 tokens of context; prefill_s: of a prompt of 2,048 tokens",
    "ttft, tpot: at 5, 1.5 and 0.2 req/s on H200, A100 and L4; capacity_per_s: requests completed, all sent at once",
    "perplexity_increase and accuracy_recovery: of the model at 16 bits, ratios; low and high hold 90 %",
  },

  run = function(point, context)
    local plan = chat.plan(point.bitwidth, point.kv_bitwidth, "1x" .. point.device)
    local deployment = ts.deployment { plan = plan, engine = chat.engine(), api_s = 0 }
    local capacity = chat.capacity_per_s(deployment, context.output_dir)
    local served = ts.serve(deployment, chat.traffic(context.output_dir, {
      rate_per_s = rates[point.device], num_requests = context.quick and 500 or 2000, seed = 1,
    }), { record = false })
    local quality = plan.quality
    return {
      kv_tokens = deployment.replicas[1].kv_tokens, capacity_per_s = capacity, ttft_mean_s = served.ttft_s.mean,
      tpot_mean_s = served.tpot_s.mean, decode_s = deployment:step_s { num_decodes = 1, context_tokens = 1000 },
      prefill_s = deployment:step_s { num_prompts = 1, prompt_tokens = 2048 }, provenance = plan.provenance,
      perplexity_increase = quality.perplexity_increase.mid, perplexity_low = quality.perplexity_increase.low,
      perplexity_high = quality.perplexity_increase.high, accuracy_recovery = quality.accuracy_recovery.mid,
    }
  end,

  check = function(t)
    t:expect_that {
      text = "a KV cache of 8 bits holds twice the tokens of one of 16, to a block",
      where = { device = { "H200-141G", "L4" } },
      holds = function(at)
        for _, device in ipairs { "H200-141G", "L4" } do
          for _, bitwidth in ipairs { 16, 8, 4 } do
            local eight = at { device = device, bitwidth = bitwidth, kv_bitwidth = 8 }.kv_tokens
            local sixteen = at { device = device, bitwidth = bitwidth, kv_bitwidth = 16 }.kv_tokens
            if eight < 2 * sixteen or eight > 2 * sixteen + 16 then return false, ("%d, %d"):format(eight, sixteen) end
          end
        end
        return true
      end,
    }
    -- 32 layers of 218.1e6 parameters; 4 bits have a scale of 16 bits for every 128 weights.
    t:expect_that {
      text = "the cache grows by what weights give up: 12 or 8 bits of each parameter, up to 4 % less for scales",
      holds = function(at)
        local parameters = ts.model(chat.model).layer_parameters * 32
        local low, high = math.huge, 0
        for _, device in ipairs(devices) do
          local function tokens(bits) return at { device = device, bitwidth = bits, kv_bitwidth = 16 }.kv_tokens end
          for _, bits in ipairs { 8, 4 } do
            local freed = (tokens(bits) - tokens(16)) * 131072 / (parameters * (16 - bits) / 8)
            low, high = math.min(low, freed), math.max(high, freed)
          end
        end
        return low >= 0.96 and high <= 1, ("%.3f to %.3f"):format(low, high)
      end,
    }
    for _, device in ipairs(devices) do
      expect_gain(t, "4 bits decode one request faster", device, "decode_s", full, four, 1.3, 3.3)
      -- Read once (15.0 over 8.0 GB), and weights of 16 bits come from memory no faster than the sheet says.
      expect_gain(t, "8 bits decode one request faster", device, "decode_s", full, fp8, 1.2, 1.9)
      expect_gain(t, "4 bits give tokens faster below capacity", device, "tpot_mean_s", full, four, 1.1, 3.3)
    end
    -- "Activation quantization accelerates prefill compute as well": twice the FLOP/s at most.
    for _, device in ipairs { "H200-141G", "L4" } do
      expect_gain(t, "FP8 reads prompts faster", device, "prefill_s", full, fp8, 1.2, 2)
      expect_gain(t, "and answers sooner", device, "ttft_mean_s", full, fp8, 1.1, 6)
    end
    -- When it hurts: weights of 4 or 8 bits alone are expanded before products in 16 bits. Whole runs of Qwen3-8B that
    -- came at once took 1.27 and 1.45 times as long on an A100 (gpustack), so up to 1.5; it was 1.3 before Marlin's
    -- rate there was known.
    for _, bits in ipairs { fp8, four } do
      expect_gain(t, ("weights of %d bits alone read prompts slower"):format(bits.bitwidth), "A100-80G", "prefill_s",
        bits, full, 1.02, 1.5)
      expect_gain(t, "and complete fewer requests", "A100-80G", "capacity_per_s", bits, full, 0.85, 1)
    end
    -- Memory is what capacity waits for on the L4, not on the H200, which has room for all 256 seats.
    local small_cache = { bitwidth = 16, kv_bitwidth = 8 }
    expect_gain(t, "a cache of 8 bits completes more requests", "L4", "capacity_per_s", small_cache, full, 1.2, 2)
    expect_gain(t, "a cache of 8 bits completes hardly more", "H200-141G", "capacity_per_s", small_cache, full, 1, 1.1)
    expect_gain(t, "FP8 throughout completes more requests", "L4", "capacity_per_s", { bitwidth = 8, kv_bitwidth = 8 },
      full, 1.8, 4)
    expect_gain(t, "FP8 throughout completes more requests", "H200-141G", "capacity_per_s",
      { bitwidth = 8, kv_bitwidth = 8 }, full, 1.1, 2)
    -- No speed-up without what it costs.
    t:expect_all { column = "perplexity_increase", equals = 0, where = { bitwidth = 16, kv_bitwidth = 16 } }
    t:expect_order {
      column = "perplexity_increase", by = "bitwidth", order = { 16, 8, 4 }, lowest = true,
    }
    t:expect_order { column = "accuracy_recovery", by = "bitwidth", order = { 16, 8, 4 }, highest = true }
    t:expect_all { column = "perplexity_increase", at_least = 0.02, at_most = 0.12, where = { bitwidth = 4 } }
    t:expect_all { column = "accuracy_recovery", at_least = 0.95, at_most = 0.995, where = { bitwidth = 4 } }
  end,
  plots = { {
    kind = "scatter", x = "perplexity_increase", y = "capacity_per_s", by = "device",
  } },
}
