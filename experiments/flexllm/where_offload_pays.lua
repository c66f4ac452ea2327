-- Where attention offload pays once memory bandwidth counts: a fast GPU and a second one with other bandwidths, by our
-- prices.
--
-- The paper's equations have no bandwidth, so that a slower GPU is one of less FLOP/s and AO pays where it is slow. A
-- decode step reads weights and cache: AO leaves reading the cache to the second GPU, and pays two messages a layer.
-- Here the second GPU has a tenth of the FLOP/s and a share of the bandwidth; DP shares requests in proportion to
-- FLOP/s, MP half of the layers.
local claims = require "lib.claims"
local ts = require "tessera"

local base = ts.device "A100-80G"

local function device(name, flop_ratio, bandwidth_ratio)
  return ts.device { name = name, memory_bytes = base.memory_bytes, price_usd_per_h = 1,
    memory_bytes_per_s = bandwidth_ratio * base.memory_bytes_per_s,
    compute_capability = base.compute_capability, flop_per_s = { fp16 = flop_ratio * base.flop_per_s.fp16 } }
end

return ts.experiment {
  name = "flexllm/where_offload_pays",
  doc = "Ratio of bandwidths, context and link for which attention offload beats data and model parallelism",
  grid = { bandwidth_ratio = { 0.1, 0.25, 0.5, 1, 2, 4 }, context_tokens = { 512, 1024, 2048, 3968 },
    link_gbps = { 16, 128, 512, 3200 } },
  quick = { link_gbps = { 128 } },
  columns = { "best", "offload_over_best", "decode_over_best", "decode_over_alone", "best_heads",
    "best_decode_over_alone", "data_parallel_s", "attention_offload_s", "model_parallel_s", "alone_s" },
  notes = {
    "Llama-2-7B at 16 bits, 16 requests, 128 tokens out; an A100-80G and one of a tenth of its FLOP/s; 5 us of latency",
    "offload_over_best, decode_over_best: time of AO over the least of DP and MP, of all and of a decode step; "
      .. "decode_over_alone: over the fast GPU by itself; all heads are on the second GPU",
    "best_heads: of 32, those on the second GPU with which a decode step takes least; best_decode_over_alone: it",
  },

  run = function(point)
    local fast, slow = device("fast", 1, 1), device("slow", 0.1, point.bandwidth_ratio)
    local function select(devices, strategies, attention_ratio)
      local found, why = ts.select_strategy { model = "llama-2-7b", devices = devices, strategies = strategies,
        workload = { prompt_tokens = point.context_tokens, output_tokens = 128, batch_size = 16 },
        link_gbps = point.link_gbps, link_latency_s = 5e-6, attention_ratio = attention_ratio }
      return found or why.candidates
    end
    local row, decode = {}, {}
    for _, one in ipairs(select { fast, slow }) do
      row[one.strategy .. "_s"], decode[one.strategy] = one.fits and one.latency_s or nil, one.decode_s
      if not row.best and one.fits then row.best = one.strategy end
    end
    local alone = select({ fast }, { "model_parallel" })[1]
    row.alone_s = alone.latency_s
    local other = math.min(row.data_parallel_s or math.huge, row.model_parallel_s or math.huge)
    row.offload_over_best = row.attention_offload_s and row.attention_offload_s / other
    row.decode_over_best = decode.attention_offload / math.min(decode.data_parallel, decode.model_parallel)
    row.decode_over_alone = decode.attention_offload / alone.decode_s
    local least = math.huge
    for heads = 2, 32, 2 do
      local decode_s = select({ fast, slow }, { "attention_offload" }, heads / 32)[1].decode_s
      if decode_s < least then least, row.best_heads = decode_s, heads end
    end
    row.best_decode_over_alone = least / alone.decode_s
    return row
  end,

  check = function(t)
    local function pays(rows, column)
      local found = 0
      for _, row in ipairs(rows) do found = found + (row[column] and row[column] < 1 and 1 or 0) end
      return found
    end
    claims.within(t, "a slower link never helps AO: decode at 16 Gb/s over 3,200", function(at)
      local where = { bandwidth_ratio = 1, context_tokens = 3968, link_gbps = 16 }
      local slow = at(where).decode_over_alone
      where.link_gbps = 3200
      return slow / at(where).decode_over_alone
    end, 1, 20)
    t:expect_order { column = "decode_over_alone", by = "bandwidth_ratio", order = { 4, 2, 1, 0.5, 0.25, 0.1 },
      lowest = true, within = 1e-6 }
    local rows = t:rows {}
    for _, note in ipairs {
      { "offload_over_best", "AO takes less than DP and MP" },
      { "decode_over_best", "its decode step takes less than theirs" },
      { "decode_over_alone", "and less than the fast GPU's by itself" },
      { "best_decode_over_alone", "and less with the best share of heads" },
    } do
      t:note(note[2], ("%d of %d"):format(pays(rows, note[1]), #rows))
    end
  end,
}
