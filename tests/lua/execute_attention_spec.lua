-- Plans whose stages have KV heads on another device, run: a process of their own has these heads, and the tokens are
-- those of one process.
local executions = require "executions"
local support = require "support"
local ts = require "tessera"

local it_runs = executions.it_runs(it, pending)
local is_same, options, plan_of = executions.is_same, executions.options, executions.plan_of
local signal, workers = executions.signal, executions.workers

describe("attention in another process", function()
  after_each(function() assert.same({}, workers()) end)

  it_runs("writes the tokens of one process, whichever heads it has", function()
    local whole = ts.execute(plan_of { { 12, 8 } }, options { prompts = { "the cat" } }).stages[1].kv_cache_bytes
    for heads = 1, 6 do
      local plan = plan_of({ { 12, heads % 2 == 0 and 4 or 16, heads / 6 } },
        { batch_size = 7, prefill = 3, decode = 2, chunk_tokens = heads > 3 and 3 or nil })
      local opt = options { temperature = 0.9, top_k = 20, seed = heads }
      local run = ts.execute(plan, opt)
      is_same(plan, opt, run)
      assert.same({ 2, 0, 1 }, { #run.stages, run.stages[1].rank, run.stages[2].rank })
      assert.is_false(run.stages[1].attends)
      assert.is_true(run.stages[2].attends)
      assert.equal(0, run.stages[2].weight_bytes)
      assert.is_true(run.stages[2].kv_cache_bytes > 0 and whole > 0)
      assert.equal(heads, 6 * run.stages[2].kv_cache_bytes
        / (run.stages[1].kv_cache_bytes + run.stages[2].kv_cache_bytes))
    end
  end)

  it_runs("serves two stages, each with heads elsewhere, beside int8 caches", function()
    local plan = plan_of({ { 5, 4, 0.5 }, { 4, 8 }, { 3, 16, 1 } }, { batch_size = 5, kv_bitwidth = 8 })
    local opt = options { kv_bitwidth = 8 }
    local run = ts.execute(plan, opt)
    is_same(plan, opt, run)
    assert.equal(5, #run.stages)
  end)

  for _, case in ipairs { { "attends", 1, 1 }, { "asks", 0, 1 }, { "attends for the second stage", 3, 2 } } do
    it_runs("goes on after the process that " .. case[1] .. " was killed, with the same tokens", function()
      local plan = plan_of({ { 6, 4, 0.5 }, { 6, 4, 1 } }, { batch_size = 3 })
      local answers = {}
      local opt = options { recover = true, ignore_stop_tokens = true }
      local count = 0
      opt.on_answer = function(prompt)
        assert.is_nil(answers[prompt])
        answers[prompt], count = true, count + 1
        if count == 4 then signal("KILL", case[2]) end
      end
      local run = ts.execute(plan, opt)
      assert.equal(#opt.prompts, count)
      assert.equal(1, #run.faults)
      assert.same({ case[2], case[3], "restarted" },
        { run.faults[1].rank, run.faults[1].stage, run.faults[1].remedy })
      opt.on_answer, opt.recover = nil, nil
      is_same(plan, opt, run)
    end)
  end

  it_runs("is named where it is lost", function()
    local plan = plan_of({ { 12, 4, 1 } }, { batch_size = 2 })
    local opt = options()
    local count = 0
    opt.on_answer = function()
      count = count + 1
      if count == 1 then signal("KILL", 1) end
    end
    local run = ts.execute(plan, opt)
    assert.equal("failed", run.state)
    assert.matches("^attention of stage 0 %(rank 1, host 127.0.0.1, process %d+%): ended by signal 9", run.why)
  end)

  it_runs("is slow where it is emulated so, with the same tokens", function()
    local plan = plan_of({ { 12, 4, 1 } }, { batch_size = 4 })
    local opt = options { ignore_stop_tokens = true, max_tokens = 6, prompts = { "the cat", "a dog", "they", "my" } }
    opt.link_latency_s = 0.002
    local run = ts.execute(plan, opt)
    is_same(plan, opt, run)
    -- Twelve layers there and back, for every prefill and decode step of either micro-batch; no later either is what
    -- a virtual clock shows (emulated_speed_test).
    local steps = math.ceil(4 / 2) * 6
    assert.is_true(run.total_s >= steps * 12 * 2 * 0.002, run.total_s)
  end)

  it_runs("takes speeds by process, and no others", function()
    local plan = plan_of({ { 12, 4, 1 } }, { batch_size = 4 })
    for _, case in ipairs {
      { "invalid_argument", "3 speeds, and the plan has 2 processes", { speeds = { 1, 0.5, 0.5 } } },
      { "out_of_range", "speeds[2]: 0 is outside [0.001, 1]", { speeds = { 1, 0 } } },
      { "out_of_range", "speeds[2]: 2 is outside", { speeds = { 1, 2 } } },
      { "invalid_argument", "not both", { speeds = { 1, 0.5 }, emulated = true } },
      { "invalid_argument", "speeds", { speeds = { "fast" } } }, { "out_of_range", "link_gbps", { link_gbps = 0 } },
      { "unsupported", "c10d carries hidden states alone", { transport = "c10d" } },
    } do
      support.raises(case[1], case[2], function() ts.execute(plan, options(case[3])) end)
    end
  end)
end)
