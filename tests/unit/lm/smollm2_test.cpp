// SmolLM2-135M against Hugging Face transformers on WikiText-2, from GGUF in f32. The model is not
// in the repository: bash scripts/fetch_smollm2.sh brings it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "decoders.h"

namespace tessera::lm::smollm2_test {
namespace {

class SmolLm2 : public testing::Test {
 protected:
  void SetUp() override {
    const char* named = std::getenv("TESSERA_SMOLLM2_GGUF");
    path = named != nullptr ? named
                            : std::string(TESSERA_SOURCE_DIR) +
                                  "/build/models/smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << "there is no " << path
                   << "; bash scripts/fetch_smollm2.sh brings it, $TESSERA_SMOLLM2_GGUF names it";
    }
    file = weights::Weights::open(std::string(TESSERA_SOURCE_DIR) +
                                  "/tests/reference/smollm2.safetensors");
  }
  std::vector<float> numbers(const std::string& name) const {
    const auto& tensor = file->require(name);
    std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
    weights::read_f32(*file, tensor, 0, values);
    return values;
  }
  std::vector<std::int32_t> integers(const std::string& name) const {
    std::vector<std::int32_t> values;
    for (const float value : numbers(name)) values.push_back(static_cast<std::int32_t>(value));
    return values;
  }

  std::string path;
  std::shared_ptr<const weights::Weights> file;
};

// Log-probabilities of a row of logits.
std::vector<double> log_probabilities(const float* logits, std::size_t vocab) {
  double most = -INFINITY, sum = 0;
  for (std::size_t i = 0; i < vocab; ++i) most = std::max<double>(most, logits[i]);
  for (std::size_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(logits[i]) - most);
  std::vector<double> result(vocab);
  for (std::size_t i = 0; i < vocab; ++i) result[i] = logits[i] - most - std::log(sum);
  return result;
}

// The divergence of what is stored: the 64 likeliest tokens, and the others as one.
TEST_F(SmolLm2, DivergesFromTransformersByNothing) {
  const auto model = load_decoder({.path = path});
  const auto vocab = static_cast<std::size_t>(model->shape().vocab_size);
  const auto ids = integers("input_ids"), positions = integers("positions"),
             top_ids = integers("top_ids");
  const auto top = numbers("top_log_probabilities"), rest = numbers("rest_log_probability"),
             losses = numbers("losses");
  const std::size_t num_top = top.size() / positions.size();
  const auto logits = run_in_pieces(*model, ids, 256, 16);
  double divergence = 0, loss = 0, worst_loss = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto position = static_cast<std::size_t>(positions[i]);
    const auto ours = log_probabilities(logits.data() + position * vocab, vocab);
    double others = 1, own = 0;
    for (std::size_t k = 0; k < num_top; ++k) {
      const double theirs = top[i * num_top + k];
      const double mine = ours[static_cast<std::size_t>(top_ids[i * num_top + k])];
      own += std::exp(theirs) * (theirs - mine);
      others -= std::exp(mine);
    }
    own += std::exp(static_cast<double>(rest[i])) * (rest[i] - std::log(others));
    divergence += own / static_cast<double>(positions.size());
  }
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    const auto ours = log_probabilities(logits.data() + i * vocab, vocab);
    const double own = -ours[static_cast<std::size_t>(ids[i + 1])];
    loss += own / static_cast<double>(ids.size() - 1);
    worst_loss = std::max(worst_loss, std::abs(own - static_cast<double>(losses[i])));
  }
  EXPECT_LT(std::abs(divergence), 1e-5);
  EXPECT_NEAR(loss, numbers("mean_loss").front(), 1e-5);
  EXPECT_LT(worst_loss, 5e-3);
  RecordProperty("divergence_nats", std::to_string(divergence));
  std::printf("divergence %.3g nats, loss off by %.3g nats, at most by %.3g of a token\n",
              divergence, loss - static_cast<double>(numbers("mean_loss").front()), worst_loss);
}

TEST_F(SmolLm2, ContinuesAsTransformersDoes) {
  const auto model = load_decoder({.path = path});
  const auto vocab = static_cast<std::size_t>(model->shape().vocab_size);
  for (const std::string index : {"0", "1"}) {
    auto ids = integers("prompt." + index);
    const auto expected = integers("continuation." + index);
    const auto cache = model->make_cache(8, 16);
    const auto table = blocks_down(0, 8);
    std::vector<float> logits(vocab);
    std::size_t done = 0;
    std::vector<std::int32_t> written;
    while (written.size() < expected.size()) {
      const SequenceStep step{.tokens = std::span(ids).subspan(done),
                              .context_tokens = static_cast<std::int64_t>(done),
                              .block_table = table,
                              .num_logits = 1};
      done = ids.size();
      model->step({&step, 1}, *cache, logits);
      written.push_back(
          static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
      ids.push_back(written.back());
    }
    EXPECT_EQ(written, expected) << "prompt " << index;
  }
}

}  // namespace
}  // namespace tessera::lm::smollm2_test
