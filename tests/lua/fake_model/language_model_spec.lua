-- ts.language_model and what hangs on it, on a model without arithmetic whose tokens are bytes: objects, options, and
-- what is refused. What models say is tested where they are.
local core = require "tessera.core"
local host = require "tessera.host"
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local tiny = host.installation.experiments_dir .. "/indicator/data/tiny_llama"

-- A folder whose model has room for bytes.
local function folder(name, changes)
  local path = os.tmpname()
  os.remove(path)
  path = path .. "-" .. (name or "model")
  host.make_folder(path)
  local config = core.from_json(core.read_file(tiny .. "/config.json"))
  config.vocab_size, config.max_position_embeddings = 260, 100
  for key, value in pairs(changes or {}) do config[key] = value end
  core.write_file(path .. "/config.json", core.to_json(config))
  core.write_file(path .. "/model.safetensors", core.read_file(tiny .. "/model.safetensors"))
  return path
end

local path = folder()

local function load(options) return ts.language_model(support.changed({ path = path }, options)) end

describe("ts.language_model", function()
  it("has the fields of the contract", function()
    local lm = load { bitwidths = 4, threads = 2 }
    support.is_object(lm, "tessera.LanguageModel", {
      model = "tessera.Model", tokenizer = "tessera.Tokenizer", path = "string", dtype = "string", bitwidths = "list?",
      layers = "list", kv_bitwidth = "integer", weight_bytes = "integer", threads = "integer", load_s = "number",
    })
    assert.same({ 4, 4, 4, 4, 4, 4 }, lm.bitwidths)
    assert.same({ "f32", 16, 2 }, { lm.dtype, lm.kv_bitwidth, lm.threads })
    assert.equal(6, lm.model.num_layers)
    assert.matches("6 layers, 4 bits, f32, .* of weights, 2 threads", tostring(lm))
    assert.matches("\n  layers 0 to 5: 4%-bit\n", lm:describe())
    support.is_object(lm.tokenizer, "tessera.Tokenizer",
      { vocab_size = "integer", bos_token_id = "integer?", stop_token_ids = "list", path = "string" })
  end)

  it("keeps weights as they are stored where nobody says otherwise", function()
    local lm = ts.language_model(path)
    assert.is_nil(lm.bitwidths)
    assert.matches("as stored", tostring(lm))
  end)

  it("takes a list, and tells layers apart", function()
    local lm = load { bitwidths = { 16, 8, 4, 4, 3, 3 }, kv_bitwidth = 8, dtype = "bf16" }
    assert.same({ 16, 8, 4, 4, 3, 3 }, lm.bitwidths)
    assert.matches("layer 0: 16%-bit\n  layer 1: 8%-bit\n  layers 2 to 3: 4%-bit\n", lm:describe())
    assert.matches("keys and values: 8 bits", lm:describe())
  end)

  it("reports layers as it loads them", function()
    local seen = {}
    load { progress = function(done, total) seen[#seen + 1] = ("%d/%d"):format(done, total) end }
    assert.same({ "1/6", "2/6", "3/6", "4/6", "5/6", "6/6" }, seen)
    raises("script", "stop here", function() load { progress = function() error("stop here", 0) end } end)
  end)

  it("takes a plan of this model, and refuses one of another", function()
    local function plan_of(model)
      return assert(ts.plan(ts.problem { model = model, cluster = "1xT4-16G+1xV100-32G", bitwidths = { 4, 8 },
        workload = { prompt_tokens = 16, output_tokens = 4, batch_size = 2 } },
        { prefill_micro_batch_size = 1, decode_micro_batch_size = 1, time_limit_s = 10 }))
    end
    local plan = plan_of(ts.model { config = path .. "/config.json" })
    local wanted = {}
    for _, stage in ipairs(plan.stages) do
      for _, bitwidth in ipairs(stage.bitwidths) do wanted[#wanted + 1] = bitwidth end
    end
    assert.same(wanted, load { plan = plan }.bitwidths)
    assert.same(wanted, load { plan = plan:to_table() }.bitwidths)
    raises("invalid_argument", "it plans 'opt-125m' (12 layers, hidden size 768, 12 heads, FFN 3072), which is not the "
      .. "model here", function() load { plan = plan_of "opt-125m" } end)
    local result = plan:quality(path, { text = ("some text "):rep(40), context_tokens = 50 })
    assert.is_true(result.kl_nats > 0)
    assert.near(result.perplexity / result.base_perplexity - 1, result.perplexity_increase, 1e-12)
    assert.is_true(result.mean_bitwidth >= 4 and result.mean_bitwidth <= 8)
    assert.equal(result.kl_nats, plan:quality(load(), { text = ("some text "):rep(40), context_tokens = 50 }).kl_nats)
    assert.near(result.loss_increase_nats, math.log(result.perplexity / result.base_perplexity), 1e-12)
    assert.near(plan.omega, result.omega, 0)
    assert.equal(plan:problem().model.name, result.model)
    assert.matches("^constant %x+$", result.indicator)
    assert.equal("context_tokens=50", result.settings)
    assert.is_nil(plan:quality(path, { text = ("some text "):rep(40), context_tokens = 50, kv_bitwidth = 8 }).omega)
    raises("invalid_argument", "ts.quality_map.points: 1 of at least 3",
      function() ts.quality_map { points = { result } } end)
    raises("invalid_argument", "plan:quality: unknown option 'contxt_tokens'",
      function() plan:quality(path, { text = "a b", contxt_tokens = 3 }) end)
    raises("invalid_argument", "give either text or file", function() plan:quality(path, {}) end)
  end)

  it("refuses what no model can be", function()
    local cases = {
      { "invalid_argument", "unknown option 'bitwidth'", { bitwidth = 4 } },
      { "out_of_range", "ts.language_model.bitwidths: 5 is none of 3, 4, 8 and 16 bits", { bitwidths = 5 } },
      { "out_of_range", "2", { bitwidths = 2 } },
      { "invalid_argument", "ts.language_model.bitwidths: it has 2 layers, ", { bitwidths = { 4, 4 } } },
      { "invalid_argument", "give either plan or bitwidths", { bitwidths = 4, plan = {} } },
      { "invalid_argument", "it has no stages", { plan = {} } },
      { "invalid_argument", "ts.language_model.statistics: method gptq calibrates; give the file",
        { bitwidths = 4, method = "gptq" } },
      { "invalid_argument", "method rtn reads none", { bitwidths = 4, statistics = "x.safetensors" } },
      { "invalid_argument", "'smoothquant'", { bitwidths = 8, method = "smoothquant" } },
      { "invalid_argument", "ts.language_model.group_size: it says how layers are quantised", { group_size = 64 } },
      { "invalid_argument", "ts.language_model.int8: it is for layers of 8 bits", { bitwidths = 4, int8 = true } },
      { "out_of_range", "ts.language_model.kv_bitwidth: 12 is none of 8 and 16 bits", { kv_bitwidth = 12 } },
      { "invalid_argument", "'f64'", { dtype = "f64" } },
      { "invalid_argument", "device: 'tpu' is none of cpu, torch, cuda and cuda:N", { device = "tpu" } },
      { "invalid_argument", "'cuda:x'", { device = "cuda:x" } },
      { "invalid_argument", "'cuda:'", { device = "cuda:" } },
      { "invalid_argument", "'cuda:99999999999'", { device = "cuda:99999999999" } },
      { "invalid_argument", "it is empty", { path = "" } },
    }
    for _, case in ipairs(cases) do raises(case[1], case[2], function() load(case[3]) end) end
    assert.is_false(pcall(ts.language_model, { path = "/no/such/model" }))
    raises("invalid_argument", "path", function() ts.language_model {} end)
    raises("invalid_argument", "ts.language_model", function() ts.language_model(7) end)
  end)

  it("refuses the tokenizer of another model", function()
    local other = folder "foreign"
    core.write_file(other .. "/foreign_tokenizer", "")
    local lm = ts.language_model(other)
    for _, use in ipairs {
      function() return lm.tokenizer end, function() lm:generate "a" end, function() lm:perplexity { text = "a b" } end,
    } do
      raises("invalid_argument", "the tokenizer has 261 tokens and the model 260: it belongs to another model", use)
    end
    assert.is_table(lm:to_table())
  end)
end)

describe("a tokenizer", function()
  it("goes there and back", function()
    for _, tokenizer in ipairs { load().tokenizer, ts.tokenizer { path = path }, ts.tokenizer(path) } do
      assert.same({ 104, 195, 169, 33 }, tokenizer:encode "h\195\169!")
      assert.equal("h\195\169!", tokenizer:decode { 104, 195, 169, 33 })
      assert.equal("a<256>", tokenizer:decode { 97, 256 })
      assert.equal("a", tokenizer:decode({ 97, 256 }, { skip_special = true }))
      assert.equal("", tokenizer:decode {})
      assert.equal("a", tokenizer:token(97))
      assert.same({ 256 }, tokenizer.stop_token_ids)
    end
    raises("not_found", "there is no /no/such", function() ts.tokenizer "/no/such" end)
  end)

  it("refuses what is no token", function()
    local tokenizer = load().tokenizer
    raises("out_of_range", "token 2 is 260; the tokenizer has tokens 0 to 259",
      function() tokenizer:decode { 1, 260 } end)
    raises("out_of_range", "[2]", function() tokenizer:decode { 1, -1 } end)
    raises("invalid_argument", "1.5", function() tokenizer:decode { 1.5 } end)
    raises("invalid_argument", "a list of token ids", function() tokenizer:decode "text" end)
    raises("invalid_argument", "text", function() tokenizer:encode(nil) end)
    raises("invalid_argument", "unknown option", function() tokenizer:encode("a", { specail = true }) end)
    raises("out_of_range", "id", function() tokenizer:token(260) end)
  end)
end)

describe("lm:logits", function()
  it("gives a row for each token", function()
    local logits = load():logits { 1, 2, 3 }
    assert.equal("tessera.Tensor", getmetatable(logits))
    assert.same({ 3, 260 }, logits:shape())
    assert.equal(3 * 260, #logits:to_table())
    assert.same(load():logits({ 1, 2 }):to_table(), logits:to_table(1, 2 * 260))
  end)

  it("refuses what does not fit", function()
    local lm, long = load(), {}
    for i = 1, 101 do long[i] = 1 end
    raises("out_of_range", "101 tokens are more than the context of", function() lm:logits(long) end)
    raises("out_of_range", "lm:logits ids: token 1 is 260", function() lm:logits { 260 } end)
    raises("invalid_argument", "the text is empty", function() lm:logits {} end)
    raises("invalid_argument", "a list of token ids", function() lm:logits "a" end)
  end)
end)

describe("lm:generate", function()
  local lm = load()

  it("has the fields of the contract", function()
    local result = lm:generate("Hello", { max_tokens = 20, ignore_stop_tokens = true })
    support.is_object(result, "tessera.Generation", {
      text = "string", tokens = "list", prompt_tokens = "integer", prompt_s = "number", ttft_s = "number?",
      tpot_s = "number?", stop_reason = "string",
    })
    assert.equal(20, #result.tokens)
    assert.equal(5, result.prompt_tokens)
    assert.equal("max_tokens", result.stop_reason)
  end)

  it("says the same for the same seed, on any number of threads, from text or tokens", function()
    local options = { max_tokens = 30, seed = 11, top_k = 50, top_p = 0.9, temperature = 0.8, repetition_penalty = 1.1 }
    local first = lm:generate("Hello", options).tokens
    assert.same(first, load({ threads = 1 }):generate("Hello", options).tokens)
    assert.same(first, lm:generate(lm.tokenizer:encode "Hello", options).tokens)
    options.seed = 12
    assert.not_same(first, lm:generate("Hello", options).tokens)
    options.temperature = 0
    local greedy = lm:generate("Hello", options).tokens
    options.seed = 13
    assert.same(greedy, lm:generate("Hello", options).tokens)
  end)

  it("streams, and stops where the callback says so", function()
    local pieces, ids = {}, {}
    local result = lm:generate("Hello", { max_tokens = 40, seed = 3, on_token = function(piece, id)
      pieces[#pieces + 1] = piece
      if id then ids[#ids + 1] = id end
      return #ids < 25
    end })
    assert.equal(result.text, table.concat(pieces))
    assert.same(result.tokens, ids)
    assert.equal(25, #ids)
    assert.equal("on_token", result.stop_reason)
    raises("script", "in the callback",
      function() lm:generate("a", { on_token = function() error("in the callback", 0) end }) end)
  end)

  it("refuses what cannot be", function()
    local long = ("a"):rep(100)
    local cases = {
      { "out_of_range", "100 tokens fill the context of", long, {} },
      { "out_of_range", "101 tokens are more than the context of", long .. "a", {} },
      { "invalid_argument", "the text is empty", "", {} },
      { "invalid_argument", "the text is empty", {}, {} },
      { "out_of_range", "prompt: token 1 is 300", { 300 }, {} },
      { "invalid_argument", "unknown option 'temprature'", "a", { temprature = 1 } },
      { "out_of_range", "temperature", "a", { temperature = -1 } },
      { "out_of_range", "top_p", "a", { top_p = 1.5 } },
      { "out_of_range", "top_k", "a", { top_k = -1 } },
      { "out_of_range", "repetition_penalty", "a", { repetition_penalty = 0 } },
      { "out_of_range", "max_tokens", "a", { max_tokens = 0 } },
      { "invalid_argument", "on_token", "a", { on_token = 3 } },
      { "invalid_argument", "a list of token ids", nil, {} },
    }
    for _, case in ipairs(cases) do raises(case[1], case[2], function() lm:generate(case[3], case[4]) end) end
  end)
end)

describe("lm:speed", function()
  it("has a rate for each repeat", function()
    local done = 0
    local speed = load():speed { prompt_tokens = 30, context_tokens = 10, output_tokens = 5, repeats = 3,
      progress = function(at) done = at end }
    support.is_object(speed, "tessera.Speed",
      { prefill_tok_s = "list", decode_tok_s = "list", prompt_tokens = "integer", context_tokens = "integer",
        output_tokens = "integer", kv_cache_bytes = "integer" })
    assert.same({ 3, 3, 3 }, { #speed.prefill_tok_s, #speed.decode_tok_s, done })
    raises("out_of_range", "more than the context of", function() load():speed { prompt_tokens = 101 } end)
  end)
end)

describe("lm:perplexity", function()
  local text = ("The quick brown fox jumps over the lazy dog. "):rep(20)

  it("has the fields of the contract", function()
    local result = load({ bitwidths = 4 }):perplexity { text = text, context_tokens = 50, reference = load() }
    support.is_object(result, "tessera.Perplexity", {
      perplexity = "number", loss_nats = "number", standard_error = "number?", num_tokens = "integer",
      num_segments = "integer", num_left_tokens = "integer", context_tokens = "integer", seconds = "number",
      tok_s = "number", kl_nats = "number?", kl_standard_error = "number?", partial = "boolean",
      loss_increase_nats = "number?", loss_increase_standard_error = "number?",
    })
    assert.near(math.exp(result.loss_nats), result.perplexity, 1e-9)
    assert.equal(18 * 49, result.num_tokens)
    assert.is_true(result.kl_nats > 0)
  end)

  it("reads files, and says how far it is", function()
    local file, calls = support.temporary(text), 0
    local from_file = load():perplexity { file = file, stride = 10, context_tokens = 40,
      progress = function(done, total, loss_nats, tok_s)
        calls = calls + 1
        assert.is_true(done <= total and loss_nats > 0 and tok_s > 0)
      end }
    assert.equal(load():perplexity({ text = text, stride = 10, context_tokens = 40 }).loss_nats, from_file.loss_nats)
    assert.is_true(calls > 0)
    support.remove_files()
  end)

  it("refuses what cannot be", function()
    local lm, empty = load(), support.temporary ""
    raises("invalid_argument", "lm:perplexity: give either text or file", function() lm:perplexity {} end)
    raises("invalid_argument", "lm:perplexity.text: it is empty", function() lm:perplexity { text = "" } end)
    raises("invalid_argument", "is empty; there is nothing to predict", function() lm:perplexity { file = empty } end)
    raises("not_found", "/no/such", function() lm:perplexity { file = "/no/such/text" } end)
    raises("out_of_range", "context_tokens", function() lm:perplexity { text = text, context_tokens = 101 } end)
    raises("invalid_argument", "lm:perplexity.reference",
      function() lm:perplexity { text = text, reference = path } end)
    raises("invalid_argument", "unknown option", function() lm:perplexity { text = text, refrence = lm } end)
    support.remove_files()
  end)
end)

describe("lm:zero_shot", function()
  it("has the fields of the contract", function()
    local file = support.temporary([[{"goal": "to open", "sol1": "pull", "sol2": "push", "label": 0}
{"goal": "to close", "sol1": "run", "sol2": "push it", "label": 1}
]])
    local result = load():zero_shot { task = "piqa", file = file }
    support.is_object(result, "tessera.ZeroShot", {
      accuracy = "number", standard_error = "number?", accuracy_norm = "number?",
      accuracy_norm_standard_error = "number?", perplexity = "number?", perplexity_standard_error = "number?",
      num_items = "integer", seconds = "number", partial = "boolean", answers = "list",
    })
    assert.equal(2, result.num_items)
    assert.equal(2, #result.answers[1].log_likelihoods)
    assert.equal(1, load():zero_shot({ task = "piqa", file = file, limit = 1 }).num_items)
    raises("invalid_argument", "'hellaswag'", function() load():zero_shot { task = "hellaswag", file = file } end)
    raises("not_found", "/no/such", function() load():zero_shot { task = "piqa", file = "/no/such" } end)
    raises("invalid_argument", "file", function() load():zero_shot { task = "piqa" } end)
    support.remove_files()
  end)
end)

describe("lm:calibrate", function()
  it("writes statistics that methods and indicators read", function()
    local out, seen = support.temporary(), 0
    local result = load():calibrate { text = ("some text "):rep(20), out = out, num_samples = 3, sample_tokens = 32,
      with_hessian = true, progress = function(done) seen = done end }
    support.is_object(result, "tessera.Calibration",
      { num_inputs = "integer", num_tokens = "integer", seconds = "number" })
    assert.same({ 96, 3 }, { result.num_tokens, seen })
    assert.same({ 4, 4, 4, 4, 4, 4 },
      load({ bitwidths = 4, method = "gptq", group_size = 8, statistics = out }).bitwidths)
    local indicator = ts.indicator { model = tiny, kind = "variance", statistics = out, bitwidths = { 4 }, threads = 1 }
    assert.is_true(indicator:omega(0, 4) > 0)
    raises("out_of_range", "num_samples", function() load():calibrate { text = "a", out = out, num_samples = 0 } end)
    raises("invalid_argument", "out", function() load():calibrate { text = "a" } end)
    support.remove_files()
  end)
end)

describe("ts.indicator of what a model says", function()
  local text = ("The quick brown fox jumps over the lazy dog. "):rep(20)

  it("runs it, a layer at a time", function()
    local file = support.temporary(text)
    for _, kind in ipairs { "loss", "divergence" } do
      local seen = 0
      local indicator = ts.indicator { model = path, kind = kind, file = file, bitwidths = { 4, 8 }, samples = 4,
        tokens = 30, progress = function(done) seen = done end }
      assert.equal("tessera.Indicator", getmetatable(indicator))
      assert.equal(kind, indicator.kind)
      assert.equal(6, indicator.num_layers)
      assert.equal(6, seen)
      assert.is_number(indicator:standard_error(0, 4))
      assert.equal(0, indicator:omega(0, 16))
    end
    local divergence = ts.indicator { model = load(), kind = "divergence", file = file, bitwidths = { 4, 8 },
      samples = 4, tokens = 30 }
    assert.is_true(divergence:omega(5, 4) > divergence:omega(0, 4))
    assert.is_true(divergence:omega(5, 4) > divergence:omega(5, 8))
    support.remove_files()
  end)

  it("refuses what cannot be", function()
    local file = support.temporary(text)
    local base = { model = path, kind = "loss", file = file }
    local function with(changes) return function() ts.indicator(support.changed(base, changes)) end end
    raises("out_of_range", "ts.indicator.bitwidths: 5 is none of", with { bitwidths = { 5 } })
    raises("invalid_argument", "give at least one below 16 bits", with { bitwidths = { 16 } })
    raises("invalid_argument", "method gptq calibrates", with { method = "gptq" })
    raises("invalid_argument", "variant", with { variant = "llm-pq" })
    raises("invalid_argument", "kind 'variance' runs no text", with { kind = "variance" })
    raises("invalid_argument", "runs the model on a text; name a file",
      function() ts.indicator { model = path, kind = "loss" } end)
    raises("out_of_range", "samples", with { samples = 1 })
    support.remove_files()
  end)
end)
