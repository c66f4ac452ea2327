-- ts.problem: fields, copies with changes, quality floors, instances; what is refused.
local core = require "tessera.core"
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local fields = {
  name = "string", model = "tessera.Model?", cluster = "tessera.Cluster?", workload = "tessera.Workload?",
  indicator = "tessera.Indicator?", bitwidths = "list", objective = "string", theta = "number", theta_unit = "string",
  quality = "table?", memory = "string?", kernel_set = "string?", kv_bitwidth = "number?",
  tensor_parallel = "list?", uniform_degree = "boolean?", searches_replicas = "boolean?", kv_bitwidths = "list?",
  kernel_sets = "list?",
  allow_empty_stage = "boolean", use_all_devices = "boolean", num_layers = "integer",
  batch_size = "integer", devices = "list", split = "table?",
  constraints = "list", quantisation = "string?", max_omega = "number?",
}

-- Two layers on one device each of two types, tokens in whole seconds.
local instance = [==[{ "name": "two", "L": 2, "B": 1, "s": 1, "n": 2, "bits": [4, 8], "theta": 0,
  "omega": [[1, 0], [1, 0]], "mem_layer_gb": [1, 2], "mem_emb_gb": 0,
  "types": [{ "name": "a", "count": 1, "mem_gb": 10 }, { "name": "b", "count": 1, "mem_gb": 10 }],
  "link_gbs": [[0, 1], [1, 0]], "lat_pre": { "a": [[1, 2]], "b": [[1, 2]] },
  "lat_dec": { "a": [[1, 2]], "b": [[1, 2]] }, "mem_tmp_pre_gb": [0], "mem_tmp_dec_gb": [0],
  "pay_pre_gb": 0.001, "pay_dec_gb": 0.001 }]==]

