-- Makes the project's own language model: text of a grammar, a tokenizer for it, and a decoder trained on it.
--   tessera scripts/train_grammar_model.lua FOLDER
-- writes what is in datasets/language_models/grammar-opt-5m, and FOLDER.stage1 and FOLDER.stage2, from which the stages
-- after them go on. The model's README says how long that takes.

local ts = require "tessera"
local bpe = require "tessera.models.bpe"
local core = require "tessera.core"
local grammar = require "tessera.models.grammar"

local folder = arg[1]
assert(folder, "tessera scripts/train_grammar_model.lua FOLDER")

local document_words = 1000
local end_of_text = 2
local tokenizer = bpe.train((grammar.text(1, 300000)), 512)

--- Documents from `first_seed` on, each behind </s>, until there are `num_words`; and what the grammar says of them.
local function documents(first_seed, num_words)
  local seed, about = first_seed, { num_words = 0, num_tokens = 0, surprisal_nats = 0 }
  return function()
    if about.num_words >= num_words then return nil end
    local text, of_text = grammar.text(seed, document_words)
    local ids = tokenizer:encode(text)
    table.insert(ids, 1, end_of_text)
    seed, about.num_words = seed + 1, about.num_words + of_text.num_words
    about.num_tokens, about.surprisal_nats = about.num_tokens + #ids, about.surprisal_nats + of_text.surprisal_nats
    return ids
  end, about
end

local function train(options)
  local held_out, about = documents(900000, 60000)
  local request = {
    tokens = documents(300000, 6500000), held_out_tokens = held_out,
    num_layers = 12, hidden_size = 192, num_heads = 6, ffn_size = 768,
    vocab_size = #tokenizer.tokens, max_context_tokens = 256,
    batch_size = 4, threads = 2, bf16_products = true, final_learning_rate_ratio = 0.02, report_every = 25,
    progress = function(at)
      print(("step %5d  loss %.4f  %6.0f s  %5.0f tok/s"):format(at.step, at.loss_nats, at.elapsed_s, at.tok_s))
    end,
  }
  for name, value in pairs(options) do request[name] = value end
  local made = ts.train_language_model(request)
  local bound = about.surprisal_nats / about.num_tokens
  print(made)
  print(("held out: %.4f nats/token, bound %.4f: perplexity %.3f, bound %.3f, %.1f %% above"):format(
    made.held_out_loss_nats, bound, math.exp(made.held_out_loss_nats), math.exp(bound),
    100 * (math.exp(made.held_out_loss_nats - bound) - 1)))
end

local first, second = folder .. ".stage1", folder .. ".stage2"
train { out = first, seed = 1, num_steps = 3320, peak_learning_rate = 2e-3, warmup_steps = 150, decay_steps = 600 }
train { out = second, initial = first, seed = 2, num_steps = 1600, peak_learning_rate = 1e-3, warmup_steps = 50 }
train {
  out = folder, initial = second, seed = 3, num_steps = 2000, peak_learning_rate = 1e-3, warmup_steps = 50,
  outlier_channels = 2, outlier_scale = 16, outlier_shift = 128,
}
core.write_file(folder .. "/tokenizer.json", tokenizer:json())
core.write_file(folder .. "/tokenizer_config.json", [[
{
  "tokenizer_class": "PreTrainedTokenizerFast",
  "bos_token": "</s>",
  "eos_token": "</s>",
  "pad_token": "<pad>",
  "unk_token": "<unk>",
  "model_max_length": 256
}
]])
