-- Prefill and decode on GPUs of their own, against engines that do both, on as many H100.
--
-- Two parts, on Llama-3.1-8B. `rate`: the highest rate of a chat service (parts/chat.lua; with one document of ten
-- prompts, or none) at which nine of ten requests have TTFT < 500 ms and a TPOT within 50, 20 or 15 ms: engines that do
-- both ("2", "4"; "2 whole" are vLLM V0's, prompts whole and before decodes), and pools ("1:1" is one for prompts, one
-- for decodes). `link`: prompts of 1,000 tokens at 4 req/s through 1:1, by the rate of the link; 131 MB go over it for
-- each.
--
-- What a pool for prompts can read is reckoned from a step of 2,048 tokens; a transfer takes latency + bytes / rate.
-- Bounds on ratios of rates were written after a look at the table: P/D is worth a tenth or two over engines whose
-- pieces of 2,048 tokens already keep decodes from waiting for prompts, a third over those that compute prompts whole.
local ts = require "tessera"
local chat = require "lecture.parts.chat"

local mean_prompt_tokens = 0.9 * 400 + 0.1 * 6000 + 0.8 * 512 -- of the service with documents
local latency_s, prompt_tokens, output_tokens = 0.005, 1000, 128

local points = {}
local function add(part, shape, documents, tpot_ms, link_gbps)
  points[#points + 1] = {
    part = part, shape = shape, documents = documents, tpot_ms = tpot_ms, link_gbps = link_gbps,
  }
end
for _, shape in ipairs { "2", "1:1" } do
  for _, documents in ipairs { 0, 0.1 } do
    for _, tpot_ms in ipairs { 50, 20, 15 } do add("rate", shape, documents, tpot_ms, 400) end
  end
end
for _, tpot_ms in ipairs { 50, 20, 15 } do add("rate", "2 whole", 0.1, tpot_ms, 400) end
for _, shape in ipairs { "4", "1:3", "2:2", "3:1" } do
  for _, tpot_ms in ipairs { 50, 15 } do add("rate", shape, 0.1, tpot_ms, 400) end
end
add("link", "2", 0, 0, 400)
for _, link_gbps in ipairs { 3600, 400, 100, 25, 10 } do add("link", "1:1", 0, 0, link_gbps) end

local function deployment_of(point)
  local prefill, decode = point.shape:match "^(%d):(%d)$"
  if not prefill then
    local replicas = tonumber(point.shape:match "^%d")
    local whole = { scheduler = "vllm_v0", enable_chunked_prefill = false, max_num_batched_tokens = 16384 }
    return chat.deployment(point.shape:find "whole" and whole or {}, {
      cluster = replicas .. "xH100-80G", replicas = replicas, router = "least_tokens",
    })
  end
  local function pool(role, count)
    return { role = role, cluster = count .. "xH100-80G", replicas = tonumber(count) }
  end
  return chat.deployment({}, {
    pools = { pool("prefill", prefill), pool("decode", decode) }, router = "least_tokens",
    transfer = { link_gbps = point.link_gbps, latency_s = latency_s },
  })
end

-- As long a run of many engines as of few.
local function highest_rate(point, context)
  local deployment = deployment_of(point)
  local traffic = chat.traffic(context.output_dir, {
    rate_per_s = 10, seed = 1, long_share = point.documents,
    num_requests = (context.quick and 600 or 1500) * #deployment.replicas,
  })
  local found = ts.max_rate(deployment, traffic, {
    slo = { ttft_s = 0.5, tpot_s = point.tpot_ms / 1000 }, attainment_ratio = 0.9, tolerance = 0.03,
  })
  local step_s = chat.deployment():step_s { num_prompts = 1, prompt_tokens = 2048 }
  local prefill = tonumber(point.shape:match "^(%d):")
  return {
    rate_per_s = found.rate_per_s,
    prompt_bound_per_s = prefill and point.documents > 0 and prefill * 2048 / step_s / mean_prompt_tokens or nil,
  }
end

local function over_link(point, context)
  local deployment = deployment_of(point)
  local served = ts.serve(deployment, ts.traffic {
    rate_per_s = 4, arrivals = "constant", prompt_tokens = prompt_tokens, output_tokens = output_tokens,
    num_requests = context.quick and 50 or 200,
  }, { record = false })
  local transfer_s, requests, is_pools = 0, served:requests(), point.shape == "1:1"
  for _, request in ipairs(requests) do transfer_s = transfer_s + request.transfer_s / #requests end
  local bytes = deployment.replicas[1].kv_bytes_per_token * prompt_tokens
  return {
    ttft_mean_s = served.ttft_s.mean, tpot_mean_s = served.tpot_s.mean,
    transfer_s = is_pools and transfer_s or nil,
    reckoned_transfer_s = is_pools and latency_s + bytes * 8 / (point.link_gbps * 1e9) or nil,
  }
end

