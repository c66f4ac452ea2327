-- Quality in users' words: what plans say of it, and bounds on perplexity and accuracy.
local ts = require "tessera"
local core = require "tessera.core"
local support = require "support"
local raises = support.raises

local workload = { prompt_tokens = 256, output_tokens = 32, batch_size = 8 }

local function problem(changes)
  local p = { model = "opt-1.3b", cluster = "2xT4-16G", workload = workload }
  for key, value in pairs(changes or {}) do p[key] = value end
  return ts.problem(p)
end

-- A plan of one bitwidth throughout.
local function uniform(model, bitwidth, changes)
  local fields = { model = model, cluster = "1xH200-141G", kernel_set = "modern", bitwidths = { bitwidth },
    workload = { prompt_tokens = 64, output_tokens = 8, batch_size = 1 } }
  for key, value in pairs(changes or {}) do fields[key] = value end
  return assert(ts.plan(fields))
end

local function bands(quality) return { quality.perplexity_increase, quality.accuracy_recovery, quality.kl_nats } end

describe("plan.quality", function()
  it("is in order, in nats and ratios, and says how it is known", function()
    local quality = uniform("llama-2-7b", 4).quality
    for _, band in ipairs(bands(quality)) do
      assert.is_true(band.low < band.mid and band.mid < band.high)
    end
    assert.equal("measured", quality.grade)
    -- GPTQ and AWQ raise its perplexity by 2 to 4 %.
    assert.is_true(quality.perplexity_increase.mid > 0.01 and quality.perplexity_increase.mid < 0.05)
    assert.is_true(quality.source:find("published", 1, true) ~= nil)
    assert.equal(quality.text, tostring(quality))
  end)

  it("knows a model by name, its generation and its family by description", function()
    assert.equal("measured", uniform("llama-3-8b", 4).quality.grade)
    assert.equal("sibling", uniform("llama-3.1-8b", 4).quality.grade)
    assert.equal("family", uniform("qwen2.5-7b", 4).quality.grade)
    assert.equal("unknown", uniform("mistral-7b", 4).quality.grade)
    local own = ts.model { name = "mine", family = "llama", num_layers = 32, hidden_size = 4096, num_heads = 32,
      num_kv_heads = 8, ffn_size = 14336, vocab_size = 128256, max_context_tokens = 8192 }
    assert.equal("sibling", uniform(own, 4).quality.grade)
    own = ts.model { name = "llama-3-8b", family = "llama", num_layers = 32, hidden_size = 4096, num_heads = 32,
      ffn_size = 14336, vocab_size = 49152, max_context_tokens = 8192 }
    assert.equal("unknown", uniform(own, 4).quality.grade)
  end)

  it("is wider the less is known", function()
    local widest = 0
    for _, name in ipairs { "llama-3-8b", "llama-3.1-8b", "qwen2.5-7b", "mistral-7b" } do
      local kl = uniform(name, 4).quality.kl_nats
      assert.is_true(kl.high / kl.low > widest)
      widest = kl.high / kl.low
    end
  end)

  it("is nothing at 16 bits, and at least 1 % wide below", function()
    local none = uniform("llama-2-7b", 16).quality
    assert.same({ low = 0, mid = 0, high = 0 }, none.perplexity_increase)
    assert.same({ low = 1, mid = 1, high = 1 }, none.accuracy_recovery)
    local eight = uniform("llama-2-7b", 8).quality
    assert.is_true(eight.perplexity_increase.mid < 0.005)
    assert.near(0.01, eight.perplexity_increase.high, 1e-12)
    assert.near(0.99, eight.accuracy_recovery.low, 1e-12)
  end)

  it("never gets worse with more bits", function()
    for _, name in ipairs { "opt-1.3b", "llama-3.1-8b", "mistral-7b", "qwen3-8b" } do
      local before
      for _, bitwidth in ipairs { 3, 4, 8, 16 } do
        local quality = uniform(name, bitwidth).quality
        if before then
          assert.is_true(quality.perplexity_increase.mid < before.perplexity_increase.mid)
          assert.is_true(quality.perplexity_increase.high <= before.perplexity_increase.high)
          assert.is_true(quality.accuracy_recovery.mid > before.accuracy_recovery.mid)
          assert.is_true(quality.accuracy_recovery.low >= before.accuracy_recovery.low)
          assert.is_true(quality.kl_nats.high < before.kl_nats.high)
        end
        before = quality
      end
    end
  end)

  it("counts the KV cache, activations and the rounding", function()
    local plain = uniform("llama-2-7b", 8).quality.kl_nats.mid
    assert.is_true(uniform("llama-2-7b", 8, { kv_bitwidth = 8 }).quality.kl_nats.mid > plain)
    assert.is_true(uniform("llama-2-7b", 8, { kv_bitwidth = 4 }).quality.kl_nats.mid
      > uniform("llama-2-7b", 8, { kv_bitwidth = 8 }).quality.kl_nats.mid)
    assert.is_true(uniform("llama-2-7b", 8, { kernel_set = "modern_w8a8" }).quality.kl_nats.mid > 2 * plain)
    assert.is_true(uniform("llama-2-7b", 8, { kernel_set = "modern_fp8" }).quality.kl_nats.mid > 2 * plain)
    assert.is_true(uniform("llama-2-7b", 4, { quantisation = "rtn" }).quality.kl_nats.mid
      > uniform("llama-2-7b", 4).quality.kl_nats.mid)
    raises("invalid_argument", "quantisation", function() problem { quantisation = "best" } end)
  end)

  it("goes with the plan into files, tables and text", function()
    local plan = assert(ts.plan(problem()))
    plan:save "quality_plan.json"
    local again = ts.load_plan "quality_plan.json"
    assert.same(plan:to_table().quality, again:to_table().quality)
    assert.is_nil(getmetatable(plan:to_table().quality))
    assert.is_true(ts.check(again))
    local json = core.from_json(core.read_file "quality_plan.json")
    assert.equal(plan.quality.grade, json.quality.grade)
    json.quality.perplexity_increase.mid = json.quality.perplexity_increase.mid * 0.9
    core.write_file("quality_plan.json", core.to_json(json))
    local ok, why = ts.check(ts.load_plan "quality_plan.json")
    assert.is_nil(ok)
    assert.is_true(why.message:find("quality.perplexity_increase.mid", 1, true) ~= nil)
    os.remove "quality_plan.json"
  end)

  it("of replicas is the worst of theirs", function()
    local plan = assert(ts.plan(problem(), { replicas = 2 }))
    for _, replica in ipairs(plan.replicas) do
      assert.is_true(plan.quality.kl_nats.high >= replica.quality.kl_nats.high)
    end
  end)

  it("can still be called to measure, and says what is missing", function()
    raises("invalid_argument", "give a table with text or file", function()
      assert(ts.plan(problem())):quality()
    end)
  end)
end)

