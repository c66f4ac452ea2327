-- ts.register_scheduler, and schedulers in Lua against those of the engine.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local cost = { base_s = 0.005, per_token_s = 2e-5, per_sequence_s = 1e-4, per_context_token_s = 1e-7 }

local function traffic(options)
  local own = { rate_per_s = 20, num_requests = 300, seed = 3,
    prompt_tokens = { distribution = "uniform", min = 20, max = 900 },
    output_tokens = { distribution = "uniform", min = 5, max = 120 } }
  for key, value in pairs(options or {}) do own[key] = value end
  return ts.traffic(own)
end

local function serve(scheduler, options, requests)
  local engine = { scheduler = scheduler, enable_prefix_caching = false, max_num_seqs = 16,
    max_num_batched_tokens = 512, kv_blocks = 400 }
  for key, value in pairs(options or {}) do engine[key] = value end
  return ts.serve(ts.deployment { step_cost = cost, engine = ts.engine(engine) }, requests or traffic())
end

local function card(schedule, changes)
  local own = { name = "mine", doc = "For the tests", schedule = schedule }
  for key, value in pairs(changes or {}) do own[key] = value end
  return own
end

-- Serves with a scheduler that schedules whoever it can, and calls `look` before.
local function watching(look, changes, requests)
  ts.register_scheduler(card(function(view)
    look(view)
    for i = 1, view.num_running do
      local r = view:running(i)
      if r.left_tokens > 0 and view.tokens_left > 0 then view:schedule(r, math.min(r.left_tokens, view.tokens_left)) end
    end
    for i = 1, view.num_waiting do
      if view.tokens_left == 0 or view.seats_left == 0 then return end
      local r = view:waiting(i)
      if view:schedule(r, math.min(r.left_tokens, view.tokens_left)) == 0 then return end
    end
  end, changes))
  return serve("mine", { kv_blocks = 4000 }, requests)
end

