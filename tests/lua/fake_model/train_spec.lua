-- ts.train_language_model on a module that learns nothing: options, progress, and what is refused.
local ts = require "tessera"
local raises = require("support").raises

local function request(changes)
  local result = {
    out = "nowhere", tokens = { 1, 2, 3 }, num_layers = 2, hidden_size = 8, num_heads = 2, ffn_size = 16,
    vocab_size = 6, max_context_tokens = 4, num_steps = 8, batch_size = 2,
  }
  for key, value in pairs(changes or {}) do result[key] = value end
  return result
end

describe("ts.train_language_model", function()
  it("takes tokens as a list or piece by piece", function()
    local made = ts.train_language_model(request())
    assert.equal(3, made.num_tokens)
    assert.equal(2, made.loss_nats)
    assert.is_nil(made.held_out_loss_nats)
    local left = { { 5 }, {}, { 1, 0 } }
    made = ts.train_language_model(request { held_out_tokens = function() return table.remove(left) end })
    assert.equal(2, made.held_out_loss_nats)
    assert.matches("^training: ", tostring(made))
  end)

  it("reports, and ends where it is told to", function()
    local steps = {}
    ts.train_language_model(request { progress = function(at)
      steps[#steps + 1] = at.step
      assert.equal(1.5, at.loss_nats)
    end })
    assert.same({ 1, 2, 3, 4 }, steps)
    raises("interrupted", "stopped after 2", function()
      ts.train_language_model(request { progress = function(at) return at.step < 2 end })
    end)
    raises("script", "mine", function() ts.train_language_model(request { progress = function() error "mine" end }) end)
  end)

  it("refuses what makes no sense", function()
    local function refused(code, text, changes)
      raises(code, text, function() ts.train_language_model(request(changes)) end)
    end
    refused("invalid_argument", "ts.train_language_model.tokens", { tokens = { 1, "a" } })
    refused("invalid_argument", "ts.train_language_model.tokens()", { tokens = function() return 7 end })
    refused("out_of_range", "num_layers", { num_layers = 0 })
    refused("invalid_argument", "hidden_sizes", { hidden_sizes = 3 })
    refused("out_of_range", "outlier_scale", { outlier_scale = 0.5 })
  end)
end)
