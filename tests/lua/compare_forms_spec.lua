-- tessera compare over the forms in which tools write what they measured: one run of 512 prompt and 128 output tokens
-- and 8 requests at a time, TTFT 0.203 s, TPOT 18.2 ms, 3.2 requests and 409.6 tokens a second, in each.

local bench = require "tessera.launch.compare.bench"
local compare = require "tessera.launch.compare"
local compare_verb = require "tessera.cli.compare"
local core = require "tessera.core"
local host = require "tessera.host"
local support = require "support"
local ts = require "tessera"
local raises = support.raises

teardown(support.remove_files)

local function runs(text) return bench.runs(support.temporary(text)) end

local expected = { prompt_tokens = 512, output_tokens = 128, max_concurrency = 8, ttft_s = 0.203, tpot_s = 0.0182,
  throughput_tok_s = 409.6 }

-- The run says all of these, or those that are named.
local function check(run, ...)
  for _, name in ipairs(select("#", ...) > 0 and { ... } or { "prompt_tokens", "output_tokens", "max_concurrency",
    "ttft_s", "tpot_s", "throughput_tok_s" }) do
    assert.is_number(run[name], name)
    assert.near(expected[name], run[name], expected[name] * 1e-6)
  end
end

local model = "meta-llama/Llama-3.1-8B-Instruct"

local serve = { backend = "vllm", model_id = model, num_prompts = 32, request_rate = "inf", max_concurrency = 8,
  completed = 32, total_input_tokens = 16384, total_output_tokens = 4096, request_throughput = 3.2,
  output_throughput = 409.6, mean_ttft_ms = 203, mean_tpot_ms = 18.2, mean_itl_ms = 18.2 }

local printed = [[
============ Serving Benchmark Result ============
Backend:                                 sglang
Successful requests:                     32
Failed requests:                         0
Maximum request concurrency:             8
Benchmark duration (s):                  10.00
Total input tokens:                      16384
Total generated tokens:                  4096
Total generated tokens (retokenized):    4000
Request throughput (req/s):              3.20
Output token throughput (tok/s):         409.60
Peak output token throughput (tok/s):    600.00
Total Token throughput (tok/s):          2048.00
---------------Time to First Token----------------
Mean TTFT (ms):                          203.00
Median TTFT (ms):                        190.00
P99 TTFT (ms):                           400.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          18.20
P99 TPOT (ms):                           29.00
---------------Inter-token Latency----------------
Mean ITL (ms):                           18.20
==================================================
]]

local function stats(value) return { successful = { mean = value, std_dev = 1, percentiles = { p50 = 1 } },
  total = { mean = 0 } } end

local function guidellm(extra)
  return core.to_json { benchmarks = { support.changed({ metrics = {
    requests_per_second = stats(3.2), request_concurrency = stats(7.9), prompt_token_count = stats(512),
    output_token_count = stats(128), time_to_first_token_ms = stats(203), time_per_output_token_ms = stats(19.6),
    inter_token_latency_ms = stats(18.2), output_tokens_per_second = stats(409.6), tokens_per_second = stats(2048),
  } }, extra) } }
end

local llama_row = { model_filename = "m/llama-3.1-8b-q4_k_m.gguf", model_type = "llama 8B Q4_K - Medium",
  model_n_params = 8030261312, n_depth = 0 }

local function llama(prompt, output, rate)
  return support.changed(llama_row, { n_prompt = prompt, n_gen = output, avg_ts = rate })
end

