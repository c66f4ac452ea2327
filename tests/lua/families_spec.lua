-- Families that others' code describes, against the parameters that their checkpoints hold, and where a decoder lies in
-- the configuration of what sees and hears.

local core = require "tessera.core"
local folders = require "launch_folders"
local host = require "tessera.host"
local support = require "support"
local ts = require "tessera"

local fresh = folders.fresh
folders.keep(setup, teardown)

local function model(config)
  local folder = fresh()
  host.make_folder(folder)
  core.write_file(folder .. "/config.json", core.to_json(config))
  return ts.model(folder)
end

local chatglm = { model_type = "chatglm", architectures = { "ChatGLMModel" }, num_layers = 28, hidden_size = 4096,
  num_attention_heads = 32, kv_channels = 128, ffn_hidden_size = 13696, padded_vocab_size = 65024, seq_length = 8192,
  multi_query_attention = true, multi_query_group_num = 2, add_qkv_bias = true, add_bias_linear = false,
  rmsnorm = true, post_layer_norm = true }
local dbrx = { model_type = "dbrx", architectures = { "DbrxForCausalLM" }, d_model = 6144, n_heads = 48, n_layers = 40,
  vocab_size = 100352, max_seq_len = 32768, attn_config = { kv_n_heads = 8, clip_qkv = 8 },
  ffn_config = { ffn_hidden_size = 10752, moe_num_experts = 16, moe_top_k = 4 } }
local llama = { model_type = "llama", hidden_size = 64, intermediate_size = 128, num_hidden_layers = 3,
  num_attention_heads = 4, vocab_size = 100, max_position_embeddings = 64 }

describe("a family", function()
  it("of others' code has the parameters of its checkpoints", function()
    local glm3 = model(chatglm) -- THUDM/chatglm3-6b
    assert.equal(6243584000, glm3.num_parameters)
    assert.equal(2 * 2 * 128 * 28 * 2, glm3:kv_bytes_per_token(16))
    -- THUDM/glm-4-9b
    assert.equal(9399951360,
      model(support.changed(chatglm, { num_layers = 40, padded_vocab_size = 151552 })).num_parameters)
    local big = model(dbrx) -- databricks/dbrx-base
    assert.equal(131596523520, big.num_parameters)
    assert.near(36e9, big.num_active_parameters, 0.5e9)
    assert.equal(2 * 8 * 128 * 40 * 2, big:kv_bytes_per_token(16))
    assert.equal(32768, big.max_context_tokens)
    local intern = support.changed(llama, { model_type = "internlm", hidden_size = 4096, intermediate_size = 11008,
      num_hidden_layers = 32, num_attention_heads = 32, vocab_size = 103168, bias = true })
    assert.equal(7321948160, model(intern).num_parameters) -- internlm/internlm-7b
    intern.bias = false
    assert.equal(7321948160 - 32 * 4 * 4096, model(intern).num_parameters)
    assert.near(14.5e9, model(support.changed(llama, { model_type = "orion", hidden_size = 5120,
      intermediate_size = 15360, num_hidden_layers = 40, num_attention_heads = 40, vocab_size = 84608,
    })).num_parameters, 0.005 * 14.5e9) -- OrionStarAI/Orion-14B-Base
  end)

  it("says what its configuration lacks", function()
    support.raises("invalid_argument", "attn_config: an object belongs here", function()
      local lacking = support.changed(dbrx, {})
      lacking.attn_config = nil
      model(lacking)
    end)
    support.raises("invalid_argument", "ffn_hidden_size: missing", function()
      local first = support.changed(chatglm, {}) -- as the first ChatGLM writes it
      first.ffn_hidden_size, first.inner_hidden_size = nil, 16384
      model(first)
    end)
  end)

  it("of a decoder within is found there", function()
    local plain = model(llama).num_parameters
    for _, config in ipairs {
      { model_type = "internvl_chat", llm_config = llama },
      { model_type = "janus", language_config = llama },
      { model_type = "qwen2_5_omni", thinker_config = { text_config = llama } },
      { model_type = "voxtral", text_config = llama, audio_config = { hidden_size = 8 } },
    } do
      assert.equal(plain, model(config).num_parameters, config.model_type)
    end
  end)

  it("has tied embeddings where the class that ties them says so", function()
    local untied, tied = model(llama).num_parameters, model(support.changed(llama, { tie_word_embeddings = true }))
    assert.equal(untied - 100 * 64, tied.num_parameters)
    local own = support.changed(llama, { tie_word_embeddings = false })
    local function both(key) return model { model_type = "x", tie_word_embeddings = true, [key] = own } end
    assert.equal(tied.num_parameters, both("text_config").num_parameters) -- transformers' class is the outer one's
    assert.equal(untied, both("llm_config").num_parameters) -- a model within a model
  end)

  it("has experts in the layers that two keys bound and one counts", function()
    local function layers(changes)
      return model(support.changed({ model_type = "ernie4_5_moe", hidden_size = 64, intermediate_size = 128,
        num_hidden_layers = 6, num_attention_heads = 4, num_key_value_heads = 4, vocab_size = 100,
        moe_num_experts = 8, moe_k = 2, moe_intermediate_size = 32, moe_num_shared_experts = 0 }, changes)).layer_kinds
    end
    assert.matches("^1 of attention, dense; 5 of attention, experts$", layers {})
    assert.matches("4 of attention, experts", layers { moe_layer_end_index = 4 })
    assert.matches("3 of attention, experts", layers { moe_layer_interval = 2 }) -- the second of two
  end)
end)
