-- ts.prune_model on the project's own model: what pruning takes away, by perplexity.

local core = require "tessera.core"
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

local text = grammar.text(424242, 4000)

-- A folder that is not there yet, gone after fn(folder).
local function with_folder(fn)
  local folder = support.temporary()
  os.remove(folder)
  local fine, result = pcall(fn, folder)
  os.execute("rm -rf '" .. folder .. "'")
  if not fine then error(result, 0) end
  return result
end

describe("a pruned copy of the project's own model", function()
  -- Bounds chosen before: half of the weights cost a trained model something, and not everything; Wanda that may choose
  -- four of eight does no worse than two of four, and removed channels hurt more the more they are.
  it_runs("runs, and loses what the method takes", function()
    local full = ts.language_model { path = path, threads = 2, progress = false }
    local statistics = support.temporary()
    full:calibrate { text = grammar.text(7, 20000), out = statistics, num_samples = 16, sample_tokens = 256 }
    local before = full:perplexity({ text = text }).perplexity
    local function ratio_of(method, ratio)
      return with_folder(function(folder)
        local made = ts.prune_model { model = path, method = method, ratio = ratio, statistics = statistics,
          out = folder, progress = false }
        assert.is_near(ratio or 0.5, made.ratio, 0.02)
        local pruned = ts.language_model { path = folder, threads = 2, progress = false }
        assert.equal(made.ffn_size, pruned.model.ffn_size)
        assert.is_true(pcall(core.read_file, folder .. "/tessera_pruning.json"))
        if method == "structured" then
          assert.is_true(pruned.weight_bytes < full.weight_bytes)
        else
          assert.equal(full.weight_bytes, pruned.weight_bytes)
        end
        return pruned:perplexity({ text = text }).perplexity / before
      end)
    end
    local two, four = ratio_of "wanda_2_4", ratio_of "wanda_4_8"
    local quarter, half = ratio_of("structured", 0.25), ratio_of("structured", 0.5)
    os.remove(statistics)
    local all = ("2:4 %.3f, 4:8 %.3f, 25 %% %.3f, 50 %% %.3f"):format(two, four, quarter, half)
    assert.is_true(two > 1.005 and two < 1.5, all)
    assert.is_true(four > 1.001 and four < 1.02 * two, all)
    assert.is_true(quarter > 1.001 and quarter < 1.5, all)
    assert.is_true(half > 1.1 * quarter and half < 40, all)
  end)

  it_runs("is refused by one clear line, and nothing is left", function()
    with_folder(function(folder)
      local function given(options)
        options.model, options.out = options.model or path, folder
        options.statistics = options.statistics or path .. "/model.safetensors"
        return function() ts.prune_model(options) end
      end
      support.raises("invalid_argument", "did you mean 'wanda_2_4'", given { method = "wanda_24" })
      support.raises("out_of_range", "above 0 and below 1", given { method = "structured", ratio = 1 })
      support.raises("unsupported", "tessera.activation_statistics", given { method = "structured" })
      support.raises("not_found", "no such file", given { method = "structured", statistics = folder .. "/none" })
      support.raises("invalid_argument", "method", given {})
      assert.is_nil(core.file_kind(folder))
    end)
  end)
end)
