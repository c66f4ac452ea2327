-- ts.indicator from weights: every kind on the tiny model, files, problems, and what is refused.
local host = require "tessera.host"
local ts = require "tessera"
local rank = require "lib.rank_correlation"
local support = require "support"
local raises = support.raises

local data = host.installation.experiments_dir .. "/indicator/data/"
local model, statistics = data .. "tiny_llama", data .. "tiny_llama.statistics.safetensors"

local function make(options)
  local given = { model = model, statistics = statistics }
  for key, value in pairs(options) do given[key] = value end
  return ts.indicator(given)
end

describe("ts.indicator from weights", function()
  after_each(support.remove_files)

  it("makes every kind, and says how long it took", function()
    for _, kind in ipairs { "variance", "hessian", "gptq_error", "measured" } do
      local i = make { kind = kind }
      assert.equal(kind, i.kind)
      assert.equal("paper", i.variant)
      assert.equal(6, i.num_layers)
      assert.is_true(i:omega(0, 3) > i:omega(0, 8), kind)
      assert.is_true(i.overhead_s >= i.weights_s and i.weights_s > 0 and i.statistics_s > 0)
      assert.equal((kind == "measured" or kind == "gptq_error") and "measured" or "modelled", i.provenance)
      assert.matches("tiny_llama", i.source)
    end
  end)

  it("takes weights alone for the variance, and says so", function()
    local i = ts.indicator { model = model, kind = "variance" }
    assert.matches("no statistics: inputs taken to have zero mean and unit variance", i.source)
    assert.not_equal(i:omega(0, 4), make { kind = "variance" }:omega(0, 4))
  end)

  it("says where the statistics name another model", function()
    assert.not_matches("which name", make { kind = "variance" }.source)
    local copy = support.temporary() .. ".copy"
    os.execute(("cp -r '%s' '%s'"):format(model, copy))
    local source = make { kind = "variance", model = copy }.source
    os.execute(("rm -rf '%s'"):format(copy))
    assert.matches("which name the model 'tiny_llama', not '[^']*%.copy'", source)
  end)

  it("follows granularity, symmetry, rounding and variant", function()
    local base = make { kind = "variance" }:omega(2, 4)
    assert.is_true(make { kind = "variance", granularity = "channel" }:omega(2, 4) < base)
    assert.is_true(make { kind = "variance", granularity = "group", group_size = 4 }:omega(2, 4)
      < make { kind = "variance", granularity = "group", group_size = 8 }:omega(2, 4))
    assert.not_equal(base, make { kind = "variance", symmetric = false }:omega(2, 4))
    assert.not_equal(base, make { kind = "variance", rounding = "stochastic" }:omega(2, 4))
    assert.near(base * (7 / 8) ^ 2, make { kind = "variance", variant = "llm-pq" }:omega(2, 4), 1e-12)
    local measured = { kind = "measured", rounding = "stochastic" }
    measured.seed = 1
    local one = make(measured):omega(0, 4)
    assert.equal(one, make(measured):omega(0, 4))
    measured.seed = 2
    assert.not_equal(one, make(measured):omega(0, 4))
  end)

  it("calls back after every layer, and stops at an error there", function()
    local seen = {}
    make { kind = "variance", progress = function(done, all) seen[#seen + 1] = done .. "/" .. all end }
    assert.equal("1/6 2/6 3/6 4/6 5/6 6/6", table.concat(seen, " "))
    local ok, why = pcall(make, { kind = "variance", progress = function() error { code = "enough" } end })
    assert.is_false(ok)
    assert.equal("enough", why.code)
  end)

  it("comes back from its file with provenance and times", function()
    local made = make { kind = "hessian" }
    local path = support.temporary() .. ".json"
    made:save(path)
    local read = ts.indicator(path)
    os.remove(path)
    for _, field in ipairs { "kind", "variant", "provenance", "source", "overhead_s", "weights_s", "statistics_s" } do
      assert.equal(made[field], read[field])
    end
    for layer = 0, 5 do assert.equal(made:omega(layer, 4), read:omega(layer, 4)) end
  end)

  it("serves every planner", function()
    local problem = ts.problem {
      model = ts.weights(model):model(), indicator = make { kind = "variance" }, theta = 1,
      cluster = ts.cluster { { "T4-16G", 1 }, { "L4", 1 }, link_gbps = 10 },
      workload = { prompt_tokens = 16, output_tokens = 8, batch_size = 2 },
    }
    for _, planner in ipairs { "exact", "ilp", "adabits", "bitwidth_transfer", "uniform" } do
      local plan = assert(ts.plan(problem, {
        planner = planner, prefill_micro_batch_size = 1, decode_micro_batch_size = 1, time_limit_s = 20,
      }))
      assert.is_true(plan.omega >= 0, planner)
    end
  end)

  it("refuses wrong use", function()
    raises("invalid_argument", "made from weights", function()
      return ts.indicator { model = "opt-125m", kind = "variance" }
    end)
    raises("invalid_argument", "made from weights", function()
      return ts.indicator { model = ts.model "opt-125m", kind = "hessian" }
    end)
    raises("not_found", "no/such", function() return ts.indicator { model = "no/such", kind = "variance" } end)
    raises("invalid_argument", "Hessians among them", function()
      return ts.indicator { model = model, kind = "hessian" }
    end)
    raises("invalid_argument", "looks at no weights", function() return make { kind = "random" } end)
    raises("invalid_argument", "group_size goes with", function() return make { kind = "variance", group_size = 8 } end)
    raises("invalid_argument", "has no variant", function()
      return make { kind = "gptq_error", variant = "llm-pq-code" }
    end)
    raises("invalid_argument", "3, 4 or 8 bits", function() return make { kind = "measured", bitwidths = { 5 } } end)
    raises("invalid_argument", "'tensor', 'channel', 'group'", function()
      return make { kind = "variance", granularity = "row" }
    end)
    raises("not_found", "no/such", function() return make { kind = "variance", statistics = "no/such.safetensors" } end)
  end)
end)

describe("rank correlation", function()
  it("is known for small lists", function()
    assert.near(1, rank.spearman({ 1, 2, 30 }, { 4, 5, 6 }), 1e-12)
    assert.near(-1, rank.kendall({ 1, 2, 3 }, { 3, 2, 1 }), 1e-12)
    -- Ties share their rank: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
    assert.near(4.5 / math.sqrt(4.5 * 5), rank.spearman({ 1, 2, 2, 3 }, { 1, 2, 3, 4 }), 1e-12)
    assert.near(5 / math.sqrt(5 * 6), rank.kendall({ 1, 2, 2, 3 }, { 1, 2, 3, 4 }), 1e-12)
  end)

  it("is nil where a list says nothing", function()
    assert.is_nil(rank.spearman({ 1, 1 }, { 1, 2 }))
    assert.is_nil(rank.kendall({}, {}))
    assert.is_nil(rank.kendall({ 1 }, { 2 }))
  end)
end)
