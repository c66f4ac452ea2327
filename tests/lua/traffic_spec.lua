-- Workloads as distributions and traces: what the planner prices, what the simulation draws, and how they differ.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local function trace(text) return support.temporary(text) end

local function plan_of(workload)
  return assert(ts.plan(ts.problem {
    model = "opt-1.3b", cluster = { { "T4-16G", 2 } }, workload = workload, bitwidths = { 8, 16 }, kernel_set = "vllm",
  }, { prefill_micro_batch_size = 2, decode_micro_batch_size = 2 }))
end

local mixed = "prompt_tokens,output_tokens\n"
for i = 1, 40 do mixed = mixed .. (50 * i) .. "," .. (1 + 3 * (i % 7)) .. "\n" end
local timed = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:59:59.5,100,4\n2023-11-17 00:00:00.25,300,8\n"
  .. "2023-11-17 00:01:00,200,2\n"

describe("a workload of lengths", function()
  after_each(support.remove_files)

  it("has the means, the longest and the requests", function()
    local w = ts.workload { lengths = trace(timed), batch_size = 2 }
    assert.equal(200, w.prompt_tokens)
    assert.near(14 / 3, w.output_tokens, 1e-12)
    assert.equal(300, w.max_prompt_tokens)
    assert.equal(8, w.max_output_tokens)
    assert.equal(3, w.num_requests)
    assert.is_true(w.has_arrivals)
    assert.same({ prompt_tokens = { 100, 300, 200 }, output_tokens = { 4, 8, 2 }, arrival_s = { 0, 0.75, 60.5 } },
      w:requests())
    -- By decode step: four with 102 tokens, eight with 304, two with 201.
    assert.near((4 * 102 + 8 * 304 + 2 * 201) / 14, w.context_tokens, 1e-9)
    assert.matches("over 3 traced requests with arrivals", tostring(w))
    assert.is_nil(ts.workload.llmpq:requests())
    assert.is_false(ts.workload.llmpq.has_arrivals)
    assert.equal(562, ts.workload.llmpq.context_tokens)
  end)

  it("reads every layout", function()
    for _, text in ipairs {
      "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n7,3,10,2.3\n",
      "input_tokens,output_tokens\n7,3\n",
      "7,3\n", "id,7th,x\n1,7,3\n", "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,7,3\n", "\239\187\1917,3\r\n",
    } do
      local w = ts.workload { lengths = trace(text) }
      assert.equal(7, w.prompt_tokens)
      assert.equal(3, w.output_tokens)
    end
    local mooncake = ts.workload { lengths = trace "timestamp_ms,input_length,output_length\n250,7,3\n27750.5,5,4\n" }
    assert.same({ 0, 27.5005 }, mooncake:requests().arrival_s)
    for text, message in pairs {
      ["timestamp,prompt_tokens,output_tokens\nnoon,7,3\n"] = "line 2: 'timestamp' is 'noon'",
      ["timestamp,prompt_tokens,output_tokens\n2023-02-30 00:00:00,7,3\n"] = "line 2",
      ["prompt_tokens,output_tokens\n7,0\n"] = "line 2: 'output_tokens' is '0'",
      ["7\n"] = "line 1", ["7,x\n"] = "line 1",
    } do
      raises("invalid_argument", message, function() return ts.workload { lengths = trace(text) } end)
    end
  end)

  it("leaves out what is longer than allowed", function()
    local w = ts.workload { lengths = trace(timed), max_prompt_tokens = 200 }
    assert.equal(2, w.num_requests)
    assert.equal(1, w.num_left_out)
    assert.equal(200, w.max_prompt_tokens)
    raises("invalid_argument", "all 3 requests are longer",
      function() return ts.workload { lengths = trace(timed), max_output_tokens = 1 } end)
  end)
end)

