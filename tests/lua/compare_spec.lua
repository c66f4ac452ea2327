-- tessera compare: benchmarks as vLLM writes them against a plan; what is fitted, said and refused.

local bench = require "tessera.launch.compare.bench"
local compare = require "tessera.launch.compare"
local core = require "tessera.core"
local measured = require "lib.measured"
local support = require "support"
local ts = require "tessera"
local raises = support.raises

local function problem(changes)
  return ts.problem(support.settled(support.changed({
    model = "llama-3.1-8b", cluster = "1xA100-80G", kernel_set = "vllm", bitwidths = { 16 },
    workload = { prompt_tokens = 512, output_tokens = 64, batch_size = 16 },
  }, changes)))
end

local plan
setup(function() plan = assert(ts.plan(problem())) end)
teardown(support.remove_files)

-- A result of `vllm bench serve`: what the plan predicts for this load, times the factors.
local function serve(changes, factors)
  factors = factors or {}
  local batch = factors.batch or 16
  local own = assert(ts.plan(problem { workload = { prompt_tokens = 512, output_tokens = 64, batch_size = batch } },
    { planner = "manual", stages = plan.stages,
      prefill_micro_batch_size = math.min(plan.prefill_micro_batch_size, batch),
      decode_micro_batch_size = math.min(plan.decode_micro_batch_size, batch) }))
  local run = ts.simulate(own)
  local result = support.changed({
    backend = "vllm", model_id = "meta-llama/Llama-3.1-8B", num_prompts = batch, request_rate = "inf",
    max_concurrency = batch, duration = run.total_s, completed = batch, total_input_tokens = 512 * batch,
    total_output_tokens = 64 * batch, request_throughput = run.throughput_tok_s / 64 / (factors.decode or 1),
    output_throughput = run.throughput_tok_s / (factors.decode or 1), total_token_throughput = 1,
    mean_ttft_ms = run.ttft_s * 1e3 * (factors.prefill or 1), std_ttft_ms = 1,
    mean_tpot_ms = run.tpot_s * 1e3 * (factors.decode or 1), std_tpot_ms = 0.1,
  }, changes)
  return result
end

local function file(result) return support.temporary(type(result) == "string" and result or core.to_json(result)) end

local function compared(results, opt)
  local paths = {}
  for i, result in ipairs(results) do paths[i] = file(result) end
  return compare.compare(plan, paths, opt or { replan = false })
end

local function row_of(result, metric)
  for _, row in ipairs(result.rows) do
    if row.metric == metric then return row end
  end
end

