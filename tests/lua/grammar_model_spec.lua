-- datasets/language_models/grammar-opt-5m, where this build can run models: how close it comes to the entropy of its
-- text, and what quantisation takes away.
local grammar = require "tessera.models.grammar"
local host = require "tessera.host"
local support = require "support"
local ts = require "tessera"

local path = host.installation.datasets_dir .. "/language_models/grammar-opt-5m"

local ok, why = pcall(ts.language_model, { path = path, threads = 1, progress = false })
local missing = not ok and why.code == "unsupported" and why.message:find("quickstart.sh", 1, true) and why.message
if not ok and not missing then error(why, 0) end
local function it_runs(what, fn)
  if missing then
    pending(what .. ": " .. missing)
  else
    it(what, fn)
  end
end

local text, about = grammar.text(424242, 4000)

local function model(options)
  options.path, options.threads, options.progress = path, 2, false
  return ts.language_model(options)
end

describe("the project's own model", function()
  it_runs("comes within 10 % of the perplexity that no model can beat", function()
    local lm = model {}
    local loss_nats = lm:perplexity({ text = text }).loss_nats
    local ratio = math.exp(loss_nats - about.surprisal_nats / #lm.tokenizer:encode(text))
    assert.is_true(ratio > 1 and ratio < 1.1, ("perplexity over bound: %.4f"):format(ratio))
  end)

  -- Weights of the outliers are a sixteenth of their neighbours: rounding to the nearest loses them at 4 bits as at 3,
  -- and AWQ, which scales them by what they multiply, does not. Bounds were chosen after looking.
  it_runs("loses nothing at 8 bits, more at 4, more again at 3, and far less by AWQ", function()
    local full = model {}
    local statistics = support.temporary()
    full:calibrate { text = grammar.text(77, 8000), out = statistics, sample_tokens = 256 }
    local function kl_nats(bitwidth, method)
      local lm = model {
        bitwidths = bitwidth, group_size = 64, method = method, statistics = method == "awq" and statistics or nil,
      }
      return lm:perplexity({ text = text, reference = full }).kl_nats
    end
    local eight, four, three, four_awq = kl_nats(8, "rtn"), kl_nats(4, "rtn"), kl_nats(3, "rtn"), kl_nats(4, "awq")
    os.remove(statistics)
    local all = ("8, 4, 3 bits: %.2g %.2g %.2g; 4 by AWQ: %.2g"):format(eight, four, three, four_awq)
    assert.is_true(eight < 5e-4 and four > 0.02 and three > 1.2 * four and four_awq < four / 10, all)
  end)

  -- Two channels behind every LayerNorm are 16 times as large as they were when it was trained. Both bounds were chosen
  -- after looking.
  it_runs("has outliers that 8-bit activations lose and LLM.int8() keeps", function()
    local full = model {}
    local function kl_nats(options)
      options.bitwidths = 8
      return model(options):perplexity({ text = text, reference = full }).kl_nats
    end
    local rounded = kl_nats { activation_bitwidth = 8, granularity = "channel" }
    local apart = kl_nats { int8 = true }
    assert.is_true(apart < 5e-4 and rounded > 5 * apart, ("rounded %.2g, outliers apart %.2g"):format(rounded, apart))
  end)
end)