describe("ts.simulate of a distribution", function()
  after_each(support.remove_files)

  it("draws batches, and says what the means leave out", function()
    local plan = plan_of(ts.workload { lengths = trace(mixed), batch_size = 8 })
    local run = ts.simulate(plan, { num_batches = 5, seed = 3 })
    assert.equal(5, run.num_batches)
    local requests = run:requests()
    assert.equal(40, #requests.ttft_s)
    local seen, tokens, e2e = {}, 0, 0
    for i, prompt in ipairs(requests.prompt_tokens) do -- all once before any comes twice
      assert.is_nil(seen[prompt])
      seen[prompt] = true
      tokens = tokens + requests.output_tokens[i]
      e2e = e2e + requests.e2e_s[i] / 40
      assert.is_true(requests.ttft_s[i] > 0 and requests.e2e_s[i] >= requests.ttft_s[i])
    end
    assert.near(tokens / run.total_s, run.throughput_tok_s, 1e-9 * run.throughput_tok_s)
    assert.near(e2e, run.quantiles.e2e_s.mean, 1e-9)
    assert.near(run.quantiles.ttft_s.mean, run.ttft_s, 1e-12)
    for _, q in pairs(run.quantiles) do assert.is_true(q.p50 <= q.p90 and q.p90 <= q.p99 and q.p99 <= q.max) end
    assert.near(run.expected.throughput_tok_s / run.throughput_tok_s - 1, run.expected_error, 1e-12)
    assert.near(ts.simulate(plan, { lengths = "means" }).total_s, run.expected.total_s, 1e-12)
    assert.same(run:to_table(), ts.simulate(plan, { num_batches = 5, seed = 3 }):to_table())
    assert.is_true(ts.simulate(plan, { num_batches = 5, seed = 4 }).total_s ~= run.total_s)
    assert.matches("by the mean lengths: .* than the distribution", debug.getmetatable(run).__full(run))
  end)

  it("is the batch of means where all requests are alike", function()
    local plan = plan_of(ts.workload { lengths = trace(("512,20\n"):rep(6)), batch_size = 6 })
    for _, batching in ipairs { "padded", "ragged" } do
      local run = ts.simulate(plan, { num_batches = 3, batching = batching })
      assert.near(3 * run.expected.total_s, run.total_s, 1e-9 * run.total_s)
      assert.near(0, run.expected_error, 1e-9)
      assert.near(run.expected.ttft_s, run.ttft_s, 1e-9)
      assert.near(run.expected.tpot_s, run.tpot_s, 1e-9)
    end
  end)

  it("pays for padding", function()
    local plan = plan_of(ts.workload { lengths = trace(mixed), batch_size = 8 })
    local padded = ts.simulate(plan, { batching = "padded", num_batches = 5 })
    local ragged = ts.simulate(plan, { batching = "ragged", num_batches = 5 })
    assert.is_true(padded.throughput_tok_s < ragged.throughput_tok_s)
  end)

  it("honours arrivals", function()
    local plan = plan_of(ts.workload { lengths = trace(timed), batch_size = 2 })
    local run = ts.simulate(plan, { arrivals = "trace" })
    assert.equal(2, run.num_batches) -- the second has what is left
    local requests = run:requests()
    assert.same({ 0, 0.75, 60.5 }, requests.arrival_s)
    assert.is_true(requests.ttft_s[1] > 0.75) -- it waits for the other one of its micro-batch
    assert.is_true(run.total_s > 60.5 and requests.ttft_s[3] < 1)
    raises("invalid_argument", "does not say when requests arrive", function()
      ts.simulate(plan_of(ts.workload { lengths = trace(mixed), batch_size = 8 }), { arrivals = "trace" })
    end)
  end)

  it("cuts prompts into chunks", function()
    local plan = plan_of(ts.workload { lengths = trace(mixed), batch_size = 8, chunk_tokens = 256 })
    assert.is_true(ts.simulate(plan, { num_batches = 2, batching = "ragged" }).total_s > 0)
  end)

  it("travels in a plan's file", function()
    local plan, path = plan_of(ts.workload { lengths = trace(timed), batch_size = 2 }), support.temporary()
    plan:save(path)
    local again = ts.load_plan(path)
    assert.same(ts.simulate(plan):to_table(), ts.simulate(again):to_table())
    assert.is_true(ts.check(again))
  end)

  it("refuses wrong use", function()
    local plain = support.small_plan()
    raises("invalid_argument", "lengths", function() ts.simulate(plain, { lengths = "distribution" }) end)
    raises("invalid_argument", "seed", function() ts.simulate(plain, { seed = 3 }) end)
    raises("invalid_argument", "batching", function() ts.simulate(plain, { batching = "raged" }) end)
    raises("unsupported", "real micro-batches", function()
      ts.simulate(plain, { lengths = "distribution", micro_batches = "full" })
    end)
  end)
end)

describe("ts.max_rate", function()
  it("looks for the rate of traffic that says none, as of traffic that says one", function()
    local deployment = ts.deployment { model = "opt-1.3b", cluster = "1xL4" }
    local options = { slo = { ttft_s = { p99 = 1 }, tpot_s = { p99 = 0.05 } }, tolerance = 0.05 }
    local function found(rate_per_s)
      local traffic = { rate_per_s = rate_per_s, num_requests = 200, prompt_tokens = 300, output_tokens = 30, seed = 1 }
      local rate = ts.max_rate(deployment, traffic, options).rate_per_s
      assert.equal(rate_per_s, traffic.rate_per_s)
      return rate
    end
    local unsaid = found()
    assert.is_true(unsaid > 0)
    assert.equal(unsaid, found(1))
    assert.near(1, found(3) / unsaid, 0.11)
  end)
end)
