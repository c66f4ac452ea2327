#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/rng.h"
#include "tessera/core/thread_pool.h"
#include "tessera/lm/language_model.h"

/// A model without arithmetic: what follows depends on the last two tokens of a sequence, as a
/// table of random logits says, which fewer bits in a layer, and more so in later ones, make
/// flatter. It checks what a step is given, and its tokens are bytes.
namespace tessera::testing_support {

inline constexpr std::int32_t kEnd = 256, kVocabSize = 260;

class ByteTokens : public lm::Tokens {
 public:
  std::vector<std::int32_t> encode(std::string_view text, bool special = true) const override {
    std::vector<std::int32_t> ids;
    if (special && begins) ids.push_back(kEnd + 1);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 256) text += static_cast<char>(id);
      if (id >= 256 && !skip_special) text += token(id);
    }
    return text;
  }
  std::int64_t vocab_size() const override { return size; }
  std::optional<std::int32_t> bos_token_id() const override { return kEnd + 1; }
  std::vector<std::int32_t> stop_token_ids() const override { return {kEnd}; }
  std::string token(std::int32_t id) const override {
    return id < 256 ? std::string(1, static_cast<char>(id)) : "<" + std::to_string(id) + ">";
  }

  bool begins = false;
  std::int64_t size = kVocabSize;
};

class FakeCache : public lm::KvCache {
 public:
  FakeCache(std::int64_t blocks, std::int64_t block_size)
      : tokens(static_cast<std::size_t>(blocks * block_size), -1),
        blocks_(blocks),
        block_size_(block_size) {}
  std::int64_t num_blocks() const override { return blocks_; }
  std::int64_t block_size() const override { return block_size_; }
  std::int64_t bytes() const override { return blocks_ * block_size_ * 4; }

  std::vector<std::int32_t> tokens;  ///< where their keys would be

 private:
  std::int64_t blocks_, block_size_;
};

class FakeModel : public lm::LanguageModel {
 public:
  explicit FakeModel(lm::LoadRequest request = {}) : request_(std::move(request)) {
    shape_.name = "fake";
    shape_.family = "llama";
    shape_.num_layers = 3;
    shape_.hidden_size = 8;
    shape_.vocab_size = kVocabSize;
    shape_.max_context_tokens = 100;
  }
  FakeModel(ModelShape shape, lm::LoadRequest request)
      : shape_(std::move(shape)), request_(std::move(request)) {
    byte_tokens.size = shape_.vocab_size;
  }

  const ModelShape& shape() const override { return shape_; }
  const lm::LoadRequest& request() const override { return request_; }
  const lm::Tokens& tokens() const override { return byte_tokens; }
  std::int64_t weight_bytes() const override { return 12345; }
  std::string describe_layer(std::int64_t layer) const override {
    return request_.layers.empty()
               ? "f32"
               : std::to_string(request_.layers.at(static_cast<std::size_t>(layer)).bitwidth) +
                     "-bit";
  }
  int num_threads() const override {
    return request_.num_threads > 0 ? request_.num_threads : static_cast<int>(hardware_threads());
  }
  std::unique_ptr<lm::KvCache> make_cache(std::int64_t blocks, std::int64_t size) const override {
    return std::make_unique<FakeCache>(blocks, size);
  }

  void step(std::span<const lm::SequenceStep> batch, lm::KvCache& cache,
            std::span<float> logits) const override {
    if (before_step) before_step();
    auto& held = dynamic_cast<FakeCache&>(cache);
    std::size_t row = 0;
    double lost = 0;
    for (std::int64_t i = 0; i < shape_.num_layers; ++i) lost += loss_of(i);
    for (const lm::SequenceStep& part : batch) {
      const auto count = static_cast<std::int64_t>(part.tokens.size());
      const std::int64_t after = part.context_tokens + count;
      if (count < 1 || part.num_logits > count) throw Error(ErrorCode::internal, "a wrong step");
      if (after > shape_.max_context_tokens) throw Error(ErrorCode::out_of_range, "too long");
      const auto place = [&](std::int64_t i) -> std::int32_t& {
        const std::int32_t block = part.block_table[static_cast<std::size_t>(i / 16)];
        return held.tokens.at(static_cast<std::size_t>(block * 16 + i % 16));
      };
      for (std::int64_t i = 0; i < count; ++i) {
        place(part.context_tokens + i) = part.tokens[static_cast<std::size_t>(i)];
      }
      for (std::int64_t i = after - part.num_logits; i < after; ++i) {
        write_row(i > 0 ? place(i - 1) : -1, place(i), lost,
                  logits.subspan(row++ * vocab(), vocab()));
      }
    }
    if (row * vocab() != logits.size()) throw Error(ErrorCode::internal, "logits of a size");
  }