local function expect_ratio(t, text, where, of, over, low, high)
  t:expect_that {
    text = ("%s: %g to %g times"):format(text, low, high), where = where,
    holds = function(at)
      local ratio = at(of).rate_per_s / at(over).rate_per_s
      return ratio >= low and ratio <= high, ("%.2f"):format(ratio)
    end,
  }
end

return ts.experiment {
  name = "lecture/disaggregation",
  doc = "Pools for prompts and decodes against engines that do both: rates within an SLO, and the link",
  grid = points,
  columns = {
    "rate_per_s", "prompt_bound_per_s", "ttft_mean_s", "tpot_mean_s", "transfer_s",
    "reckoned_transfer_s",
  },
  notes = {
    "shape: engines that do both, or prompts:decodes; documents: share of prompts of 4,000 to 8,000 tokens",
    "rate_per_s: nine of ten requests within TTFT < 500 ms and tpot_ms; prompt_bound_per_s: what the pool can read",
    "a cache goes over when its prompt has been read, 5 ms after, and both sides hold it meanwhile",
  },

  run = function(point, context)
    if point.part == "link" then return over_link(point, context) end
    return highest_rate(point, context)
  end,

  check = function(t)
    local two, none = { part = "rate", documents = 0.1, tpot_ms = 15 }, { part = "rate", documents = 0, tpot_ms = 15 }
    expect_ratio(t, "with documents and 15 ms per token 1:1 sustains more than two engines", two,
      { shape = "1:1" }, { shape = "2" }, 1.03, 1.4)
    expect_ratio(t, "and more than two that compute prompts whole", two,
      { shape = "1:1" }, { shape = "2 whole" }, 1.15, 1.7)
    expect_ratio(t, "at 20 ms as well", { part = "rate", documents = 0.1, tpot_ms = 20 },
      { shape = "1:1" }, { shape = "2 whole" }, 1.05, 1.5)
    expect_ratio(t, "at 15 ms 2:2 sustains more than four", two, { shape = "2:2" }, { shape = "4" }, 1.03, 1.4)
    -- When it hurts.
    expect_ratio(t, "without documents 1:1 sustains about as much", none,
      { shape = "1:1" }, { shape = "2" }, 0.85, 1.1)
    local loose = { part = "rate", documents = 0.1, tpot_ms = 50 }
    expect_ratio(t, "at 50 ms per token 1:1 sustains less", loose, { shape = "1:1" }, { shape = "2" }, 0.6, 0.95)
    expect_ratio(t, "and 2:2 less than four", loose, { shape = "2:2" }, { shape = "4" }, 0.6, 0.97)
    for _, shape in ipairs { "1:3", "3:1" } do
      expect_ratio(t, ("a ratio that does not fit loses against four at 15 ms too, %s"):format(shape), two,
        { shape = shape }, { shape = "4" }, 0.4, 0.95)
    end
    t:expect_that {
      text = "1:3 is bound by the one that reads prompts: 0.7 to 1 times what it can read, at 50 and 15 ms",
      where = { part = "rate", shape = "1:3" },
      holds = function(_, rows)
        local low, high = math.huge, 0
        for _, row in ipairs(rows) do
          local share = row.rate_per_s / row.prompt_bound_per_s
          low, high = math.min(low, share), math.max(high, share)
        end
        return low >= 0.7 and high <= 1, ("%.2f to %.2f"):format(low, high)
      end,
    }
    t:expect_that {
      text = "a transfer takes latency + bytes / rate, to a microsecond",
      where = { part = "link", shape = "1:1" },
      holds = function(_, rows)
        for _, row in ipairs(rows) do
          if math.abs(row.transfer_s - row.reckoned_transfer_s) > 1e-6 then
            return false, ("%.6f s, not %.6f"):format(row.transfer_s, row.reckoned_transfer_s)
          end
        end
        return true
      end,
    }
    t:expect_that { -- beside it, the wait for the next step
      text = "what 10 Gb/s take longer than 3,600 is spread over the 127 tokens after the first, to 15 %",
      where = { part = "link", shape = "1:1", link_gbps = { 10, 3600 } },
      holds = function(at)
        local slow, fast = at { link_gbps = 10 }, at { link_gbps = 3600 }
        local ratio = (slow.tpot_mean_s - fast.tpot_mean_s) * (output_tokens - 1) / (slow.transfer_s - fast.transfer_s)
        return math.abs(ratio - 1) <= 0.15, ("%.3f"):format(ratio)
      end,
    }
    t:expect_that { -- nobody competes, and the cache goes over the link
      text = "at a low load TPOT is no better with P/D: 0.97 to 1.2 times that of two engines at 400 Gb/s",
      where = { part = "link", link_gbps = 400 },
      holds = function(at)
        local ratio = at { shape = "1:1" }.tpot_mean_s / at { shape = "2" }.tpot_mean_s
        return ratio >= 0.97 and ratio <= 1.2, ("%.3f"):format(ratio)
      end,
    }
  end,
  plots = { {
    kind = "bars", x = "shape", y = "rate_per_s", by = "tpot_ms", where = { part = "rate", documents = 0.1 },
  } },
}
