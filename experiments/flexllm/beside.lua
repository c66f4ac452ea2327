-- The three strategies by our prices on the paper's pairs, and the best of all plans on the same two GPUs: layers,
-- requests and KV heads split anyhow, at 16 bits and at 4, 8 and 16.
local claims = require "lib.claims"
local flexllm = require "lib.papers.flexllm"
local ts = require "tessera"

local settings = {
  ["opt-1.3b"] = { "medium", 32 },
  ["opt-2.7b"] = { "large", 8 },
}

local function sorted(rows, column)
  local values = {}
  for i, row in ipairs(rows) do values[i] = row[column] end
  table.sort(values)
  return values
end

return ts.experiment {
  name = "flexllm/beside",
  doc = "FlexLLM's strategies by our prices, and the best plan beside them",
  grid = { model = { "opt-1.3b", "opt-2.7b" }, ratio = flexllm.ratios },
  quick = { ratio = { 0.1 } },
  columns = { "data_parallel_s", "attention_offload_s", "model_parallel_s", "strategy", "latency_s", "strategy_16_bit",
    "latency_16_bit_s", "gain_16_bit_ratio", "strategy_exact", "latency_exact_s", "gain_ratio", "status_exact" },
  notes = {
    "1.3B at (512, 64) with 32 requests, 2.7B at (1024, 128) with 8; DP and MP split evenly, AO has all heads on the "
      .. "second GPU, as in print",
    "strategy, latency_s: the fastest of the three that fits; gain: its time over that of the best plan, by our prices",
  },

  run = function(point)
    local workload, batch_size = unpack(settings[point.model])
    local found, why = flexllm.by_profile { model = point.model, workload = workload, exact = true,
      batch_sizes = { data_parallel = batch_size, attention_offload = batch_size, model_parallel = batch_size },
      devices = { { flexllm.device(1), flexllm.device(point.ratio) } } }
    if not found then return nil, why end
    local exact = found.exact
    local row = { strategy = found.chosen.strategy, latency_s = found.chosen.latency_s,
      strategy_16_bit = exact.strategy_16_bit, latency_16_bit_s = exact.latency_16_bit_s,
      gain_16_bit_ratio = exact.gain_16_bit_ratio, strategy_exact = exact.strategy, latency_exact_s = exact.latency_s,
      gain_ratio = exact.gain_ratio, status_exact = exact.status }
    for _, one in ipairs(found) do row[one.strategy .. "_s"] = one.fits and one.latency_s or nil end
    return row
  end,

  check = function(t)
    t:expect_all { column = "gain_16_bit_ratio", at_least = 1, at_most = 10 }
    t:expect_all { column = "gain_ratio", at_least = 1, at_most = 20 }
    claims.within(t, "at 1:0.1 the best plan at 16 bits takes less than half of the time of the best of the three",
      function(at) return at({ model = "opt-1.3b", ratio = 0.1 }).gain_16_bit_ratio end, 2, 10)
    for _, column in ipairs { "gain_16_bit_ratio", "gain_ratio" } do
      local values = sorted(t:rows {}, column)
      if #values > 0 then
        t:note(column .. ": median, range", ("%.3g, %.3g to %.3g"):format(values[math.floor((#values + 1) / 2)],
          values[1], values[#values]))
      end
    end
  end,
}
