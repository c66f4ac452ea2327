-- ts.simulate and the run object.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

describe("ts.simulate", function()
  after_each(support.remove_files)

  it("has the fields of the contract", function()
    local run = ts.simulate(support.small_plan())
    support.is_object(run, "tessera.Run", {
      total_s = "number", prefill_s = "number", decode_s = "number", ttft_s = "number", ttft_max_s = "number",
      tpot_s = "number", decode_round_s = "number", throughput_tok_s = "number", provenance = "string", stages = "list",
      timeline = "table", num_batches = "integer", host_s = "number",
    })
    assert.equal(#support.small_plan().stages, #run.stages)
    for _, stage in ipairs(run.stages) do
      support.is_object(stage, "tessera.RunStage", { name = "string", busy_s = "number", idle_ratio = "number" })
      assert.is_true(stage.busy_s > 0 and stage.busy_s <= run.total_s)
      assert.near(1 - stage.busy_s / run.total_s, stage.idle_ratio, 1e-9)
    end
  end)

  it("has numbers that fit each other and the plan", function()
    local plan = support.small_plan()
    local run = ts.simulate(plan)
    assert.near(run.total_s, run.prefill_s + run.decode_s, 1e-12)
    assert.near(4 * 8 / run.total_s, run.throughput_tok_s, 1e-6 * run.throughput_tok_s)
    assert.is_true(run.ttft_s <= run.ttft_max_s and run.ttft_max_s <= run.total_s)
    assert.near(plan.latency_s, run.total_s, 0.05 * plan.latency_s)
    assert.same(run:to_table(), ts.simulate(plan):to_table())
    assert.matches("^Simulated: .*\n  stage 0: ", debug.getmetatable(run).__full(run)) -- what print shows
  end)

  it("says what of the time is the host's", function()
    local workload = { prompt_tokens = 128, output_tokens = 20, batch_size = 6 }
    local function run(kernel_set)
      local plan = ts.plan({ model = "llama-3-8b", cluster = "1xH200-141G", kernel_set = kernel_set, bitwidths = { 16 },
        workload = workload }, { prefill_micro_batch_size = 2, decode_micro_batch_size = 3 })
      return ts.simulate(plan), plan
    end
    local v1, plan = run "vllm"
    local v0 = run "vllm_v0"
    -- Three prompts of two requests and 19 rounds of two micro-batches of three, by the sets' own numbers.
    assert.near(3 * (2e-4 + 2 * 4e-6 + 1e-3) + 38 * (2e-4 + 3 * 4e-6), v1.host_s, 1e-12)
    assert.near(3 * (1e-3 + 2 * 4e-5) + 38 * (1e-3 + 3 * 4e-5), v0.host_s, 1e-12)
    assert.near(v0.host_s - v1.host_s, v0.total_s - v1.total_s, 1e-9)
    assert.equal(0, run("modern").host_s)
    assert.truthy(plan:explain { what_if = false }:find("host: 212.0 us of each decode step", 1, true))
    for _, binding in ipairs(plan:explain({ what_if = false, as = "table" }).binds) do
      if binding.kind == "host" then assert.near(212e-6 / plan.stages[1].decode_s, binding.used_ratio, 1e-9) end
    end
  end)

  it("keeps the first events as columns", function()
    local run = ts.simulate(support.small_plan())
    local timeline, busy = run.timeline, {}
    assert.equal(math.min(timeline.num_events, 256), #timeline.start_s)
    for i = 1, #timeline.start_s do
      assert.is_true(timeline.start_s[i] >= (timeline.start_s[i - 1] or 0))
      local stage = timeline.stage_index[i]
      if timeline.is_link[i] == 0 then busy[stage] = (busy[stage] or 0) + timeline.duration_s[i] end
    end
    for k, stage in ipairs(run.stages) do
      assert.equal(stage.name, timeline.stages[k])
      if timeline.num_events <= 256 then assert.near(stage.busy_s, busy[k - 1], 1e-9) end
    end
    assert.is_nil(ts.simulate(support.small_plan(), { record = false }).timeline)
  end)

  it("writes a trace", function()
    local path = support.temporary()
    ts.simulate(support.small_plan()):save_trace(path)
    local trace = support.read(path)
    assert.matches('^{"displayTimeUnit":"ms","traceEvents":%[', trace)
    assert.matches("%]}\n$", trace)
    raises("not_found", "No such file", function() ts.simulate(support.small_plan()):save_trace "/no/such/trace" end)
    raises("io", "Is a directory", function() ts.simulate(support.small_plan()):save_trace "/" end)
    raises("invalid_argument", "NUL", function() ts.simulate(support.small_plan()):save_trace "a\0b" end)
    raises("invalid_argument", "run:save_trace path", function() ts.simulate(support.small_plan()):save_trace() end)
    raises("invalid_argument", "record", function()
      ts.simulate(support.small_plan(), { record = false }):save_trace(path)
    end)
    assert.equal(trace, support.read(path))
  end)

  it("refuses wrong use", function()
    for _, value in ipairs { 3, "plan", {}, support.small_problem() } do
      raises("invalid_argument", "where a tessera.Plan belongs", function() return ts.simulate(value) end)
    end
    raises("invalid_argument", "ts.simulate plan", function() return ts.simulate() end)
    raises("invalid_argument", "did you mean 'record'", function()
      return ts.simulate(support.small_plan(), { recrd = 1 })
    end)
    raises("invalid_argument", "true or false", function() return ts.simulate(support.small_plan(), { record = 1 }) end)
  end)
end)