describe("ts.problem", function()
  after_each(support.remove_files)

  it("says where options of the workload belong", function()
    raises("invalid_argument", "'batch_size' is an option of the workload: workload = { batch_size = ... }",
      function() ts.problem { model = "opt-1.3b", cluster = "1xT4", batch_size = 4 } end)
  end)

  it("has the fields of the contract", function()
    support.is_object(support.small_problem(), "tessera.Problem", fields)
    support.is_object(support.small_problem { quality = { max_omega = 3 } }, "tessera.Problem", fields)
    support.is_object(ts.problem { instance = support.temporary(instance) }, "tessera.Problem", fields)
  end)

  it("has the defaults of the contract", function()
    local p = ts.problem { model = "opt-125m", cluster = "1xT4-16G" }
    assert.same({ 4, 8, 16 }, p.bitwidths)
    assert.equal("steady", p.objective)
    assert.equal(1, p.theta)
    assert.equal("physical", p.memory)
    assert.equal(16, p.kv_bitwidth)
    assert.is_false(p.use_all_devices)
    assert.is_true(p.allow_empty_stage)
    assert.equal("vllm", p.kernel_set)
    assert.equal(12, p.num_layers)
    assert.equal(p.workload.batch_size, p.batch_size)
    assert.equal(0, ts.problem { model = "opt-125m", cluster = "1xT4-16G", quality = { max_omega = 1 } }.theta)
  end)

  it("counts memory on shares of CPUs as tessera execute takes it, unless told otherwise", function()
    local sheet = core.cluster("1xT4-16G"):to_table().devices[1]
    sheet.name, sheet.full_name, sheet.backend, sheet.compute_capability = "a-core", nil, "cpu", nil
    local cluster = core.cluster { { core.device(sheet), 2 } }
    local p = ts.problem { model = "opt-1.3b", cluster = cluster }
    assert.equal("tessera", p.memory)
    assert.equal("physical", p:with { cluster = "1xT4-16G" }.memory)
    assert.equal("physical", p:with { memory = "physical" }:with { cluster = cluster }.memory)
    assert.equal("physical", ts.problem { model = "opt-1.3b", cluster = "1xT4-16G" }.memory)
  end)

  it("copies with changes and leaves the original alone", function()
    local p = support.small_problem()
    local q = p:with { theta = 10, objective = "paper", bitwidths = { 16, 8 }, cluster = "1xT4-16G" }
    assert.equal(10, q.theta)
    assert.equal("paper", q.objective)
    assert.same({ 8, 16 }, q.bitwidths)
    assert.equal(1, #q.devices)
    assert.equal(1, p.theta)
    assert.same({ 4, 8, 16 }, p.bitwidths)
    assert.equal("opt-125m", q.model.name)
    assert.equal(p.theta, p:with {}.theta)
    assert.equal(p.theta, p:with().theta)
    raises("invalid_argument", "did you mean 'theta'", function() return p:with { tehta = 3 } end)
    raises("out_of_range", "problem:with.theta", function() return p:with { theta = -1 } end)
    raises("invalid_argument", "problem:with.instance: load another instance", function()
      return p:with { instance = "x" }
    end)
    raises("invalid_argument", ":with { ... }", function() p.theta = 3 end)
  end)

  it("refuses bad options by name", function()
    for _, case in ipairs {
      { { model = "opt-30x" }, "not_found", "ts.problem.model: unknown model 'opt-30x'" },
      { { cluster = "llmpq-33" }, "not_found", "ts.problem.cluster: unknown cluster" },
      { { workload = "lmpq" }, "not_found", "ts.problem.workload: unknown workload" },
      { { cluster = { { "T5", 1 } } }, "not_found", "unknown device 'T5'" },
      { { kernel_set = "vlm" }, "not_found", "did you mean 'vllm'" },
      { { bitwidhts = { 4 } }, "invalid_argument", "did you mean 'bitwidths'" },
      { { bitwidths = {} }, "invalid_argument", "at least one bitwidth" },
      { { bitwidths = { 4, 4 } }, "invalid_argument", "each once" },
      { { bitwidths = { 3.7 } }, "invalid_argument", "bitwidths[1]: 3.7 is not an integer" },
      { { bitwidths = { 4, 17 } }, "out_of_range", "bitwidths[2]" },
      { { bitwidths = { 4, x = 8 } }, "invalid_argument", "the key the string 'x'" },
      { { bitwidths = 4 }, "invalid_argument", "not a list" },
      { { objective = "fast" }, "invalid_argument", "'steady', 'paper'" },
      { { theta = support.nan }, "invalid_argument", "NaN" },
      { { theta = support.inf }, "invalid_argument", "inf is not finite" },
      { { theta = -1 }, "out_of_range", "-1 is out of range" },
      { { theta_unit = "s" }, "invalid_argument", "not a choice" },
      { { memory = "llmpq" }, "invalid_argument", "did you mean 'llm-pq'" },
      { { kv_bitwidth = 0 }, "out_of_range", "(bits)" },
      { { allow_empty_stage = "yes" }, "invalid_argument", "true or false" },
      { { quality = 3 }, "invalid_argument", "ts.problem.quality" },
      { { quality = {} }, "invalid_argument", "give one of max_perplexity" },
      { { quality = { at_least = "uniform", max_omega = 1 } }, "invalid_argument",
        "give one of max_perplexity_increase" },
      { { quality = { max_omega = support.nan } }, "invalid_argument", "NaN" },
      { { quality = { atleast = "uniform" } }, "invalid_argument", "did you mean 'at_least'" },
      { { indicator = 3 }, "invalid_argument", "ts.problem.indicator" },
      { { indicator = "/no/such.csv" }, "not_found", "No such file" },
      { { workload = { prompt_tokens = 4000 } }, "out_of_range", "can attend to; shorten" },
    } do
      raises(case[2], case[3], function() return support.small_problem(case[1]) end)
    end
    raises("invalid_argument", "ts.problem.model is missing", function() return ts.problem {} end)
    raises("invalid_argument", "ts.problem.model is missing", function() return ts.problem() end)
    raises("invalid_argument", "ts.problem", function() return ts.problem "opt-30b" end)
  end)

  it("loads an instance, whose parts are fixed", function()
    local path = support.temporary(instance)
    local p = ts.problem { instance = path }
    assert.equal("two", p.name)
    assert.same({ "a", "b" }, p.devices)
    assert.is_nil(p.model)
    assert.equal(0, p.theta)
    assert.is_true(p.allow_empty_stage)
    assert.equal(3, ts.problem { instance = path, theta = 3 }.theta)
    assert.equal("paper", p:with { objective = "paper" }.objective)
    for _, option in ipairs { "model", "cluster", "workload", "memory", "kernel_set" } do
      local value = option == "memory" and "physical" or "x"
      raises("invalid_argument", option, function() return ts.problem { instance = path, [option] = value } end)
      raises("invalid_argument", option, function() return p:with { [option] = value } end)
    end
    raises("not_found", "No such file", function() return ts.problem { instance = "/no/such.json" } end)
    raises("invalid_argument", "NUL", function() return ts.problem { instance = path .. "\0" } end)
  end)

  it("refuses broken instances", function()
    local function broken(from, to, text)
      local content, count = instance:gsub(from, to, 1)
      assert.equal(1, count, from)
      local path = support.temporary(content)
      local ok, err = pcall(ts.problem, { instance = path })
      assert.is_false(ok, to)
      assert.truthy(err.message:find(path, 1, true) and err.message:find(text, 1, true), err.message)
      assert.not_matches("\n", err.message)
    end
    broken('"L": 2', '"L": 0', "L")
    broken('"L": 2', '"L": 2.5', "2.5 is not an integer")
    broken('"L": 2', '"L": 1e400', "too large for a double")
    broken('"L": 2', '"L": 2, "L": 2', "'L' appears twice")
    broken('"L": 2', '"L": "2"', "a string where an integer belongs")
    broken('"L": 2', '"L": 3', "omega")
    broken('"B": 1', '"B": -1', "B")
    broken('"n": 2', '"n": null', "'n' is missing")
    broken('%[4, 8%]', '[4.5, 8]', "4.5 is not an integer")
    broken('%[4, 8%]', '[8, 4]', "must ascend")
    broken('"theta": 0', '"theta": -1', "theta")
    broken('"mem_gb": 10', '"mem_gb": -10', "mem_gb")
    broken('"name": "b"', '"name": "a"', "'a' appears twice")
    broken('"pay_dec_gb": 0.001', '"pay_dec_gb": 0.001, "extra": 1', "unknown field 'extra'")
    broken('"pay_dec_gb": 0.001 }', '', "not valid JSON")
  end)

  it("prices candidates", function()
    local p = support.small_problem()
    local bits = {}
    for i = 1, 12 do bits[i] = 8 end
    local candidate = {
      stages = { { device = "V100-32G", bitwidths = bits } }, prefill_micro_batch_size = 2, decode_micro_batch_size = 4,
    }
    local priced = p:evaluate(candidate)
    assert.is_true(priced.fits)
    assert.is_number(priced.objective)
    assert.is_number(priced.latency_s)
    assert.is_number(priced.omega)
    candidate.stages[1].bitwidths[12] = nil
    priced = p:evaluate(candidate)
    assert.is_false(priced.fits)
    assert.equal("contiguity", priced.constraint)
    raises("invalid_argument", "problem:evaluate", function() return p:evaluate {} end)
    raises("invalid_argument", "problem:evaluate", function() return p:evaluate() end)
  end)

  it("offers what baselines are made of", function()
    local p = support.small_problem()
    assert.same({ 1, 2, 4 }, p:micro_batch_sizes())
    assert.equal(2, #p:device_orders())
    assert.equal(1, #p:device_orders(1))
    local counts = p:balanced_partition { device_order = { "T4-16G", "V100-32G" }, bitwidth = 8,
      prefill_micro_batch_size = 1, decode_micro_batch_size = 1 }
    assert.equal(12, counts[1] + counts[2])
    raises("invalid_argument", "bitwidth", function()
      return p:balanced_partition { device_order = { "T4-16G" }, bitwidth = 5, prefill_micro_batch_size = 1,
        decode_micro_batch_size = 1 }
    end)
    raises("out_of_range", "limit", function() return p:device_orders(0) end)
  end)
end)
