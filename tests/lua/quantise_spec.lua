-- ts.quantise and ts.quantise_model: results, calibration, what is refused. Checkpoints themselves: checkpoint_test.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

-- Deterministic numbers that look like weights.
local function matrix(rows, columns, scale)
  local data, state = {}, 7
  for i = 1, rows * columns do
    state = (state * 16807) % 2147483647
    data[i] = (state / 2147483647 - 0.5) * (scale and scale((i - 1) % columns) or 1)
  end
  return ts.tensor { shape = { rows, columns }, data = data, name = "w" }
end

describe("ts.quantise", function()
  local weight = matrix(8, 64)

  it("has the fields of the contract", function()
    local q = ts.quantise { tensor = weight, bitwidth = 4, group_size = 32 }
    support.is_object(q, "tessera.Quantised", {
      method = "string", bitwidth = "integer", mse = "number", max_error = "number", scale_max = "number",
      bytes = "integer", output_error = "nil", rtn_output_error = "nil", damping = "number",
    })
    assert.equal("rtn", q.method)
    assert.equal(8 * 32 + 16 * 4, q.bytes)
    assert.is_true(q.max_error <= q.scale_max / 2 * 1.0001)
    assert.same({ 8, 64 }, q:dequantised():shape())
    assert.is_true(math.abs(q:dequantised():to_table(1, 1)[1] - weight:to_table(1, 1)[1]) <= q.max_error)
  end)

  it("loses less with more bits and smaller groups", function()
    local function mse(options)
      options.tensor = weight
      return ts.quantise(options).mse
    end
    assert.is_true(mse { bitwidth = 3 } > mse { bitwidth = 4 })
    assert.is_true(mse { bitwidth = 4 } > mse { bitwidth = 8 })
    assert.is_true(mse { bitwidth = 4, granularity = "tensor" } > mse { bitwidth = 4, group_size = 16 })
    assert.not_equal(mse { bitwidth = 4 }, mse { bitwidth = 4, symmetric = false })
  end)

  it("rounds stochastically by seed", function()
    local function mse(seed)
      return ts.quantise { tensor = weight, bitwidth = 4, rounding = "stochastic", seed = seed }.mse
    end
    assert.equal(mse(1), mse(1))
    assert.not_equal(mse(1), mse(2))
  end)

  it("calibrates from activations", function()
    local x = matrix(100, 64, function(column) return column % 7 == 0 and 20 or 1 end)
    for _, method in ipairs { "gptq", "awq" } do
      local q = ts.quantise { tensor = weight, bitwidth = 3, group_size = 32, method = method, activations = x }
      assert.equal(method, q.method)
      assert.is_true(q.output_error < q.rtn_output_error)
    end
    local batches, at = { matrix(40, 64), matrix(60, 64) }, 0
    local function next_batch()
      at = at + 1
      return batches[at]
    end
    assert.is_true(ts.quantise { tensor = weight, bitwidth = 3, method = "gptq", activations = next_batch }.output_error
      > 0)
    assert.equal(3, at)
    assert.equal(0.01, ts.quantise { tensor = weight, bitwidth = 4, method = "gptq", activations = x }.damping)
    assert.is_true(ts.quantise { tensor = weight, bitwidth = 4, activations = x }.output_error > 0)
  end)

  it("refuses what it cannot do", function()
    local function refused(code, text, options)
      options.tensor = options.tensor or weight
      options.bitwidth = options.bitwidth or 4
      raises(code, text, function() return ts.quantise(options) end)
    end
    refused("out_of_range", "bitwidth is 5", { bitwidth = 5 })
    refused("out_of_range", "bitwidth", { bitwidth = 2 })
    refused("invalid_argument", "needs calibration", { method = "gptq" })
    refused("invalid_argument", "did you mean 'group_size'", { groupsize = 3 })
    refused("invalid_argument", "two dimensions", { tensor = ts.tensor { shape = { 4 }, data = { 1, 2, 3, 4 } } })
    refused("invalid_argument", "32 input features", { method = "gptq", activations = matrix(5, 32) })
    refused("invalid_argument", "gave no batch", { activations = function() end })
    refused("invalid_argument", "activations()", { activations = function() return 3 end })
    local width = 60
    refused("invalid_argument", "62 input features, those before it have 61", { activations = function()
      width = width + 1
      return matrix(2, width)
    end })
    refused("invalid_argument", "layer_index and linear", { statistics = "s.safetensors" })
    refused("invalid_argument", "not both", { statistics = "s", activations = matrix(5, 64) })
    refused("invalid_argument", "act_order", { act_order = "weight" })
  end)
end)

