-- ts.engine, ts.deployment and ts.serve: by hand, what must be equal, and what is refused. Against vLLM:
-- serving_oracle_spec.lua.
local support = require "support"
local ts = require "tessera"
local raises, trace = support.raises, support.temporary

local cost = { base_s = 0.01, per_token_s = 1e-4, per_sequence_s = 5e-4, per_context_token_s = 1e-6 }

local function with(base, changes)
  local copy = {}
  for key, value in pairs(base) do copy[key] = value end
  for key, value in pairs(changes or {}) do copy[key] = value end
  return copy
end

local function deployment(engine, changes)
  return ts.deployment(with({ step_cost = cost, engine = engine or {} }, changes))
end

local function csv(rows, columns)
  local lines = { columns or "arrival_s,prompt_tokens,output_tokens" }
  for _, row in ipairs(rows) do lines[#lines + 1] = table.concat(row, ",") end
  return trace(table.concat(lines, "\n") .. "\n")
end

local function of_rows(rows, columns) return ts.traffic { trace = csv(rows, columns) } end

-- Busy enough that requests queue, share steps and, with few blocks, are preempted.
local function busy(changes)
  return ts.traffic(with({ rate_per_s = 8, num_requests = 60, seed = 5,
    prompt_tokens = { distribution = "uniform", min = 10, max = 300 },
    output_tokens = { distribution = "geometric", mean = 30, max = 120 } }, changes))
end

-- All times of all requests, for comparisons to the picosecond.
local function times(served)
  local list = {}
  for i, r in ipairs(served:requests()) do
    list[i] = { r.outcome, r.first_scheduled_s, r.first_token_s, r.last_token_s, r.cached_tokens, r.preemptions }
  end
  return list
end

local tight = { max_num_seqs = 8, max_num_batched_tokens = 128, kv_blocks = 60 }

describe("one request", function()
  it("takes the sum of its steps", function()
    -- A step over 100 prompt tokens, then four of one token with 100, 101, ... in the KV cache.
    local served = ts.serve(deployment(), of_rows { { 2, 100, 5 } })
    local r = served:requests()[1]
    local first = 0.01 + 100 * 1e-4 + 5e-4
    local rest = 0
    for context = 100, 103 do rest = rest + 0.01 + 1e-4 + 5e-4 + context * 1e-6 end
    assert.near(first, r.ttft_s, 1e-12)
    assert.near(rest / 4, r.tpot_s, 1e-12)
    assert.near(first + rest, r.e2e_s, 1e-12)
    assert.near(2 + first + rest, r.last_token_s, 1e-12)
    assert.equal(r.ttft_s, served.ttft_s.p50)
    assert.equal(5, served.output_tokens)
    assert.near(5 / (first + rest), served.throughput_tok_s, 1e-9)
  end)

  it("goes through its prompt in chunks", function()
    local served = ts.serve(deployment { max_num_batched_tokens = 48 }, of_rows { { 0, 100, 2 } })
    local tokens = {}
    for i, step in ipairs(served:steps()) do tokens[i] = step.scheduled[1].tokens end
    assert.same({ 48, 48, 4, 1 }, tokens)
  end)

  it("may have its times from a script, which sees what each step computes", function()
    local seen = {}
    local function price(step)
      seen[#seen + 1] = step
      return 0.01 + 1e-4 * step.tokens + 5e-4 * step.num_requests + 1e-6 * step.context_tokens
    end
    local by_script = ts.serve(deployment(tight, { step_cost = price }), busy())
    assert.same(times(ts.serve(deployment(tight), busy())), times(by_script))
    local first = seen[1]
    assert.equal(1, first.num_requests)
    assert.equal(0, first.num_decodes)
    assert.equal(1, first.num_chunks)
    assert.equal(0, first.context_tokens)
    local mixed = 0
    for _, step in ipairs(seen) do
      assert.truthy(step.tokens <= 128)
      if step.num_decodes > 0 and step.num_chunks > 0 then mixed = mixed + 1 end
    end
    assert.truthy(mixed > 0)
  end)
end)

describe("the lecture's examples", function()
  local lengths = { 6, 8, 5, 7, 9, 9, 9 } -- S1 to S4 end at T6, T8, T5 and T7

  local function steps(scheduler)
    local rows = {}
    for i, length in ipairs(lengths) do rows[i] = { 0, 1, length } end
    local engine = { scheduler = scheduler, max_num_seqs = 4, enable_prefix_caching = false }
    local served = ts.serve(ts.deployment { step_cost = { base_s = 1 }, engine = engine }, of_rows(rows))
    local used = 0
    for _, step in ipairs(served:steps()) do
      if step.start_s < 8 then used = used + #step.scheduled end
    end
    return served:requests(), used
  end

  it("continuous batching fills a slot in the step after its request ended", function()
    local requests, used = steps "vllm_v1"
    assert.equal(5, requests[5].first_scheduled_s) -- S5 in T6, S6 in T7, S7 in T8
    assert.equal(6, requests[6].first_scheduled_s)
    assert.equal(7, requests[7].first_scheduled_s)
    assert.equal(32, used)
  end)

  it("static batching leaves them empty until the longest ends", function()
    local requests, used = steps "static"
    for i, length in ipairs { 6, 8, 5, 7 } do assert.equal(length, requests[i].last_token_s) end
    for i = 5, 7 do assert.equal(8, requests[i].first_scheduled_s) end
    assert.equal(26, used) -- of 32: 81.25 %
  end)

  it("200 tokens are 13 blocks of 16, 4096 are 256 and token 4097 takes another", function()
    local function blocks_by_step(prompt, output, engine)
      local served = ts.serve(deployment(with({ kv_blocks = 600, block_size = 16 }, engine)),
        of_rows { { 0, prompt, output } })
      local used = {}
      for i, step in ipairs(served:steps()) do used[i] = 600 - step.free_blocks end
      return used
    end
    -- The step over the prompt, then those over tokens 201, ...; the last one frees all.
    assert.same({ 13, 13, 13, 13, 13, 13, 13, 13, 13, 14, 0 }, blocks_by_step(200, 11, {}))
    assert.same({ 256, 257, 0 }, blocks_by_step(4096, 3, {}))
    assert.same({ 512, 512, 0 },
      blocks_by_step(200, 3, { scheduler = "orca", kv_allocation = "maximum", max_model_len = 8192 }))
  end)
end)

describe("what must be equal", function()
  after_each(support.remove_files)

  it("the same seed gives the same bytes", function()
    local texts = {}
    for run = 1, 2 do
      local path = support.temporary()
      local engine = with(tight, { speculative = { num_tokens = 3, acceptance = 0.6 } })
      ts.serve(deployment(engine, { replicas = 2, router = "power_of_two" }), busy(), { seed = 9 }):save_requests(path)
      texts[run] = support.read(path)
    end
    assert.is_true(#texts[1] > 1000 and texts[1] == texts[2])
  end)

  it("stretches of steps taken at once change nothing, for every scheduler", function()
    for _, card in ipairs(require("tessera.serving").schedulers()) do
      local engine = with(tight, { scheduler = card.name, max_num_batched_tokens = 512, max_model_len = 512 })
      local traffic = busy()
      local one = ts.serve(deployment(engine), traffic, { record = false, skip = false })
      local many = ts.serve(deployment(engine), traffic, { record = false, skip = true })
      assert.same(times(one), times(many), card.name)
      for _, name in ipairs { "mean", "mean_low", "mean_high", "p50", "p99", "max", "n" } do
        assert.equal(one.itl_s[name], many.itl_s[name], card.name .. " itl_s." .. name)
      end
    end
  end)

  it("all times fourfold: all times fourfold", function()
    local function run(factor)
      local rows = {}
      for i = 1, 40 do rows[i] = { (i * i % 23 + i) * 0.0625 * factor, 20 + i * 37 % 150, 1 + i * 13 % 40 } end
      table.sort(rows, function(a, b) return a[1] < b[1] end)
      local scaled = {}
      for name, seconds in pairs(cost) do scaled[name] = seconds * factor end
      return times(ts.serve(deployment(tight, { step_cost = scaled }), of_rows(rows)))
    end
    local slow, fast = run(4), run(1)
    for i, r in ipairs(fast) do
      for k = 2, 4 do assert.equal(4 * r[k], slow[i][k]) end
    end
  end)

  it("names of prefix groups do not count", function()
    local function run(rename)
      local rows = {}
      for i = 1, 40 do rows[i] = { i * 0.1, 150, 10, rename(i % 4), 96 } end
      local columns = "arrival_s,prompt_tokens,output_tokens,prefix_group,prefix_tokens"
      return ts.serve(deployment(tight), of_rows(rows, columns))
    end
    local one = run(function(group) return group end)
    assert.truthy(one.cached_tokens > 0)
    assert.same(times(one), times(run(function(group) return 1000 - 7 * group end)))
  end)

  it("a threshold of the longest prompt is none", function()
    assert.same(times(ts.serve(deployment(with(tight, { long_prefill_token_threshold = 300 })), busy())),
      times(ts.serve(deployment(tight), busy())))
  end)

  it("a prefix cache without a common prefix is none", function()
    local engine = with(tight, { kv_blocks = 5000 }) -- where no block is evicted
    assert.same(times(ts.serve(deployment(with(engine, { enable_prefix_caching = false })), busy())),
      times(ts.serve(deployment(with(engine, { enable_prefix_caching = true })), busy())))
  end)

  it("one engine: whatever the router", function()
    local wanted = times(ts.serve(deployment(tight), busy()))
    for _, card in ipairs(require("tessera.serving").routers()) do
      -- In a shared queue requests wait in front, where the engine does not see them: seats suffice here.
      local served = ts.serve(deployment(with(tight, { max_num_seqs = 64 }), { router = card.name }), busy())
      wanted = card.name == "round_robin" and times(served) or wanted
      assert.same(wanted, times(served), card.name)
    end
  end)

  it("no drafts are no speculation, and drafts that all pass give one token more than them in each step", function()
    local none = with(tight, { speculative = { num_tokens = 0, acceptance = 0.5 } })
    assert.same(times(ts.serve(deployment(tight), busy())), times(ts.serve(deployment(none), busy())))
    local all = { speculative = { num_tokens = 3, acceptance = 1 } }
    local served = ts.serve(deployment(all), of_rows { { 0, 50, 1 + 4 * 6 } })
    assert.equal(1 + 6, #served:steps())
    assert.equal(4, served.accepted_length)
    assert.equal(1, served.acceptance_ratio)
  end)

  it("a trace that was written is the traffic", function()
    local traffic, path = busy { prefix_groups = 3, prefix_tokens = 64, prefix_share = 0.7 }, support.temporary()
    traffic:save(path)
    assert.same(times(ts.serve(deployment(tight), traffic)),
      times(ts.serve(deployment(tight), ts.traffic { trace = path })))
  end)

  it("prefill and decode pools without transfer times are two queues, one behind the other", function()
    local rows = {}
    for i = 1, 30 do rows[i] = { i * 0.15, 20 + i * 53 % 200, 2 + i * 7 % 30 } end
    local step = { base_s = 0.02 }
    local both = ts.serve(ts.deployment { pools = {
      { role = "prefill", step_cost = { base_s = 0.01, per_token_s = 1e-3 }, engine = { max_num_seqs = 4 } },
      { role = "decode", step_cost = step, engine = { max_num_seqs = 6 } } } }, of_rows(rows)):requests()
    -- The first queue: prompts and one token. The second: a token of prompt in place of what has come, the rest.
    local first = {}
    for i, r in ipairs(rows) do first[i] = { r[1], r[2], 1 } end
    local front = ts.serve(ts.deployment { step_cost = { base_s = 0.01, per_token_s = 1e-3 },
      engine = { max_num_seqs = 4 } }, of_rows(first)):requests()
    local second = {}
    for i, r in ipairs(rows) do second[i] = { ("%.12f"):format(front[i].last_token_s), 1, r[3] - 1 } end
    local back = ts.serve(ts.deployment { step_cost = step, engine = { max_num_seqs = 6 } }, of_rows(second)):requests()
    for i in ipairs(rows) do
      assert.near(front[i].first_token_s, both[i].first_token_s, 1e-12)
      assert.near(back[i].last_token_s, both[i].last_token_s, 1e-12)
    end
  end)

  it("a decode pool that cannot keep up is overloaded, whatever the prefill pool does", function()
    local function pools(decode)
      return ts.serve(ts.deployment { step_cost = { base_s = 0.01 }, pools = {
        { role = "prefill" }, { role = "decode", engine = decode } } }, { rate_per_s = 5, num_requests = 1000 })
    end
    -- Two seats of 128 tokens, 10 ms each: 1.57 requests per second.
    local seats = pools { max_num_seqs = 2 }
    assert.is_false(seats.stable)
    assert.near(1.57, seats.sustainable_request_per_s, 0.05)
    assert.truthy(seats.verdict:find("waiting for a decode engine", 1, true))
    assert.is_false(pools { kv_blocks = 50 }.stable)
    assert.is_true(pools({}).stable)
  end)
end)

describe("ts.deployment", function()
  it("is of a plan, of a model on a cluster, or of pools", function()
    local plan = support.small_plan()
    local one = ts.deployment { plan = plan }
    assert.equal(1, #one.replicas)
    assert.truthy(one.source:find("opt", 1, true), one.source)
    assert.equal("vllm_v1", one.replicas[1].scheduler)
    assert.truthy(one.replicas[1].kv_blocks > 0)
    assert.equal(#plan.stages, one.replicas[1].num_stages)

    local many = ts.deployment { model = "opt-125m", cluster = "4xT4-16G", tensor_parallel = 2 }
    assert.equal(2, #many.replicas)
    local pipelines = ts.deployment { model = "opt-125m", cluster = "4xT4-16G", pipeline_parallel = 4, replicas = 1,
      kv_blocks = 100 }
    assert.equal(4, pipelines.replicas[1].num_stages)
    assert.equal(1600, pipelines.replicas[1].kv_tokens)

    local pools = ts.deployment { model = "opt-125m", pools = { { role = "prefill", cluster = "1xV100-32G" },
      { role = "decode", cluster = "2xT4-16G", engine = { max_num_seqs = 32 } } },
      transfer = { link_gbps = 100, latency_s = 1e-3 } }
    assert.equal("prefill", pools.replicas[1].role)
    assert.equal("decode", pools.replicas[3].role)
    local served = ts.serve(pools, of_rows { { 0, 100, 3 } })
    local bytes = 100 * pools.replicas[1].kv_bytes_per_token
    assert.near(1e-3 + bytes / (100e9 / 8), served:requests()[1].transfer_s, 1e-12)
    assert.truthy(tostring(served):find("1 of 1", 1, true))
  end)

  it("has engines that come, go and share devices", function()
    local function ends(pools)
      local served, list = ts.serve(ts.deployment { step_cost = { base_s = 1 }, pools = pools,
        transfer = { latency_s = 1 } }, of_rows { { 0, 10, 4 }, { 0, 10, 4 } }), {}
      for i, r in ipairs(served:requests()) do list[i] = r.last_token_s end
      return list
    end
    -- Each a step on its own device, taking turns on one, and one after the other where one comes late.
    assert.same({ 4, 4 }, ends { { role = "mixed", replicas = 2 } })
    assert.same({ 7, 8 }, ends { { role = "mixed", replicas = 2, devices = { 3 } } })
    assert.same({ 4, 4 }, ends { { role = "mixed", until_s = 2.5 }, { role = "mixed", from_s = 2 } })
    -- What the first one has when it goes, two tokens of each, the second one reads again.
    assert.same({ 4.5, 4.5 }, ends { { role = "mixed", until_s = 2.5, drops = true }, { role = "mixed", from_s = 2 } })
    assert.same({ 4.5, 4.5 }, ends { { role = "mixed", until_s = 0.5, drops = true },
      { role = "mixed", from_s = 0.5 } })
    -- Read together, moved one by one; at 3.5, with two tokens and one, once more.
    assert.same({ 5, 6 }, ends { { role = "prefill" }, { role = "decode", until_s = 2.5 } })
    assert.same({ 6.5, 8.5 }, ends { { role = "prefill" }, { role = "decode", until_s = 3.5, drops = true },
      { role = "decode", from_s = 3 } })
  end)

  it("prices a step as it serves it", function()
    local d = ts.deployment { model = "opt-125m", cluster = "1xT4-16G", api_s = 0 }
    local r = ts.serve(d, of_rows { { 0, 200, 2 } }):requests()[1]
    assert.equal(r.ttft_s, d:step_s { num_prompts = 1, prompt_tokens = 200 })
    assert.equal(r.tpot_s, d:step_s { num_decodes = 1, context_tokens = 200 })
  end)

  it("has the server and the scheduling of the kernel set's runtime", function()
    local function answer(options)
      options.model, options.cluster = "opt-125m", "1xT4-16G"
      return ts.serve(ts.deployment(options), of_rows { { 0, 200, 400 }, { 0.3, 200, 2 } }):requests()
    end
    local engine = { async_scheduling = false }
    local bare = answer { kernel_set = "vllm", engine = engine, api_s = 0 }
    local server = answer { kernel_set = "vllm", engine = engine }
    local ahead = answer { kernel_set = "vllm", api_s = 0 }
    assert.near(bare[1].ttft_s + 0.0055, server[1].ttft_s, 1e-9)
    assert.equal(bare[1].ttft_s, ahead[1].ttft_s)  -- nothing ran before it
    local step_s = bare[1].tpot_s
    assert.near(bare[2].ttft_s + step_s, ahead[2].ttft_s, 0.2 * step_s)
    assert.equal(bare[2].ttft_s, answer { kernel_set = "vllm_v0", engine = engine, host_step_s = 0.0002,
      host_sequence_s = 4e-6, host_prompt_s = 0.001 }[2].ttft_s)
  end)

  it("prices experts by the kernels that are tuned for them", function()
    local function prompt_s(tuned, tensor_parallel)
      local d = ts.deployment { model = "mixtral-8x7b", cluster = tensor_parallel .. "xA100-80G", kernel_set = "vllm",
        tensor_parallel = tensor_parallel, tuned = tuned }
      return d:step_s { num_prompts = 1, prompt_tokens = 2048 }
    end
    assert.equal(prompt_s(nil, 2), prompt_s(true, 2))  -- 8 experts of 7,168 are on vLLM's list
    assert.is_true(prompt_s(false, 2) > 1.25 * prompt_s(true, 2) and prompt_s(false, 2) < 2 * prompt_s(true, 2))
    assert.equal(prompt_s(nil, 8), prompt_s(true, 8))
    assert.error_matches(function() ts.deployment { step_cost = { base_s = 1 }, tuned = true } end, "tuned")
  end)

  it("decides ahead where it can, and says where it cannot", function()
    local function decides_ahead(options)
      options.model, options.cluster = "opt-125m", options.cluster or "1xT4-16G"
      return ts.deployment(options).replicas[1].async_scheduling
    end
    assert.is_true(decides_ahead { kernel_set = "vllm" })
    assert.is_true(decides_ahead { kernel_set = "vllm", engine = { speculative = { method = "eagle" } } })
    for _, engine in ipairs { { scheduler = "sglang" }, { speculative = { method = "ngram" } },
      { async_scheduling = false } } do
      assert.is_false(decides_ahead { kernel_set = "vllm", engine = engine })
    end
    assert.is_false(decides_ahead { kernel_set = "modern" })
    local two = { kernel_set = "vllm", cluster = "2xT4-16G", pipeline_parallel = 2 }
    assert.is_false(decides_ahead(two))
    two.engine = { async_scheduling = true }
    raises("invalid_argument", "async_scheduling", function() decides_ahead(two) end)
    raises("invalid_argument", "async_scheduling", function()
      ts.engine { scheduler = "orca", async_scheduling = true }
    end)
    raises("invalid_argument", "async_scheduling", function()
      ts.engine { async_scheduling = true, speculative = { method = "ngram" } }
    end)
  end)
end)

describe("requests that can never fit", function()
  after_each(support.remove_files)

  it("are rejected and counted, and the others served", function()
    for _, card in ipairs(require("tessera.serving").schedulers()) do
      local engine = { scheduler = card.name, kv_blocks = 4, max_model_len = 64 }
      local served = ts.serve(deployment(engine), of_rows { { 0, 10, 3 }, { 1, 500, 3 }, { 2, 20, 9 } },
        { slo = { ttft_s = 1 } })
      assert.equal(1, served.num_rejected, card.name)
      assert.equal(2, served.num_finished, card.name)
      assert.equal("rejected", served:requests()[2].outcome)
      assert.near(2 / 3, served.attainment_ratio, 1e-12) -- it missed the SLO
    end
    local one_block = ts.serve(deployment { kv_blocks = 1 }, of_rows { { 0, 10, 6 }, { 0, 10, 6 }, { 0, 10, 6 } })
    assert.equal(3, one_block.num_finished) -- one after the other
    assert.equal(0, one_block.num_rejected)
    local none = ts.serve(deployment { kv_blocks = 1 }, of_rows { { 0, 17, 1 } })
    assert.equal(1, none.num_rejected)
    assert.equal("unstable: every request was rejected: they can never fit", none.verdict)
    assert.equal(1, ts.serve(deployment { enable_chunked_prefill = false, max_num_batched_tokens = 300 },
      of_rows { { 0, 301, 2 } }).num_rejected)
  end)
end)

describe("the examples of tessera man serving", function()
  it("run", function()
    local page = support.read(require("tessera.host").installation.scripts_dir .. "/tessera/man/serving.md")
    local count, printed = 0, {}
    local place = setmetatable({ print = function(...) printed[#printed + 1] = tostring((...)) end }, { __index = _G })
    for code in page:gmatch "```lua\n(.-)```" do
      code = code:gsub('"served.json"', ("%q"):format(support.temporary()))
      setfenv(assert(loadstring(code)), place)()
      count = count + 1
    end
    assert.equal(4, count)
    assert.truthy(printed[1]:find "^served: 1000 of 1000", printed[1])
    assert.truthy(printed[2]:find("req/s keep to the SLO", 1, true), printed[2])
    assert.truthy(printed[3]:find("3 engines", 1, true), printed[3])
    support.remove_files()
  end)
end)

describe("wrong use", function()
  after_each(support.remove_files)

  it("is told in one line", function()
    local function file(text) return function() return ts.traffic { trace = trace(text) } end end
    local head = "arrival_s,prompt_tokens,output_tokens\n"
    local function made(changes) return function() return ts.deployment(with({ step_cost = cost }, changes)) end end
    local function engine(options) return function() return ts.engine(options) end end
    local function traffic(options) return function() return ts.traffic(options) end end
    local function stepping(price)
      return function() return ts.serve(ts.deployment { step_cost = price }, of_rows { { 0, 10, 30 } }) end
    end
    local function routed(position)
      local router = { choose = function() return position end }
      return function() return ts.serve(deployment({}, { replicas = 2, router = router }), of_rows { { 0, 10, 3 } }) end
    end
    local function serving(options)
      return function() return ts.serve(deployment(), of_rows { { 0, 10, 3 } }, options) end
    end
    for _, case in ipairs {
      { "invalid_argument", "did you mean 'max_num_seqs'", engine { max_num_seq = 3 } },
      { "out_of_range", "ts.engine.max_num_seqs", engine { max_num_seqs = 0 } },
      { "out_of_range", "ts.engine.block_size", engine { block_size = -1 } },
      { "invalid_argument", "ts.engine.gpu_memory_utilization", engine { gpu_memory_utilization = support.nan } },
      { "not_found", "did you mean 'vllm_v1'", engine { scheduler = "vlm_v1" } },
      { "not_found", "did you mean 'vllm_v1'", made { engine = { scheduler = "vlm_v1" } } },
      { "invalid_argument", "ts.engine.speculative.acceptance", engine { speculative = { num_tokens = 7 } } },
      { "not_found", "did you mean 'round_robin'", made { router = "round_robn" } },
      { "invalid_argument", "ts.deployment.router", made { router = 3 } },
      { "out_of_range", "3 is out of range; give an integer in [1, 2]", routed(3) },
      { "invalid_argument", "NaN is not a number", routed(support.nan) },
      { "invalid_argument", "did you mean 'prefill'", made { pools = { { role = "prefil" } } } },
      { "invalid_argument", "of role prefill and none of role decode", made { pools = { { role = "prefill" } } } },
      { "invalid_argument", "no engine takes prompts", made { pools = { { role = "decode" } } } },
      { "invalid_argument", "no engine takes prompts", made { pools = {} } },
      { "invalid_argument", "goes at 1 s, before it comes at 2 s", made { from_s = 2, until_s = 1 } },
      { "invalid_argument", "3 devices for 2 stages", function()
        ts.deployment { model = "opt-125m", cluster = "2xT4-16G", pipeline_parallel = 2, devices = { 0, 1, 2 } }
      end },
      { "invalid_argument", "did you mean 'step_cost'", made { stepcost = 1 } },
      { "invalid_argument", "steps take no time", made { step_cost = {} } },
      { "invalid_argument", "steps take no time", made { step_cost = { base_s = 0 } } },
      { "out_of_range", "ts.deployment.step_cost.base_s: -1", made { step_cost = { base_s = -1 } } },
      { "invalid_argument", "NaN", made { step_cost = { base_s = support.nan } } },
      { "invalid_argument", "inf", made { step_cost = { base_s = math.huge } } },
      { "out_of_range", "ts.deployment.kv_blocks", made { kv_blocks = 0 } },
      { "invalid_argument", "give plan, or model and cluster, or step_cost", function() return ts.deployment {} end },
      { "invalid_argument", "NaN is not a number", stepping(function() return support.nan end) },
      { "out_of_range", "-1 is out of range", stepping(function() return -1 end) },
      { "invalid_argument", "nil is not a number", stepping(function() end) },
      { "out_of_range", "the run passes 9000000 s", stepping(function() return 1e6 end) },
      { "script", "out of ideas", stepping(function() error "out of ideas" end) },
      { "invalid_argument", "line 3: 'arrival_s' is '1', before the one above it", file(head .. "2,9,3\n1,9,3\n") },
      { "invalid_argument", "line 2: 'arrival_s' is '-2'", file(head .. "-2,9,3\n") },
      { "invalid_argument", "line 2: 'arrival_s' is 'nan'", file(head .. "nan,9,3\n") },
      { "invalid_argument", "line 2: 'prompt_tokens' is '-9'", file(head .. "2,-9,3\n") },
      { "invalid_argument", "line 2: 'prompt_tokens' is '1000000000'", file(head .. "2,1000000000,3\n") },
      { "invalid_argument", "no requests in it", file(head) },
      { "out_of_range", "no request would ever come", traffic { rate_per_s = 0 } },
      { "out_of_range", "ts.traffic.rate_per_s: -1", traffic { rate_per_s = -1 } },
      { "out_of_range", "ts.traffic.prompt_tokens: 1000000000", traffic { rate_per_s = 1, prompt_tokens = 1e9 } },
      { "invalid_argument", "did you mean 'ttft_s'", serving { slo = { tttf_s = 1 } } },
      { "out_of_range", "a limit of -1 s", serving { slo = { ttft_s = -1 } } },
      { "out_of_range", "a limit of NaN", serving { slo = { ttft_s = support.nan } } },
      { "unsupported", "record = true", function() return serving { record = false }():steps() end },
      { "invalid_argument", "slo: give limits", function() return ts.max_rate(deployment(), busy(), { slo = {} }) end },
    } do
      raises(case[1], case[2], case[3])
    end
  end)

  it("an infinite limit is none", function()
    local served = ts.serve(deployment(), busy(), { slo = { ttft_s = { p99 = math.huge }, tpot_s = math.huge } })
    assert.equal(1, served.attainment_ratio)
    assert.is_nil(served.text:find("inf s", 1, true))
  end)
end)
