-- `tessera generate`, `quality` and `bench` as users start them, on a model without arithmetic.
local core = require "tessera.core"
local host = require "tessera.host"
local support = require "support"

local tiny = host.installation.experiments_dir .. "/indicator/data/tiny_llama"
local path = os.tmpname()
os.remove(path)
host.make_folder(path)
local config = core.from_json(core.read_file(tiny .. "/config.json"))
config.vocab_size, config.max_position_embeddings = 260, 1024
core.write_file(path .. "/config.json", core.to_json(config))
core.write_file(path .. "/model.safetensors", core.read_file(tiny .. "/model.safetensors"))

local function run(words, input) return host.run_program({ host.program, unpack(words) }, input or "") end

local function refused(status, text, words)
  local got, out, err = run(words)
  assert.equal(status, got, err)
  assert.equal("", out)
  assert.truthy(err:match "[^\n]*":find(text, 1, true), err)
end

describe("tessera generate", function()
  it("writes the text on stdout and rates on stderr", function()
    local words = { "generate", path, "Hello", "--max-tokens", "12", "--seed", "4", "--threads", "2" }
    local status, out, err = run(words)
    assert.equal(0, status, err)
    assert.matches("tok/s; 1?%d tokens, ended by %a+_?%a*\n$", err)
    assert.matches("\n$", out)
    assert.equal(out, select(2, run(words)))
    words[#words + 1] = "--json"
    local data = core.from_json(select(2, run(words)))
    assert.equal(out, data.text .. "\n")
    assert.is_true(#data.tokens <= 12)
  end)

  it("reads a prompt from stdin, and takes bitwidths", function()
    local status, _, err = run({ "generate", path, "-", "--max-tokens", "3", "--bitwidths", "16,8,4,4,4,3",
      "--kv-bitwidth", "8", "--temperature", "0" }, "From a pipe")
    assert.equal(0, status, err)
    assert.matches("11 tokens of prompt", err)
    assert.matches("6.5 bits", err)
  end)

  it("refuses in one line", function()
    refused(2, "name a model", { "generate" })
    refused(2, "give a text to continue", { "generate", path })
    refused(2, "quote a text of several words", { "generate", path, "two", "words" })
    refused(2, "--top-p", { "generate", path, "a", "--top-p", "2" })
    refused(1, "5 is none of 3, 4, 8 and 16 bits", { "generate", path, "a", "--bitwidths", "5" })
    refused(1, "it has 2 layers", { "generate", path, "a", "--bitwidths", "4,4" })
    refused(2, "give either --bitwidths or --plan", { "generate", path, "a", "--bitwidths", "4", "--plan", "x" })
    refused(1, "/no/such", { "generate", "/no/such", "a" })
  end)
end)

describe("tessera quality", function()
  local text = path .. "/text.txt"
  core.write_file(text, ("The quick brown fox jumps over the lazy dog. "):rep(20))

  it("compares with the model as it is", function()
    local words = { "quality", path, "--text", text, "--bitwidths", "4", "--reference", "--context-tokens", "64",
      "--json" }
    local status, out, err = run(words)
    assert.equal(0, status, err)
    local rows = core.from_json(out)
    assert.same({ "as it is", "quantised" }, { rows[1].model, rows[2].model })
    assert.equal(4, rows[2].mean_bitwidth)
    assert.near(rows[2].perplexity / rows[1].perplexity - 1, rows[2].perplexity_increase, 1e-9)
    assert.is_true(rows[2].kl_nats > 0)
    words[#words] = nil
    status, out, err = run(words)
    assert.equal(0, status, err)
    assert.matches("model +mean_bitwidth +perplexity", out)
    assert.matches("quantised +4 ", out)
  end)

  it("measures the model as it is", function()
    local rows = core.from_json(select(2, run { "quality", path, "--text", text, "--json" }))
    assert.equal(1, #rows)
    assert.equal("as it is", rows[1].model)
  end)

  it("refuses in one line", function()
    refused(2, "--text", { "quality", path })
    refused(2, "give --bitwidths, --plan, --kv-bitwidth or", { "quality", path, "--text", text, "--reference" })
    refused(1, "/no/such", { "quality", path, "--text", "/no/such" })
    refused(2, "name a model", { "quality", "--text", text })
  end)
end)

describe("tessera bench", function()
  local small = { "--prompt-tokens", "32", "--context-tokens", "16", "--output-tokens", "8", "--repeats", "3" }

  local function words_of(...)
    local words = { "bench", path, ... }
    for _, word in ipairs(small) do words[#words + 1] = word end
    return words
  end

  it("has a row for each bitwidth and number of threads", function()
    local words = words_of("--bitwidths", "0,4", "--threads", "1,2", "--json")
    local status, out, err = run(words)
    assert.equal(0, status, err)
    local rows = core.from_json(out)
    assert.equal(4, #rows)
    assert.same({ 4, 2, 3 }, { rows[4].bitwidth, rows[4].threads, rows[4].repeats })
    for _, row in ipairs(rows) do
      assert.is_true(row.decode_tok_s_low <= row.decode_tok_s and row.decode_tok_s <= row.decode_tok_s_high)
      assert.is_true(row.resident_bytes > 2 ^ 20 and row.peak_bytes >= row.resident_bytes)
      assert.is_true(row.first_token_s >= row.load_s)
      assert.is_false(row.partial)
    end
  end)

  it("shows an aligned table", function()
    local status, out, err = run(words_of())
    assert.equal(0, status, err)
    assert.matches("bits +threads +prefill tok/s +decode tok/s +GB/s", out)
    assert.matches("\nas stored ", out)
  end)

  it("refuses in one line", function()
    refused(2, "name a model", { "bench" })
    refused(1, "/no/such", { "bench", "/no/such" })
    refused(1, "5 is none of", { "bench", path, "--bitwidths", "4,5" })
    refused(1, "more than the context", { "bench", path, "--prompt-tokens", "5000" })
  end)
end)

describe("without the module", function()
  it("every verb says how to build it", function()
    local code = ("local _, err = pcall(require('tessera').language_model, %q); print(err.code, err.message)")
      :format(path)
    local status, out = host.run_program({ "env", "TESSERA_MODELS_MODULE=/no/module.so", host.program, "-e", code }, "")
    assert.equal(0, status)
    assert.matches("^unsupported\t.*bash scripts/quickstart.sh %-%-models", out)
    local _, _, err = host.run_program({ "env", "TESSERA_MODELS_MODULE=/no/module.so", host.program, "generate", path,
      "a" }, "")
    assert.matches("quickstart.sh %-%-models", err:match "[^\n]*")
  end)
end)

support.remove_files()
