-- What LMDeploy's profile_restful_api and profile_throughput print and save as CSV; times in seconds.

local csv = require "tessera.launch.compare.forms.csv"

local M = {}

local function number_at(text, pattern) return tonumber((text:match(pattern))) end

local function run_of(block, path)
  local rate = number_at(block, "RPS %(request per second%):%s*([%d.]+)")
  local elapsed_s = number_at(block, "elapsed_time:%s*([%d.]+)s")
  return { kind = "serve", path = path, tool = "LMDeploy", max_concurrency = number_at(block, "concurrency:%s*(%d+)"),
    ttft_s = number_at(block, "first token latency%(s%)%(min, max, ave%):[^\n]*,%s*([%d.]+)%s*\n"),
    tpot_s = number_at(block, "per%-token latency%(s%) percentile%([^)]*%):%s*%[([%d.]+)"), request_per_s = rate,
    completed = rate and elapsed_s and math.floor(rate * elapsed_s + 0.5) or nil,
    total_input_tokens = number_at(block, "number of prompt tokens:%s*(%d+)"),
    total_output_tokens = number_at(block, "number of completion tokens:%s*(%d+)"),
    throughput_tok_s = number_at(block, "token throughput %(completion token%):%s*([%d.]+)") }
end

--- Runs of what it prints, a block between two rules of dashes for each number of requests at a time; nil of another
--- text. The middle of the times per token stands for their mean, which it does not say.
function M.text_runs(text, path)
  if not text:find("first token latency(s)(min, max, ave)", 1, true) then return nil end
  local runs = {}
  for block in (text .. "\n"):gsub("\r\n", "\n"):gmatch "concurrency:.-token throughput %(prompt[^\n]*\n[^-]*" do
    runs[#runs + 1] = run_of(block, path)
  end
  return runs
end

--- Runs of its table; nil of another one.
function M.csv_runs(text, path)
  if not text:find "^%s*batch,num_prompts?," then return nil end
  local rows, runs, column = csv(text), {}, {}
  for i, name in ipairs(rows[1]) do column[name] = i end
  for i = 2, #rows do
    local function cell(name) return tonumber(rows[i][column[name]]) end
    runs[#runs + 1] = { kind = "serve", path = path, tool = "LMDeploy", max_concurrency = cell "batch",
      completed = cell "num_prompts" or cell "num_promts", ttft_s = cell "FTL(ave)(s)", tpot_s = cell "50%(s)",
      request_per_s = cell "RPS", throughput_tok_s = cell "throughput(out tok/s)" }
  end
  return runs
end

return M
