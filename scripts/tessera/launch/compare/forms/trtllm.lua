-- What TensorRT-LLM's `trtllm-bench throughput` and `latency` write by --report_json, and what they print.

local core = require "tessera.core"

local M = {}

--- Whether a decoded object is such a report.
function M.is(json) return type(json.performance) == "table" and type(json.request_info) == "table" end

local function without_latencies(path)
  core.refuse(path, "a report of trtllm-bench without times of requests; --streaming measures them")
end

local function ms(value) return type(value) == "number" and value / 1e3 or nil end

--- The run of a decoded report.
function M.run(json, path)
  local engine, info, speed = json.engine or {}, json.request_info, json.performance
  local streaming = type(json.streaming_metrics) == "table" and json.streaming_metrics or {}
  local run = {
    kind = "serve", path = path, tool = "trtllm-bench", model = engine.model, completed = tonumber(info.num_requests),
    prompt_tokens = tonumber(info.avg_input_length), output_tokens = tonumber(info.avg_output_length),
    max_concurrency = tonumber(info.avg_num_concurrent_requests), request_per_s = speed.request_throughput_req_s,
    throughput_tok_s = speed.system_output_throughput_tok_s, e2e_s = ms(speed.avg_request_latency_ms),
    ttft_s = ms(streaming.avg_ttft_ms), tpot_s = ms(streaming.avg_tpot_ms),
  }
  if not (run.throughput_tok_s or run.tpot_s) then without_latencies(path) end
  return run
end

-- Where a printed line's number goes, and by how much.
local lines = {
  ["Request Throughput (req/sec)"] = { "request_per_s", 1 },
  ["Total Output Throughput (tokens/sec)"] = { "throughput_tok_s", 1 },
  ["Average request latency (ms)"] = { "e2e_s", 1e-3 },
  ["Average time-to-first-token [TTFT] (ms)"] = { "ttft_s", 1e-3 },
  ["Average time-per-output-token [TPOT] (ms)"] = { "tpot_s", 1e-3 },
  ["Average Input Length (tokens)"] = { "prompt_tokens", 1 },
  ["Average Output Length (tokens)"] = { "output_tokens", 1 },
  ["Number of requests"] = { "completed", 1 },
  ["Number of concurrent requests"] = { "max_concurrency", 1 },
}

-- What its older gptManagerBenchmark prints, "[BENCHMARK] avg_time_to_first_token(ms) 203.00", which has no lengths.
local function manager_run(text, path)
  local function value(name) return tonumber(text:match("%[BENCHMARK%] " .. name .. "%(.-%) ([%d.]+)")) end
  local run = { kind = "serve", path = path, tool = "gptManagerBenchmark",
    completed = tonumber(text:match "%[BENCHMARK%] num_samples (%d+)"), request_per_s = value "seq_throughput",
    throughput_tok_s = value "token_throughput", e2e_s = ms(value "avg_sequence_latency"),
    ttft_s = ms(value "avg_time_to_first_token"), tpot_s = ms(value "avg_inter_token_latency") }
  if not (run.throughput_tok_s or run.tpot_s) then without_latencies(path) end
  return run
end

--- The run of what it printed; nil where the text is none of it.
function M.text_run(text, path)
  if text:find("[BENCHMARK] num_samples", 1, true) then return manager_run(text, path) end
  local is_one = text:find("PERFORMANCE OVERVIEW", 1, true) and text:find("Total Output Throughput", 1, true)
  if not is_one then return nil end
  local run = { kind = "serve", path = path, tool = "trtllm-bench", model = text:match "Model:%s+(%S+)" }
  for line in text:gmatch "[^\r\n]+" do
    local name, value = line:match "^%s*(.-):%s+([%d.]+)%s*$"
    local known = name and lines[name]
    if known then run[known[1]] = tonumber(value) * known[2] end
  end
  if not run.throughput_tok_s then without_latencies(path) end
  return run
end

return M
