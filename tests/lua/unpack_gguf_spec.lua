-- GGUF files as folders, for what quantises checkpoints: the same model comes out of both.
local core = require "tessera.core"
local host = require "tessera.host"
local support = require "support"
local ts = require "tessera"
local weights = require "tessera.weights"

local models = arg[0]:match "^(.*)[/\\]" .. "/../reference/decoders/gguf/"

local function new_folder()
  local path = support.temporary()
  os.remove(path)
  host.make_folder(path)
  return path
end

local function logits(path)
  local model = ts.language_model { path = path, threads = 1, progress = false }
  return model:logits({ 3, 14, 15, 9, 2, 6, 5, 3, 5, 8 }):to_table()
end

local runs, why = pcall(logits, models .. "llama/model.gguf")
local missing = not runs and why.code == "unsupported" and why.message:find("quickstart.sh", 1, true) and why.message
if not runs and not missing then error(why, 0) end

describe("a GGUF file", function()
  after_each(support.remove_files)

  -- Rows of the llama files are permuted, llama3's rotary embedding is scaled, llama_blocks holds blocks.
  for _, name in ipairs { "llama", "llama3", "llama_blocks", "llama_yarn", "qwen2", "qwen3" } do
    it(("is the same model unpacked: %s"):format(name), function()
      if missing then return pending(missing) end
      local path, folder = models .. name .. "/model.gguf", new_folder()
      assert.is_true(weights.unpack_gguf(path, folder) > 10)
      local as_stored, unpacked = logits(path), logits(folder)
      local power, off = 0, 0
      for i, number in ipairs(as_stored) do
        power, off = power + number ^ 2, off + (number - unpacked[i]) ^ 2
      end
      assert.is_true(power > 0)
      -- f16 rounds by 2^-11 of a number; rows in another order would leave nothing of the product.
      assert.is_true(off / power < 1e-5, ("NMSE %.2g"):format(off / power))
    end)
  end

  it("is refused by what has no place in a folder", function()
    for _, name in ipairs { "gemma2", "mixtral" } do
      support.raises("unsupported", ("'%s' are not unpacked here"):format(name), function()
        weights.unpack_gguf(models .. name .. "/model.gguf", new_folder())
      end)
    end
  end)

  for _, name in ipairs { "llama", "llama3", "qwen2", "qwen3" } do
    it("is quantised with its tokenizer, and runs: " .. name, function()
      if missing then return pending(missing) end
      local path, out = models .. name .. "/model.gguf", new_folder() .. "/q"
      local status, text, err = host.run_program({ host.program, "quantise", path, "--bitwidths", "8", "--out", out },
        "")
      assert.same({ 0, "" }, { status, err })
      assert.is_nil(text:find("no tokenizer", 1, true))
      local own, written = ts.tokenizer(path), ts.tokenizer(out)
      assert.equal(own.vocab_size, written.vocab_size)
      local num_same = 0
      for _, words in ipairs { "the", " a b  c", "Grüße\n1234", "" } do
        -- A vocabulary of a few tokens lacks letters: what one refuses the other does, too.
        local ok, ids = pcall(own.encode, own, words)
        local same_ok, same_ids = pcall(written.encode, written, words)
        assert.equal(ok, same_ok, words)
        if ok then
          num_same = num_same + 1
          assert.same(ids, same_ids)
          assert.equal(own:decode(ids), written:decode(ids))
        end
      end
      assert.is_true(num_same >= 3)
      status, text, err = host.run_program({ host.program, "generate", out, "a b", "--max-tokens", "4" }, "")
      assert.equal(0, status, err)
      assert.matches("tokens of prompt", text .. err)
    end)
  end

  it("is quantised by tessera quantise, with groups that divide its widths", function()
    local out = new_folder() .. "/q"
    local status, text, err = host.run_program({ host.program, "quantise", models .. "llama/model.gguf", "--bitwidths",
      "8", "--out", out, "--json" }, "")
    assert.same({ 0, "" }, { status, err })
    assert.equal("table", type(core.from_json(text)))
    local config = core.from_json(core.read_file(out .. "/config.json"))
    assert.same({ "LlamaForCausalLM" }, config.architectures)
    local group = config.quantization_config.config_groups.group_0.weights.group_size
    assert.equal(0, config.hidden_size % group)
    assert.equal("nothing", core.file_kind(out .. ".from-gguf") or "nothing") -- what lay beside it is gone
  end)
end)