describe("tessera compare", function()
  it("asks for keys that all versions of the benchmark write", function()
    local path, why = measured.path "vllm/flags.json"
    if not path then return pending(why.message) end
    for version, lists in pairs(core.from_json(core.read_file(path))) do
      local has = {}
      for _, key in ipairs(lists.bench) do has[key] = true end
      for _, key in ipairs(bench.serve_keys) do assert.is_true(has[key], version .. " " .. key) end
    end
  end)

  it("puts measured beside predicted", function()
    local result = compared { serve(nil, { prefill = 2, decode = 1.25 }) }
    assert.near(1.25, row_of(result, "tpot_s").ratio, 1e-6)
    assert.near(2, row_of(result, "ttft_s").ratio, 1e-6)
    assert.near(0.8, row_of(result, "throughput_tok_s").ratio, 1e-6)
    assert.near(1.25, result.corrections.decode.factor, 1e-6)
    assert.near(2, result.corrections.prefill.factor, 1e-6)
    assert.is_nil(result.corrections.decode.error, "one run says nothing of its own error")
  end)

  it("fits over several runs, with an error of its own", function()
    local result = compared { serve(nil, { decode = 1.2, batch = 4 }), serve(nil, { decode = 1.3, batch = 8 }),
      serve(nil, { decode = 1.25 }) }
    local decode = result.corrections.decode
    assert.equal(3, decode.num_runs)
    assert.near((1.2 * 1.3 * 1.25) ^ (1 / 3), decode.factor, 1e-6)
    local mean = math.log(decode.factor)
    local variance = ((math.log(1.2) - mean) ^ 2 + (math.log(1.3) - mean) ^ 2 + (math.log(1.25) - mean) ^ 2) / 2
    assert.near(math.sqrt(variance), decode.error, 1e-6)
    assert.near(math.exp(math.abs(math.log(1.2) - math.log(1.3 * 1.25) / 2)) - 1, decode.left_out_error, 1e-6)
    assert.equal(4, result.runs[1].workload.batch_size)
  end)

  it("takes an offered rate for what it is", function()
    -- 2 requests a second, in flight for 1 s each: two at a time.
    local result = compared { serve { request_rate = 2, request_throughput = 1.98, max_concurrency = 1000,
      num_prompts = 100, completed = 100, total_input_tokens = 51200, total_output_tokens = 6400,
      mean_ttft_ms = 100, mean_tpot_ms = 900 / 63 } }
    assert.equal(2, result.runs[1].workload.batch_size)
    assert.is_number(row_of(result, "tpot_s").ratio)
    assert.is_nil(row_of(result, "throughput_tok_s").ratio)
    assert.matches("offered rate", row_of(result, "throughput_tok_s").note)
    assert.is_nil(row_of(result, "ttft_s").ratio)
    assert.matches("Little's law", result.remarks[1])
  end)

  it("reads vllm bench latency", function()
    local e2e_s = ts.simulate(plan).total_s
    local result = compared { { avg_latency = 1.5 * e2e_s, latencies = { 1.4 * e2e_s, 1.6 * e2e_s },
      percentiles = { ["50"] = 1.5 * e2e_s } } }
    assert.near(1.5, result.corrections.decode.factor, 1e-6)
    assert.near(1.5, result.corrections.prefill.factor, 1e-6)
    assert.matches("do not say batch and lengths", result.remarks[1])
  end)

  it("takes replicas for what they are together", function()
    local two = assert(ts.plan(problem { cluster = "(2xA100-80G)" }, { replicas = 2 }))
    local one = assert(ts.plan(problem { workload = { prompt_tokens = 512, output_tokens = 64, batch_size = 8 } },
      { planner = "manual", stages = two.replicas[1].stages,
        prefill_micro_batch_size = two.replicas[1].prefill_micro_batch_size,
        decode_micro_batch_size = two.replicas[1].decode_micro_batch_size }))
    local run = ts.simulate(one)
    local result = compare.compare(two, { file(serve { mean_tpot_ms = run.tpot_s * 1.1e3,
      output_throughput = run.throughput_tok_s * 2 }) }, { replan = true, time_limit_s = 1 })
    assert.near(1.1, row_of(result, "tpot_s").ratio, 1e-6)
    assert.near(1, row_of(result, "throughput_tok_s").ratio, 1e-6)
    assert.matches("one engine only", result.remarks[1])
    assert.is_nil(result.another)
  end)

  it("says whether another plan would be better", function()
    local opt = { replan = true, time_limit_s = 30 }
    local same = compared({ serve() }, opt)
    assert.is_true(same.another.gain_ratio <= 0.01)
    assert.is_false(same.another.is_better)
    -- Two kinds of devices, planned for long prompts: a decode that is 50 times as slow wants another split.
    local mixed = ts.problem(support.settled { model = "llama-3.1-8b", cluster = "(1xA100-80G+1xL4)",
      kernel_set = "vllm",
      bitwidths = { 8, 16 }, theta = 0, workload = { prompt_tokens = 2000, output_tokens = 8, batch_size = 16 } })
    local own = assert(ts.plan(mixed))
    local run = ts.simulate(own)
    local result = compare.compare(own, { file {
      model_id = "llama-3.1-8b", completed = 16, num_prompts = 16, max_concurrency = 16, request_rate = "inf",
      total_input_tokens = 32000, total_output_tokens = 128, request_throughput = 1, output_throughput = 1,
      mean_ttft_ms = run.ttft_s * 1e3, mean_tpot_ms = run.tpot_s * 5e4 } }, opt)
    assert.is_true(result.another.gain_ratio > 0.01)
    assert.is_true(#result.another.stages > 0)
  end)

  it("refuses what it cannot compare", function()
    local function refused(result, message)
      raises("invalid_argument", message, function() compared { result } end)
    end
    refused(serve { model_id = "Qwen/Qwen3-8B" }, "was measured with Qwen/Qwen3-8B, the plan is of llama-3.1-8b")
    refused("{\"completed\": 3, \"total_inp", "it is no JSON")
    refused("[1, 2]", "it is neither of")
    refused("{\"a\": 1}", "it is neither of")
    local missing = serve()
    missing.output_throughput = nil
    refused(missing, "output_throughput is missing")
    refused(serve { completed = 0 }, "completed is 0; a number from 1")
    refused(serve { total_input_tokens = "many" }, "total_input_tokens is many")
    refused(serve { failed = "x" }, "failed is x; a number from 0 on belongs there")
    refused(serve { max_concurrency = 100000, num_prompts = 100000 }, "the plan cannot run what was measured")
  end)

  it("takes names that public copies of the model have, and paths", function()
    for _, id in ipairs { "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", "./checkpoint-0", "/data/weights" } do
      assert.is_number(row_of(compared { serve { model_id = id } }, "tpot_s").ratio)
    end
  end)
end)
