-- Plans that run, as processes of this machine: the tokens are those of one process, whatever the cut, and whatever is
-- lost on the way. Where this build runs no plans, each says so.
local core = require "tessera.core"
local executions = require "executions"
local host = require "tessera.host"
local predict = require "tessera.runtime.predict"
local support = require "support"
local ts = require "tessera"

local it_runs = executions.it_runs(it, pending)
local is_same, options, path, plan_of = executions.is_same, executions.options, executions.path, executions.plan_of
local signal, texts, workers = executions.signal, executions.texts, executions.workers

describe("ts.execute", function()
  after_each(function() assert.same({}, workers()) end)

  it_runs("writes the tokens of one process, however layers and prompts are cut", function()
    local cuts = {
      { { { 12, 4 } }, { batch_size = 10, prefill = 10, decode = 10 } },
      { { { 7, 8 }, { 5, 4 } }, { batch_size = 4, prefill = 3, decode = 1 } }, -- three batches, the last of two
      { { { 1, 16 }, { 4, 4 }, { 6, 8 }, { 1, 4 } }, { prefill = 2, decode = 5, chunk_tokens = 3 } },
      { { { 2, 8 }, { 3, 4 }, { 1, 16 }, { 4, 4 }, { 2, 8 } }, { batch_size = 7, prefill = 4, decode = 2 } },
      { { { 1, 4 }, { 2, 4 }, { 3, 4 }, { 3, 4 }, { 2, 4 }, { 1, 4 } }, { batch_size = 10, prefill = 1, decode = 3 } },
    }
    for _, cut in ipairs(cuts) do
      local plan, opt = plan_of(cut[1], cut[2]), options()
      is_same(plan, opt, ts.execute(plan, opt))
    end
  end)

  -- Two layers of random numbers, and a tokenizer of single characters.
  it_runs("writes the tokens of one process of Llama's and Qwen's shapes, with a state and without", function()
    for _, family in ipairs { "llama2", "qwen2", "qwen3_5" } do
      local folder = support.temporary()
      os.remove(folder)
      local source = host.installation.datasets_dir .. "/../tests/reference/decoders/" .. family
      assert.equal(0, (host.run_program({ "cp", "-r", source, folder }, "")))
      local characters = { '"Ġ": 94', '"Ċ": 95' }
      for i = 0, 93 do characters[i + 3] = ("%s: %d"):format(core.to_json(string.char(33 + i)), i) end
      core.write_file(folder .. "/tokenizer.json", ([[{"pre_tokenizer": {"type": "ByteLevel"},
        "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {%s}, "merges": []}}]]):format(
        table.concat(characters, ", ")))
      local plan = plan_of({ { 1, 16 }, { 1, 8 } }, { model = folder, prompt_tokens = 20, batch_size = 3 })
      local opt = options { model = folder, prompts = { { 5, 17, 40, 2, 60 }, { 7 }, { 90, 11, 3 }, { 21, 22 } },
        group_size = 8, ignore_stop_tokens = true, temperature = 0.8, seed = 3 }
      local run = ts.execute(plan, opt)
      is_same(plan, opt, run)
      if family == "qwen3_5" then -- one state for each of the three at a time; of 16 tokens each, six of them
        local states = run.stages[1].kv_cache_bytes / (3 * ts.model(folder).state_bytes_per_sequence)
        assert.is_true(1 <= states and states < 1.5, states)
      end
      host.run_program({ "rm", "-r", folder }, "")
    end
  end)

  it_runs("multiplies a checkpoint that is quantised as it lies", function()
    local folder = support.temporary()
    os.remove(folder)
    local bits = { 8, 4, 4, 4, 4, 4, 8, 4, 4, 4, 4, 4 }
    ts.quantise_model { model = path, out = folder, bitwidths = bits, group_size = 64 }
    assert.same(bits, ts.weights(folder):bitwidths())
    assert.equal(folder, ts.model(folder).checkpoint)
    local prompts = { { 5, 17, 40, 2, 60 }, { 7 }, { 90, 11, 3 } }
    local one, want = ts.language_model { path = folder, threads = 1 }, {}
    for i, prompt in ipairs(prompts) do want[i] = one:generate(prompt, { max_tokens = 12, temperature = 0 }).tokens end
    local opt = options { model = folder, prompts = prompts, max_tokens = 12, temperature = 0 }
    -- The plan's bitwidths are those of the file, or more.
    for _, stages in ipairs { { { 1, 8 }, { 5, 4 }, { 1, 8 }, { 5, 4 } }, { { 6, 16 }, { 6, 8 } } } do
      local run = ts.execute(plan_of(stages), opt)
      assert.same(want, run.tokens)
      assert.is_true(run.stages[2].weight_bytes < 2e6) -- of 16 bits it would be 4 MB at least
    end
    local ok, why = pcall(ts.execute, plan_of { { 12, 4 } }, opt)
    assert.is_false(ok)
    assert.matches("holds layer 0 at 8 bits, and the plan has it at 4", why.message)
    host.run_program({ "rm", "-r", folder }, "")
  end)

  it_runs("shares prompts out to replicas, which are pipelines of their own", function()
    local problem = ts.problem { model = path, cluster = "4xT4-16G", bitwidths = { 4, 8 },
      workload = { prompt_tokens = 60, output_tokens = 40, batch_size = 8 } }
    local plan = assert(ts.plan(problem, { replicas = 2 }))
    assert.equal(2, #plan.replicas)
    local opt = options()
    local run = ts.execute(plan, opt)
    local engines = {}
    for _, stage in ipairs(run.stages) do engines[stage.engine] = (engines[stage.engine] or 0) + stage.busy_s end
    assert.is_true(engines[1] > 0 and engines[2] > 0)
    is_same(plan.replicas[1], opt, run)
    assert.equal(run.requests, run:requests())
    assert.matches("^run of several batches: .*, TTFT mean ", tostring(predict(plan, 20, 30, 10)))
    -- A trace has the stages of all of them, or of one.
    local file = support.temporary()
    local function names(engine)
      run:save_trace(file, engine)
      local text, found = core.read_file(file), {}
      for name in text:gmatch '"(r?e?p?l?i?c?a? ?%d?,? ?stage %d)[ ,]' do found[name] = true end
      return found
    end
    local all, second = {}, {}
    for _, stage in ipairs(run.stages) do
      all[("replica %d, stage %d"):format(stage.engine, stage.stage - 1)] = true
      if stage.engine == 2 then second[("stage %d"):format(stage.stage - 1)] = true end
    end
    assert.same(all, names())
    assert.same(second, names(2))
    os.remove(file)
  end)

  it_runs("sends hidden states in as many bits as asked for", function()
    local plan = plan_of { { 6, 8 }, { 6, 8 } }
    local whole = ts.execute(plan, options())
    for _, dtype in ipairs { "f16", "bf16" } do
      local run = ts.execute(plan, options { activation_dtype = dtype })
      assert.equal("done", run.state)
      assert.equal(whole.stages[1].sent_bytes, 2 * run.stages[1].sent_bytes)
      assert.equal(#whole.tokens, #run.tokens)
      assert.not_same({}, run.tokens[1])
    end
    local ok, why = pcall(ts.execute, plan, options { activation_dtype = "int8" })
    assert.is_false(ok)
    assert.matches("activation_dtype", why.message)
  end)

  it_runs("draws as one process does, by the seed of each prompt", function()
    local plan = plan_of { { 6, 4 }, { 6, 4 } }
    local opt = options { temperature = 0.9, top_k = 20, top_p = 0.95, repetition_penalty = 1.2, seed = 5,
      ignore_stop_tokens = true }
    is_same(plan, opt, ts.execute(plan, opt))
  end)

  it_runs("keeps keys and values in 8 bits where the plan does", function()
    local plan, opt = plan_of({ { 6, 8 }, { 6, 8 } }, { kv_bitwidth = 8 }), options { kv_bitwidth = 8 }
    is_same(plan, opt, ts.execute(plan, opt))
  end)

  it_runs("says what it measured, by stage, and traces it", function()
    local plan = plan_of { { 8, 4 }, { 4, 4 } }
    local trace = support.temporary()
    local run = ts.execute(plan, options { trace = trace, ignore_stop_tokens = true })
    assert.equal(2, #run.stages)
    local first, second = run.stages[1], run.stages[2]
    assert.same({ 0, 8, 8, 4 }, { first.first_layer, first.num_layers, second.first_layer, second.num_layers })
    assert.is_true(first.weight_bytes > second.weight_bytes and second.weight_bytes > 0)
    assert.is_true(first.kv_cache_bytes == 2 * second.kv_cache_bytes)
    local computed = 0 -- the last token of an answer goes through no layer
    for i in ipairs(texts) do computed = computed + run.prompt_tokens[i] + #run.tokens[i] - 1 end
    assert.equal(computed * plan:problem().model.hidden_size * 4, first.sent_bytes)
    assert.is_true(second.sent_bytes >= 4 * 16 * #texts)
    for _, stage in ipairs(run.stages) do
      assert.equal("127.0.0.1", stage.host)
      assert.equal(stage.num_layers, stage.layers_read)
      assert.is_true(stage.busy_s > 0 and stage.busy_s < run.total_s)
      assert.is_true(stage.resident_bytes > stage.weight_bytes and stage.peak_bytes >= stage.resident_bytes)
      assert.is_true(stage.peak_bytes - stage.resident_bytes < 2 * 2 ^ 20) -- two layers of the source
    end
    assert.is_true(run.ttft_s > 0 and run.ttft_s <= run.ttft_max_s and run.ttft_max_s < run.total_s)
    assert.is_true(math.abs(run.throughput_tok_s * run.total_s - #texts * 16) < 1e-6)
    assert.matches("priced for T4%-16G", run.not_predicted) -- no prediction of a GPU stands beside a CPU's times
    local text = require("tessera.core").read_file(trace)
    os.remove(trace)
    assert.matches("stage 1 %(layers 8%-11%)", text)
  end)

  it_runs("takes the time of devices and links that are not here, with the same tokens", function()
    local slow = core.cluster("1xT4-16G"):to_table().devices[1]
    slow.name, slow.full_name, slow.memory_bytes_per_s = "slow", nil, slow.memory_bytes_per_s / 5000
    local cluster = core.cluster { { core.device(slow), 1, node = "a" }, { core.device(slow), 1, node = "b" },
      link_gbps = 0.1, link_latency_s = 0.004 }
    local stages = { { device = "slow", bitwidths = {} }, { device = "slow", bitwidths = {} } }
    for k = 1, 12 do table.insert(stages[k > 8 and 2 or 1].bitwidths, 16) end
    local problem = ts.problem { model = path, cluster = cluster, tensor_parallel = 1, bitwidths = { 16 },
      workload = { prompt_tokens = 6, output_tokens = 8, batch_size = 4 } }
    local plan = assert(ts.plan(problem, { planner = "manual", stages = stages, prefill_micro_batch_size = 2,
      decode_micro_batch_size = 2 }))
    local opt = options { max_tokens = 8, ignore_stop_tokens = true }
    opt.prompts = {}
    for i = 1, 4 do opt.prompts[i] = { 5, 20 + i, 30, 40, 50, 60 } end
    local plain = ts.execute(plan, opt)
    opt.emulated = true
    local run = ts.execute(plan, opt)
    assert.equal("done", run.state, run.why)
    assert.same(plain.tokens, run.tokens)
    assert.is_true(run.total_s > 0.999 * run.predicted.total_s)
    for k, stage in ipairs(run.stages) do
      assert.is_true(stage.computed_s < stage.busy_s and stage.busy_s > 0.999 * run.predicted.stages[k].busy_s)
      assert.is_true(stage.before_bytes > 0 and stage.before_bytes < stage.resident_bytes)
    end
    local rows = run.predicted:unit_times() -- two chunks, and seven rounds of two micro-batches
    assert.equal(2 + 2 * 7, #rows)
    assert.same({ 1, 1, 7 }, { unpack(rows[#rows], 1, 3) })
    assert.is_true(rows[1][6] > 0.004) -- the link
    opt.prompts[2] = { 5 }
    assert.error_matches(function() ts.execute(plan, opt) end, "emulated: prompt 2 has another length")
    opt.prompts[2], opt.recover = opt.prompts[1], true
    assert.error_matches(function() ts.execute(plan, opt) end, "emulated: .*recover")
  end)

  -- Sums in another order: the same tokens on this model, whose choices are not that close.
  it_runs("shares layers among ranks, and goes on after one of them was killed", function()
    for _, cut in ipairs { { { { 12, 4 } }, 3 }, { { { 5, 16 }, { 7, 4 } }, 2 } } do
      local plan = plan_of(cut[1], { degree = cut[2] })
      local opt = options { ignore_stop_tokens = true, group_size = 32 }
      local run = ts.execute(plan, opt)
      is_same(plan, opt, run)
      assert.equal(#cut[1] * cut[2], #run.stages)
      local whole = ts.execute(plan_of(cut[1]), opt)
      assert.equal(whole.stages[1].kv_cache_bytes, run.stages[1].kv_cache_bytes * cut[2])
    end
    local plan = plan_of({ { 6, 4 }, { 6, 4 } }, { degree = 2, batch_size = 3 })
    local answers = 0
    local opt = options { recover = true, ignore_stop_tokens = true, group_size = 32 }
    opt.on_answer = function()
      answers = answers + 1
      if answers == 4 then signal("KILL", 3) end
    end
    local run = ts.execute(plan, opt)
    assert.equal(1, #run.faults)
    assert.same({ 3, 2 }, { run.faults[1].rank, run.faults[1].stage })
    is_same(plan, opt, run)
  end)

  it_runs("goes on after a worker was killed, with the same tokens", function()
    local plan = plan_of({ { 4, 4 }, { 4, 4 }, { 4, 4 } }, { batch_size = 3 })
    local answers = 0
    local opt = options { recover = true, ignore_stop_tokens = true }
    opt.on_answer = function()
      answers = answers + 1
      if answers == 4 then signal("KILL", 1) end
    end
    local run = ts.execute(plan, opt)
    assert.equal(#texts, answers)
    assert.equal(1, #run.faults)
    assert.same({ 1, 2 }, { run.faults[1].rank, run.faults[1].stage })
    assert.matches("signal 9", run.faults[1].why)
    opt.on_answer, opt.recover = nil, nil
    is_same(plan, opt, run)
  end)

  -- Twice it is started again; then the others have its layers, and read what they had not.
  it_runs("moves layers to the workers that are left", function()
    for _, bitwidths in ipairs { { 4 }, { 4, 8 } } do
      local plan = plan_of({ { 4, 4 }, { 4, 4 }, { 4, 4 } }, { batch_size = 3, bitwidths = bitwidths })
      local answers = 0
      local opt = options { recover = true, ignore_stop_tokens = true }
      opt.on_answer = function()
        answers = answers + 1
        if answers == 2 or answers == 5 or answers == 8 then signal("KILL", 1) end
      end
      local run = ts.execute(plan, opt)
      assert.equal("done", run.state, run.why)
      assert.equal(#texts, answers)
      assert.same({ 3, 1, 1 }, { #run.faults, run.replans, #run.moves })
      local move = run.moves[1]
      assert.same({ 1, 1 }, { move.engine, move.lost_rank })
      local first_layer = 0
      for _, stage in ipairs(run.stages) do
        assert.equal(first_layer, stage.first_layer)
        first_layer = first_layer + stage.num_layers
        assert.is_true(stage.rank == 0 or stage.rank == 2)
        local had = 4 * stage.rank -- from this layer on four
        local kept = math.max(0, math.min(first_layer, had + 4) - math.max(stage.first_layer, had))
        if move.changed_bits == 0 then assert.equal(stage.num_layers - kept, stage.layers_read) end
      end
      assert.equal(12, first_layer)
      assert.equal(#bitwidths == 1, move.changed_bits == 0)
      opt.on_answer, opt.recover = nil, nil
      if move.changed_bits == 0 then is_same(plan, opt, run) end
    end
  end)

  -- One comes again as others start it anew; the next time nobody does.
  it_runs("hands on the prompts of a replica that is lost for good", function()
    local problem = ts.problem { model = path, cluster = "2xT4-16G", bitwidths = { 8 },
      workload = { prompt_tokens = 60, output_tokens = 40, batch_size = 2 } }
    local plan = assert(ts.plan(problem, { replicas = 2 }))
    local remedies, answers = {}, 0
    local opt = options { recover = true, ignore_stop_tokens = true, max_tokens = 40 }
    opt.on_answer = function() -- of five prompts each engine answers one at a time
      answers = answers + 1
      if #remedies < 3 and workers(1)[1] then signal("KILL", 1) end
    end
    opt.on_fault = function(fault)
      remedies[#remedies + 1] = fault.remedy
      assert.same({ 2, 1, 1 }, { fault.engine, fault.stage, fault.rank })
    end
    local run = ts.execute(plan, opt)
    assert.equal("done", run.state, run.why)
    assert.same({ "restarted", "restarted", "handed_on" }, remedies)
    assert.equal(#texts, answers)
    assert.equal(2, run.moves[1].engine)
    opt.on_answer, opt.on_fault, opt.recover = nil, nil, nil
    is_same(plan.replicas[1], opt, run)
  end)

  it_runs("awaits a worker that others have started, then moves its layers", function()
    local plan = plan_of({ { 6, 4 }, { 6, 4 } }, { batch_size = 3, bitwidths = { 4 } })
    local function start(rank)
      os.execute(("'%s' stage --rank %d --connect 127.0.0.1:29743 >/dev/null 2>&1 &"):format(host.program, rank))
    end
    local answers, remedies = 0, {}
    local opt = options { recover = true, ignore_stop_tokens = true, workers = "others", port = 29743,
      start_limit_s = 2 }
    opt.on_answer = function()
      answers = answers + 1
      if answers == 2 or answers == 5 then
        os.execute "pkill -KILL -f -- '[s]tage --rank 1 --connect 127.0.0.1:29743'"
      end
    end
    opt.on_fault = function(fault)
      remedies[#remedies + 1] = fault.remedy
      assert.equal(1, fault.rank)
      if #remedies == 1 then start(1) end
    end
    start(0)
    start(1)
    local run = ts.execute(plan, opt)
    assert.equal(#texts, answers)
    assert.same({ "awaited", "awaited", "moved" }, remedies)
    assert.same({ 1, 1, 0 }, { run.replans, #run.stages, run.moves[1].changed_bits })
    assert.matches("did not come again within 2 s", run.faults[3].why)
    for key in pairs { recover = 0, workers = 0, port = 0, start_limit_s = 0, on_answer = 0, on_fault = 0 } do
      opt[key] = nil
    end
    is_same(plan, opt, run)
  end)

  it_runs("names the stage that was lost, keeps what was answered, and its journal goes on there", function()
    local plan = plan_of({ { 6, 4 }, { 6, 4 } }, { batch_size = 2 })
    local journal = support.temporary()
    os.remove(journal)
    local answers = 0
    local opt = options { journal = journal }
    opt.on_answer = function()
      answers = answers + 1
      if answers == 4 then signal("KILL", 1) end
    end
    local run = ts.execute(plan, opt)
    assert.equal("failed", run.state)
    assert.is_true(run.partial)
    assert.matches("^stage 1 %(rank 1, host 127.0.0.1, process %d+%): ended by signal 9 %(Killed%); %d of 10 prompts",
      run.why)
    local kept = 0
    for i in ipairs(texts) do kept = kept + (run.tokens[i] and 1 or 0) end
    assert.equal(answers, kept)
    opt.on_answer = function() answers = answers + 1 end
    run = ts.execute(plan, opt)
    assert.equal(#texts, answers) -- each once
    opt.on_answer, opt.journal = nil, nil
    is_same(plan, opt, run)
    opt.journal, opt.max_tokens = journal, 15
    support.raises("invalid_argument", "the journal of another run", function() ts.execute(plan, opt) end)
    os.remove(journal)
  end)

  it_runs("passes on what a callback raises, and leaves nothing running", function()
    local plan = plan_of { { 6, 4 }, { 6, 4 } }
    local ok, why = pcall(ts.execute, plan, options { on_answer = function() error "enough" end })
    assert.is_false(ok)
    assert.matches("enough", tostring(why))
  end)

  it_runs("keeps what is answered where it is told to end", function()
    local plan = plan_of({ { 6, 4 }, { 6, 4 } }, { batch_size = 2 })
    local answers = 0
    local run = ts.execute(plan, options { on_answer = function()
      answers = answers + 1
      if answers == 2 then os.execute "kill -TERM $PPID" end
    end, max_tokens = 38, ignore_stop_tokens = true })
    assert.equal("interrupted", run.state)
    assert.is_true(run.partial and #run.tokens[1] == 38)
  end)

  it_runs("takes token ids, and lengths and seeds of each prompt", function()
    local plan = plan_of { { 6, 4 }, { 6, 4 } }
    local ids = ts.tokenizer(path):encode "the cat"
    local run = ts.execute(plan, options { prompts = { ids, { tokens = ids, max_tokens = 3, id = "b" },
      { prompt = "the cat", seed = 9 } }, ignore_stop_tokens = true })
    assert.same(run.tokens[1], run.tokens[3])
    assert.equal(3, #run.tokens[2])
    for i = 1, 3 do assert.equal(run.tokens[1][i], run.tokens[2][i]) end
    assert.equal("b", run.requests[2].id)
  end)

  -- As plans say it, from 0; rank is a word where ranks share a stage.
  it_runs("is told by the command line as plans tell it, within 80 columns", function()
    local prompts, file = support.temporary "The cat\nOne day\n", support.temporary()
    for _, case in ipairs {
      { { { 8, 16 }, { 4, 16 } }, { "stage 0, layers 0-7:", "stage 1, layers 8-11:" } },
      { { { 11, 16 }, { 1, 16 } }, { "stage 0, layers 0-10:", "stage 1, layer 11:" } },
    } do
      plan_of(case[1]):save(file)
      local status, out, err = host.run_program({ "env", "COLUMNS=80", host.program, "execute", file, "--device", "cpu",
        "--model", path, "--prompts", prompts, "--max-tokens", "4" }, "")
      assert.equal(0, status, err)
      assert.equal(2, select(2, out:gsub("\n", "")))
      for _, name in ipairs(case[2]) do assert.is_true(err:find("\n  " .. name, 1, true) ~= nil, err) end
      assert.is_nil(err:find("rank", 1, true))
      for line in err:gmatch "[^\n]+" do assert.is_true(#line <= 80, line) end
    end
  end)

  it_runs("refuses what cannot run, before anything starts", function()
    local plan = plan_of { { 6, 4 }, { 6, 4 } }
    local function refuses(text, change, code)
      support.raises(code or "invalid_argument", text, function() ts.execute(plan, options(change)) end)
    end
    refuses("device = \"cpu\"", { device = "auto" })
    refuses("the list is empty", { prompts = {} })
    refuses("ts.execute.prompts[2]: give either prompt", { prompts = { "a", { max_tokens = 3 } } })
    refuses("more than the 100 that the plan's cache has for a request", { max_tokens = 98 })
    local function of_length(count, max_tokens)
      local long = {}
      for i = 1, count do long[i] = 5 end
      return { prompts = { { tokens = long } }, max_tokens = max_tokens }
    end
    refuses("give --max-tokens 1 (max_tokens = 1)", of_length(99, 2))
    for _, count in ipairs { 100, 150 } do
      refuses(count .. " tokens of prompt leave no room for an answer in the 100", of_length(count, 1))
    end
    refuses("none of the 512", { prompts = { { tokens = { 5, 100000 } } } }, "out_of_range")
    refuses("is reached from other machines", { host = "0.0.0.0" })
    refuses("stage 0 needs", { stage_memory_gib = 0.001 })
    refuses("unknown option 'promts'", { promts = {} })
    local other = assert(ts.plan(ts.problem { model = "opt-125m", cluster = "1xT4-16G" }))
    support.raises("invalid_argument", "is not the model of the plan", function() ts.execute(other, options()) end)
    support.raises("invalid_argument", "a plan of ts.plan", function() ts.execute({}, options()) end)
  end)
end)
