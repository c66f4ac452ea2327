-- Choosing and guessing tokens as scripts ask for it. The rule itself is tested in C++ (tests/unit/serving); here: what
-- scripts give and what they get.
local speculative = require "tessera.speculative"
local sampling = require "tessera.sampling"
local support = require "support"
local ts = require "tessera"

local raises = support.raises
local q, p = { 0.2, 0.5, 0.3 }, { 0.5, 0.3, 0.2 }

describe("ts.speculative", function()
  it("says exactly what the rule makes of two distributions", function()
    local rule = speculative.rule { q = q, p = p }
    assert.near(0.7, rule.acceptance_rate, 1e-15)
    assert.near(0.6, rule.acceptance[2], 1e-15)
    assert.same({ 1, 0, 0 }, rule.residual)
    for token = 1, 3 do assert.near(p[token], rule.output[token], 1e-15) end
    assert.is_nil(speculative.rule({ q = p, p = p }).residual)
    assert.equal(0, speculative.rule({ q = { 0, 1 }, p = { 0.5, 0.5 } }).acceptance[1])
  end)

  it("verifies one step or counts many", function()
    assert.same({ drafts = { 0 }, num_accepted = 1, tokens = { 0, 0 } },
      speculative.verify { p = { p, p }, drafts = { 0 }, greedy = true })
    local step = speculative.verify { q = { q }, p = { p, p }, drafts = { 0 }, seed = 3 }
    assert.equal(1, step.num_accepted) -- p is above q there
    assert.equal(2, #step.tokens)
    local many = speculative.verify { q = { q, q }, p = { p, p, p }, num_draws = 1000, seed = 4 }
    local sums = {}
    for i, counts in ipairs(many.counts) do sums[i] = counts[1] + counts[2] + counts[3] end
    assert.same({ 1000, many.accepted[1], many.accepted[2] }, sums)
    assert.near((1000 + many.accepted[1] + many.accepted[2]) / 1000, many.tokens_per_step, 1e-12)
    assert.same(many, speculative.verify { q = { q, q }, p = { p, p, p }, num_draws = 1000, seed = 4 })
  end)

  it("refuses drafts and rows that do not belong together", function()
    local function refused(text, options)
      return raises("invalid_argument", text, function() speculative.verify(options) end)
    end
    refused("give the drafted tokens, or q", { p = { p } })
    refused("verify.p: 1 rows for 1 drafts", { p = { p }, q = { q } })
    refused("verify.q: 1 rows for 2 drafts", { p = { p, p, p }, q = { q }, drafts = { 0, 1 } })
    refused("verify.p[2]: 2 numbers", { p = { p, { 0.5, 0.5 } }, drafts = { 0 } })
    refused("sums to 0.6", { p = { { 0.1, 0.2, 0.3 }, p }, drafts = { 0 } })
    refused("leave q out", { p = { p, p }, q = { q }, greedy = true })
    raises("out_of_range", "token 3", function() speculative.verify { p = { p, p }, q = { q }, drafts = { 3 } } end)
  end)

  it("says what speculation is worth", function()
    assert.near(2.7731, (speculative.expected_tokens { acceptance = 0.7, num_tokens = 4 }), 1e-12)
    local tokens, rates = speculative.expected_tokens { acceptance = { 0.7, 0.5, 0.4 }, num_tokens = 2 }
    assert.near(2.2, tokens, 1e-12)
    assert.same({ 0.7, 0.5 }, rates)
    local batch, speed_up = speculative.break_even_batch {
      acceptance = 0.7, num_tokens = 3, base_s = 6e-3, per_token_s = 0.02e-3, draft_base_s = 0.4e-3,
      draft_per_sequence_s = 0.002e-3, batch_size = 1,
    }
    assert.near(226.3, batch, 0.05)
    assert.near(2.093, speed_up, 5e-4)
    local always = { acceptance = 1, num_tokens = 1, base_s = 1, per_token_s = 1 }
    assert.equal(math.huge, (speculative.break_even_batch(always)))
    raises("invalid_argument", "1 rate for 3 drafts", function()
      speculative.expected_tokens { acceptance = { 0.5 }, num_tokens = 3 }
    end)
    raises("out_of_range", "rate 2 is 0.6", function()
      speculative.expected_tokens { acceptance = { 0.5, 0.6 }, num_tokens = 2 }
    end)
    raises("invalid_argument", "takes no time", function()
      speculative.break_even_batch { acceptance = 0.5, num_tokens = 1, base_s = 0, per_token_s = 0 }
    end)
  end)

  it("lets as many drafts pass as the rates say, whatever the order", function()
    local options = { acceptance = { 1, 0.5 }, num_tokens = 2, num_requests = 100, num_steps = 10 }
    local counts = speculative.accepted_drafts(options)
    assert.equal(0, counts[1])
    assert.equal(1000, counts[2] + counts[3])
    assert.is_true(counts[2] > 400 and counts[2] < 600) -- more than six standard deviations of 15.8
    assert.same(counts, speculative.accepted_drafts(options))
  end)

  it("drafts from the text", function()
    local function drafts(tokens)
      return speculative.prompt_lookup { tokens = tokens, prompt_lookup_min = 2, prompt_lookup_max = 3, num_tokens = 2 }
    end
    assert.same({ 8, 9 }, drafts { 5, 6, 8, 9, 5, 6 })
    assert.same({}, drafts { 5, 7, 8, 9, 5, 6 })
    raises("out_of_range", "3 is above prompt_lookup_max, 2", function()
      speculative.prompt_lookup { tokens = {}, prompt_lookup_min = 3, prompt_lookup_max = 2, num_tokens = 1 }
    end)
  end)
end)

describe("ts.sampling", function()
  it("has the filters of lm:generate", function()
    local found = sampling.probabilities { logits = { 1, 2, 3, -math.huge }, temperature = 0.5, top_k = 2 }
    local odds = math.exp(2)
    assert.same({ 0, 0 }, { found[1], found[4] })
    assert.near(1 / (1 + odds), found[2], 1e-15)
    assert.same({ 0, 0, 1, 0 }, sampling.probabilities { logits = { 1, 2, 3, 0 }, temperature = 0 })
    assert.same({ 1, 0 }, sampling.probabilities {
      logits = { 2, 3 }, text = { 1 }, repetition_penalty = 2, temperature = 0,
    })
  end)

  it("draws by them", function()
    local tokens, counts = sampling.draw { logits = { 0, 0, -math.huge }, num_draws = 1000, seed = 1 }
    assert.equal(1000, #tokens)
    assert.equal(0, counts[3])
    assert.is_true(counts[1] > 400 and counts[1] < 600)
    assert.same({ 0 }, (sampling.draw { logits = { 3, 1 }, temperature = 0 }))
  end)

  it("refuses logits and texts that are none", function()
    raises("invalid_argument", "there are none", function() sampling.probabilities { logits = {} } end)
    raises("invalid_argument", "NaN", function() sampling.probabilities { logits = { 0 / 0, 1 } } end)
    raises("out_of_range", "token 2 where logits are of 0 to 1", function()
      sampling.probabilities { logits = { 0, 1 }, text = { 2 } }
    end)
  end)
end)

describe("drafts of the simulator", function()
  it("that are found now and then are verified then, and pass as the rates say", function()
    local traffic = ts.traffic { trace = support.temporary "arrival_s,prompt_tokens,output_tokens\n0,50,3000\n" }
    local function verified(found, acceptance)
      local drafts = { num_tokens = 3, acceptance = acceptance, found = found }
      local served = ts.serve(ts.deployment {
        step_cost = { base_s = 0.01, per_token_s = 1e-4, per_sequence_s = 5e-4, per_context_token_s = 1e-6 },
        engine = { max_num_seqs = 8, max_num_batched_tokens = 128, kv_blocks = 1000, speculative = drafts },
      }, traffic)
      local count, steps = 0, served:steps()
      for _, step in ipairs(steps) do
        for _, part in ipairs(step.verified) do
          assert.equal(3, part.drafts)
          count = count + 1
        end
      end
      return count / (#steps - 1), served
    end
    assert.equal(0, verified(0, 1))
    assert.near(1, verified(1, 0), 1e-3) -- but the first, behind the prompt
    local share, served = verified(0.3, { 0.6, 0.4, 0.2 })
    assert.near(0.3, share, 0.05) -- of some 2,200 steps: five standard deviations
    assert.near(2.2, served.accepted_length, 0.25)
    assert.near(0.4, served.acceptance_ratio, 0.08)
  end)

  it("keeps room for a model's own next-token layers where they draft", function()
    local model = ts.model "glm-4.5-air"
    local function cache_bytes(method)
      local replica = ts.deployment { model = model, cluster = "2xH200-141G", tensor_parallel = 2, bitwidths = { 16 },
        engine = { speculative = { method = method } } }.replicas[1]
      return replica.kv_tokens * model:kv_bytes_per_token()
    end
    local block_bytes = 16 * model:kv_bytes_per_token()
    assert.near(2 * model.next_token_parameters, cache_bytes "ngram" - cache_bytes "mtp", 2 * block_bytes)
  end)
end)