  // The first value of a hidden state is the token, the second what the layers took from it.
  void embed(std::span<const lm::SequenceStep> batch, std::span<float> hidden) const override {
    std::size_t row = 0;
    for (const lm::SequenceStep& part : batch) {
      for (const std::int32_t token : part.tokens) {
        const auto at = hidden.subspan(row++ * width(), width());
        std::fill(at.begin(), at.end(), 0.0f);
        at[0] = static_cast<float>(token);
      }
    }
  }
  void run_layers(std::int64_t first, std::int64_t last, std::span<const lm::SequenceStep>,
                  lm::KvCache&, std::span<float> hidden) const override {
    for (std::size_t row = 0; row * width() < hidden.size(); ++row) {
      for (std::int64_t i = first; i < last; ++i) {
        hidden[row * width() + 1] += static_cast<float>(loss_of(i));
      }
    }
  }
  void head(std::span<const float> hidden, std::span<float> logits) const override {
    for (std::size_t row = 0; row * width() < hidden.size(); ++row) {
      const auto token = static_cast<std::int32_t>(hidden[row * width()]);
      write_row(token, token, hidden[row * width() + 1], logits.subspan(row * vocab(), vocab()));
    }
  }
  std::shared_ptr<const lm::LanguageModel> with_layer(std::int64_t layer,
                                                      const lm::LayerForm& form) const override {
    auto copy = std::make_shared<FakeModel>(*this);
    copy->request_.layers.resize(static_cast<std::size_t>(shape_.num_layers));
    copy->request_.layers.at(static_cast<std::size_t>(layer)) = form;
    return copy;
  }
  void observe(std::span<const lm::SequenceStep> batch, lm::KvCache&,
               const Observer& see) const override {
    const auto count = [](std::int64_t width) { return static_cast<std::size_t>(width); };
    for (const lm::SequenceStep& part : batch) {
      for (std::int64_t i = 0; i < shape_.num_layers; ++i) {
        for (const auto& [linear, columns] : {std::pair{"q_proj", shape_.hidden_size},
                                              {"o_proj", shape_.num_heads * shape_.head_dim},
                                              {"gate_proj", shape_.hidden_size},
                                              {"down_proj", shape_.ffn_size}}) {
          std::vector<float> inputs(part.tokens.size() * count(columns));
          for (std::size_t j = 0; j < inputs.size(); ++j) {
            inputs[j] = static_cast<float>(part.tokens[j / count(columns)] % 7 + j % 3);
          }
          see(i, linear, inputs.data(), static_cast<std::int64_t>(part.tokens.size()));
        }
      }
    }
  }

  ByteTokens byte_tokens;
  std::function<void()> before_step;
  /// Overrides the table: the logit of `token` after `previous`, `last`.
  std::function<float(std::int32_t previous, std::int32_t last, std::int32_t token)> logit;

 private:
  std::size_t width() const { return static_cast<std::size_t>(shape_.hidden_size); }
  std::size_t vocab() const { return static_cast<std::size_t>(shape_.vocab_size); }
  double loss_of(std::int64_t layer) const {
    if (request_.layers.empty()) return 0;
    const int bits = request_.layers.at(static_cast<std::size_t>(layer)).bitwidth;
    return 1e-3 * (16 - bits) * static_cast<double>(layer + 1);
  }

  void write_row(std::int32_t previous, std::int32_t last, double lost,
                 std::span<float> row) const {
    Rng rng(static_cast<std::uint64_t>(previous * 1000 + last + 5));
    for (std::size_t token = 0; token < row.size(); ++token) {
      const auto random = static_cast<float>(4 * rng.uniform() * (1 - lost));
      row[token] = logit ? logit(previous, last, static_cast<std::int32_t>(token)) : random;
    }
  }

  ModelShape shape_;
  lm::LoadRequest request_;
};

}  // namespace tessera::testing_support
