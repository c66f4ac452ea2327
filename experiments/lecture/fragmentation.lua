-- Memory for keys and values: the longest context for every request, a region for each, or blocks as they are needed.
--
-- Three parts. `tokens`: one request of 200 or 4,096 prompt tokens and the token after, in blocks of 16 and with 8,192
-- tokens set aside: slots handed out and slots without a token, read off the steps. `served`: an overloaded chat
-- service (parts/chat.lua; contexts to 16,384, clients allow 2,048 output tokens) under each allocation: what is
-- sustained, and both fragmentations. `block`: paged, by the size of a block.
--
-- Internal fragmentation is reckoned beforehand. A request holds 1,370 prompt tokens (0.9 x 400 + 0.1 x 6,000 +
-- 0.8 x 512) and, over its life, half an output; seen at a moment, outputs are those of 500 tokens (the mean of an
-- exponential length, weighted by length): 1,620 slots. Of 16,384 set aside 90 % are empty, of prompt and 2,048 53 %,
-- of blocks of b tokens half a block, (b - 1) / 2. Bounds: 5 points for the first two, a factor of 1.6 for blocks, as
-- lengths are cut off, prompts take time, and who waits in prefill holds little.
local ts = require "tessera"
local chat = require "lecture.parts.chat"

local block_size, context_tokens, held_tokens = 16, 8192, 1620
local allocations = { "maximum", "contiguous", "paged" }