describe("a bound on quality", function()
  local function with(quality) return problem():with { quality = quality } end

  it("is kept at the unfavourable end, or at the guess", function()
    for _, increase in ipairs { 0.01, 0.02, 0.05 } do
      local plan = assert(ts.plan(with { max_perplexity_increase = increase }))
      assert.is_true(plan.quality.perplexity_increase.high <= increase * (1 + 1e-5))
      local bold = assert(ts.plan(with { max_perplexity_increase = increase, at = "mid" }))
      assert.is_true(bold.quality.perplexity_increase.mid <= increase * (1 + 1e-5))
      assert.is_true(bold.latency_s <= plan.latency_s * (1 + 1e-9))
      assert.equal(increase, plan:problem().quality.max_perplexity_increase)
    end
    for _, recovery in ipairs { 0.99, 0.97 } do
      local plan = assert(ts.plan(with { min_accuracy_recovery = recovery }))
      assert.is_true(plan.quality.accuracy_recovery.low >= recovery - 1e-6)
    end
    local both = assert(ts.plan(with { max_perplexity_increase = 0.03, min_accuracy_recovery = 0.985 }))
    assert.is_true(both.quality.perplexity_increase.high <= 0.03 * (1 + 1e-5))
    assert.is_true(both.quality.accuracy_recovery.low >= 0.985 - 1e-6)
  end)

  it("is never faster where it is tighter", function()
    local before = 0
    for _, increase in ipairs { 0.3, 0.1, 0.05, 0.03, 0.02, 0.015, 0.01, 0 } do
      local plan = assert(ts.plan(with { max_perplexity_increase = increase }))
      assert.equal("optimal", plan.status)
      assert.is_true(plan.latency_s >= before * (1 - 1e-9))
      before = plan.latency_s
    end
  end)

  it("below 1 % keeps 16 bits", function()
    local plan = assert(ts.plan(with { max_perplexity_increase = 0.005 }))
    assert.near(16, plan.mean_bitwidth, 1e-9)
    assert.near(16, assert(ts.plan(with { min_accuracy_recovery = 0.999 })).mean_bitwidth, 1e-9)
  end)

  it("counts the KV cache that is chosen", function()
    local plan = assert(ts.plan(problem { kv_bitwidth = { 4, 8, 16 }, quality = { max_perplexity_increase = 0.02 } }))
    assert.is_true(plan.quality.perplexity_increase.high <= 0.02 * (1 + 1e-5))
  end)

  it("changes nothing where it is not asked for", function()
    local free = problem()
    assert.is_nil(free.quality)
    assert.is_nil(free.max_omega)
    assert.equal("constant", free.indicator.kind)
    assert.equal(1, free.theta)
    assert.equal(0, with({ max_perplexity_increase = 0.05 }).theta)
  end)

  it("keeps its nats when the limit is put in omega, and gives way to an indicator", function()
    local bound = with { max_perplexity_increase = 0.05 }
    assert.equal("quality", bound.indicator.kind)
    local same = bound:with { quality = { max_omega = bound.max_omega } }
    assert.near(assert(ts.plan(bound)).latency_s, assert(ts.plan(same)).latency_s, 1e-12)
    local other = same:with { indicator = ts.indicator { kind = "constant", model = "opt-1.3b",
      bitwidths = { 3, 4, 8, 16 } } }
    assert.equal("constant", other.indicator.kind)
    assert.equal("quality", bound:with({ model = "opt-2.7b" }).indicator.kind)
    assert.equal(32, #bound:with({ model = "opt-2.7b" }).indicator:omegas(4))
  end)

  it("takes a model's own losses", function()
    local omega = {}
    for layer = 1, 24 do omega[layer] = { 0.03, 0.008 * layer / 12, 0.0003 } end
    core.write_file("own.json", core.to_json { kind = "divergence", bitwidths = { 3, 4, 8 }, omega = omega })
    local p = problem { indicator = "own.json" }
    local plan = assert(ts.plan(p, { planner = "uniform" }))
    assert.equal("measured", plan.quality.grade)
    local stages = { { device = "T4-16G", bitwidths = {} }, { device = "T4-16G", bitwidths = {} } }
    for i = 1, 12 do stages[1].bitwidths[i], stages[2].bitwidths[i] = 4, 4 end
    local four = assert(ts.plan(p, { planner = "manual", stages = stages, prefill_micro_batch_size = 1,
      decode_micro_batch_size = 1 }))
    assert.near(0.2, four.quality.kl_nats.mid, 1e-9)
    local bound = assert(ts.plan(p:with { quality = { max_perplexity_increase = 0.05 } }))
    assert.equal("measured", bound.quality.grade)
    assert.is_true(bound.quality.perplexity_increase.high <= 0.05 * (1 + 1e-5))
    os.remove "own.json"
  end)

  it("that cannot be kept says what can be, and that can", function()
    local tight = ts.problem { model = "llama-3.3-70b", cluster = "1xA100-80G", kernel_set = "modern",
      workload = { prompt_tokens = 256, output_tokens = 32, batch_size = 1 },
      quality = { max_perplexity_increase = 0.005 } }
    local plan, why = ts.plan(tight)
    assert.is_nil(plan)
    assert.equal("infeasible", why.code)
    assert.equal("quality", why.constraint)
    assert.is_true(why.message:find("perplexity at most 0.5 % above 16 bits, at the unfavourable end", 1, true) ~= nil)
    local reachable = tonumber(why.message:match "Ask for max_perplexity_increase = ([%d.e-]+)")
    assert(ts.plan(tight:with { quality = { max_perplexity_increase = reachable } }))
    why = select(2, ts.plan(tight:with { quality = { max_perplexity_increase = 1e-5, min_accuracy_recovery = 0.999,
      at = "mid" } }))
    assert.is_true(why.message:find("above 16 bits and accuracy at least 99.9 % of it, by the middle guess", 1, true)
      ~= nil, why.message)
  end)

  it("refuses what is no ratio", function()
    local function refused(quality, code, text)
      raises(code, text, function() with(quality) end)
    end
    refused({ max_perplexity_increase = -0.01 }, "out_of_range", "is negative")
    refused({ max_perplexity_increase = 1 }, "out_of_range", "1 % is 0.01")
    refused({ max_perplexity_increase = 0 / 0 }, "invalid_argument", "NaN")
    refused({ min_accuracy_recovery = 99 }, "out_of_range", "99 % is 0.99")
    refused({ min_accuracy_recovery = 0 }, "out_of_range", "is not positive")
    refused({ max_perplexity_increase = 0.1, max_omega = 1 }, "invalid_argument", "give one of")
    refused({ at = "mid" }, "invalid_argument", "give one of")
    refused({ max_omega = 1, at = "mid" }, "invalid_argument", "it says how")
    refused({ max_perplexity_increas = 0.1 }, "invalid_argument", "did you mean 'max_perplexity_increase'")
    refused({ max_perplexity_increase = 0.1, at = "low" }, "invalid_argument", "give one of 'high', 'mid'")
  end)
end)
