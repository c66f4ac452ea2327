-- ts.serve with a model that runs, and ts.replay: tokens are those of lm:generate whatever the schedule, and the log is
-- the simulator's. Where this build runs no models, each says so.
local core = require "tessera.core"
local executions = require "executions"
local host = require "tessera.host"
local support = require "support"
local ts = require "tessera"

local path, it_runs = executions.path, executions.it_runs(it, pending)
local lm = not executions.missing and ts.language_model { path = path, threads = 1, progress = false } or nil

-- A policy of a script: the last that came goes first.
ts.register_scheduler { name = "serve_real_lifo", doc = "The newest first, one prompt a step",
  schedule = function(view)
    if view:continue_running(math.huge) or view.num_waiting == 0 then return end
    local last = view:waiting(view.num_waiting)
    local left = last.left_tokens - view:cached_tokens(last)
    if view.seats_left > 0 and view.tokens_left >= left then view:schedule(last, left) end
  end }

local function engine(changes)
  return support.changed({ max_num_seqs = 6, kv_blocks = 60, max_model_len = 128, block_size = 8 }, changes)
end

local function deployment(changes)
  return ts.deployment { engine = engine(changes), step_cost = { base_s = 2e-3, per_token_s = 2e-5 } }
end

local function traffic(changes)
  return ts.traffic(support.changed({ num_requests = 16, rate_per_s = 200, prompt_tokens = 30, output_tokens = 24,
    prefix_groups = 2, prefix_tokens = 20, seed = 5 }, changes))
end