local points = {}
for _, allocation in ipairs { "paged", "maximum" } do
  for _, tokens in ipairs { 200, 201, 4096, 4097 } do
    points[#points + 1] = { part = "tokens", allocation = allocation, tokens = tokens, block_size = block_size }
  end
end
for _, allocation in ipairs(allocations) do
  points[#points + 1] = { part = "served", allocation = allocation, tokens = 0, block_size = block_size }
end
for _, size in ipairs { 1, 64, 256 } do
  points[#points + 1] = { part = "block", allocation = "paged", tokens = 0, block_size = size }
end

-- One request; its second step writes the token after the prompt. Slots held after the step in which it has `tokens`.
local function one_request(point)
  local num_blocks = context_tokens / block_size
  local deployment = ts.deployment {
    engine = ts.engine {
      scheduler = "vllm_v1", max_model_len = context_tokens, kv_allocation = point.allocation, block_size = block_size,
      kv_blocks = num_blocks, enable_prefix_caching = false, max_num_batched_tokens = context_tokens,
    },
    step_cost = { base_s = 1 },
  }
  local is_prompt = point.tokens == 200 or point.tokens == 4096
  local traffic = ts.traffic {
    rate_per_s = 1, num_requests = 1, prompt_tokens = is_prompt and point.tokens or point.tokens - 1, output_tokens = 3,
  }
  local step = ts.serve(deployment, traffic, { record = true }):steps()[is_prompt and 1 or 2]
  local blocks = num_blocks - step.free_blocks
  return { blocks = blocks, empty_slots = blocks * block_size - point.tokens }
end

local function served(point, context)
  local deployment = chat.deployment { kv_allocation = point.allocation, block_size = point.block_size }
  local traffic = chat.traffic(context.output_dir, {
    rate_per_s = 40, num_requests = context.quick and 2000 or 4000, seed = 1,
  })
  local result = ts.serve(deployment, traffic, { slo = chat.slo, record = false })
  local running, rows = 0, result:series(100)
  for i = 21, 70 do running = running + rows[i].running / 50 end
  return {
    request_per_s = result.request_per_s, throughput_tok_s = result.throughput_tok_s, running = running,
    internal_fragmentation_ratio = result.internal_fragmentation_ratio,
    external_fragmentation_ratio = result.external_fragmentation_ratio, kv_usage_ratio = result.kv_usage_ratio,
    tpot_mean_s = result.tpot_s.mean, preemptions = result.preemptions,
  }
end

return ts.experiment {
  name = "lecture/fragmentation",
  doc = "KV memory by allocation: slots without a token, memory that nobody can have, and what is sustained",
  grid = points,
  columns = {
    "blocks", "empty_slots", "internal_fragmentation_ratio", "external_fragmentation_ratio", "running",
    "request_per_s", "throughput_tok_s", "tpot_mean_s", "kv_usage_ratio", "preemptions",
  },
  notes = {
    "tokens: in the cache of the one request, whose slots are 8,192 under maximum; 0: an overloaded service, 40 req/s",
    "internal: slots handed out that hold no token; external: slots free while a request was refused for memory",
    "running: requests at once, mean over the middle of the run",
  },

  run = function(point, context)
    if point.part == "tokens" then return one_request(point) end
    return served(point, context)
  end,

  check = function(t)
    for _, wanted in ipairs { { 200, 13, 8 }, { 201, 13, 7 }, { 4096, 256, 0 }, { 4097, 257, 15 } } do
      local where = { part = "tokens", allocation = "paged", tokens = wanted[1] }
      t:expect_all { column = "blocks", equals = wanted[2], where = where }
      t:expect_all { column = "empty_slots", equals = wanted[3], where = where }
    end
    for _, wanted in ipairs { { 201, 7991 }, { 4097, 4095 } } do
      local where = { part = "tokens", allocation = "maximum", tokens = wanted[1] }
      t:expect_all { column = "empty_slots", equals = wanted[2], where = where }
    end
    local function expect_internal(low, high, where)
      t:expect_all { column = "internal_fragmentation_ratio", at_least = low, at_most = high, where = where }
    end
    expect_internal(0.85, 0.95, { part = "served", allocation = "maximum" })
    expect_internal(0.48, 0.58, { part = "served", allocation = "contiguous" })
    local function expect_blocks(part, size)
      local half = (size - 1) / 2
      local share = half / (held_tokens + half)
      expect_internal(share / 1.6, share * 1.6, { part = part, allocation = "paged", block_size = size })
    end
    expect_blocks("served", 16)
    expect_blocks("block", 64)
    expect_blocks("block", 256)
    t:expect_all { column = "internal_fragmentation_ratio", equals = 0, where = { part = "block", block_size = 1 } }
    t:expect_that { -- holes of less than a prompt and 2,048 tokens, between regions of 131 to 512 blocks
      text = "regions leave 1 to 25 % of the memory in holes that are too small; the others leave less than a request",
      where = { part = "served" },
      holds = function(at)
        local contiguous = at { allocation = "contiguous" }.external_fragmentation_ratio
        local maximum = at { allocation = "maximum" }.external_fragmentation_ratio or 0
        local blocks = at { allocation = "paged" }.external_fragmentation_ratio or 0
        return contiguous >= 0.01 and contiguous <= 0.25 and maximum == 0 and blocks == 0,
          ("%.1f %%"):format(100 * contiguous)
      end,
    }
    -- 450,304 slots: 27 contexts of 16,384; some 130 regions of 3,418; 278 requests of 1,620, for which there are 256
    -- seats.
    local at_once = { maximum = { 24, 27 }, contiguous = { 90, 132 }, paged = { 180, 256 } }
    for _, allocation in ipairs(allocations) do
      t:expect_all {
        column = "running", at_least = at_once[allocation][1], at_most = at_once[allocation][2],
        where = { part = "served", allocation = allocation },
      }
    end
    t:expect_order {
      column = "request_per_s", by = "allocation", order = { "paged", "contiguous", "maximum" }, highest = true,
      where = { part = "served" },
    }
    t:expect_that { -- throughput saturates with the batch, so less than the 10 times as many that run
      text = "blocks sustain 1.5 to 4 times the requests of the longest context for each",
      where = { part = "served" },
      holds = function(at)
        local ratio = at { allocation = "paged" }.request_per_s / at { allocation = "maximum" }.request_per_s
        return ratio >= 1.5 and ratio <= 4, ("%.2f"):format(ratio)
      end,
    }
    t:expect_that { -- what the lecture does not say: more at once, longer steps
      text = "and each of them waits 2 to 8 times as long for a token",
      where = { part = "served" },
      holds = function(at)
        local ratio = at { allocation = "paged" }.tpot_mean_s / at { allocation = "maximum" }.tpot_mean_s
        return ratio >= 2 and ratio <= 8, ("%.2f"):format(ratio)
      end,
    }
  end,
  plots = { {
    kind = "bars", x = "allocation", y = "internal_fragmentation_ratio", where = { part = "served" },
  } },
}
