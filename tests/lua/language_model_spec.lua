-- ts.language_model where this build can run models: logits against those of transformers (tests/reference/decoders),
-- and what a model without a tokenizer refuses. Objects and options: fake_model/language_model_spec.
local host = require "tessera.host"
local ts = require "tessera"
local support = require "support"

local fixtures = host.installation.datasets_dir .. "/../tests/reference/decoders/"

-- The module is there, or the reason why it is not.
local function module_missing()
  local ok, err = pcall(ts.language_model, fixtures .. "llama2")
  return not ok and err.code == "unsupported" and err.message:find("quickstart.sh", 1, true) and err.message or nil
end

local missing = module_missing()
local function it_runs(what, fn)
  if missing then
    pending(what .. ": " .. missing)
  else
    it(what, fn)
  end
end

local function worst_difference(a, b)
  local worst, scale = 0, 0
  for i = 1, #b do
    worst, scale = math.max(worst, math.abs(a[i] - b[i])), math.max(scale, math.abs(b[i]))
  end
  return worst / scale
end

describe("a model that runs", function()
  for _, family in ipairs { "llama2", "opt", "qwen3" } do
    it_runs("has the logits of transformers: " .. family, function()
      local expected = ts.weights(fixtures .. family .. "/expected.safetensors")
      local lm = ts.language_model { path = fixtures .. family, dtype = "f32", threads = 1 }
      for prompt = 0, 1 do
        local ids = expected:tensor(("input_ids.%d"):format(prompt)):to_table()
        local wanted = expected:tensor(("logits.%d"):format(prompt))
        local logits = lm:logits(ids)
        assert.same(wanted:shape(), logits:shape())
        assert.is_true(worst_difference(logits:to_table(), wanted:to_table()) <= 1e-4)
      end
    end)
  end

  it_runs("comes close to itself at 8 bits, less so at 3", function()
    local ids = ts.weights(fixtures .. "llama2/expected.safetensors"):tensor("input_ids.0"):to_table()
    local function logits(bitwidths)
      local lm = ts.language_model { path = fixtures .. "llama2", bitwidths = bitwidths, group_size = 8, threads = 1 }
      return lm:logits(ids):to_table()
    end
    local base = logits(16)
    local eight, three = worst_difference(logits(8), base), worst_difference(logits(3), base)
    assert.is_true(eight > 0 and eight < three)
  end)

  it_runs("says that its tokenizer is missing", function()
    local lm = ts.language_model { path = fixtures .. "llama2", threads = 1 }
    local err = select(2, pcall(lm.generate, lm, "a"))
    assert.equal("not_found", err.code)
    assert.not_matches("\n", tostring(err))
  end)
end)

describe("without the module", function()
  it("every call says how to build it, after what it can refuse itself", function()
    if not missing then return end
    for _, use in ipairs { function() ts.language_model(fixtures .. "llama2") end,
      function() ts.tokenizer(fixtures .. "llama2") end } do
      support.raises("unsupported", "bash scripts/quickstart.sh --models", use)
    end
    support.raises("out_of_range", "5 is none of",
      function() ts.language_model { path = fixtures .. "llama2", bitwidths = 5 } end)
  end)
end)
