-- FlexLLM's settings (Kim et al., section VI): two RTX 2080 SUPER of 8 GB at 2 GB/s, and pairs whose second GPU has 0.5
-- or 0.1 of all rates and of the price; OPT-1.3B and 2.7B at (512, 64) and (1024, 128); corrections of Table IV.
local ts = require "tessera"

local M = {
  workloads = { medium = { 512, 64 }, large = { 1024, 128 } },
  ratios = { 1, 0.5, 0.1 },
  strategies = { "data_parallel", "attention_offload", "model_parallel" },
  s_per_token = 0.15,
  -- TFLOP/s that count of each GPU (C_eff), which print does not have: what comes nearest to Table V's three rows of a
  -- strategy and model, by each reading. Only scale / C_eff can be identified.
  efficient_tflops = {
    simulated = {
      ["opt-1.3b"] = { data_parallel = 6.8, attention_offload = 16.7, model_parallel = 12.4 },
      ["opt-2.7b"] = { data_parallel = 6.8, attention_offload = 20.8, model_parallel = 10.1 },
    },
    printed = {
      ["opt-1.3b"] = { data_parallel = 6.8, attention_offload = 16.1, model_parallel = 18.2 },
      ["opt-2.7b"] = { data_parallel = 6.8, attention_offload = 20.1, model_parallel = 14.7 },
    },
  },
}

local board = ts.device "RTX-2080-SUPER"
local boards = {} -- by ratio

--- The board at a ratio of its rates, for 6 USD/h times the ratio.
function M.device(ratio)
  if not boards[ratio] then
    boards[ratio] = ts.device { name = ("RTX-2080-SUPER-x%g"):format(ratio), memory_bytes = 8e9,
      memory_bytes_per_s = ratio * board.memory_bytes_per_s, price_usd_per_h = 6 * ratio,
      compute_capability = board.compute_capability, pcie_bytes_per_s = board.pcie_bytes_per_s,
      flop_per_s = { fp16 = ratio * board.flop_per_s.fp16 } }
  end
  return boards[ratio]
end

local correction = {} -- [model][strategy][phase]
for _, row in ipairs(ts.paper("flexllm/table4.csv").rows) do
  local at = row.point
  correction[at.model] = correction[at.model] or {}
  correction[at.model][at.strategy] = correction[at.model][at.strategy] or {}
  correction[at.model][at.strategy][at.phase] = { scale = row.scale, offset_s = row.offset_s }
end

--- The rows of ts.select_strategy for one strategy on configurations of devices. given: model, workload ("medium"),
--- batch_size, devices, formulas, tflops (default: those above).
function M.candidates(strategy, given)
  local prompt_tokens, output_tokens = unpack(M.workloads[given.workload])
  local tflops = given.tflops or M.efficient_tflops[given.formulas][given.model][strategy]
  local found, why = ts.select_strategy {
    model = given.model, devices = given.devices, strategies = { strategy }, formulas = given.formulas,
    workload = { prompt_tokens = prompt_tokens, output_tokens = output_tokens, batch_size = given.batch_size },
    link_gbps = 16, batch_split = #given.devices[1] > 1 and "even" or "proportional",
    efficiency = tflops * 1e12 / board.flop_per_s.fp16, correction = correction[given.model],
    slo = { s_per_token = M.s_per_token },
  }
  return found or why.candidates
end

--- One row: a strategy on the first GPU and one of a ratio.
function M.row(strategy, ratio, given)
  local all = { devices = { { M.device(1), M.device(ratio) } } }
  for key, value in pairs(given) do all[key] = value end
  return M.candidates(strategy, all)[1]
end

--- The selector's own answer by our prices, whatever the SLO: strategies (default: all), model, workload, batch_sizes,
--- devices, exact.
function M.by_profile(given)
  local prompt_tokens, output_tokens = unpack(M.workloads[given.workload])
  local smallest = math.huge
  for _, size in pairs(given.batch_sizes) do smallest = math.min(smallest, size) end
  return ts.select_strategy {
    model = given.model, devices = given.devices, strategies = given.strategies, formulas = "profile",
    workload = { prompt_tokens = prompt_tokens, output_tokens = output_tokens, batch_size = smallest },
    batch_sizes = given.batch_sizes, link_gbps = 16, batch_split = "even", exact = given.exact,
  }
end

--- Rows as (4) chooses: the least price of those that meet the SLO, then the most tokens per dollar.
function M.choose(rows)
  local best
  for _, row in ipairs(rows) do
    local better = not best or row.usd_per_h < best.usd_per_h - 1e-9
      or math.abs(row.usd_per_h - best.usd_per_h) <= 1e-9 and row.tokens_per_usd > best.tokens_per_usd
    if row.meets_slo and row.fits and better then best = row end
  end
  return best
end

return M
