-- What vLLM's benchmarks write, `vllm bench serve --save-result`, `latency` and `throughput --output-json`, and
-- SGLang's, whose keys are mostly the same. Keys of `serve` that every version from 0.8.5 to 0.33.0 writes are required
-- (the lists are those of the packages), later ones are used where they are there.

local core = require "tessera.core"

local M = {}

--- What every `vllm bench serve` writes.
M.serve_keys = { "completed", "total_input_tokens", "total_output_tokens", "request_throughput",
  "output_throughput" }

local function number_at(json, key, path, low)
  local value = json[key]
  if type(value) ~= "number" or value ~= value or value < (low or 0) or value == math.huge then
    core.refuse(path, ("%s is %s; a number from %g on belongs there"):format(key,
      value == nil and "missing" or tostring(value), low or 0))
  end
  return value
end

local function optional_s(json, key, path)
  if json[key] == nil then return nil end
  return number_at(json, key, path) / 1e3
end

-- One run under load.
local function serve(json, path)
  for _, key in ipairs(M.serve_keys) do number_at(json, key, path) end
  local completed = number_at(json, "completed", path, 1)
  local rate = tonumber(json.request_rate)
  return {
    kind = "serve", path = path, model = json.model_id or json.model, completed = completed,
    failed = json.failed ~= nil and number_at(json, "failed", path) or nil,
    prompt_tokens = math.max(1, json.total_input_tokens / completed),
    output_tokens = math.max(1, json.total_output_tokens / completed),
    max_concurrency = tonumber(json.max_concurrency), num_prompts = tonumber(json.num_prompts) or completed,
    rate_per_s = rate and rate < math.huge and rate or nil,
    request_per_s = json.request_throughput, throughput_tok_s = json.output_throughput,
    ttft_s = optional_s(json, "mean_ttft_ms", path), tpot_s = optional_s(json, "mean_tpot_ms", path),
    ttft_std_s = optional_s(json, "std_ttft_ms", path), tpot_std_s = optional_s(json, "std_tpot_ms", path),
    itl_s = optional_s(json, "mean_itl_ms", path),
    e2e_s = optional_s(json, "mean_e2el_ms", path) or optional_s(json, "mean_e2e_latency_ms", path),
  }
end

-- One batch, again and again.
local function latency(json, path)
  local run = { kind = "latency", path = path, e2e_s = number_at(json, "avg_latency", path, 1e-9) }
  if type(json.latencies) == "table" and #json.latencies > 1 then
    local sum, squares = 0, 0
    for i, value in ipairs(json.latencies) do
      if type(value) ~= "number" then core.refuse(path, ("latencies[%d] is no number"):format(i)) end
      sum, squares = sum + value, squares + value * value
    end
    local n = #json.latencies
    run.e2e_std_s = math.sqrt(math.max(0, (squares - sum * sum / n) / (n - 1)))
  end
  return run
end

-- All prompts at once: how many requests a second, and tokens of prompts and answers together.
local function throughput(json, path)
  local rate = number_at(json, "requests_per_second", path, 1e-9)
  return { kind = "throughput", path = path, request_per_s = rate,
    tokens_per_request = number_at(json, "tokens_per_second", path) / rate }
end

--- The run that `vllm bench throughput` printed; nil of another text.
function M.throughput_text_run(text, path)
  local requests, tokens = ("\n" .. text):match "\nThroughput: ([%d.]+) requests/s, ([%d.]+) %a* ?tokens/s"
  if not requests then return nil end
  return throughput({ requests_per_second = tonumber(requests), tokens_per_second = tonumber(tokens) }, path)
end

-- SGLang's bench_one_batch: one batch, its prefill and the median of its steps.
local function one_batch(json, path)
  local batch = number_at(json, "batch_size", path, 1)
  return {
    kind = "serve", path = path, completed = batch, max_concurrency = batch, num_prompts = batch,
    prompt_tokens = number_at(json, "input_len", path, 1), output_tokens = number_at(json, "output_len", path, 1),
    ttft_s = number_at(json, "prefill_latency", path), tpot_s = tonumber(json.median_decode_latency),
    e2e_s = tonumber(json.total_latency), model = json.model_path or json.model,
  }
end

-- SGLang's bench_one_batch_server: one batch by HTTP; what its first token leaves of the whole is its steps.
local function one_batch_server(json, path)
  local batch, output = number_at(json, "batch_size", path, 1), number_at(json, "output_len", path, 1)
  return {
    kind = "serve", path = path, completed = batch, max_concurrency = batch, num_prompts = batch,
    prompt_tokens = number_at(json, "input_len", path, 1), output_tokens = output,
    ttft_s = tonumber(json.last_ttft) or tonumber(json.ttft), e2e_s = number_at(json, "latency", path, 1e-9),
    throughput_tok_s = batch * output / json.latency, model = json.model_path or json.model,
  }
end

--- The run of an object; nil where it is of none of these.
function M.run(json, path)
  if json.avg_latency ~= nil then return latency(json, path) end
  if json.prefill_latency ~= nil and json.batch_size ~= nil then return one_batch(json, path) end
  if json.latency ~= nil and json.batch_size ~= nil and json.input_len ~= nil then
    return one_batch_server(json, path)
  end
  if json.tokens_per_second ~= nil and json.requests_per_second ~= nil and json.elapsed_time ~= nil then
    return throughput(json, path)
  end
  if json.successful_requests ~= nil and json.total_latency ~= nil then -- SGLang's bench_offline_throughput
    json.completed = json.successful_requests
  end
  if json.completed ~= nil or json.output_throughput ~= nil then return serve(json, path) end
end

return M