-- Serves, and looks at every token, and at the replays of it.
local function serve(deployed, sent, clock, real)
  local served = ts.serve(deployed, sent, { real = support.changed({ model = lm }, real), clock = clock })
  local prompts, tokens, compared = served:prompts(), served:tokens(), 0
  for i, prompt in ipairs(prompts) do
    if #tokens[i] > 0 then
      local alone = lm:generate(prompt, { max_tokens = #tokens[i], temperature = 0, ignore_stop_tokens = true })
      assert.same(alone.tokens, tokens[i], ("request %d"):format(i - 1))
      assert.equal(alone.text, served:texts()[i])
      compared = compared + 1
    end
  end
  assert.is_true(compared > 0)
  local replay = ts.replay(served)
  assert.is_nil(replay.first_difference)
  assert.is_true(replay.identical)
  assert.equal(#served:steps(), replay.num_steps)
  assert.equal(#prompts, replay.num_requests)
  return served
end

local policies = {
  { scheduler = "vllm_v1" },
  { scheduler = "vllm_v1", async_scheduling = true },
  { scheduler = "vllm_v1", max_num_batched_tokens = 20, kv_blocks = 30 },
  { scheduler = "vllm_v0" },
  { scheduler = "vllm_v0", preemption_mode = "swap", kv_blocks = 24, enable_prefix_caching = false },
  { scheduler = "vllm_v0", preemption_mode = "recompute", kv_blocks = 24 },
  { scheduler = "sarathi", chunk_size = 16 },
  { scheduler = "sglang" },
  { scheduler = "orca" },
  { scheduler = "static" },
  { scheduler = "micro_batches", prefill_micro_batch_size = 2, decode_micro_batch_size = 3 },
  { scheduler = "vllm_v1", kv_allocation = "contiguous" },
  { scheduler = "vllm_v1", kv_allocation = "maximum" },
  { scheduler = "serve_real_lifo" },
}

describe("ts.serve with a model", function()
  it_runs("by the model's clock is the simulation, to the tick", function()
    local preemptions, hits = 0, 0
    for _, policy in ipairs(policies) do
      local deployed, sent = deployment(policy), traffic()
      local simulated = ts.serve(deployed, sent, { record = true })
      local served = serve(deployed, sent, "model")
      assert.same(simulated:steps(), served:steps(), policy.scheduler)
      assert.same(simulated:requests(), served:requests(), policy.scheduler)
      assert.equal(simulated.text, served.text)
      preemptions, hits = preemptions + served.preemptions, hits + (served.prefix_hit_ratio or 0)
    end
    assert.is_true(preemptions >= 5)
    assert.is_true(hits >= 1)
  end)

  it_runs("by the wall's clock is replayed alike", function()
    for _, policy in ipairs(policies) do
      local served = serve(deployment(policy), traffic { rate_per_s = 800 }, "wall")
      assert.equal(16, served.num_finished)
      assert.is_true(served.ttft_s.p50 > 0)
      assert.matches("measured here, 'grammar%-opt%-5m' on 1 thread", served.text)
    end
  end)

  it_runs("guesses by n-grams, and says the same", function()
    local deployed = deployment { speculative = { method = "ngram", num_tokens = 3 } }
    for _, clock in ipairs { "model", "wall" } do
      local served = serve(deployed, traffic { output_tokens = 60 }, clock)
      assert.is_true(served.acceptance_ratio > 0.2 and served.acceptance_ratio < 1)
      assert.is_true(served.accepted_length > 1.2)
    end
  end)

  it_runs("guesses by a draft model, and says the same", function()
    local deployed = deployment { speculative = { method = "draft_model", num_tokens = 3 } }
    local at_3_bits = ts.language_model { path = path, bitwidths = 3, threads = 1, progress = false }
    for _, draft_model in ipairs { lm, at_3_bits } do
      for _, clock in ipairs { "model", "wall" } do
        local served = serve(deployed, traffic { output_tokens = 60 }, clock, { draft_model = draft_model })
        if draft_model == lm then
          assert.equal(1, served.acceptance_ratio)
        else
          assert.is_true(served.acceptance_ratio > 0.3 and served.acceptance_ratio < 1)
        end
      end
    end
    local by_path = { real = { model = lm, draft_model = path } }
    assert.equal(2, ts.serve(deployed, traffic { num_requests = 2 }, by_path).num_finished)
    support.raises("invalid_argument", "there is no draft model", function()
      ts.serve(deployed, traffic(), { real = { model = lm } })
    end)
    support.raises("invalid_argument", "not by draft_model", function()
      ts.serve(deployment(), traffic(), { real = { model = lm, draft_model = lm } })
    end)
  end)

  it_runs("goes on with what it said in the next turn, whose blocks it finds", function()
    local sent = ts.traffic { num_requests = 12, rate_per_s = 100, prompt_tokens = 10, output_tokens = 12, seed = 3,
      sessions = { turns = 3, think_s = 0.001 } }
    local deployed = deployment()
    local served = serve(deployed, sent, "model")
    assert.same(ts.serve(deployed, sent, { record = true }):steps(), served:steps())
    assert.is_true(served.prefix_hit_ratio > 0.3)
  end)

  it_runs("drops what clients leave", function()
    local sent = traffic { patience_s = 0.02 }
    local deployed = deployment()
    local served = serve(deployed, sent, "model")
    assert.same(ts.serve(deployed, sent, { record = true }):requests(), served:requests())
    assert.is_true(served.num_cancelled >= 2)
    serve(deployed, sent, "wall")
  end)

  it_runs("ends where the model does, and tells of tokens as they come", function()
    local came = {}
    local served = ts.serve(deployment(), traffic { output_tokens = 80, prompt_tokens = 10 }, { clock = "model",
      real = { model = lm, ignore_stop_tokens = false, token_seed = 2, on_tokens = function(request, tokens)
        came[request + 1] = came[request + 1] or {}
        for _, token in ipairs(tokens) do table.insert(came[request + 1], token) end
      end } })
    assert.same(served:tokens(), came)
    for i, prompt in ipairs(served:prompts()) do
      local alone = lm:generate(prompt, { max_tokens = 80, temperature = 0 })
      assert.same(alone.tokens, served:tokens()[i])
      assert.equal(alone.stop_reason, served:stop_reasons()[i])
    end
    assert.is_true(ts.replay(served).identical)
  end)

  it_runs("samples by the requests' own seeds", function()
    local served = ts.serve(deployment(), traffic(), { clock = "model",
      real = { model = lm, temperature = 1, top_p = 0.9, seed = 7 } })
    for i, prompt in ipairs(served:prompts()) do
      local alone = lm:generate(prompt, { max_tokens = 24, temperature = 1, top_p = 0.9, seed = 7 + i - 1,
        ignore_stop_tokens = true })
      assert.same(alone.tokens, served:tokens()[i])
    end
  end)

  it_runs("loads the model that is named, and refuses by name what does not run", function()
    local served = ts.serve(deployment(), traffic { num_requests = 2 }, { real = { path = path, threads = 1,
      bitwidths = 8, progress = false } })
    assert.equal(2, served.num_finished)
    local function refuses(code, text, changes, options)
      support.raises(code, text, function()
        ts.serve(deployment(changes), traffic(), support.changed({ real = { model = lm } }, options))
      end)
    end
    refuses("out_of_range", "give max_model_len", { max_model_len = 100000 })
    refuses("out_of_range", "100000000 KV blocks of 8 tokens take", { kv_blocks = 1e8 })
    refuses("unsupported", "speculation by eagle", { speculative = { method = "eagle" } })
    refuses("invalid_argument", "neither wall nor model", nil, { clock = "sundial" })
    refuses("invalid_argument", "takes such options", nil, { real = { model = lm, threads = 1 } })
    refuses("invalid_argument", "temperatur", nil, { real = { path = path, temperatur = 1 } })
    support.raises("unsupported", "2 engines", function()
      ts.serve(ts.deployment { engine = engine(), replicas = 2, step_cost = { base_s = 1e-3 } }, traffic(),
        { real = { model = lm } })
    end)
  end)

  it("is not there in the sandbox", function()
    local file = os.tmpname()
    core.write_file(file .. ".lua", ([[local ts = require "tessera"
      print(pcall(ts.serve, ts.deployment { step_cost = { base_s = 1e-3 }, engine = { kv_blocks = 9 } },
        ts.traffic { num_requests = 1, rate_per_s = 1, prompt_tokens = 4, output_tokens = 2 },
        { real = { path = %q } }))]]):format(path))
    local pipe = io.popen(("mkdir %s.d && cd %s.d && mv %s.lua s.lua && '%s' run --sandbox s.lua 2>&1"):format(file,
      file, file, host.program))
    local said = pipe:read "*a"
    pipe:close()
    os.execute(("rm -rf '%s' '%s.d'"):format(file, file))
    assert.matches("the sandbox has no runtime", said)
  end)

  it("needs a model for a clock, and has no tokens without one", function()
    support.raises("invalid_argument", "give real", function()
      ts.serve(deployment(), traffic(), { clock = "wall" })
    end)
    support.raises("unsupported", "a simulation generates no tokens", function()
      ts.serve(deployment(), traffic()):tokens()
    end)
  end)
end)

describe("ts.replay", function()
  local function written(changes, options)
    local file = os.tmpname()
    ts.serve(deployment(changes), traffic(), support.changed({ record = true }, options)):save_trace(file)
    return file
  end

  it("takes a recorded simulation again, from memory and from its file", function()
    for _, policy in ipairs(policies) do
      local served = ts.serve(deployment(policy), traffic { patience_s = 0.05 }, { record = true })
      local file = os.tmpname()
      served:save_trace(file)
      for _, run in ipairs { served, file } do
        local replay = ts.replay(run)
        assert.is_nil(replay.first_difference)
        assert.is_true(replay.identical)
        assert.equal(#served:steps(), replay.num_steps)
        assert.equal(16, replay.num_requests)
      end
      os.remove(file)
    end
  end)

  it("takes drafts and what passed from the log", function()
    local file = written { speculative = { method = "ngram", num_tokens = 6, acceptance = 0.6 } }
    assert.is_true(ts.replay(file).identical)
    os.remove(file)
  end)

  it("says where two runs part", function()
    local file = written()
    local text = core.read_file(file)
    local tokens = '("replay":{"start":%d+,"duration":%d+,"scheduled":%[%d+,)(%d+)'
    local changed, count = text:gsub(tokens, function(head, n) return head .. n + 1 end, 1)
    assert.equal(1, count)
    core.write_file(file, changed)
    local replay = ts.replay(file)
    assert.is_false(replay.identical)
    assert.matches("^step 0: what it computes", replay.first_difference)
    core.write_file(file, (text:gsub('"max_num_seqs":6', '"max_num_seqs":2')))
    assert.is_false(ts.replay(file).identical)
    os.remove(file)
  end)

  it("refuses a broken log in one line, with its line", function()
    local file = written()
    local text = core.read_file(file)
    local function refuses(what, changed)
      core.write_file(file, changed)
      local ok, why = pcall(ts.replay, file)
      assert.is_false(ok)
      local message = core.error_text(why)
      assert.matches(what, message)
      assert.is_nil(why.message:find "\n")
    end
    refuses(":1: this is no trace", "{}")
    refuses("the file ends in the middle", text:sub(1, #text - 400):gsub("[^\n]*$", ""))
    refuses(":%d+: .*column", text:sub(1, #text - 400))
    refuses(":7: replay: the field 'start' is missing", (text:gsub('"replay":{"start":%d+,', '"replay":{', 1)))
    refuses("something follows the end", text .. "{}\n")
    refuses("limit", (text:gsub('"running":1,"limit":"none"', '"running":1,"limit":"nothing"', 1)))
    refuses("request 99 of a step", (text:gsub('"scheduled":%[%d+,', '"scheduled":[99,', 1)))
    refuses("before the event that says what ran", (text:gsub('[^\n]*"cat":"run"[^\n]*\n', "", 1)))
    refuses("quantum", (text:gsub('"scheduler":"vllm_v1"', '"scheduler":"quantum"', 1)))
    os.remove(file)
    support.raises("not_found", "nowhere", function() ts.replay "/nowhere/at.json" end)
  end)

  it("refuses by name what cannot be replayed", function()
    support.raises("unsupported", "record = true", function()
      ts.replay(ts.serve(deployment(), traffic(), { record = false }))
    end)
    local two = ts.deployment { engine = engine(), replicas = 2, step_cost = { base_s = 1e-3 } }
    support.raises("unsupported", "this one has 2", function() ts.replay(ts.serve(two, traffic())) end)
    local file = os.tmpname()
    ts.serve(two, traffic()):save_trace(file)
    support.raises("invalid_argument", "a trace for viewers alone", function() ts.replay(file) end)
    os.remove(file)
  end)
end)
