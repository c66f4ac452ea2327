-- Files as tools of several versions and makers write them, each read right or refused by what it is. Values are
-- invented; every benchmark is the same run: 512 prompt and 128 output tokens, 8 requests at a time, TTFT 0.203 s, TPOT
-- 18.2 ms.

local bench = require "tessera.launch.compare.bench"
local core = require "tessera.core"
local detect = require "tessera.devices.detect"
local support = require "support"
local ts = require "tessera"

teardown(support.remove_files)

local model = "meta-llama/Llama-3.1-8B-Instruct"

-- What `vllm bench serve` saved in 2024, and what later versions add.
local saved = { date = "20241101-101010", backend = "vllm", model_id = model, tokenizer_id = model, best_of = 1,
  num_prompts = 32, request_rate = "inf", burstiness = 1, max_concurrency = 8, duration = 10, completed = 32,
  total_input_tokens = 16384, total_output_tokens = 4096, request_throughput = 3.2, output_throughput = 409.6,
  mean_ttft_ms = 203, median_ttft_ms = 190, std_ttft_ms = 40, p99_ttft_ms = 400, mean_tpot_ms = 18.2,
  median_tpot_ms = 18, mean_itl_ms = 18.2 }

local function saved_with(more) return core.to_json(support.changed(saved, more)) end

local function indented() return (saved_with {}:gsub(",", ",\n"):gsub("^{", "{\n"):gsub("}$", "\n}")) end

local printed_block = [[
============ Serving Benchmark Result ============
Successful requests:                     32
Benchmark duration (s):                  10.00
Total input tokens:                      16384
Total generated tokens:                  4096
Request throughput (req/s):              3.20
Output token throughput (tok/s):         409.60
Total Token throughput (tok/s):          2048.00
---------------Time to First Token----------------
Mean TTFT (ms):                          203.00
P99 TTFT (ms):                           400.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          18.20
---------------Inter-token Latency----------------
Mean ITL (ms):                           18.20
==================================================
]]

local printed_2024 = "Namespace(backend='vllm', host='127.0.0.1', model='" .. model .. "', request_rate=inf)\n"
  .. "Traffic request rate: inf\nBurstiness factor: 1.0 (Poisson process)\nMaximum request concurrency: 8\n"
  .. "100%|##########| 32/32 [00:10<00:00,  3.20it/s]\n" .. printed_block

