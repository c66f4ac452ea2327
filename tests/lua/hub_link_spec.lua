-- Addresses of the hub as names of models: what its cache has is planned, the rest is refused or the shape that ships.

local core = require "tessera.core"
local folders = require "launch_folders"
local host = require "tessera.host"
local support = require "support"
local ts = require "tessera"

local fresh = folders.fresh
folders.keep(setup, teardown)

local config = [[{ "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3,
  "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 64 }]]

-- What `tessera run` prints of a model, with another cache of the hub.
local function asked(cache, name)
  local script = fresh() .. ".lua"
  core.write_file(script, ("local ok, m = pcall(require('tessera').model, %q) print(ok and m.num_layers .. ' ' .. "
    .. "m.checkpoint or m.message)"):format(name))
  local status, printed, err = host.run_program({ "env", "HF_HUB_CACHE=" .. cache, host.program, "run", script }, "")
  assert.equal(0, status, err)
  return printed
end

describe("an address of the hub", function()
  it("is the id that it shows", function()
    for _, address in ipairs { "https://huggingface.co/Qwen/Qwen2.5-7B-Instruct",
      "huggingface.co/Qwen/Qwen2.5-7B-Instruct", "https://hf.co/Qwen/Qwen2.5-7B-Instruct",
      "https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/tree/main",
      "http://www.huggingface.co/Qwen/Qwen2.5-7B-Instruct/",
      "https://huggingface.co/Qwen/Qwen2.5-7B-Instruct?library=vllm" } do
      assert.equal("Qwen/Qwen2.5-7B-Instruct", ts.model(address).checkpoint, address)
      assert.equal(ts.model("qwen2.5-7b").num_parameters, ts.model(address).num_parameters)
    end
  end)

  it("is what the hub's cache has of it", function()
    local cache = fresh()
    local commit = cache .. "/models--someone--Tiny-Thing/snapshots/0123abc"
    for _, folder in ipairs { cache, cache .. "/models--someone--Tiny-Thing", cache
      .. "/models--someone--Tiny-Thing/refs", cache .. "/models--someone--Tiny-Thing/snapshots", commit } do
      host.make_folder(folder)
    end
    core.write_file(cache .. "/models--someone--Tiny-Thing/refs/main", "0123abc")
    core.write_file(commit .. "/config.json", config)
    local wanted = "3 " .. commit .. "\n"
    assert.equal(wanted, asked(cache, "https://huggingface.co/someone/Tiny-Thing"))
    assert.equal(wanted, asked(cache, "https://huggingface.co/someone/Tiny-Thing/tree/0123abc"))
    assert.equal(wanted, asked(cache, "https://huggingface.co/someone/Tiny-Thing/blob/main/config.json"))
    assert.equal(wanted, asked(cache, "someone/Tiny-Thing"))
    assert.matches("'someone/Tiny%-Thing/x.gguf' is not in the hub's cache, '" .. cache:gsub("%p", "%%%0")
      .. "', and nothing is downloaded here; fetch it by hf download someone/Tiny%-Thing x.gguf",
      asked(cache, "https://huggingface.co/someone/Tiny-Thing/blob/main/x.gguf"))
  end)

  it("that names no model is refused", function()
    for _, address in ipairs { "https://huggingface.co/", "https://huggingface.co/Qwen",
      "https://huggingface.co/datasets/a/b", "https://hf.co/spaces/a/b" } do
      support.raises("invalid_argument", "it names no model of the hub", function() ts.model(address) end)
    end
    support.raises("invalid_argument", "has no ..", function() ts.model "https://huggingface.co/a/../../b" end)
    support.raises("not_found", "nothing is downloaded here", function()
      ts.model "https://huggingface.co/nobody/No-Such-Model-1234"
    end)
  end)
end)
