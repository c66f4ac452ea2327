-- What (4) chooses of the three pairs, by both readings and three assumptions of C_eff; and what one GPU alone does by
-- the paper's own formula of DP (a batch on one GPU is DP without requests on the second), which (4) never sees.
local claims = require "lib.claims"
local flexllm = require "lib.papers.flexllm"
local ts = require "tessera"

local settings = {
  ["opt-1.3b"] = { workload = "medium", target_s = 9.6,
    batch_sizes = { data_parallel = 32, attention_offload = 64, model_parallel = 32 },
    alone = { { 1, 32 }, { 0.5, 32 }, { 0.1, 8 } } },
  ["opt-2.7b"] = { workload = "large", target_s = 19.2,
    batch_sizes = { data_parallel = 4, attention_offload = 8, model_parallel = 8 },
    alone = { { 0.1, 4 } } },
}
local tflops_of = { one_20 = 20, one_14_7 = 14.7 }

local function pairs_of_gpus()
  local list = {}
  for i, ratio in ipairs(flexllm.ratios) do list[i] = { flexllm.device(1), flexllm.device(ratio) } end
  return list
end

local function chosen(point)
  local setting, rows, offload = settings[point.model], {}, nil
  for _, strategy in ipairs(flexllm.strategies) do
    local found = flexllm.candidates(strategy, { model = point.model, workload = setting.workload,
      batch_size = setting.batch_sizes[strategy], devices = pairs_of_gpus(), formulas = point.formulas,
      tflops = tflops_of[point.efficiency] })
    for _, row in ipairs(found) do
      rows[#rows + 1] = row
      if strategy == "attention_offload" and row.configuration == #flexllm.ratios - 1 then offload = row end
    end
  end
  local best = flexllm.choose(rows)
  return { strategy = best.strategy, ratio = flexllm.ratios[best.configuration + 1], latency_s = best.latency_s,
    tokens_per_usd = best.tokens_per_usd, usd_per_h = best.usd_per_h, offload_s = offload.latency_s }
end

-- The single GPU with the most tokens per dollar that meets the SLO.
local function alone(point)
  local setting, rows = settings[point.model], {}
  for i, gpu in ipairs(setting.alone) do
    local ratio, batch_size = unpack(gpu)
    rows[i] = flexllm.candidates("data_parallel", { model = point.model, workload = setting.workload,
      batch_size = batch_size, devices = { { flexllm.device(ratio) } }, formulas = point.formulas })[1]
    rows[i].ratio = ratio
  end
  local best = flexllm.choose(rows)
  local least = math.huge
  for _, row in ipairs(rows) do least = math.min(least, row.tokens_per_usd) end
  return { strategy = "one GPU", ratio = best.ratio, latency_s = best.latency_s, tokens_per_usd = best.tokens_per_usd,
    usd_per_h = best.usd_per_h, least_tokens_per_usd = least }
end

return ts.experiment {
  name = "flexllm/selection",
  doc = "FlexLLM: which strategy on which pair (4) chooses, and one GPU alone",
  grid = { model = { "opt-1.3b", "opt-2.7b" }, formulas = { "simulated", "printed" },
    efficiency = { "each", "one_20", "one_14_7", "alone" } },
  quick = {},
  columns = { "strategy", "ratio", "usd_per_h", "latency_s", "tokens_per_usd", "offload_s", "least_tokens_per_usd" },
  notes = {
    "efficiency: C_eff of each strategy and model as in table5; 20 or 14.7 TFLOP/s for everything; alone: the best "
      .. "single GPU by the formula of DP with its C_eff (batch sizes by the memory of Table I)",
    "offload_s: AO on 1:0.1, chosen in print at 9.33 of 9.6 s (1.3B) and 7.67 of 19.2 s (2.7B)",
    "the set S of (4) holds pairs only; least_tokens_per_usd: the worst of the single GPUs",
  },

  run = function(point)
    if point.efficiency == "alone" then return alone(point) end
    return chosen(point)
  end,

  check = function(t)
    for _, model in ipairs { "opt-1.3b", "opt-2.7b" } do
      for _, formulas in ipairs { "simulated", "printed" } do
        for _, efficiency in ipairs { "each", "one_20" } do
          claims.same(t, ("%s, %s, %s: AO on 1:0.1 is chosen"):format(model, formulas, efficiency), function(at)
            local row = at { model = model, formulas = formulas, efficiency = efficiency }
            return ("%s %g"):format(row.strategy, row.ratio)
          end, "attention_offload 0.1")
        end
        claims.within(t, ("%s, %s: tokens per dollar of one GPU over those of the choice"):format(model, formulas),
          function(at)
            return at({ model = model, formulas = formulas, efficiency = "alone" }).tokens_per_usd
              / at({ model = model, formulas = formulas, efficiency = "each" }).tokens_per_usd
          end, unpack(model == "opt-1.3b" and { 1.7, 2.3 } or { 3, 4 }))
      end
    end
    local function thread(column)
      return function(at)
        return at { model = "opt-1.3b", formulas = "simulated", efficiency = "one_14_7" }[column]
      end
    end
    claims.within(t, "with 14.7 TFLOP/s for everything AO takes 10.38 s on 1:0.1, above the SLO", thread "offload_s",
      10.3, 10.45)
    claims.same(t, "and DP wins", thread "strategy", "data_parallel")
    for model, print_of in pairs { ["opt-1.3b"] = { 510000, 6.03, 0.6 }, ["opt-2.7b"] = { 251000, 12.2, 0.6 } } do
      for i, column in ipairs { "tokens_per_usd", "latency_s", "usd_per_h" } do
        t:expect_close { column = column, to = print_of[i], rel = 0.01,
          where = { model = model, efficiency = "alone" } }
      end
    end
    t:expect_close { column = "least_tokens_per_usd", to = 415000, rel = 0.01,
      where = { model = "opt-1.3b", efficiency = "alone" } }
  end,
}