local function check_llama(list)
  assert.equal(1, #list)
  assert.equal(512, list[1].prompt_tokens)
  assert.equal(128, list[1].output_tokens)
  assert.near(512 / 4720, list[1].ttft_s, 1e-9)
  assert.near(1 / 131.2, list[1].tpot_s, 1e-9)
  assert.equal(1, list[1].max_concurrency)
end

describe("tessera compare reads", function()
  it("vLLM's and SGLang's JSON, one object, lines, a list, with NaN", function()
    check(runs(core.to_json(serve))[1])
    local two = runs(core.to_json(serve) .. "\r\n" .. core.to_json(support.changed(serve, { max_concurrency = 4 })))
    assert.equal(2, #two)
    check(two[1])
    assert.equal(4, two[2].max_concurrency)
    assert.equal(2, #runs(core.to_json { serve, serve }))
    local sglang = support.changed(serve, { mean_e2e_latency_ms = 2514.4, request_rate = "trace" })
    sglang.model_id = nil
    assert.near(2.5144, runs(core.to_json(sglang))[1].e2e_s, 1e-9)
    local nan = core.to_json(serve):gsub('("mean_tpot_ms":)[^,}]+', "%1 NaN")
    check(runs(nan)[1], "ttft_s", "throughput_tok_s", "tpot_s") -- from ITL
    local batch = runs(core.to_json { run_name = "x", batch_size = 8, input_len = 512, output_len = 128,
      prefill_latency = 0.203, median_decode_latency = 0.0182, total_latency = 2.5 })[1]
    check(batch, "prompt_tokens", "output_tokens", "max_concurrency", "ttft_s", "tpot_s")
  end)

  it("what these print", function()
    check(runs(printed)[1])
    check(runs("Namespace(model='" .. model .. "')\n" .. printed:gsub("\n", "\r\n"))[1])
    assert.equal(2, #runs(printed .. "\n" .. printed))
    assert.equal(model, runs("Namespace(model='" .. model .. "')\n" .. printed)[1].model)
  end)

  it("guidellm's JSON of several versions and its CSV", function()
    for _, extra in ipairs { { worker = { backend_model = model } }, { config = { backend = { model = model } } } } do
      local run = runs(guidellm(extra))[1]
      check(run)
      assert.equal(model, run.model)
    end
    check(runs("Type,Model,Concurrency,Prompt tokens mean,Output tokens mean,Output tok/s mean,TTFT (ms) mean,"
      .. "TTFT (ms) p99,ITL (ms) mean\nconcurrent," .. model .. ",8,512,128,409.6,203,900,18.2\n")[1])
    check(runs(",Model,Request,Prompt Tokens,,Time to First Token,,Inter Token Latency,Output Tokens per Second\n"
      .. "Type,,Concurrency,mean,p99,ms mean,ms p99,ms mean,mean\nx," .. model .. ",8,512,600,203,900,18.2,409.6\n")[1],
      "prompt_tokens", "max_concurrency", "ttft_s", "tpot_s", "throughput_tok_s")
  end)

  it("genai-perf's and aiperf's JSON and CSV", function()
    local json = { request_throughput = { unit = "requests/sec", avg = 3.2 }, time_to_first_token = { unit = "ms",
      avg = 203, p99 = 400, std = 10 }, time_to_second_token = { unit = "ms", avg = 5 },
      inter_token_latency = { unit = "ms", avg = 18.2 }, output_token_throughput = { unit = "tokens/sec", avg = 409.6 },
      output_token_throughput_per_user = { unit = "tokens/sec/user", avg = 55 },
      output_sequence_length = { unit = "tokens", avg = 128 }, input_sequence_length = { unit = "tokens", avg = 512 },
      input_config = { endpoint = { model_names = { model } }, loadgen = { concurrency = 8 } } }
    check(runs(core.to_json(json))[1])
    assert.equal(model, runs(core.to_json(json))[1].model)
    json.time_to_first_token = { unit = "s", avg = 0.203 }
    check(runs(core.to_json(json))[1], "ttft_s")
    check(runs("Metric,avg,min,max,p99\nTime To First Token (ms),203.00,1,2,3\nTime To Second Token (ms),1,1,1,1\n"
      .. "Inter Token Latency (ms),18.20,1,2,3\nOutput Sequence Length (tokens),128.00,1,2,3\n"
      .. "Input Sequence Length (tokens),512.00,1,2,3\n\nMetric,Value\nOutput Token Throughput (tokens/sec),409.60\n"
      .. "Output Token Throughput Per User (tokens/sec),55\nRequest Throughput (per sec),3.20\n")[1],
      "prompt_tokens", "output_tokens", "ttft_s", "tpot_s", "throughput_tok_s")
    check(runs('"Metric","avg","std"\n"Time To First Token (ms)","1,203.00","1"\n"Inter Token Latency (ms)","18.2",'
      .. '"1"\n')[1], "tpot_s")
  end)

  it("llama-bench's JSON, JSON lines, CSV, Markdown and SQL", function()
    local rows = { llama(512, 0, 4720), llama(0, 128, 131.2) }
    check_llama(runs(core.to_json(rows)))
    check_llama(runs(core.to_json(rows[1]) .. "\n" .. core.to_json(rows[2])))
    check_llama(runs('model_filename,model_type,model_n_params,n_prompt,n_gen,n_depth,avg_ts\n"a.gguf","llama 8B, x",'
      .. '"8030261312","512","0","0","4720"\n"a.gguf","llama 8B, x","8030261312","0","128","0","131.2"\n'))
    check_llama(runs("ggml_cuda_init: found 1 CUDA devices:\n| model | size | params | backend | ngl | test | t/s |\n"
      .. "| --- | ---: | ---: | --- | --: | ---: | ---: |\n"
      .. "| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA | 99 | pp512 | 4720.00 ± 12.10 |\n"
      .. "| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA | 99 | tg128 | 131.20 ± 0.50 |\n\nbuild: f9ec (7474)"))
    check_llama(runs("CREATE TABLE IF NOT EXISTS llama_bench (\n  avg_ts REAL\n);\n\n"
      .. "INSERT INTO llama_bench (model_type, n_prompt, n_gen, avg_ts) VALUES ('llama 8B', '512', '0', '4720');\n"
      .. "INSERT INTO llama_bench (model_type, n_prompt, n_gen, avg_ts) VALUES ('llama 8B', '0', '128', '131.2');\n"))
  end)

  it("metrics of servers and their logs", function()
    local labels = '{engine="0",model_name="llama-3.1-8b"} '
    local lines = { "# HELP vllm:num_requests_running Number of requests.", "# TYPE vllm:num_requests_running gauge" }
    for name, value in pairs { num_requests_running = 8, num_requests_waiting = 3,
      time_to_first_token_seconds_sum = 20.3, time_to_first_token_seconds_count = 100,
      request_time_per_output_token_seconds_sum = 1.82,
      request_time_per_output_token_seconds_count = 100, prompt_tokens_total = 51200, generation_tokens_total = 12800,
      request_success_total = 100, kv_cache_usage_perc = 0.97 } do
      lines[#lines + 1] = "vllm:" .. name .. labels .. value
    end
    check(runs(table.concat(lines, "\n"))[1], "prompt_tokens", "output_tokens", "max_concurrency", "ttft_s", "tpot_s")
    local log = "INFO 09-02 13:08:10 [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
      .. "throughput: %s tokens/s, Running: %d reqs, Waiting: 0 reqs, GPU KV cache usage: 3.5%%, Prefix cache hit "
      .. "rate: 53.7%%\n"
    check(runs(log:format("0.0", 0) .. log:format("400.6", 8) .. log:format("418.6", 8))[1], "max_concurrency",
      "throughput_tok_s")
    check(runs("[2025-01-01 00:00:00] Decode batch. #running-req: 8, #token: 4096, token usage: 0.12, gen throughput "
      .. "(token/s): 409.60, #queue-req: 0\n")[1], "max_concurrency", "throughput_tok_s")
    assert.near(0.0182, runs("# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 512\n"
      .. "llamacpp:prompt_seconds_total 1\nllamacpp:tokens_predicted_total 100\n"
      .. "llamacpp:tokens_predicted_seconds_total 1.82\n")[1].tpot_s, 1e-9)
  end)

  it("nothing else, and says what that is", function()
    for text, words in pairs {
      ["MLPerf Results Summary\nScenario : Server\nCompleted tokens per second: 3301.55\n"] = "summary of MLPerf",
      [":::MLLOG {\"key\": \"requested_scenario\"}\n"] = "detailed log of MLPerf",
      ["benchmarks:\n- metrics:\n    time_to_first_token_ms: {}\n"] = "guidellm benchmark --output-path FILE.json",
      ["<!DOCTYPE html><html></html>"] = "page of HTML", [""] = "it is empty", ["\31\139\8"] = "compressed by gzip",
      ['{"experiments": [{"requests": []}]}'] = "perf_analyzer's raw profile",
      ["arrival_s,prompt_tokens,output_tokens\n0,1,1\n"] = "a trace of requests",
      ["# HELP go_gc_duration_seconds x\n# TYPE go_gc_duration_seconds summary\ngo_gc_duration_seconds_sum 1\n"] =
        "without latencies of requests",
      [core.to_json(serve) .. "\n{\"completed\": 3"] = "line 2 of its JSON lines",
      ["hello"] = "it is neither of",
    } do
      raises("invalid_argument", words, function() runs(text) end)
    end
  end)
end)

describe("what compare says of a run", function()
  local plan
  setup(function()
    plan = assert(ts.plan(ts.problem(support.settled { model = "llama-3.1-8b", cluster = "1xA100-80G",
      kernel_set = "vllm", bitwidths = { 16 },
      workload = { prompt_tokens = 512, output_tokens = 128, batch_size = 8 } })))
  end)
  local function said(changes)
    local path = support.temporary(core.to_json(support.changed(serve, changes)))
    local result = compare.compare(plan, { path }, { replan = false })
    return table.concat(result.remarks, "\n"), result
  end

  it("names another model, by its id or by its size", function()
    raises("invalid_argument", "was measured with Qwen/Qwen3-8B", function() said { model_id = "Qwen/Qwen3-8B" } end)
    raises("invalid_argument", "70.5 billion parameters, the plan is of llama-3.1-8b with 8.03", function()
      compare.compare(plan, { support.temporary("| model | params | test | t/s |\n| - | - | - | - |\n"
        .. "| llama 70B Q4_K - Medium | 70.55 B | tg128 | 131.20 ± 0.50 |\n") }, { replan = false })
    end)
  end)

  it("says what it took from the plan", function()
    assert.equal("", (said()))
    local unsaid = support.changed(serve, {})
    unsaid.max_concurrency = nil
    local result = compare.compare(plan, { support.temporary(core.to_json(unsaid)) }, { replan = false })
    assert.matches("how many requests ran together; the plan's 8 are assumed", table.concat(result.remarks, "\n"))
    -- More was offered than it holds: those that are answered, of whose waiting nothing is known, ran together.
    unsaid.request_rate = 10
    local loaded = compare.compare(plan, { support.temporary(core.to_json(unsaid)) }, { replan = false })
    local running = serve.request_throughput * serve.mean_tpot_ms * 1e-3
      * (serve.total_output_tokens / serve.completed - 1)
    assert.near(running, loaded.runs[1].workload.batch_size, 0.5)
    assert.matches("requests in flight, by Little's law, without those that waited", table.concat(loaded.remarks, "\n"))
  end)

  it("of a launch, whose folder names its plan where its engines are alike", function()
    local folder = os.tmpname()
    os.remove(folder)
    host.make_folder(folder)
    local measured = support.temporary(core.to_json(serve))
    local function verb() return compare_verb.main { names = { folder, measured }, replan = false } end
    raises("invalid_argument", "no launch is in this folder", verb)
    core.write_file(folder .. "/launch.json", core.to_json { parts = { { file = "plan-1.json" },
      { file = "plan-2.json" } } })
    raises("invalid_argument", ("name its plan, %s/plan-1.json or %s/plan-2.json"):format(folder, folder), verb)
    core.write_file(folder .. "/launch.json", core.to_json { parts = { { file = "plan.json" } } })
    plan:save(folder .. "/plan.json")
    assert.equal(0, verb())
    for _, name in ipairs { "/launch.json", "/plan.json", "" } do os.remove(folder .. name) end
  end)

  it("says when the traffic has left the plan, and what to do", function()
    assert.equal("", (said()))
    assert.matches("1024 prompt and 128 output tokens.*planned for 512 and 128.*%-%-prompt%-tokens 1024",
      (said { total_input_tokens = 32768 }))
    assert.matches("10 requests a second were offered and 3.2 answered.*%-%-rate 10", (said { request_rate = 10 }))
  end)

  it("says where the prediction left its interval", function()
    local _, result = said()
    local outside = 0
    for _, row in ipairs(result.rows) do
      assert.is_true(row.low < row.predicted and row.predicted < row.high)
      if row.metric == "tpot_s" then
        assert.is_true(row.is_outside)
        assert.matches("outside of its interval", row.note)
        outside = outside + 1
      end
    end
    assert.equal(1, outside)
    local tpot_s
    for _, row in ipairs(result.rows) do
      if row.metric == "tpot_s" then tpot_s = row.predicted end
    end
    _, result = said { mean_tpot_ms = tpot_s * 1.001e3 }
    for _, row in ipairs(result.rows) do
      if row.metric == "tpot_s" then assert.is_nil(row.is_outside) end
    end
  end)

  it("recalibrates on request, and keeps what runs said", function()
    local _, first = said()
    local predicted = {}
    for _, row in ipairs(first.rows) do predicted[row.metric] = row.predicted end
    local file = support.temporary() .. ".json"
    local function compared(ttft, tpot)
      local path = support.temporary(core.to_json(support.changed(serve, { num_prompts = 8, completed = 8,
        total_input_tokens = 4096, total_output_tokens = 1024, mean_ttft_ms = predicted.ttft_s * ttft * 1e3,
        mean_tpot_ms = predicted.tpot_s * tpot * 1e3 })))
      return compare.compare(plan, { path }, { replan = false, recalibrate = file })
    end
    local function row(result, metric)
      for _, each in ipairs(result.rows) do
        if each.metric == metric then return each end
      end
    end
    assert.near(1.2, row(compared(1.5, 1.2), "tpot_s").ratio, 1e-9)
    local second = compared(1.5, 1.3)
    assert.near(1.2, row(second, "tpot_s").predicted / predicted.tpot_s, 1e-6)
    assert.near(1, row(second, "ttft_s").ratio, 0.01) -- embedding and LM head are corrected as decoding
    assert.near(math.sqrt(1.2 * 1.3), second.corrections.decode.factor, 1e-9)
    local third = compared(1.5, 2)
    assert.near(math.sqrt(1.2 * 1.3), row(third, "tpot_s").predicted / predicted.tpot_s, 1e-6)
    assert.is_true(row(third, "tpot_s").is_outside)
    assert.equal(3, third.corrections.decode.num_runs)

    -- Plans by that file have these prices, say by which runs, and what is added is over the prices without them.
    local by_runs = assert(ts.plan(plan:problem():with { kernel_set = file }, { planner = "manual",
      stages = plan.stages, prefill_micro_batch_size = plan.prefill_micro_batch_size,
      decode_micro_batch_size = plan.decode_micro_batch_size }))
    local factor = (1.2 * 1.3 * 2) ^ (1 / 3)
    assert.near(factor, ts.simulate(by_runs).tpot_s / ts.simulate(plan).tpot_s, 1e-6)
    assert.equal("fitted", by_runs.provenance)
    assert.near(math.exp(math.abs(math.log(2) - math.log(1.2 * 1.3) / 2)) - 1, by_runs.error, 1e-9)
    assert.matches("latencies corrected: prefill x 1.5 by 3 runs, decode x 1.46 by 3 runs of llama%-3.1%-8b on "
      .. "A100%-80G", table.concat(by_runs.notes, "\n"))
    assert.matches("corrected: prefill x 1.5 by 3 runs", ts.deployment { plan = by_runs }.source)
    local several = assert(ts.plan(ts.problem { model = "llama-3.1-8b", cluster = "2xA100-80G", kernel_set = file,
      workload = { prompt_tokens = 512, output_tokens = 128, batch_size = 8 } }, { replicas = 2 }))
    assert.equal(2, #several.replicas)
    assert.matches("latencies corrected: prefill x 1.5 by 3 runs", table.concat(several.notes, "\n"))
    plan, by_runs = by_runs, plan
    local fourth = compared(1.5, 2)
    plan = by_runs
    assert.near(math.sqrt(math.sqrt(1.2 * 1.3 * 2 * 2)), fourth.corrections.decode.factor, 1e-9)

    raises("invalid_argument", "a file that ends in .json", function()
      compare.compare(plan, {}, { replan = false, recalibrate = "corrections" })
    end)
    local set = core.from_json(core.read_file(file))
    set.recalibration.model = "opt-13b"
    core.write_file(file, core.to_json(set))
    raises("invalid_argument", "its model: opt-13b, the plan's: llama-3.1-8b", function() compared(1, 1) end)
    set.recalibration.model, set.recalibration.of = "llama-3.1-8b", "modern"
    core.write_file(file, core.to_json(set))
    raises("invalid_argument", "its kernel set: modern, the plan's: ", function() compared(1, 1) end)
    core.write_file(file, "{}")
    raises("invalid_argument", "it is none that `tessera compare --recalibrate` wrote", function() compared(1, 1) end)
  end)

  it("compares `vllm bench throughput` where its lengths are the plan's", function()
    local function throughput(tokens)
      return support.temporary(core.to_json { elapsed_time = 20, num_requests = 200, total_num_tokens = 200 * tokens,
        requests_per_second = 10, tokens_per_second = 10 * tokens })
    end
    local result = compare.compare(plan, { throughput(640) }, { replan = false })
    assert.equal(1280, result.rows[1].measured)
    raises("invalid_argument", "bench throughput`, whose requests have 900 tokens", function()
      compare.compare(plan, { throughput(900) }, { replan = false })
    end)
  end)
end)