-- A table of rows as CSV.
local function csv_of(names, ...)
  local lines = { table.concat(names, ",") }
  for _, row in ipairs { ... } do lines[#lines + 1] = table.concat(row, ",") end
  return table.concat(lines, "\n") .. "\n"
end

local function sweep_csv()
  local names, values = {}, {}
  for name, value in pairs(saved) do names[#names + 1], values[#values + 1] = name, tostring(value) end
  return csv_of(names, values)
end

local function means(list)
  local metrics = {}
  for name, value in pairs(list) do
    metrics[name] = { successful = { mean = value, median = value }, errored = { mean = 0 }, total = { mean = 0 } }
  end
  return metrics
end

-- guidellm's time per output token has the first token in it; the one between tokens is the plan's.
local guidellm_metrics = means { requests_per_second = 3.2, request_concurrency = 8, prompt_token_count = 512,
  output_token_count = 128, time_to_first_token_ms = 203, time_per_output_token_ms = 19.6,
  inter_token_latency_ms = 18.2, output_tokens_per_second = 409.6 }

local function guidellm(more)
  return core.to_json { benchmarks = { support.changed({ type_ = "generative_benchmark", metrics = guidellm_metrics },
    more) } }
end

-- Of genai-perf and aiperf; times in a unit of so many seconds.
local function perf(input_config, unit, seconds)
  local function of(value, own) return { avg = value, unit = own } end
  return core.to_json { request_throughput = of(3.2, "requests/sec"), request_count = of(32, "count"),
    request_latency = of(2.5144 / seconds, unit), time_to_first_token = of(0.203 / seconds, unit),
    time_to_second_token = of(0.018 / seconds, unit), inter_token_latency = of(0.0182 / seconds, unit),
    output_token_throughput = of(409.6, "tokens/sec"), output_sequence_length = of(128, "tokens"),
    input_sequence_length = of(512, "tokens"), input_config = input_config }
end

local perf_csv = [[
Metric,avg,min,max,p99,p50,std
Time To First Token (ms),203.00,150.00,410.00,400.00,190.00,40.00
Time To Second Token (ms),18.00,10.00,30.00,29.00,18.00,2.00
Request Latency (ms),"2,514.40","2,000.00","3,000.00","2,900.00","2,500.00",90.00
Inter Token Latency (ms),18.20,10.00,30.00,29.00,18.00,2.00
Output Sequence Length (tokens),128.00,128,128,128,128,0
Input Sequence Length (tokens),512.00,512,512,512,512,0

Metric,Value
Output Token Throughput (tokens/sec),409.60
Request Throughput (requests/sec),3.20

Endpoint,GPU_Index,GPU_Name,Metric,avg
localhost:9400,0,NVIDIA H100,GPU Power Usage (W),300
]]

local function llama_row(prompt, output, tok_s)
  return { model_filename = "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", model_type = "llama 8B Q4_K - Medium",
    model_n_params = 8030261312, n_prompt = prompt, n_gen = output, n_depth = 0, avg_ts = tok_s }
end
local llama_rows = { llama_row(512, 0, 512 / 0.203), llama_row(0, 128, 1 / 0.0182) }

local llama_table = [[
ggml_cuda_init: found 1 CUDA devices:
| model                  |     size | params | backend  | threads | fa |  test |             t/s |
| ---------------------- | -------: | -----: | -------- | ------: | -: | ----: | --------------: |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA,RPC |       8 |  1 | %s | 2522.17 ± 12.10 |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA,RPC |       8 |  1 | %s |   54.95 ± 0.50 |
]]

local batched = { n_kv_max = 8192, is_pp_shared = 0, pp = 512, tg = 128, pl = 8, n_kv = 5120, t_pp = 0.203,
  speed_pp = 20177, t_tg = 2.3296, speed_tg = 439.56, t = 2.5326, speed = 2021.6 }

local batched_table = [[
main: n_kv_max = 8192, n_batch = 2048, is_pp_shared = 0, n_gpu_layers = 99

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   512 |    128 |    8 |   5120 |    0.203 | 20177.34 |    2.330 |   439.48 |    2.533 |  2021.32 |
]]

local sglang = { backend = "sglang", dataset_name = "random", max_concurrency = 8, duration = 10, completed = 32,
  total_input_tokens = 16384, total_output_tokens = 4096, total_output_tokens_retokenized = 4090,
  request_throughput = 3.2, input_throughput = 1638.4, output_throughput = 409.6, mean_e2e_latency_ms = 2514.4,
  mean_ttft_ms = 203, mean_tpot_ms = 18.2, mean_itl_ms = 18.2, concurrency = 7.9 }

local trtllm = { engine = { model = model, backend = "Pytorch", dtype = "bfloat16" },
  world_info = { tp_size = 1, pp_size = 1 },
  request_info = { num_requests = 32, avg_num_concurrent_requests = 8, avg_input_length = 512,
    avg_output_length = 128 },
  performance = { total_latency_ms = 1e4, avg_request_latency_ms = 2514.4, request_throughput_req_s = 3.2,
    system_output_throughput_tok_s = 409.6 },
  streaming_metrics = { avg_ttft_ms = 203, avg_tpot_ms = 18.2, token_output_speed_tok_s = 54.9 } }

local trtllm_printed = [[
= PYTORCH BACKEND
Model:                  ]] .. model .. [[

Number of requests:             32
Number of concurrent requests:  8.0000
Average Input Length (tokens):  512.0000
Average Output Length (tokens): 128.0000
= PERFORMANCE OVERVIEW
Request Throughput (req/sec):                     3.2000
Total Output Throughput (tokens/sec):             409.6000
Total Latency (ms):                               10000.0000
Average request latency (ms):                     2514.4000
Average time-to-first-token [TTFT] (ms):          203.0000
Average time-per-output-token [TPOT] (ms):        18.2000
]]

local lines = function(...) return table.concat({ ... }, "\n") .. "\n" end

-- With a prefix that a container's log puts before each line, and with a terminal's colours.
local prefixed = printed_block:gsub("[^\n]+", "bench-1  | %0")
local coloured = printed_block:gsub("203.00", "\27[1;32m%0\27[0m"):gsub("\n", "\r\n")

local lmdeploy_printed = [[
--------------------------------------------------
concurrency: 8
elapsed_time: 10.000s
first token latency(s)(min, max, ave): 0.150, 0.400, 0.203
per-token latency(s) percentile(50, 75, 95, 99): [0.0182, 0.0184, 0.019, 0.019]
number of prompt tokens: 16384
number of completion tokens: 4096
token throughput (completion token): 409.600 token/s
token throughput (prompt + completion token): 2048.000 token/s
RPS (request per second): 3.200 req/s
RPM (request per minute): 192.000 req/min
--------------------------------------------------
]]

local llmperf = { version = "2023-08-31", model = model, mean_input_tokens = 512, num_concurrent_requests = 8,
  results_inter_token_latency_s_mean = 0.0196, results_ttft_s_mean = 0.203,
  results_end_to_end_latency_s_mean = 0.203 + 127 * 0.0182, results_number_input_tokens_mean = "512.0",
  results_number_output_tokens_mean = "128.0", results_num_completed_requests = 32,
  results_mean_output_throughput_token_per_s = 409.6 }

local inference_perf = { load_summary = { count = 32 }, failures = { count = 0 }, successes = { count = 32,
  latency = { request_latency = { mean = 2.5 }, time_to_first_token = { mean = 0.203 },
    normalized_time_per_output_token = { mean = 0.0196 }, time_per_output_token = { mean = 0.0182 } },
  throughput = { output_tokens_per_sec = 409.6, requests_per_sec = 3.2 }, prompt_len = { mean = 512 },
  output_len = { mean = 128 } } }

local llama_timings = core.to_json { model = "m", timings = { prompt_n = 512, prompt_ms = 203, predicted_n = 128,
  predicted_ms = 128 * 18.2 } }

local llama_log = [[
slot print_timing: id  0 | task 0 |
prompt eval time =     103.00 ms /   256 tokens (    0.40 ms per token,  2485.44 tokens per second)
       eval time =    1164.80 ms /    64 tokens (   18.20 ms per token,    54.95 tokens per second)
      total time =    1267.80 ms /   320 tokens
prompt eval time =     303.00 ms /   768 tokens (    0.39 ms per token,  2534.65 tokens per second)
       eval time =    3494.40 ms /   192 tokens (   18.20 ms per token,    54.95 tokens per second)
      total time =    3797.40 ms /   960 tokens
]]

-- One batch of SGLang by HTTP.
local one_batch_server = { run_name = "default", batch_size = 8, input_len = 512, output_len = 128, latency = 2.5144,
  input_throughput = 20177.3, output_throughput = 443, last_ttft = 0.203, last_gen_throughput = 439.5,
  acc_length = -1 }

local evalscope = { ["Time taken for tests (s)"] = 10, ["Number of concurrency"] = 8, ["Request rate (req/s)"] = -1,
  ["Total requests"] = 33, ["Succeed requests"] = 32, ["Failed requests"] = 1,
  ["Output token throughput (tok/s)"] = 409.6, ["Total token throughput (tok/s)"] = 2048,
  ["Request throughput (req/s)"] = 3.2, ["Average latency (s)"] = 2.5144, ["Average time to first token (s)"] = 0.203,
  ["Average time per output token (s)"] = 0.0182, ["Average input tokens per request"] = 512,
  ["Average output tokens per request"] = 128 }

local inferencemax = { hw = "h200", tp = 8, conc = 8, isl = 512, osl = 128, model = model, framework = "vllm",
  precision = "fp8", tput_per_gpu = 256, mean_ttft = 0.203, mean_tpot = 0.0182, mean_intvty = 54.9,
  mean_e2el = 2.5144 }

local ollama = { model = "llama3.1:8b", created_at = "2026-01-01T10:00:00Z", response = "x", done = true,
  total_duration = 2632600000, load_duration = 100000000, prompt_eval_count = 512, prompt_eval_duration = 203000000,
  eval_count = 128, eval_duration = 2329600000 }

local ollama_verbose = [[
total duration:       2.6326s
load duration:        100ms
prompt eval count:    512 token(s)
prompt eval duration: 203ms
prompt eval rate:     2522.17 tokens/s
eval count:           128 token(s)
eval duration:        2.3296s
eval rate:            54.95 tokens/s
]]

local mlx = "==========\nPrompt: 512 tokens, 2522.167 tokens-per-sec\nGeneration: 128 tokens, 54.945 tokens-per-sec\n"
  .. "Peak memory: 8.123 GB\n"

-- { what it is, text, requests at a time where others than 8 or not said (false), number of runs where not 1 }
local benchmarks = {
  { "vllm 0.6, printed with what it says before", printed_2024 },
  { "vllm 0.24, printed",
    (printed_block:gsub("Successful", "Failed requests: 0\nMaximum request concurrency: 8\n%0")) },
  { "vllm 0.6, saved", saved_with {} },
  { "vllm 0.6.0, with its rate of prompts", saved_with { input_throughput = 1638.4 } },
  { "vllm 0.24, saved", saved_with { failed = 0, max_concurrent_requests = 8, max_output_tokens_per_s = 600,
    rtfx = 0 } },
  { "vllm, with details of each request", saved_with { input_lens = { 512, 512 }, ttfts = { 0.2, 0.2 },
    itls = { { 0.018 }, { 0.018 } }, generated_texts = { "a { b", "c" }, errors = { "", "" } } },
  { "vllm --append-result", lines(saved_with {}, saved_with {}), 8, 2 },
  { "results one after the other, indented", lines(indented(), indented()), 8, 2 },
  { "results as a list", "[" .. saved_with {} .. ", " .. saved_with {} .. "]", 8, 2 },
  { "vllm bench sweep's table", sweep_csv() },
  { "a file with a byte order mark", "\239\187\191" .. saved_with {} },
  { "guidellm 0.2", guidellm { worker = { backend_model = model }, request_totals = { successful = 32 } } },
  { "guidellm 0.5", guidellm { config = { strategy = { streams = 8 }, backend = { model = model } },
    scheduler_metrics = { requests_made = { successful = 32 } } } },
  { "guidellm 0.2, a table", csv_of({ "Type", "Name", "Model", "Request Concurrency mean", "Requests per Second mean",
    '"Requests per Second [min, 1, 5]"', "Prompt Token Count mean", "Output Token Count mean",
    "Time to First Token (ms) mean", "Time per Output Token (ms) mean", "Inter Token Latency (ms) mean",
    "Output Tokens per Second mean" }, { "concurrent", "c8", model, 8, 3.2, '"[1, 1, 2]"', 512, 128, 203, 19.6, 18.2,
    409.6 }) },
  { "guidellm, a table under three rows of names", csv_of({ "Run Info", "Timings", "Request Concurrency",
    "Prompt Tokens", "Output Tokens", "Time to First Token", "Inter Token Latency", "Output Tokens per Second" },
    { "Model", "Duration", "Successful Mean", "Successful Mean", "Successful Mean", "Successful Mean",
      "Successful Mean", "Successful Mean" }, { "", "Sec", "", "", "", "ms", "ms", "Tok/Sec" },
    { model, 10, 8, 512, 128, 203, 18.2, 409.6 }) },
  { "genai-perf", perf({ model_names = { model }, perf_analyzer = { stimulus = { concurrency = 8 } } }, "ms", 1e-3) },
  { "genai-perf in nanoseconds", perf({ model_names = { model }, concurrency = 8 }, "ns", 1e-9) },
  { "aiperf", perf({ endpoint = { model_names = { model } }, loadgen = { concurrency = 8 } }, "ms", 1e-3) },
  { "genai-perf's and aiperf's table", perf_csv, false },
  { "llama-bench, printed", llama_table:format("pp512", "tg128"), 1 },
  { "llama-bench as JSON", core.to_json(llama_rows), 1 },
  { "llama-bench as JSON lines", lines(core.to_json(llama_rows[1]), core.to_json(llama_rows[2])), 1 },
  { "llama-batched-bench, printed", batched_table },
  { "llama-batched-bench as JSON lines", lines(core.to_json(batched)) },
  { "SGLang", lines((core.to_json(sglang):gsub("}$", ', "request_rate": Infinity, "accept_length": null}'))) },
  { "trtllm-bench", core.to_json(trtllm) },
  { "trtllm-bench, printed", trtllm_printed },
  { "vllm, behind a container's name", prefixed, false },
  { "vllm, in a terminal's colours", coloured, false },
  { "LMDeploy, printed", lmdeploy_printed },
  { "LMDeploy, printed twice", lmdeploy_printed .. lmdeploy_printed, 8, 2 },
  { "LLMPerf", core.to_json(llmperf) },
  { "inference-perf", core.to_json(inference_perf) },
  { "an answer of llama-server", llama_timings, false },
  { "the log of llama-server", llama_log, false },
  { "SGLang's bench_one_batch_server", lines(core.to_json(one_batch_server)) },
  { "EvalScope", core.to_json(evalscope) },
  { "InferenceMAX", core.to_json { inferencemax } },
  { "an answer of Ollama", core.to_json(ollama), false },
  { "Ollama's stream", lines(core.to_json { model = "llama3.1:8b", created_at = "2026", response = "x", done = false },
    core.to_json(ollama)), false },
  { "ollama run --verbose", ollama_verbose, 1 },
  { "mlx_lm.generate", mlx, 1 },
}

-- { what it is, text, what the refusal says }
local no_benchmarks = {
  { "guidellm as YAML", "metadata:\n  version: 1\nbenchmarks:\n- metrics:\n    requests: 1\n", "guidellm" },
  { "aiperf's records", core.to_json { metadata = { session_num = 0 },
    metrics = { time_to_first_token = { value = 1 } } },
    "aiperf's records of single requests" },
  { "llama-bench -pg", llama_table:format("pp512+tg128", "pp512+tg32"), "prompts and answers together" },
  { "Locust", csv_of({ "Type", "Name", "Request Count", "Average Response Time" }, { "POST", "/v1", 32, 2514.4 }),
    "a table of Locust" },
  { "wrk", "Running 30s test @ http://127.0.0.1:8000/v1/completions\n  12 threads\nRequests/sec: 7.5\n", "of wrk" },
  { "perf_analyzer", "Concurrency,Inferences/Second,Client Send\n8,3.2,20\n", "of perf_analyzer" },
  { "an answer of Ollama without numbers", core.to_json { eval_duration = {}, eval_count = 3 }, "it is neither of" },
  { "MLX's rates that are no numbers",
    "Prompt: 3 tokens, 1.2.3 tokens-per-sec\nGeneration: 5 tokens, . tokens-per-sec\n", "it is neither of" },
  { "k6", core.to_json { metrics = { http_req_duration = { avg = 2514.4 } } }, "of k6" },
  { "vLLM's conversations", "Statistics summary:\n   count  mean\nttft_ms 32.0 203.0\ninput_num_turns 32.0 5.0\n",
    "benchmark of conversations" },
  { "an answer of a server", core.to_json { model = model, choices = { { index = 0 } }, usage = { prompt_tokens = 512,
    completion_tokens = 128 } }, "says no times" },
  { "LLMPerf's single answers", core.to_json { { request_output_throughput_token_per_s = 50.9 } },
    "_summary.json has the means" },
  { "genai-perf of embeddings", "Metric,avg,min\nRequest Latency (ms),42.21,28.18\n\nMetric,Value\n"
    .. "Request Throughput (per sec),23.63\n", "no TTFT, TPOT or throughput" },
  { "llama-bench of prompts behind others", llama_table:format("pp512 @ d4096", "pp1024 @ d4096"),
    "prompts behind others" },
  { "a trace", lines '{"timestamp": 0, "input_length": 512, "output_length": 128, "hash_ids": [1]}',
    "a trace of requests" },
  { "trtllm-bench that timed nothing", core.to_json { request_info = { num_requests = 1 }, performance = {} },
    "without times of requests" },
  { "llama-batched-bench, cut off", (batched_table:match "^.*|%-%-%-[^\n]*\n"), "without rows" },
  { "llama-batched-bench without a time", core.to_json(support.changed(batched, { t_tg = 0 })), "t_tg of a row" },
}

describe("a benchmark's file", function()
  for _, case in ipairs(benchmarks) do
    local what, text, concurrency, count = unpack(case, 1, 4)
    it("is read: " .. what, function()
      local runs = bench.runs(support.temporary(text))
      assert.equal(count or 1, #runs)
      for _, run in ipairs(runs) do
        assert.near(512, run.prompt_tokens, 1e-6)
        assert.near(128, run.output_tokens, 1e-6)
        assert.near(0.203, run.ttft_s, 1e-5)
        assert.near(0.0182, run.tpot_s, 1e-5)
        if concurrency ~= false then assert.equal(concurrency or 8, run.max_concurrency) end
      end
    end)
  end
  it("is read without lengths where it says none", function()
    local table_of = "batch,num_prompts,RPS,RPM,FTL(ave)(s),FTL(min)(s),FTL(max)(s),50%(s),75%(s),95%(s),99%(s),"
      .. "throughput(out tok/s),throughput(total tok/s)\n"
      .. "8,32,3.2,192,0.203,0.15,0.4,0.0182,0.0184,0.019,0.019,409.6,2048\n"
    local run = bench.runs(support.temporary(table_of))[1]
    assert.same({ 8, 32, 0.203, 0.0182, 409.6 }, { run.max_concurrency, run.completed, run.ttft_s, run.tpot_s,
      run.throughput_tok_s })
    assert.is_nil(run.prompt_tokens)
    for _, total in ipairs { "total tokens/s, 409.60 output tokens/s", "tokens/s" } do
      run = bench.runs(support.temporary("INFO ready\nThroughput: 3.20 requests/s, 2048.00 " .. total .. "\n"))[1]
      assert.same({ "throughput", 3.2, 640 }, { run.kind, run.request_per_s, run.tokens_per_request })
    end
  end)
  it("of llama-bench at a depth is of answers behind so many tokens", function()
    local list = bench.runs(support.temporary(llama_table:format("pp512 @ d4096", "tg128 @ d4096")))
    assert.equal(1, #list)
    assert.same({ 4096, 128 }, { list[1].prompt_tokens, list[1].output_tokens })
    assert.near(1 / 54.95, list[1].tpot_s, 1e-9)
    assert.is_nil(list[1].ttft_s)
  end)
  it("of a cached prompt says nothing of prompts", function()
    local cached = support.changed(ollama, {})
    cached.prompt_eval_count, cached.prompt_eval_duration = nil, nil
    local run = bench.runs(support.temporary(core.to_json(cached)))[1]
    assert.near(0.0182, run.tpot_s, 1e-9)
    assert.is_nil(run.ttft_s)
    assert.is_nil(run.prompt_tokens)
  end)
  it("of gptManagerBenchmark has no lengths", function()
    local run = bench.runs(support.temporary("[BENCHMARK] num_samples 32\n[BENCHMARK] seq_throughput(seq/sec) 3.20\n"
      .. "[BENCHMARK] token_throughput(token/sec) 409.60\n[BENCHMARK] avg_time_to_first_token(ms) 203.00\n"
      .. "[BENCHMARK] avg_inter_token_latency(ms) 18.20\n"))[1]
    assert.same({ 32, 3.2, 409.6, 0.203, 0.0182 }, { run.completed, run.request_per_s, run.throughput_tok_s,
      run.ttft_s, run.tpot_s })
    assert.is_nil(run.prompt_tokens)
  end)
  for _, case in ipairs(no_benchmarks) do
    it("is refused by what it is: " .. case[1], function()
      local ok, why = pcall(bench.runs, support.temporary(case[2]))
      assert.is_false(ok)
      assert.matches(case[3], core.error_text(why), nil, true)
    end)
  end
end)

-- { what it is, text, requests, seconds from the first to the last }
local traces = {
  { "Mooncake's, in milliseconds",
    lines('{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0]}',
    '{"timestamp": 27000, "input_length": 7237, "output_length": 794, "hash_ids": [0, 28]}'), 2, 27 },
  { "BurstGPT with sessions", "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,"
    .. "Log Type\n5.0,1a,2.5,ChatGPT,472,18,490,Conversation log\n118.0,1c,,GPT-4,417,276,693,API log\n", 2, 113 },
  { "Azure 2023, of seven digits", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
    .. "2023-11-16 18:15:51.2225670,879,55\n", 2, 4.541977 },
  { "Azure 2024, with a time zone and CRLF", "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    .. "2024-05-10 00:00:00.500000+00:00,2162,5\r\n2024-05-10 00:00:02+00:00,76,15\r\n", 2, 1.5 },
}

local no_traces = {
  { "ShareGPT", core.to_json { { id = "a", conversations = { { from = "human", value = "Hello" } } } }, "ShareGPT" },
  { "prompts", lines('{"prompt": "What?"}', '{"prompt": "Why?"}'), "which texts alone" },
  { "a benchmark's result", saved_with {}, "`tessera compare` reads it" },
}

describe("a trace", function()
  local function trace_of(text)
    local path = support.temporary() .. (text:find "^[%[{]" and ".jsonl" or ".csv")
    core.write_file(path, text)
    return ts.traffic { trace = path }
  end
  for _, case in ipairs(traces) do
    it("is read: " .. case[1], function()
      local traffic = trace_of(case[2])
      assert.equal(case[3], traffic.num_requests)
      assert.near((case[3] - 1) / case[4], tonumber(tostring(traffic):match "([%d.]+) req/s"), 1e-5 / case[4] * 10)
    end)
  end
  for _, case in ipairs(no_traces) do
    it("is refused by what it is: " .. case[1], function()
      local ok, why = pcall(trace_of, case[2])
      assert.is_false(ok)
      assert.matches(case[3], core.error_text(why), nil, true)
    end)
  end
end)

local function kubernetes_node(labels, resources)
  return core.to_json { kind = "List", items = { { kind = "Node", metadata = { name = "n", labels = labels },
    status = { allocatable = resources } } } }
end

-- { what it is, text, what is there }
local machines = {
  { "lspci of an A100", "07:00.0 3D controller: NVIDIA Corporation GA100 [A100 SXM4 80GB] (rev a1)\n"
    .. "0f:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)\n", "2xA100-80G" },
  { "lspci of an MI300X", "05:00.0 Processing accelerators: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram "
    .. "[Instinct MI300X]\n", "1xMI300X" },
  { "rocm-smi of an MI250's dies", core.to_json { card0 = { ["Card Series"] = "AMD Instinct MI250X/MI250",
    ["GFX Version"] = "gfx90a", ["VRAM Total Memory (B)"] = "68702699520" } }, "1xMI250" },
  { "a query of the name alone", "name\nNVIDIA L4\nNVIDIA L4\n", "2xL4" },
  { "a query without units", "name, pci.bus_id, memory.total [MiB], compute_cap\n"
    .. "Tesla T4, 00000000:00:1E.0, 15360, 7.5\n", "1xT4-16G" },
  { "sinfo -N -l", "NODELIST NODES PARTITION STATE CPUS S:C:T MEMORY GRES\n"
    .. "gpu02 1 gpu mixed 64 2:32:1 515000 gpu:h100:8\n", "8xH100-80G" },
  { "kubectl on GKE", kubernetes_node({ ["cloud.google.com/gke-accelerator"] = "nvidia-l4" },
    { ["nvidia.com/gpu"] = "2" }), "2xL4" },
  { "kubectl with AMD's labels", kubernetes_node({ ["amd.com/gpu.product-name"] = "AMD_Instinct_MI300X_OAM" },
    { ["amd.com/gpu"] = "8" }), "8xMI300X" },
}

local no_machines = {
  { "kubectl of MIG slices", kubernetes_node({ ["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb" },
    { ["nvidia.com/gpu"] = "0", ["nvidia.com/mig-1g.5gb"] = "7" }), "cut into MIG slices" },
  { "amd-smi list", "GPU: 0\n    BDF: 0000:05:00.0\n    UUID: 74ff74a1\n", "amd-smi static" },
  { "lspci without names", "07:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n", "update-pciids" },
  { "Slurm without types", "NodeName=gpu01 Arch=x86_64\n   Gres=gpu:4(S:0-1)\n", "names no type of GPU" },
}

describe("a machine's listing", function()
  local function devices_of(text)
    local path, list = support.temporary(text), {}
    for _, host in ipairs(detect.hosts(core.read_text(path), path, "h")) do
      for _, entry in ipairs(detect.node(host).devices) do
        list[#list + 1] = type(entry) == "table" and ("%dx%s"):format(entry[2], entry[1]) or "1x" .. entry
      end
    end
    return table.concat(list, "+")
  end
  for _, case in ipairs(machines) do
    it("is read: " .. case[1], function() assert.equal(case[3], devices_of(case[2])) end)
  end
  for _, case in ipairs(no_machines) do
    it("is refused by what it is: " .. case[1], function()
      local ok, why = pcall(devices_of, case[2])
      assert.is_false(ok)
      assert.matches(case[3], core.error_text(why), nil, true)
    end)
  end
end)
