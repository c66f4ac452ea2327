-- The reference set-up of the serving experiments: a chat service with some long prompts, on Llama-3.1-8B and an H100.
--
-- Nine requests of ten are chat: 400 prompt tokens on average. One of ten brings a document, 4,000 to 8,000 tokens.
-- Outputs are 250 tokens on average. Chat prompts and outputs are quantiles of exponential distributions, so that the
-- file of lengths is the same everywhere; pairs are drawn from it. Four of five requests begin with one of 16 system
-- prompts of 512 tokens on top. Clients allow 2,048 output tokens. The service level is the lecture's: TTFT < 500 ms
-- and TPOT < 50 ms. Times are those of the kernel set vllm_fp8 (modelled for the H100).
local core = require "tessera.core"
local ts = require "tessera"

local M = {}

M.slo = { ttft_s = 0.5, tpot_s = 0.05 }
M.model, M.cluster = "llama-3.1-8b", "1xH100-80G"

local num_rows, max_tokens = 100, 2048

-- The i-th of n equal quantiles of an exponential distribution.
local function quantile(mean, i, n) return math.max(2, math.floor(-mean * math.log(1 - (i - 0.5) / n) + 0.5)) end

--- A file of lengths in the folder, long_share of them documents; its path. Written whole, as workers share it.
function M.lengths(folder, long_share)
  local num_long = math.floor((long_share or 0.1) * num_rows + 0.5)
  local path = ("%s/lengths-%d.csv"):format(folder, num_long)
  local lines = { "prompt_tokens,output_tokens\n" }
  for i = 1, num_rows do
    local output = quantile(250, i * 37 % num_rows + 1, num_rows) -- 37: no pattern between prompts and outputs
    local is_long = i <= num_long
    local prompt = is_long and 4000 + math.floor(4000 * (i - 0.5) / num_long)
      or quantile(400, i - num_long, num_rows - num_long)
    lines[#lines + 1] = ("%d,%d\n"):format(prompt, output)
  end
  core.write_file(path, table.concat(lines))
  return path
end

--- Options of ts.traffic, `changes` before the reference ones; false takes one away.
function M.traffic(folder, changes)
  local options = {
    max_tokens = max_tokens, prefix_groups = 16, prefix_tokens = 512, prefix_share = 0.8, num_requests = 2000,
  }
  for name, value in pairs(changes) do options[name] = value end
  if not options.prompt_tokens then options.lengths = M.lengths(folder, options.long_share) end
  options.long_share = nil
  for name, value in pairs(options) do
    if value == false then options[name] = nil end
  end
  return ts.traffic(options)
end

--- The reference engine: continuous batching, paged memory, prompts in pieces; no prefix cache. Every scheduler decides
--- step by step and no server stands before it, so that techniques differ in nothing else.
function M.engine(changes)
  local options = {
    scheduler = "vllm_v1", max_num_seqs = 256, max_num_batched_tokens = 2048, max_model_len = 16384, block_size = 16,
    enable_prefix_caching = false, async_scheduling = false,
  }
  for name, value in pairs(changes or {}) do options[name] = value end
  return ts.engine(options)
end

--- That engine on one H100, or as `options` of ts.deployment say.
function M.deployment(engine, options)
  local given = { model = M.model, cluster = M.cluster, engine = M.engine(engine), api_s = 0 }
  for name, value in pairs(options or {}) do given[name] = value end
  return ts.deployment(given)
end

--- A plan with so many bits, which knows its quality; on one H100, or another cluster.
function M.plan(bitwidth, kv_bitwidth, cluster)
  local problem = ts.problem {
    model = M.model, cluster = cluster or M.cluster, bitwidths = { bitwidth }, kv_bitwidth = kv_bitwidth,
    kernel_set = "vllm_fp8",
  }
  return ts.plan(problem, { planner = "uniform" })
end

--- Requests per second that it completes when all come at once.
function M.capacity_per_s(deployment, folder, changes)
  local options = { rate_per_s = math.huge, num_requests = 3000, seed = 99 }
  for name, value in pairs(changes or {}) do options[name] = value end
  return ts.serve(deployment, M.traffic(folder, options), { record = false }).request_per_s
end

return M
