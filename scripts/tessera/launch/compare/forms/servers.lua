-- What a running server says: /metrics in the text form of Prometheus (vLLM, SGLang, llama.cpp), and the lines that
-- vLLM and SGLang log every few seconds. Means since the server started, of a log since its first line.

local core = require "tessera.core"

local M = {}

-- Samples by name, those of unlike labels added up: counters and sums add, and so do gauges of several engines.
local function samples_of(text)
  local samples, model = {}, nil
  for line in text:gmatch "[^\r\n]+" do
    local name, labels, value = line:match "^([%a_:][%w_:]*)(%b{})%s+(%S+)"
    if not name then name, value = line:match "^([%a_:][%w_:]*)%s+(%S+)" end
    local number = tonumber(value)
    if name and number and number == number and number ~= math.huge and not name:find "_bucket$" then
      samples[name] = (samples[name] or 0) + number
      model = model or (labels and labels:match 'model_name="([^"]*)"')
    end
  end
  return samples, model
end

--- Whether a text is such a page.
function M.is_metrics(text)
  return text:find "^%s*# HELP " ~= nil or text:find "^%s*# TYPE " ~= nil or text:find "\n# TYPE " ~= nil
    or text:find "^%s*vllm:[%w_]+" ~= nil or text:find "^%s*sglang:[%w_]+" ~= nil
    or text:find "^%s*llamacpp:[%w_]+" ~= nil
end

-- The mean of the first of these histograms that has counted anything.
local function mean(samples, ...)
  for _, name in ipairs { ... } do
    for _, maker in ipairs { "vllm:", "sglang:" } do
      local sum, count = samples[maker .. name .. "_sum"], samples[maker .. name .. "_count"]
      if sum and count and count > 0 then return sum / count, count end
    end
  end
end

local function first(samples, ...)
  for _, name in ipairs { ... } do
    if samples[name] then return samples[name] end
  end
end

local function of_llama_cpp(samples, path)
  local prompts, answers = samples["llamacpp:prompt_seconds_total"], samples["llamacpp:tokens_predicted_seconds_total"]
  local tokens = samples["llamacpp:tokens_predicted_total"] or 0
  if not (answers and answers > 0 and tokens > 0) then
    core.refuse(path, "metrics of a llama.cpp server that has answered nothing yet")
  end
  return { kind = "metrics", path = path, tool = "llama.cpp", tpot_s = answers / tokens,
    max_concurrency = math.max(1, samples["llamacpp:requests_processing"] or 1), prompt_s = prompts }
end

--- The run that the metrics of a server are.
function M.metrics_run(text, path)
  local samples, model = samples_of(text)
  if samples["llamacpp:tokens_predicted_total"] then return of_llama_cpp(samples, path) end
  local ttft_s, count = mean(samples, "time_to_first_token_seconds")
  local tpot_s = mean(samples, "request_time_per_output_token_seconds", "time_per_output_token_seconds",
    "inter_token_latency_seconds")
  local queue_s = mean(samples, "request_queue_time_seconds", "queue_time_seconds")
  local e2e_s = mean(samples, "e2e_request_latency_seconds")
  local done = first(samples, "vllm:request_success_total", "sglang:num_requests_total") or count
  if not (ttft_s or tpot_s or e2e_s) then
    core.refuse(path, "metrics (Prometheus), but without latencies of requests (vllm:time_to_first_token_seconds and "
      .. "the like): of another program, or of a server that has answered nothing yet")
  end
  local function per_request(...)
    local total = first(samples, ...)
    return total and done and done > 0 and total / done or nil
  end
  local running = first(samples, "vllm:num_requests_running", "sglang:num_running_reqs")
  return {
    kind = "metrics", path = path, model = model, tool = "metrics", completed = done, ttft_s = ttft_s, tpot_s = tpot_s,
    e2e_s = e2e_s, queue_s = queue_s, prompt_tokens = per_request("vllm:prompt_tokens_total",
      "sglang:prompt_tokens_total"),
    output_tokens = per_request("vllm:generation_tokens_total", "sglang:generation_tokens_total"),
    max_concurrency = running and running >= 1 and running or nil,
    waiting = first(samples, "vllm:num_requests_waiting", "sglang:num_queue_reqs"),
    kv_share = first(samples, "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
    preemptions = first(samples, "vllm:num_preemptions_total"),
  }
end

-- Sums over the lines of a log in which anything ran.
local function of_log(text)
  local sums = { n = 0, prompt = 0, output = 0, running = 0, waiting = 0, kv = 0 }
  for line in text:gmatch "[^\r\n]+" do
    local prompt, output, running, waiting, kv
    if line:find "Avg generation throughput" then
      prompt = line:match "Avg prompt throughput: ([%d.]+)"
      output = line:match "Avg generation throughput: ([%d.]+)"
      running, waiting = line:match "Running: (%d+)", line:match "Waiting: (%d+)" or line:match "Pending: (%d+)"
      kv = line:match "KV cache usage: ([%d.]+)%%"
    elseif line:find "Decode batch" then
      output = line:match "gen throughput %(token/s%): ([%d.]+)"
      running, waiting = line:match "#running%-req: (%d+)", line:match "#queue%-req: (%d+)"
      kv = line:match "token usage: ([%d.]+)"
      kv = kv and tonumber(kv) * 100
    end
    if output and running and tonumber(running) > 0 and tonumber(output) > 0 then
      sums.n = sums.n + 1
      sums.prompt, sums.output = sums.prompt + (tonumber(prompt) or 0), sums.output + tonumber(output)
      sums.running, sums.waiting = sums.running + tonumber(running), sums.waiting + (tonumber(waiting) or 0)
      sums.kv = math.max(sums.kv, tonumber(kv) or 0)
    end
  end
  return sums
end

--- Whether a text is the log of a server.
function M.is_log(text)
  return text:find("Avg generation throughput", 1, true) ~= nil
    or (text:find("Decode batch", 1, true) ~= nil and text:find("gen throughput", 1, true) ~= nil)
end

--- The run that a log is: tokens a second while requests ran, and how many did.
function M.log_run(text, path)
  local sums = of_log(text)
  if sums.n == 0 then core.refuse(path, "the log of a server in which no request ran") end
  return { kind = "log", path = path, tool = "log", model = text:match "model='([^']+)'"
      or text:match "model_path='([^']+)'", throughput_tok_s = sums.output / sums.n,
    max_concurrency = math.max(1, math.floor(sums.running / sums.n + 0.5)), waiting = sums.waiting / sums.n,
    kv_share = sums.kv / 100, num_lines = sums.n }
end

return M