describe("ts.register_scheduler", function()
  it("runs the template, which is vLLM V1's rule, as the engine runs its own", function()
    require "tessera.schedulers._template"
    for _, options in ipairs { {}, { kv_blocks = 90 }, { max_num_seqs = 3 } } do
      local own, theirs = serve("my_scheduler", options), serve("vllm_v1", options)
      assert.equal(theirs.ttft_s.mean, own.ttft_s.mean)
      assert.equal(theirs.tpot_s.p99, own.tpot_s.p99)
      assert.equal(theirs.preemptions, own.preemptions)
    end
    assert.is_true(serve("my_scheduler", { kv_blocks = 90 }).preemptions > 0)
  end)

  it("gives a scheduler options of its own", function()
    local short = { name = "my_scheduler", threshold = 128 }
    local own = serve(short)
    local theirs = serve("vllm_v1", { long_prefill_token_threshold = 128 })
    assert.equal(theirs.ttft_s.mean, own.ttft_s.mean)
    assert.equal("my_scheduler(threshold = 128)", ts.engine { scheduler = short }.scheduler)
    raises("invalid_argument", "threshhold", function() serve { name = "my_scheduler", threshhold = 1 } end)
    raises("invalid_argument", "threshold", function() serve { name = "vllm_v1", threshold = 1 } end)
  end)

  it("takes those of one in C++ in the same form", function()
    local cut = { name = "micro_batches", prefill_micro_batch_size = 2, decode_micro_batch_size = 8,
      chunk_tokens = 100 }
    local beside = { prefill_micro_batch_size = 2, decode_micro_batch_size = 8, chunk_tokens = 100 }
    local inside = serve(cut)
    assert.equal(serve("micro_batches", beside).ttft_s.mean, inside.ttft_s.mean)
    assert.is_true(serve("micro_batches").ttft_s.mean ~= inside.ttft_s.mean)
    raises("invalid_argument", "chunk_tokens is given twice", function() serve(cut, { chunk_tokens = 9 }) end)
  end)

  it("are told of requests that leave before their end", function()
    local gone = {}
    local served = watching(function() end, { removed = function(request, opt)
      gone[#gone + 1] = request
      assert.equal("table", type(opt))
    end }, traffic { patience_s = 0.5 })
    local cancelled = {}
    for i, r in ipairs(served:requests()) do
      if r.outcome == "cancelled" then cancelled[i - 1] = true end
    end
    assert.is_true(#gone > 3)
    for _, request in ipairs(gone) do
      assert.is_true(cancelled[request])
      cancelled[request] = nil
    end
    assert.is_nil(next(cancelled))
  end)

  -- With one seat and all there from the start, the shortest first is what minimises the mean wait.
  it("ships one that reads the shortest prompt first", function()
    local options = { max_num_seqs = 1, max_num_batched_tokens = 1000 }
    local all = traffic { rate_per_s = math.huge, output_tokens = 1 }
    local shortest = serve({ name = "shortest_first", most_looked_at = 1000 }, options, all)
    local first = serve("vllm_v1", options, all)
    assert.is_true(shortest.ttft_s.mean < first.ttft_s.mean)
    assert.equal(first.ttft_s.max, shortest.ttft_s.max)
  end)

  it("lists all of them", function()
    local names = {}
    for _, entry in ipairs(ts.schedulers()) do names[entry.name] = entry.doc end
    assert.truthy(names.vllm_v0 and names.shortest_first)
  end)

  it("shows requests that are read-only", function()
    local num_seen = 0
    watching(function(view)
      if view.num_waiting == 0 then return end
      local r = view:waiting(1)
      assert.is_nil(view:waiting(view.num_waiting + 1))
      assert.is_nil(view:running(0))
      assert.equal(0, r.generated_tokens)
      assert.is_false(pcall(function() r.left_tokens = 1 end))
      raises("invalid_argument", "left_tokens", function() return r.left_token end)
      raises("invalid_argument", "num_running", function() return view.num_runing end)
      raises("invalid_argument", "read-only", function() view.now_s = 1 end)
      num_seen = num_seen + 1
    end)
    assert.is_true(num_seen > 100)
  end)

  it("names what a scheduler did wrong", function()
    local function refused(text, schedule)
      ts.register_scheduler(card(schedule))
      raises("invalid_argument", text, function() serve("mine", {}, traffic { prompt_tokens = 900 }) end)
    end
    refused("scheduler 'mine': schedule request 0: 900 tokens; 512 of 512 are left", function(view)
      view:schedule(view:waiting(1))
    end)
    refused("0 tokens; at least 1 belongs here", function(view) view:schedule(view:waiting(1), 0) end)
    refused("schedule request 0: it is in the step already", function(view)
      view:schedule(view:waiting(1), 100)
      view:schedule(view:waiting(1), 0)
    end)
    refused("scheduler 'mine': preempt request 0: it does not run", function(view) view:preempt(view:waiting(1)) end)
    refused("a request of view:running or view:waiting belongs here, not a number", function(view) view:schedule(1) end)
    refused("a number of tokens belongs here, not a string", function(view) view:schedule(view:waiting(1), "all") end)
  end)

  it("ends the run of one that gets nowhere, and calls it unstable", function()
    local function stuck(text, schedule)
      ts.register_scheduler(card(schedule))
      local served = serve("mine")
      assert.is_false(served.stable)
      assert.truthy(served.cut_off:find(text, 1, true))
      assert.truthy(served.verdict:find(served.cut_off, 1, true))
      assert.equal(0, served.num_finished)
    end
    stuck("schedules nothing", function() end)
    stuck("computes and drops the same tokens again and again", function(view)
      for i = 1, view.num_running do view:preempt(view:running(i)) end
      for i = 1, view.num_waiting do
        if view.tokens_left > 0 and view.seats_left > 0 then view:schedule(view:waiting(i), 1) end
      end
    end)
  end)

  it("refuses cards that say nothing", function()
    raises("invalid_argument", "ts.register_scheduler.schedule: missing", function()
      ts.register_scheduler { name = "a", doc = "b" }
    end)
    raises("invalid_argument", "did you mean 'schedule'", function()
      ts.register_scheduler(card(print, { shedule = print }))
    end)
    raises("invalid_argument", "'vllm_v1' is built in", function()
      ts.register_scheduler(card(print, { name = "vllm_v1" }))
    end)
    raises("not_found", "there is no scheduler 'vllm_v9'; did you mean", function()
      ts.engine { scheduler = "vllm_v9" }
    end)
    raises("not_found", "there is no scheduler 'vllm_v9'", function()
      ts.serve(ts.deployment { step_cost = cost, engine = { scheduler = "vllm_v9", kv_blocks = 900 } }, traffic())
    end)
  end)
end)
