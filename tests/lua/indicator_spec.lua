-- ts.indicator: kinds, files, tables; the object; what is refused.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

describe("ts.indicator", function()
  after_each(support.remove_files)

  it("has the fields of the contract", function()
    support.is_object(ts.indicator { model = "opt-125m" }, "tessera.Indicator", {
      kind = "string", variant = "string", num_layers = "integer", bitwidths = "list", overhead_s = "number",
      weights_s = "number", statistics_s = "number", provenance = "string", source = "string",
    })
  end)

  it("gives omega by 0-based layer", function()
    local i = ts.indicator { model = "opt-125m", bitwidths = { 16, 4 } }
    assert.equal(12, i.num_layers)
    assert.same({ 4, 16 }, i.bitwidths)
    assert.is_true(i:omega(0, 4) > i:omega(0, 16))
    assert.equal(i:omega(0, 4), i:omega(11, 4))
    raises("out_of_range", "layer_index", function() return i:omega(12, 4) end)
    raises("out_of_range", "layer_index", function() return i:omega(-1, 4) end)
    raises("invalid_argument", "3.7 is not an integer", function() return i:omega(3.7, 4) end)
    raises("out_of_range", "bitwidth", function() return i:omega(0, 0) end)
    assert.is_false((pcall(i.omega, i, 0, 8)))
    assert.is_false((pcall(i.omega, i)))
    local random = ts.indicator { model = "opt-125m", kind = "random", seed = 3 }
    local omegas = random:omegas(4)
    assert.equal(12, #omegas)
    for layer, omega in ipairs(omegas) do assert.equal(random:omega(layer - 1, 4), omega) end
    assert.is_false((pcall(i.omegas, i, 8)))
    raises("out_of_range", "bitwidth", function() return i:omegas(0) end)
  end)

  it("draws the same for the same seed", function()
    local function draw(seed) return ts.indicator { model = "opt-125m", kind = "random", seed = seed }:omega(5, 4) end
    assert.equal(draw(1), draw(1))
    assert.not_equal(draw(1), draw(2))
    for _, variant in ipairs { "paper", "llm-pq-uniform", "llm-pq-constant" } do
      local i = ts.indicator { model = "opt-125m", kind = "random", variant = variant }
      assert.equal("random", i.kind)
      assert.is_true(i:omega(0, 4) >= 0)
    end
  end)

  it("saves and reads back exactly", function()
    local made = ts.indicator { model = "opt-125m", kind = "random", seed = 7 }
    local path = support.temporary() .. ".json"
    made:save(path)
    local read = ts.indicator(path)
    os.remove(path)
    for layer = 0, 11 do
      for _, bitwidth in ipairs(made.bitwidths) do
        assert.equal(made:omega(layer, bitwidth), read:omega(layer, bitwidth))
      end
    end
  end)

  it("is a table omega[layer][bitwidth] too", function()
    local omega = {}
    for layer = 1, 12 do omega[layer] = { [4] = layer, [8] = 0.5, [16] = 0 } end
    assert.equal(3, support.small_problem { indicator = omega }.indicator:omega(2, 4))
    omega[3][8] = nil
    raises("invalid_argument", "indicator[3][8]: nil", function()
      return support.small_problem { indicator = omega }
    end)
    omega[3] = 5
    raises("invalid_argument", "indicator[3]: the number 5", function()
      return support.small_problem { indicator = omega }
    end)
    omega[3] = { [4] = -1, [8] = 0, [16] = 0 }
    raises("out_of_range", "indicator[3][4]", function() return support.small_problem { indicator = omega } end)
    raises("invalid_argument", "0 layers", function() return support.small_problem { indicator = {} } end)
    raises("invalid_argument", "layers", function()
      return support.small_problem { indicator = ts.indicator { model = "opt-350m" } }
    end)
  end)

  it("refuses wrong use", function()
    raises("invalid_argument", "ts.indicator", function() return ts.indicator() end)
    raises("invalid_argument", "ts.indicator.model", function() return ts.indicator {} end)
    raises("not_found", "unknown model", function() return ts.indicator { model = "opt" } end)
    raises("invalid_argument", "'constant', 'random'", function()
      return ts.indicator { model = "opt-125m", kind = "magic" }
    end)
    raises("invalid_argument", "seed", function() return ts.indicator { model = "opt-125m", seed = 1.5 } end)
    raises("out_of_range", "seed", function() return ts.indicator { model = "opt-125m", seed = -1 } end)
    raises("invalid_argument", "at least one bitwidth", function()
      return ts.indicator { model = "opt-125m", bitwidths = {} }
    end)
    raises("not_found", "No such file", function() return ts.indicator "/no/such.json" end)
    raises("not_found", "No such file", function() ts.indicator { model = "opt-125m" }:save "/no/such/i.json" end)
    for _, content in ipairs {
      "", "{", "[]", "{}", "layer,bitwidth\n", "layer,bitwidth,omega\n0,4,nan\n", "\255\254",
    } do
      local path = support.temporary(content)
      local ok, err = pcall(ts.indicator, path)
      assert.is_false(ok, content)
      assert.truthy(err.message:find(path, 1, true), err.message)
      assert.not_matches("\n", err.message)
    end
  end)
end)
