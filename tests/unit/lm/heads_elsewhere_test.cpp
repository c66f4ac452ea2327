// Attention to some heads elsewhere against the whole model: the same bits, whichever heads they
// are.
#include <gtest/gtest.h>

#include "attention_heads.h"
#include "decoders.h"
#include "expect_error.h"
#include "folder.h"
#include "random_decoder.h"
#include "tiny_llama.h"

namespace tessera::lm::heads_elsewhere_test {
namespace {

using test::expect_error;

/// Asks heads of this process.
class Beside final : public HeadsElsewhere {
 public:
  explicit Beside(const LoadRequest& request, std::int64_t num_blocks, std::int64_t block_size)
      : heads_(make_attention_heads(request, num_blocks, block_size, make_cpu_backend(1))) {}
  void begin(std::span<const SequenceStep> batch) {
    heads_->begin(batch);
    layer_ = 0;
  }
  void send(std::vector<float> rows) override { made_ = heads_->attend(layer_++, std::move(rows)); }
  std::vector<float> receive() override { return std::move(made_); }
  std::int64_t cache_bytes() const { return heads_->cache_bytes(); }

 private:
  std::unique_ptr<AttentionHeads> heads_;
  std::int64_t layer_ = 0;
  std::vector<float> made_;
};

constexpr std::int64_t kBlocks = 24, kBlockSize = 4;

/// Two sequences: prompts in pieces of 3, beside each other's decode steps. Logits of all tokens.
template <class Begin>
std::vector<float> run(const LanguageModel& model, const Begin& begin) {
  const std::vector<std::vector<std::int32_t>> texts = {{3, 17, 5, 41, 8, 8, 29, 1, 33, 2, 7},
                                                        {9, 1, 22, 4, 13, 40, 6}};
  const std::vector<std::vector<std::int32_t>> tables = {blocks_down(0, 8), blocks_down(9, 8)};
  const auto cache = model.make_cache(kBlocks, kBlockSize);
  const auto vocab = static_cast<std::size_t>(model.shape().vocab_size);
  std::vector<float> logits;
  for (std::size_t done : {0u, 3u, 6u, 7u, 8u, 9u, 10u}) {
    std::vector<SequenceStep> batch;
    std::size_t rows = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (done >= texts[i].size()) continue;
      const std::size_t count = done < 6 ? 3 : 1;
      batch.push_back({.tokens = std::span(texts[i]).subspan(done, count),
                       .context_tokens = static_cast<std::int64_t>(done),
                       .block_table = tables[i],
                       .num_logits = static_cast<std::int64_t>(count)});
      rows += count;
    }
    std::vector<float> own(rows * vocab);
    begin(batch);
    model.step(batch, *cache, own);
    logits.insert(logits.end(), own.begin(), own.end());
  }
  return logits;
}

void expect_whole(LoadRequest request) {
  const auto whole = load_decoder(request);
  const std::vector<float> wanted = run(*whole, [](const auto&) {});
  const std::int64_t bytes = whole->make_cache(kBlocks, kBlockSize)->bytes();
  const std::int64_t kv_heads = whole->shape().num_kv_heads;
  for (std::int64_t moved = 1; moved <= kv_heads; ++moved) {
    SCOPED_TRACE(std::to_string(moved) + " of " + std::to_string(kv_heads) + " KV heads");
    request.attention_elsewhere = static_cast<double>(moved) / static_cast<double>(kv_heads);
    const auto beside = std::make_shared<Beside>(request, kBlocks, kBlockSize);
    request.elsewhere = beside;
    const auto model = load_decoder(request);
    EXPECT_EQ(model->make_cache(kBlocks, kBlockSize)->bytes() + beside->cache_bytes(), bytes);
    EXPECT_EQ(beside->cache_bytes(), bytes / kv_heads * moved);
    EXPECT_TRUE(
        same_numbers(run(*model, [&](const auto& batch) { beside->begin(batch); }), wanted));
  }
}

class HeadsElsewhereTest : public test::FolderTest {};

TEST_F(HeadsElsewhereTest, HaveTheBitsOfTheWholeModel) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomDecoder(seed, static_cast<std::int64_t>(1 + seed % 4)).write(folder_);
    expect_whole({.path = folder_, .kv_bitwidth = seed % 5 == 0 ? 8 : 16});
    if (HasFailure()) return;
  }
}

// ALiBi, windows, soft caps, norms of heads, scales by layer, experts, parallel networks.
TEST_F(HeadsElsewhereTest, HaveThemInEveryFamily) {
  for (const char* name :
       {"opt", "bloom", "llama3", "qwen2_window", "qwen3_moe", "gemma2", "falcon_alibi", "gptj",
        "gpt2_scaled", "gguf/bloom", "glm", "mpt", "olmo2", "smollm3"}) {
    SCOPED_TRACE(name);
    expect_whole({.path = decoder_path(name)});
  }
}

TEST_F(HeadsElsewhereTest, AreRefusedWhereTheyCannotBe) {
  RandomDecoder(1, 2).write(folder_);
  expect_error(ErrorCode::unsupported, {"gpt_oss", "sinks"}, [&] {
    Beside({.path = decoder_path("gpt_oss"), .attention_elsewhere = 0.5}, kBlocks, kBlockSize);
  });
  expect_error(ErrorCode::out_of_range, {"no ratio"},
               [&] { load_decoder({.path = folder_, .attention_elsewhere = 1.5}); });
  expect_error(ErrorCode::unsupported, {"share the heads already"},
               [&] { load_decoder({.path = folder_, .ranks = 2, .attention_elsewhere = 1}); });
  expect_error(ErrorCode::out_of_range, {"no head"},
               [&] { Beside({.path = folder_}, kBlocks, kBlockSize); });
  const auto model = load_decoder({.path = folder_, .attention_elsewhere = 1});
  expect_error(ErrorCode::invalid_argument, {"nobody says where"},
               [&] { run(*model, [](const auto&) {}); });
}

TEST_F(HeadsElsewhereTest, AttendToWhatTheyWereTold) {
  RandomDecoder(2, 2).write(folder_);
  const LoadRequest request{.path = folder_, .attention_elsewhere = 1};
  const auto heads = make_attention_heads(request, kBlocks, kBlockSize, make_cpu_backend(1));
  const std::vector<std::int32_t> tokens = {1, 2}, table = {0};
  const SequenceStep step{.tokens = tokens, .block_table = table};
  heads->begin({&step, 1});
  expect_error(ErrorCode::out_of_range, {"3 numbers"}, [&] { heads->attend(0, {1, 2, 3}); });
  expect_error(ErrorCode::out_of_range, {"layer 99"}, [&] { heads->attend(99, {}); });
  const std::vector<std::int32_t> beyond = {99};
  const SequenceStep wrong{.tokens = tokens, .block_table = beyond};
  expect_error(ErrorCode::out_of_range, {"block 99"}, [&] { heads->begin({&wrong, 1}); });
}

}  // namespace
}  // namespace tessera::lm::heads_elsewhere_test
