-- How large the KV cache is: 2 x layers x heads x width x bytes for every token, and what makes it smaller.
--
-- The lecture's example is DeepSeek-V3 over 32,768 tokens as if each of its 128 heads kept keys and values of width
-- 128: 131 GB. That is one sequence, and 131e9 bytes (122 GiB). The model does not do that: MLA keeps one latent of
-- 512 and 64 numbers with positions for all heads, and its full keys would be 192 wide, not 128. Both stand beside
-- it. The lecture's three ways out are fewer heads with keys and values (GQA), a latent (MLA), and fewer bits.
--
-- :kv_bytes_per_token is what plans and the serving simulator reckon with; here it is held against the formula,
-- written out for each model from its own description. Byte counts must agree exactly.
local ts = require "tessera"

local paper = ts.paper "lecture/kv_size.csv"

local context_tokens = 32768

-- An architecture of DeepSeek-V3's size in which so many heads have keys and values.
local function shape_with(num_kv_heads)
  return ts.model {
    name = ("61 layers, %d heads"):format(num_kv_heads), family = "llama", num_layers = 61, hidden_size = 16384,
    num_heads = 128, num_kv_heads = num_kv_heads, head_dim = 128, ffn_size = 18432, vocab_size = 129280,
    max_context_tokens = 163840,
  }
end

-- Numbers that a token leaves in the cache of a layer.
local function in_heads(model) return 2 * model.num_kv_heads * model.head_dim end
local function in_latent() return 512 + 64 end -- kv_lora_rank and qk_rope_head_dim of V2, V2-Lite and V3

-- The same where every query head has a key and a value of its own; of MLA they are 128 + 64 and 128 wide.
local function in_full_heads(subject)
  local widths = subject.numbers == in_latent and 192 + 128 or 2 * subject.model.head_dim
  return subject.model.num_heads * widths
end

local subjects = {
  ["deepseek-v3 with full heads"] = { model = shape_with(128), numbers = in_heads },
  ["the same with 8 KV heads"] = { model = shape_with(8), numbers = in_heads },
  ["the same with 1 KV head"] = { model = shape_with(1), numbers = in_heads },
  ["deepseek-v3"] = { model = ts.model "deepseek-v3", numbers = in_latent },
  ["deepseek-v2-lite"] = { model = ts.model "deepseek-v2-lite", numbers = in_latent },
}
local names = {
  "deepseek-v3 with full heads", "the same with 8 KV heads", "the same with 1 KV head", "deepseek-v3",
  "deepseek-v2-lite",
}
for _, name in ipairs { "opt-30b", "llama-2-7b", "llama-3-8b", "llama-3-70b", "qwen3-32b", "mixtral-8x7b" } do
  names[#names + 1] = name
  subjects[name] = { model = ts.model(name), numbers = in_heads }
end

return ts.experiment {
  name = "lecture/kv_size",
  doc = "KV cache of one sequence of 32,768 tokens, by model and bits",
  paper = paper,
  grid = { model = names, kv_bitwidth = { 16, 8, 4 } },
  quick = { kv_bitwidth = { 16, 4 } },
  columns = { "bytes_per_token", "by_formula", "kv_gb", "kv_gib", "times_smaller", "sequences_in_h100" },
  notes = {
    "kv_gb: 1e9 bytes, as the lecture counts; times_smaller: than if every query head kept its keys and values",
    "sequences_in_h100: of 32,768 tokens in 80 GB that hold nothing else: no weights",
    "deepseek-v3's full keys would be 192 wide and its values 128, 163.7 GB; the lecture takes 128 for both",
  },

  run = function(point)
    local subject = subjects[point.model]
    local model, bytes = subject.model, subject.model:kv_bytes_per_token(point.kv_bitwidth)
    local full = in_full_heads(subject) * model.num_layers * point.kv_bitwidth / 8
    return {
      bytes_per_token = bytes, by_formula = subject.numbers(model) * model.num_layers * point.kv_bitwidth / 8,
      kv_gb = bytes * context_tokens / 1e9, kv_gib = bytes * context_tokens / 2 ^ 30,
      times_smaller = full / bytes, sequences_in_h100 = 80e9 / (bytes * context_tokens),
    }
  end,

  check = function(t)
    t:expect_close { column = "kv_gb", to = "paper", abs = 0.5 } -- as it is printed, without decimals
    t:expect_that {
      text = "the lecture's product is 130,996,502,528 bytes, and belongs to a single sequence",
      where = { model = "deepseek-v3 with full heads", kv_bitwidth = 16 },
      holds = function(_, rows)
        local bytes = rows[1].bytes_per_token * context_tokens
        return bytes == 130996502528 and rows[1].sequences_in_h100 < 1, ("%.0f"):format(bytes)
      end,
    }
    t:expect_close { column = "bytes_per_token", to = "by_formula", rel = 0 }
    t:expect_that {
      text = "GQA: keys and values for 8 of 128 heads are 16 times smaller, for one 128 times",
      where = { model = { "the same with 8 KV heads", "the same with 1 KV head" }, kv_bitwidth = 16 },
      holds = function(at)
        local eight = at { model = "the same with 8 KV heads" }.times_smaller
        local one = at { model = "the same with 1 KV head" }.times_smaller
        return eight == 16 and one == 128, ("%g and %g"):format(eight, one)
      end,
    }
    t:expect_that { -- 2 x 128 x 128 / 576 = 56.9, and 2.30 GB for the lecture's sequence
      text = "MLA: DeepSeek-V3 as it is keeps 56 to 58 times less than the lecture's example",
      where = { model = { "deepseek-v3 with full heads", "deepseek-v3" }, kv_bitwidth = 16 },
      holds = function(at)
        local full, own = at { model = "deepseek-v3 with full heads" }.kv_gb, at { model = "deepseek-v3" }.kv_gb
        return full / own >= 56 and full / own <= 58, ("%.1f, %.2f GB"):format(full / own, own)
      end,
    }
    t:expect_that { -- 128 x (192 + 128) / 576
      text = "MLA: and 71 times less than its own heads would",
      where = { model = "deepseek-v3", kv_bitwidth = 16 },
      holds = function(_, rows)
        local times = rows[1].times_smaller
        return times >= 71 and times <= 71.2, ("%.2f"):format(times)
      end,
    }
    t:expect_ratio {
      column = "kv_gb", of = { kv_bitwidth = 16 }, over = { kv_bitwidth = 4 }, at_least = 4, at_most = 4,
    }
    t:expect_all {
      column = "times_smaller", equals = 1, where = { model = { "opt-30b", "llama-2-7b" }, kv_bitwidth = 16 },
    }
    t:expect_all { column = "times_smaller", equals = 4, where = { model = "llama-3-8b", kv_bitwidth = 16 } }
    t:expect_all {
      column = "times_smaller", equals = 8, where = { model = { "llama-3-70b", "qwen3-32b" }, kv_bitwidth = 16 },
    }
  end,
  plots = { { kind = "bars", x = "model", y = "kv_gb", by = "kv_bitwidth" } },
}