local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local data = here .. "/../../experiments/indicator/data/tiny_llama"
local statistics = data .. ".statistics.safetensors"

describe("ts.quantise_model", function()
  local out
  before_each(function() out = support.temporary() .. ".out" end)
  after_each(function()
    os.execute("rm -rf '" .. out .. "'")
    support.remove_files()
  end)

  it("writes a checkpoint and says what became of each matrix", function()
    local seen = 0
    local summary = ts.quantise_model {
      model = data, bitwidths = 4, granularity = "channel", method = "gptq", statistics = statistics, out = out,
      progress = function(done, total) seen = seen + (done <= total and 1 or 0) end,
    }
    support.is_object(summary, "tessera.QuantisedModel", {
      out = "string", bytes_before = "integer", bytes_after = "integer", seconds = "number", matrices = "table",
      notes = "table",
    })
    assert.matches("quantised model .* %d+ matrices, .* where they took", tostring(summary))
    assert.equal(out, summary.out)
    assert.is_true(summary.bytes_after < summary.bytes_before)
    assert.equal(#summary.matrices, seen)
    for _, m in ipairs(summary.matrices) do assert.is_true(m.output_error <= m.rtn_output_error) end
    local stored = ts.weights(out):tensor "model.layers.0.self_attn.q_proj.weight_packed"
    assert.equal("I32", stored:dtype())
    raises("io", "overwrite = true", function()
      return ts.quantise_model { model = data, bitwidths = 4, granularity = "channel", out = out }
    end)
  end)

  it("says what whoever loads the copy should know", function()
    local function notes(bitwidths)
      local summary = ts.quantise_model { model = data, bitwidths = bitwidths, granularity = "channel", out = out,
        overwrite = true }
      return table.concat(summary.notes, "\n")
    end
    assert.matches("no tokenizer lies beside the model", notes(4))
    assert.not_matches("3 bits", notes(4))
    local text = notes { 3, 4, 4, 8, 8, 16 }
    assert.matches("layers of 3 bits: transformers loads them, vLLM only in versions", text)
    local stored = assert(io.open(out .. "/tessera_quantisation.json")):read "*a"
    assert.matches("layers of 3 bits", stored)
  end)

  it("takes the bitwidths of a plan, layer by layer", function()
    local plan = { stages = { { bitwidths = { 8, 16 } }, { bitwidths = { 16, 16, 16, 16 } } } }
    local summary = ts.quantise_model { model = data, plan = plan, granularity = "channel", out = out }
    for _, m in ipairs(summary.matrices) do
      assert.equal(0, m.layer_index)
      assert.equal(8, m.bitwidth)
    end
  end)

  it("refuses what it cannot do", function()
    local function refused(code, text, options)
      options.model, options.out = options.model or "absent", options.out or "out"
      raises(code, text, function() return ts.quantise_model(options) end)
    end
    refused("invalid_argument", "either plan or bitwidths", {})
    refused("invalid_argument", "either plan or bitwidths", { bitwidths = 4, plan = {} })
    refused("not_found", "absent", { bitwidths = 4 })
    refused("not_found", "absent", { bitwidths = { 4, 8 }, progress = false })
    refused("out_of_range", "bitwidths", { bitwidths = 2 })
    refused("out_of_range", "bitwidths[2]", { bitwidths = { 4, 99 } })
    refused("invalid_argument", "bitwidths", { bitwidths = "4" })
    refused("invalid_argument", "no stages", { plan = {} })
    refused("invalid_argument", "progress", { bitwidths = { 4 }, progress = 3 })
    refused("invalid_argument", "one of", { bitwidths = 4, method = "best" })
  end)
end)

describe("the size of a group, where nobody says it", function()
  it("divides what matrices read", function()
    local group_size = require "tessera.models.group_size"
    for model, size in pairs { ["llama-3.1-8b"] = 128, ["smollm2-135m"] = 64, ["opt-125m"] = 128 } do
      assert.equal(size, group_size(ts.model(model)), model)
    end
  end)
end)
