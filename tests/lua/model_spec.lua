-- ts.model: shipped names, files, sizes; the object; what is refused.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local sizes = {
  name = "mine", family = "opt", num_layers = 2, hidden_size = 64, num_heads = 4, ffn_size = 256, vocab_size = 1000,
  max_context_tokens = 128,
}
local function with(changes)
  local copy = {}
  for key, value in pairs(sizes) do copy[key] = value end
  for key, value in pairs(changes) do copy[key] = value end
  return copy
end

describe("ts.model", function()
  after_each(support.remove_files)

  it("has the fields of the contract", function()
    support.is_object(ts.model "opt-30b", "tessera.Model", {
      name = "string", family = "string", num_layers = "integer", hidden_size = "integer", num_heads = "integer",
      num_kv_heads = "integer", head_dim = "integer", ffn_size = "integer", vocab_size = "integer",
      max_context_tokens = "integer", num_parameters = "integer", num_active_parameters = "integer",
      state_bytes_per_sequence = "number", layer_kinds = "string", layer_parameters = "integer",
      tied_embeddings = "boolean", source = "string", checkpoint_kept = "list", towers = "list",
      next_token_layers = "integer", next_token_parameters = "integer",
    })
  end)

  it("says what layers keep, and their kinds", function()
    local m = ts.model "qwen3-next-80b-a3b"
    assert.equal(12 * 2 * 2 * 256 * 2, m:kv_bytes_per_token())
    assert.equal(36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2), m.state_bytes_per_sequence)
    assert.equal("36 of gated delta net, experts; 12 of attention, experts", m.layer_kinds)
    assert.matches("%(36 of gated delta net, .*; state 73.7 MiB a sequence%)", tostring(m))
    assert.equal(0, ts.model "opt-30b".state_bytes_per_sequence)
    assert.equal("", ts.model "opt-30b".layer_kinds)
  end)

  it("says what lies beside the layers", function()
    local beside = require "tessera.models.beside"
    assert.equal("", beside(ts.model "opt-30b"))
    assert.equal("deepseek-v3: 1 next-token layer (MTP), about 11.6 billion parameters, not counted: servers load such "
      .. "layers only where they draft with them\n", beside(ts.model "deepseek-v3"))
    local path = support.temporary [[{ "model_type": "qwen2_vl", "hidden_size": 64, "intermediate_size": 128,
      "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 100,
      "max_position_embeddings": 64, "num_nextn_predict_layers": 2, "vision_config": {} }]]
    local text = beside(ts.model { config = path })
    assert.matches("vision tower of a size that .- not counted.-\n.-: 2 next%-token layers", text)
  end)

  it("knows OPT-30b", function()
    local m = ts.model "opt-30b"
    assert.equal("opt-30b", m.name)
    assert.equal(48, m.num_layers)
    assert.equal(7168, m.hidden_size)
    assert.equal(56, m.num_heads)
    assert.near(30e9, m.num_parameters, 0.005 * 30e9)
    assert.equal(2 * 2 * 48 * 7168, m:kv_bytes_per_token(16)) -- keys and values, two bytes each
    assert.equal(m:kv_bytes_per_token(16), m:kv_bytes_per_token())
    assert.equal(m:kv_bytes_per_token(16) / 2, m:kv_bytes_per_token(8))
    assert.near(2 * m.layer_parameters, m:layer_bytes(16), 0.001 * m:layer_bytes(16))
    assert.is_true(m:layer_bytes(3) < m:layer_bytes(4))
  end)

  it("prints one line, compares by value, and is what a model argument takes", function()
    local m = ts.model "opt-125m"
    assert.matches("^model opt%-125m: opt, 12 layers", tostring(m))
    assert.is_true(m == ts.model "opt-125m")
    assert.is_false(m == ts.model "opt-350m")
    assert.is_true(m == ts.model(m))
  end)

  it("is made from sizes", function()
    local m = ts.model(sizes)
    assert.equal("mine", m.name)
    assert.equal(16, m.head_dim)
    assert.equal(4, m.num_kv_heads)
  end)

  it("is read from a config.json under a name of one's own", function()
    local path = support.temporary [[{ "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
      "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 64 }]]
    local m = ts.model { config = path, name = "tiny" }
    assert.equal("tiny", m.name)
    assert.equal(3, m.num_layers)
    raises("invalid_argument", "num_layers: the config file says it", function()
      return ts.model { config = path, num_layers = 4 }
    end)
  end)

  it("offers the nearest names", function()
    assert.equal("opt-30b", ts.model "OPT-30B".name)
    local err = raises("not_found", "did you mean 'opt-30b'", function() return ts.model "op-30b" end)
    assert.equal("ts.model", err.where)
    raises("not_found", "unknown model ''", function() return ts.model "" end)
    raises("not_found", "unknown model", function() return ts.model "../models/opt-30b" end)
    raises("not_found", "unknown model", function() return ts.model(("x"):rep(1e6)) end)
    raises("not_found", "unknown model", function() return ts.model "opt-30b\0" end)
    raises("invalid_argument", "unknown option 'num_layer'; did you mean 'num_layers'",
      function() return ts.model(with { num_layer = 3 }) end)
    raises("unsupported", "'lama'", function() return ts.model(with { family = "lama" }) end)
  end)

  it("refuses wrong types", function()
    for _, value in ipairs { 3, true, print, ts.device "T4-16G" } do
      raises("invalid_argument", "ts.model", function() return ts.model(value) end)
    end
    raises("invalid_argument", "ts.model", function() return ts.model() end)
    raises("invalid_argument", "ts.model.family is missing", function() return ts.model {} end)
    raises("invalid_argument", "ts.model.config", function() return ts.model { config = 3 } end)
    raises("invalid_argument", "not UTF-8", function() return ts.model(with { name = "\255" }) end)
  end)

  for _, field in ipairs { "num_layers", "hidden_size", "num_heads", "ffn_size", "vocab_size", "max_context_tokens" } do
    it("refuses every bad " .. field, function()
      for _, case in ipairs(support.bad_integers) do
        local err = raises(type(case[1]) == "number" and case[1] == math.floor(case[1])
          and math.abs(case[1]) < math.huge and "out_of_range" or "invalid_argument", case[2], function()
          return ts.model(with { [field] = case[1] })
        end)
        assert.equal("ts.model." .. field, err.where)
        assert.matches("give an integer in %[1, ", err.message)
      end
      local missing = with {}
      missing[field] = nil
      raises("invalid_argument", "ts.model." .. field .. " is missing", function() return ts.model(missing) end)
    end)
  end

  it("refuses bitwidths out of range", function()
    local m = ts.model "opt-125m"
    for _, bitwidth in ipairs { 0, -4, 33, support.inf, support.nan, "4", {} } do
      assert.is_false((pcall(m.layer_bytes, m, bitwidth)))
      assert.is_false((pcall(m.kv_bytes_per_token, m, bitwidth)))
    end
    raises("invalid_argument", "bitwidth", function() return m:layer_bytes() end)
    raises("invalid_argument", "tessera.Model", function() return m.layer_bytes(4) end)
  end)

  it("names the file that is broken", function()
    local cases = {
      [""] = "empty, JSON expected",
      ["{"] = "not valid JSON at line 1",
      ["{}"] = "neither an architecture file of Tessera",
      ["[]"] = "an array where an object belongs",
      ['{"model_type": "llama", "model_type": "opt"}'] = "'model_type' appears twice",
      ['{"model_type": "t5"}'] = "an encoder-decoder",
      ['{"model_type": "llama", "hidden_size": 1e400}'] = "too large for a double",
      ['{"model_type": "\255"}'] = "not valid JSON",
      [("["):rep(1e5)] = "nested deeper than 64 levels",
      ['{"model_type": "llama", "num_hidden_layers": 0, "hidden_size": 64, "num_attention_heads": 4}'] =
        "num_hidden_layers",
    }
    for content, text in pairs(cases) do
      local path = support.temporary(content)
      local ok, err = pcall(ts.model, { config = path })
      assert.is_false(ok)
      assert.truthy(err.message:find(path, 1, true), err.message)
      assert.truthy(err.message:find(text, 1, true), err.message)
      assert.not_matches("\n", err.message)
    end
    raises("not_found", "No such file", function() return ts.model { config = "/no/such/config.json" } end)
    raises("not_found", "/tmp/config.json", function() return ts.model { config = "/tmp" } end)
  end)
end)
