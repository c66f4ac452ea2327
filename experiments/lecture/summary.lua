-- The lecture's summary: seven techniques, five metrics, and which way each goes. Every cell is simulated with the
-- technique and without it, on the same requests.
--
-- The set-up is parts/chat.lua: Llama-3.1-8B on one H100 (two for P/D, in both cases), a chat service in which one
-- prompt of ten is a document. The reference engine batches continuously, pages its memory and cuts prompts into
-- pieces; each technique is turned off, or on, there:
--   continuous_batching   static batches, and the reference
--   paged_attention       memory for 16,384 tokens set aside for each request, and the reference
--   prefix_caching        the reference, and with it (four of five requests begin with one of 16 system prompts)
--   chunked_prefill       vLLM V0, prompts whole and before decodes, and cut into pieces within 2,048 tokens a step
--   pd_disaggregation     two engines behind a router, and one for prompts and one for decodes, 400 Gb/s between them
--   speculative_decoding  the reference, and three drafts of an EAGLE head, each accepted with 0.7 (the lecture's rate)
--   quantization          the reference on an H200, and FP8 weights, activations and KV cache (both fitted; of the H100
--                         FP8 products are only modelled)
-- Loads: below, near and above (0.5, 0.9, 1.5 times) the rate that the engine without the technique completes when all
-- requests come at once. `slo`: the highest rates at which nine of ten requests keep to the service level. `hurts`: a
-- workload, chosen for each technique, in which it does.
--
-- Which load a cell is judged at was fixed beforehand: TTFT and TPOT near capacity, as above it they only say how long
-- the run went on; throughput and dollars above it, as below it both serve what comes; goodput by the rates of `slo`.
-- A cell is the lecture's if the direction is; thresholds of the signs are in parts/signs.lua.
local ts = require "tessera"
local chat = require "lecture.parts.chat"
local signs = require "lecture.parts.signs"

local paper = ts.paper "lecture/summary.csv"

local num_seeds = 5
local metrics = { "ttft", "tpot", "itl", "throughput", "goodput", "cost" }
local load_of = { below = 0.5, near = 0.9, above = 1.5 }
local judged_at = { ttft = "near", tpot = "near", throughput = "above", goodput = "slo", cost = "above" }

local function eagle(acceptance)
  return { speculative = { method = "eagle", num_tokens = 3, acceptance = acceptance } }
end
local function with_bits(bitwidth, kv_bitwidth, cluster)
  return function()
    return ts.deployment {
      plan = chat.plan(bitwidth, kv_bitwidth, cluster), engine = chat.engine(), api_s = 0,
      usd_per_h = ts.device("H100-80G").price_usd_per_h, -- of both; it cancels
    }
  end
end
local function collocated()
  return chat.deployment({}, { cluster = "2xH100-80G", replicas = 2, router = "least_tokens" })
end
local function disaggregated(link_gbps)
  return chat.deployment({}, {
    pools = { { role = "prefill" }, { role = "decode" } }, transfer = { link_gbps = link_gbps, latency_s = 0.005 },
  })
end
local whole_prompts = { scheduler = "vllm_v0", enable_chunked_prefill = false, max_num_batched_tokens = 16384 }
local function in_pieces(tokens)
  return { scheduler = "vllm_v0", enable_chunked_prefill = true, max_num_batched_tokens = tokens }
end

local alone = { prefix_groups = false, prefix_tokens = false, prefix_share = false }
local function traffic_alone(changes)
  for name, value in pairs(alone) do changes[name] = value end
  return changes
end
local function reference() return chat.deployment() end

-- hurts: traffic, engines where they are others, whether it is an overload, the metrics that get worse, and why.
local techniques = {
  continuous_batching = {
    off = function() return chat.deployment { scheduler = "static" } end, on = reference,
    hurts = {
      traffic = traffic_alone {
        rate_per_s = math.huge, prompt_tokens = 512, output_tokens = 250, max_tokens = 250, num_requests = 250,
      },
      worse = { "tpot", "itl" }, why = "250 requests of one length come together: prompts that join hold up decodes",
    },
  },
  paged_attention = {
    off = function() return chat.deployment { kv_allocation = "maximum" } end, on = reference,
    hurts = {
      traffic = traffic_alone {
        rate_per_s = 10, prompt_tokens = 128, output_tokens = 1000, max_tokens = 1000, num_requests = 1000,
      },
      off = function()
        return chat.deployment { kv_allocation = "maximum", max_model_len = 1152, kv_blocks = 1500 }
      end,
      on = function() return chat.deployment { max_model_len = 1152, kv_blocks = 1500 } end, is_overload = true,
      worse = { "tpot", "itl" },
      why = "outputs of 1,000 tokens in 24,000 slots: who is let in on little memory is preempted and computed again",
    },
  },
  prefix_caching = {
    off = reference, on = function() return chat.deployment { enable_prefix_caching = true } end,
    hurts = {
      traffic = traffic_alone { rate_per_s = 16 }, worse = {},
      why = "no two prompts begin alike: nothing is gained; what hashing costs the host is not in the model",
    },
  },
  chunked_prefill = {
    off = function() return chat.deployment(whole_prompts) end,
    on = function() return chat.deployment(in_pieces(2048)) end,
    hurts = {
      traffic = { rate_per_s = 3, long_share = 1, num_requests = 1000 },
      on = function() return chat.deployment(in_pieces(512)) end, worse = { "ttft", "goodput" },
      why = "documents alone, in pieces within 512 tokens a step: each takes some 12 steps, decodes in all of them",
    },
  },
  pd_disaggregation = {
    off = collocated, on = function() return disaggregated(400) end,
    hurts = {
      traffic = { rate_per_s = 8, long_share = 0, num_requests = 1000 },
      on = function() return disaggregated(10) end, worse = { "tpot" },
      why = "short prompts, a low load and a link of 10 Gb/s: nothing interferes, and each cache waits for the link",
    },
  },
  speculative_decoding = {
    off = reference, on = function() return chat.deployment(eagle(0.7)) end,
    hurts = {
      traffic = { rate_per_s = 30 }, on = function() return chat.deployment(eagle(0.3)) end, is_overload = true,
      worse = { "throughput", "cost" }, why = "a full batch, and three of ten drafts accepted: verifying costs more",
    },
  },
  quantization = {
    off = with_bits(16, 16, "1xH200-141G"), on = with_bits(8, 8, "1xH200-141G"),
    hurts = {
      traffic = { rate_per_s = 0.5, long_share = 1, num_requests = 1000 },
      off = with_bits(16, 16, "1xA100-80G"), on = with_bits(4, 16, "1xA100-80G"), worse = { "ttft", "itl" },
      why = "documents on an A100 that has weights of 4 bits alone: its products are in 16 bits, after expanding them",
    },
  },
}
local names = {
  "continuous_batching", "paged_attention", "prefix_caching", "chunked_prefill", "pd_disaggregation",
  "speculative_decoding", "quantization",
}

-- What a run comes to, larger being better. Of an overload, latencies are those of the run's length, and absent.
local function measured(served, is_overload)
  return {
    ttft = not is_overload and 1 / served.ttft_s.mean or nil,
    tpot = 1 / served.tpot_s.mean, itl = 1 / served.itl_s.p99, throughput = served.throughput_tok_s,
    -- One request at least, so that a ratio is a number.
    goodput = math.max(served.goodput_request_per_s, 1 / served.duration_s), cost = 1 / served.usd_per_million_tokens,
  }
end

-- Gains of every metric by seed; the same requests on both.
local function gains_over_seeds(off, on, traffic_of, is_overload)
  local gains = {}
  for seed = 1, num_seeds do
    local traffic = traffic_of(seed)
    local options = { slo = chat.slo, seed = seed, record = false }
    local before = measured(ts.serve(off, traffic, options), is_overload)
    local after = measured(ts.serve(on, traffic, options), is_overload)
    for metric, value in pairs(before) do
      gains[metric] = gains[metric] or {}
      table.insert(gains[metric], after[metric] / value)
    end
  end
  return gains
end

local function rates_over_seeds(off, on, traffic_of)
  local gains, rate = {}, 0
  for seed = 1, num_seeds do
    local traffic, options = traffic_of(seed), { slo = chat.slo, attainment_ratio = 0.9 }
    local before = ts.max_rate(off, traffic, options).rate_per_s
    gains[seed] = ts.max_rate(on, traffic, options).rate_per_s / before
    rate = rate + before / num_seeds
  end
  return { goodput = gains }, rate
end

local function simulated(point, context)
  local technique = techniques[point.technique]
  local hurts = point.load == "hurts" and technique.hurts or {}
  local off, on = (hurts.off or technique.off)(), (hurts.on or technique.on)()
  local rate = hurts.traffic and hurts.traffic.rate_per_s
  if load_of[point.load] then rate = load_of[point.load] * chat.capacity_per_s(off, context.output_dir) end
  local function traffic_of(seed)
    local num_requests = 2000 * #off.replicas -- as long a run of two engines as of one
    local changes = { rate_per_s = rate or 5, seed = seed, num_requests = num_requests }
    for name, value in pairs(hurts.traffic or {}) do changes[name] = value end
    return chat.traffic(context.output_dir, changes)
  end
  if point.load == "slo" then return rates_over_seeds(off, on, traffic_of) end
  local is_overload = point.load == "above" or hurts.is_overload
  return gains_over_seeds(off, on, traffic_of, is_overload), rate
end

-- Cells that are not the lecture's: what comes out, and why.
local exceptions = {
  paged_attention = {
    tpot = {
      "0", "paging lets more requests in, which makes steps longer; near capacity that is 2 %, above it TPOT is worse",
    },
  },
  pd_disaggregation = {
    ttft = {
      "--", "one engine reads all prompts where two did, so that documents wait for documents; with pieces of 2,048 "
        .. "tokens prompts do not wait long beside decodes either",
    },
    throughput = { "-", "work cannot be evened out between the two engines: the one for prompts is full first" },
    goodput = {
      "-", "at 50 ms per token decodes bear prompts beside them; at 15 ms P/D wins, see lecture/disaggregation",
    },
  },
}

return ts.experiment {
  name = "lecture/summary",
  doc = "Seven techniques, five metrics: the sign of each, over loads, beside the lecture's",
  paper = paper,
  grid = { technique = names, load = { "below", "near", "above", "slo", "hurts" } },
  quick = { load = { "near", "above", "hurts" } },
  columns = {
    "rate_per_s", "ttft", "tpot", "itl", "throughput", "goodput", "cost", "ttft_gain", "tpot_gain", "itl_gain",
    "throughput_gain", "goodput_gain", "cost_gain",
  },
  notes = {
    "gains: factors over the engine without the technique, above 1 better (latencies and dollars the other way round), "
      .. "geometric mean over seeds, with its 95 % interval in columns _low and _high",
    "ttft, tpot: means over requests; itl: p99 of all gaps; cost: dollars per million output tokens; rate_per_s: "
      .. "requests sent, of slo what is sustained without the technique",
    "step times of the H100 are modelled, of the H200 fitted; how many drafts of EAGLE pass is chosen, and its head "
      .. "takes no memory here",
    "FP8 changes the model: perplexity and accuracy as plan.quality has it are claimed beside the table",
  },

  run = function(point, context)
    local gains, rate = simulated(point, context)
    local row = { rate_per_s = rate ~= math.huge and rate or nil }
    for _, metric in ipairs(metrics) do
      if gains[metric] then
        local gain, low, high = signs.mean(gains[metric])
        row[metric], row[metric .. "_gain"] = signs.of(gain, low, high), gain
        row[metric .. "_low"], row[metric .. "_high"] = low, high
      end
    end
    if point.technique == "quantization" then
      local quality = (point.load == "hurts" and chat.plan(4, 16) or chat.plan(8, 8)).quality
      row.perplexity_increase, row.accuracy_recovery = quality.perplexity_increase.mid, quality.accuracy_recovery.mid
      row.quality = quality.text
    end
    return row
  end,

  check = function(t)
    for _, name in ipairs(names) do
      for _, metric in ipairs { "ttft", "tpot", "throughput", "goodput", "cost" } do
        local printed = t:published({ technique = name, load = judged_at[metric] }, metric)
        local exception = (exceptions[name] or {})[metric] or {}
        t:expect_that {
          text = ("%s: %s goes the way the lecture says, %s"):format(name, metric, printed),
          where = { technique = name, load = judged_at[metric] },
          holds = function(_, rows)
            local row = rows[1]
            local direction, exact = signs.agree(row[metric], printed)
            return direction, ("%s, factor %.2f (%.2f to %.2f)%s"):format(row[metric], row[metric .. "_gain"],
              row[metric .. "_low"], row[metric .. "_high"], exact and ", in strength too" or ""), row[metric]
          end,
          here = exception[1], not_reproduced = exception[2],
        }
      end
    end
    for _, name in ipairs(names) do
      local hurts = techniques[name].hurts
      t:expect_that {
        text = ("%s hurts: %s"):format(name, hurts.why),
        where = { technique = name, load = "hurts" },
        holds = function(_, rows)
          local row, words, worse = rows[1], {}, true
          for _, metric in ipairs(#hurts.worse > 0 and hurts.worse or metrics) do
            words[#words + 1] = ("%s %s %.2f"):format(metric, row[metric], row[metric .. "_gain"])
            worse = worse and signs.direction(row[metric]) == (#hurts.worse > 0 and "worse" or "same")
          end
          return worse, table.concat(words, ", ")
        end,
      }
    end
    -- Three drafts of rate 0.7 make 2.533 tokens of a step at most; FP8 halves all bytes. Chosen from these.
    local function expect_gain(name, metric, low, high)
      local where = { technique = name, load = "below" }
      t:expect_all { column = metric .. "_gain", at_least = low, at_most = high, where = where }
    end
    expect_gain("speculative_decoding", "tpot", 1.5, 2.533)
    expect_gain("quantization", "tpot", 1.1, 2)
    -- What experiments/quality claims of 8 and 4 bits, with room: a speed-up stands for what it costs.
    local weights = { technique = "quantization", load = "near" }
    t:expect_all { column = "perplexity_increase", at_least = 0, at_most = 0.03, where = weights }
    t:expect_all { column = "accuracy_recovery", at_least = 0.98, at_most = 1.01, where = weights }
    local count = { cells = 0, direction = 0, strength = 0 }
    for _, name in ipairs(names) do
      for metric, load in pairs(judged_at) do
        local row, printed = t:rows({ technique = name, load = load })[1],
          t:published({ technique = name, load = load }, metric)
        if row and row[metric] and printed then
          local direction, exact = signs.agree(row[metric], printed)
          count.cells, count.direction = count.cells + 1, count.direction + (direction and 1 or 0)
          count.strength = count.strength + (exact and 1 or 0)
        end
      end
    end
    t:note("cells that go the lecture's way, and that do so in strength too", ("%d and %d of %d"):format(
      count.direction, count.strength, count.cells))
  end,
  plots = { {
    kind = "heatmap", x = "load", y = "technique", value = "tpot_gain",
    where = { load = { "below", "near", "above", "hurts" } },
  } },
}
