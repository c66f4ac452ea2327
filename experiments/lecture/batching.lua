-- Static and continuous batching: what slots do, and what users get, under load.
--
-- Two parts. `slots`: 960 requests are there from the start, every step takes a second, and outputs are 1 to 100
-- tokens, or 50 each. A static batch takes as long as its longest request, so that all take the sum of those maxima,
-- to the second; continuous batching keeps every slot busy until the queue is empty, which bounds it from both sides
-- (Graham, 1966). `load`: a chat service on an H100 (parts/chat.lua), by rate. Orca batches continuously too, and sets
-- memory for 16,384 tokens aside for each request; vLLM hands it out in blocks.
--
-- Bounds follow from the lengths in the first part; in the second they were chosen before the first run: who waits for
-- a batch waits seconds where others wait for a step.
local ts = require "tessera"
local chat = require "lecture.parts.chat"

local schedulers, rates, slot_counts = { "static", "orca", "vllm_v1" }, { 1, 2, 4, 8, 16 }, { 4, 16, 64 }
local outputs = { varied = { distribution = "uniform", min = 1, max = 100 }, equal = 50 }

local points = {}
for _, scheduler in ipairs(schedulers) do
  for _, lengths in ipairs { "varied", "equal" } do
    for _, slots in ipairs(slot_counts) do
      points[#points + 1] = { part = "slots", scheduler = scheduler, lengths = lengths, slots = slots, rate_per_s = 0 }
    end
  end
  for _, rate in ipairs(rates) do
    points[#points + 1] = { part = "load", scheduler = scheduler, lengths = "chat", slots = 256, rate_per_s = rate }
  end
end

-- Steps that static batches of these outputs take one after the other, and the least and most of any other rule that
-- leaves no slot empty.
local function steps_of(requests, slots)
  local static, sum, longest = 0, 0, 0
  for first = 1, #requests, slots do
    local most = 0
    for i = first, math.min(first + slots - 1, #requests) do most = math.max(most, requests[i].output_tokens) end
    static, longest = static + most, math.max(longest, most)
  end
  for _, request in ipairs(requests) do sum = sum + request.output_tokens end
  return static, sum / slots, sum / slots + (1 - 1 / slots) * longest, sum
end

local function slots(point)
  local deployment = ts.deployment {
    engine = ts.engine {
      scheduler = point.scheduler, max_num_seqs = point.slots, max_num_batched_tokens = 1024, max_model_len = 128,
      kv_blocks = 4096, enable_prefix_caching = false,
    },
    step_cost = { base_s = 1 },
  }
  local traffic = ts.traffic {
    rate_per_s = math.huge, prompt_tokens = 1, output_tokens = outputs[point.lengths], num_requests = 960, seed = 1,
  }
  local served = ts.serve(deployment, traffic, { record = false })
  local static, least, most, sum = steps_of(served:requests(), point.slots)
  return {
    duration_s = served.duration_s, static_steps = static, least_steps = least, most_steps = most,
    slot_use_ratio = sum / (served.duration_s * point.slots),
  }
end

local function under_load(point, context)
  local traffic = chat.traffic(context.output_dir, {
    rate_per_s = point.rate_per_s, num_requests = context.quick and 600 or 2000, seed = 1,
  })
  local served = ts.serve(chat.deployment { scheduler = point.scheduler }, traffic, { slo = chat.slo, record = false })
  return {
    ttft_mean_s = served.ttft_s.mean, ttft_p99_s = served.ttft_s.p99, tpot_mean_s = served.tpot_s.mean,
    throughput_tok_s = served.throughput_tok_s, goodput_request_per_s = served.goodput_request_per_s,
    attainment_ratio = served.attainment_ratio, verdict = served.stable and "stable" or "unstable",
  }
end

return ts.experiment {
  name = "lecture/batching",
  doc = "Static and continuous batching: slots in use, TTFT, throughput and goodput",
  grid = points,
  columns = {
    "duration_s", "slot_use_ratio", "ttft_mean_s", "ttft_p99_s", "tpot_mean_s", "throughput_tok_s",
    "goodput_request_per_s", "attainment_ratio", "verdict",
  },
  notes = {
    "slots: seats of the engine; rate_per_s 0: all requests are there from the start",
    "a static batch computes ended requests on, as padding; it takes memory for all that a request may come to",
    "goodput: requests with TTFT < 500 ms and TPOT < 50 ms; latencies of an unstable run say how long it went on",
  },

  run = function(point, context)
    if point.part == "slots" then return slots(point) end
    return under_load(point, context)
  end,

  check = function(t)
    t:expect_that {
      text = "static batches take the sum of their longest requests, to the second",
      where = { part = "slots", scheduler = "static" },
      holds = function(_, rows)
        for _, row in ipairs(rows) do
          if row.duration_s ~= row.static_steps then
            return false, ("%g, not %g"):format(row.duration_s, row.static_steps)
          end
        end
        return true
      end,
    }
    t:expect_that {
      text = "continuous batching takes what fills all slots, and at most one longest request more",
      where = { part = "slots", scheduler = { "orca", "vllm_v1" } },
      holds = function(_, rows)
        for _, row in ipairs(rows) do
          if row.duration_s < row.least_steps or row.duration_s > row.most_steps then
            return false, ("%g, not %g to %g"):format(row.duration_s, row.least_steps, row.most_steps)
          end
        end
        return true
      end,
    }
    -- The mean of 1 to 100 over the mean of the largest of n, 101 n / (n + 1): (n + 1) / 2n; 0.625, 0.531, 0.508.
    for i, use in ipairs { 0.625, 0.531, 0.508 } do
      t:expect_all {
        column = "slot_use_ratio", at_least = use - 0.03, at_most = use + 0.03,
        where = { part = "slots", scheduler = "static", lengths = "varied", slots = slot_counts[i] },
      }
    end
    t:expect_all {
      column = "slot_use_ratio", at_least = 0.85, at_most = 1,
      where = { part = "slots", scheduler = "vllm_v1", lengths = "varied" },
    }
    -- When it does not help: 960 is a multiple of the slots, and nobody waits for a longer one.
    t:expect_all { column = "slot_use_ratio", equals = 1, where = { part = "slots", lengths = "equal" } }
    t:expect_that { -- at 1/s both serve all that comes; a batch takes seconds, a step some 10 ms
      text = "at 1 req/s throughput is the same to 3 %, but TTFT is 20 to 500 times longer in static batches",
      where = { part = "load", rate_per_s = 1 },
      holds = function(at)
        local static, v1 = at { scheduler = "static" }, at { scheduler = "vllm_v1" }
        local ratio, tokens = static.ttft_mean_s / v1.ttft_mean_s, static.throughput_tok_s / v1.throughput_tok_s
        return math.abs(tokens - 1) <= 0.03 and ratio >= 20 and ratio <= 500, ("%.0f times"):format(ratio)
      end,
    }
    t:expect_all {
      column = "attainment_ratio", at_least = 0, at_most = 0.3, where = { part = "load", scheduler = "static" },
    }
    t:expect_all {
      column = "attainment_ratio", at_least = 0.9, at_most = 1,
      where = { part = "load", scheduler = "vllm_v1", rate_per_s = { 1, 2, 4, 8 } },
    }
    t:expect_that {
      text = "at 16 req/s vLLM serves 2 to 6 times the tokens of static batches, and more than Orca",
      where = { part = "load", rate_per_s = 16 },
      holds = function(at)
        local static, orca, v1 = at { scheduler = "static" }, at { scheduler = "orca" }, at { scheduler = "vllm_v1" }
        local ratio, beyond = v1.throughput_tok_s / static.throughput_tok_s, v1.throughput_tok_s / orca.throughput_tok_s
        return ratio >= 2 and ratio <= 6 and beyond >= 1.05 and beyond <= 4, ("%.2f and %.2f"):format(ratio, beyond)
      end,
    }
    t:expect_order {
      column = "goodput_request_per_s", by = "scheduler", order = { "vllm_v1", "orca", "static" }, highest = true,
      where = { part = "load", rate_per_s = 16 },
    }
  end,
  plots = {
    {
      kind = "lines", x = "rate_per_s", y = "goodput_request_per_s", by = "scheduler", where = { part = "load" },
    },
    {
      kind = "bars", x = "slots", y = "slot_use_ratio", by = "scheduler",
      where = { part = "slots", lengths = "varied" },
    },
  },
}
