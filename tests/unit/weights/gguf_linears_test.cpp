// Where each family keeps its matrices in GGUF files.
#include "linear_layouts.h"

namespace tessera::weights::gguf_linears_test {
namespace {

using test::expect_error;

class GgufLinears : public Linears {
 protected:
  static test::GgufFile described(const std::string& arch, bool with_embedding = true) {
    test::GgufFile file;
    file.word("general.architecture", arch)
        .number(arch + ".block_count", 1)
        .number(arch + ".embedding_length", 8)
        .number(arch + ".feed_forward_length", 32)
        .number(arch + ".attention.head_count", 4)
        .number(arch + ".context_length", 64);
    if (with_embedding) add(file, "token_embd.weight", {5, 8});
    return file;
  }
  static void add(test::GgufFile& file, const std::string& name, Shape shape) {
    const std::vector<float> zeros(static_cast<std::size_t>(elements(shape)), 0.5f);
    file.tensor(name, {shape.rbegin(), shape.rend()}, 0, raw(zeros));
  }
  std::shared_ptr<const Weights> opened(const test::GgufFile& content) {
    return Weights::open(file("tiny.gguf", content.bytes()));
  }
};

TEST_F(GgufLinears, ofLlamaAndItsRelatives) {
  for (const std::string arch : {"llama", "qwen2", "qwen3", "gemma2", "gemma3"}) {
    test::GgufFile content = described(arch);
    content.number(arch + ".attention.head_count_kv", 2).number(arch + ".attention.key_length", 2);
    const std::vector<std::pair<std::string, Shape>> layout = {
        {"attn_q", {8, 8}},    {"attn_k", {4, 8}},  {"attn_v", {4, 8}},   {"attn_output", {8, 8}},
        {"ffn_gate", {32, 8}}, {"ffn_up", {32, 8}}, {"ffn_down", {8, 32}}};
    for (const auto& [name, shape] : layout) add(content, "blk.0." + name + ".weight", shape);
    const auto weights = opened(content);
    const ModelShape model = model_of(*weights);
    EXPECT_EQ(model.family, arch);
    EXPECT_EQ(model.name, "tiny");
    EXPECT_EQ(model.num_kv_heads, 2);
    EXPECT_EQ(model.vocab_size, 5);
    EXPECT_EQ(model.max_context_tokens, 64);
    EXPECT_TRUE(model.tied_embeddings);
    const auto linears = linears_of(*weights, model);
    ASSERT_EQ(linears.size(), layout.size());
    for (std::size_t i = 0; i < layout.size(); ++i) {
      EXPECT_EQ(linears[i].tensor->name, "blk.0." + layout[i].first + ".weight");
    }
  }
}

// As llama.cpp reads numbers of layers that may differ.
TEST_F(GgufLinears, ofWidthsByLayerThatAreAlike) {
  const auto widths = [&](const std::vector<std::uint32_t>& list) {
    test::GgufFile content;
    content.word("general.architecture", "llama").number("llama.block_count", 2);
    content.number("llama.embedding_length", 8).number("llama.attention.head_count", 4);
    content.number("llama.context_length", 64);
    content.key("llama.feed_forward_length", 9,
                raw(4u) + raw<std::uint64_t>(list.size()) + raw(list));
    add(content, "token_embd.weight", {5, 8});
    return model_of(*opened(content));
  };
  EXPECT_EQ(widths({32, 32}).ffn_size, 32);
  expect_error(ErrorCode::invalid_argument, {"tiny.gguf", "intermediate_size", "[32,48]"}, [&] {
    widths({32, 48});
  });
}

TEST_F(GgufLinears, ofExperts) {
  for (const bool stacked : {true, false}) {
    for (const std::string arch : {"llama", "qwen3moe"}) {
      test::GgufFile content = described(arch);
      content.number(arch + ".expert_count", 3)
          .number(arch + ".expert_used_count", 2)
          .number(arch + ".expert_feed_forward_length", 32)
          .number(arch + ".attention.head_count_kv", 4);
      for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
        add(content, std::string("blk.0.") + name + ".weight", {8, 8});
      }
      for (const std::string name : {"gate", "up", "down"}) {
        const Shape one = name == "down" ? Shape{8, 32} : Shape{32, 8};
        if (stacked) {
          add(content, "blk.0.ffn_" + name + "_exps.weight", {3, one[0], one[1]});
        } else {
          for (const char* e : {"0", "1", "2"}) {
            add(content, "blk.0.ffn_" + name + "." + e + ".weight", one);
          }
        }
      }
      const auto weights = opened(content);
      const ModelShape model = model_of(*weights);
      EXPECT_EQ(model.family, arch == "llama" ? "mixtral" : "qwen3_moe");
      const auto linears = linears_of(*weights, model);
      ASSERT_EQ(linears.size(), 13u);
      EXPECT_EQ(one(linears, 0, "experts.down_proj", 2).offset, stacked ? 2 * 8 * 32 : 0);
    }
  }
}

TEST_F(GgufLinears, ofBloomFalconAndGpt2AreFusedInOnePiece) {
  for (const std::string arch : {"bloom", "falcon", "gpt2"}) {
    test::GgufFile content = described(arch);
    const std::int64_t kv = arch == "falcon" ? 1 : 4;
    if (arch == "falcon") content.number("falcon.attention.head_count_kv", 1);
    add(content, "blk.0.attn_qkv.weight", {8 + 4 * kv, 8});
    add(content, "blk.0.attn_output.weight", {8, 8});
    add(content, "blk.0.ffn_up.weight", {32, 8});
    add(content, "blk.0.ffn_down.weight", {8, 32});
    const auto weights = opened(content);
    const ModelShape model = model_of(*weights);
    EXPECT_EQ(model.family, arch);
    const auto linears = linears_of(*weights, model);
    EXPECT_EQ(one(linears, 0, "v_proj").first_row, 8 + 2 * kv);
    EXPECT_TRUE(one(linears, 0, "v_proj").is_contiguous());
  }
}

TEST_F(GgufLinears, needMetadataThatSayWhatTheyAre) {
  expect_error(ErrorCode::invalid_argument, {"tiny.gguf", "general.architecture"},
               [&] { model_of(*opened(test::GgufFile())); });
  expect_error(ErrorCode::unsupported, {"tiny.gguf", "'mamba'", "llama"},
               [&] { model_of(*opened(described("mamba"))); });
  test::GgufFile incomplete;
  incomplete.word("general.architecture", "llama").number("llama.block_count", 1);
  expect_error(ErrorCode::invalid_argument, {"tiny.gguf", "llama.embedding_length"},
               [&] { model_of(*opened(incomplete)); });
  test::GgufFile scalar = described("llama", false);
  scalar.tensor("token_embd.weight", {}, 0, raw(1.0f));
  expect_error(ErrorCode::invalid_argument,
               {"tiny.gguf", "token_embd.weight", "llama.vocab_size", "how many tokens"},
               [&] { model_of(*opened(scalar)); });
}

}  // namespace
}  // namespace tessera::weights::gguf_linears_test
