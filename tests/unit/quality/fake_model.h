#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tessera/lm/language_model.h"

/// A model whose log-probabilities are known in closed form. They depend on every token's place,
/// the token before it and the sequence's first, which it reads back from its cache: a wrong block
/// table, a wrong context or a step left out gives other numbers, or is an error.
namespace tessera::lm::test {

inline constexpr std::int32_t kBos = 154, kVocab = 155;

/// A token per byte of ASCII, one for a blank with the small letter behind it (so context and
/// continuation are not encoded apart), and a first token.
class FakeTokens : public Tokens {
 public:
  std::vector<std::int32_t> encode(std::string_view text, bool special) const override {
    std::vector<std::int32_t> ids;
    if (special) ids.push_back(kBos);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool joined =
          text[i] == ' ' && i + 1 < text.size() && text[i + 1] >= 'a' && text[i + 1] <= 'z';
      if (joined) {
        ids.push_back(128 + text[++i] - 'a');
      } else {
        ids.push_back(text[i] & 127);
      }
    }
    return ids;
  }
  std::string decode(std::span<const std::int32_t>, bool) const override {
    throw std::logic_error("not for measurements");
  }
  std::int64_t vocab_size() const override { return kVocab; }
  std::optional<std::int32_t> bos_token_id() const override { return kBos; }
  std::vector<std::int32_t> stop_token_ids() const override { return {0}; }
  std::string token(std::int32_t id) const override { return std::to_string(id); }
};

inline float noise(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ull + b * 0xbf58476d1ce4e5b9ull + c + 1;
  for (int i = 0; i < 2; ++i) x = (x ^ (x >> 31)) * 0x94d049bb133111ebull;
  return static_cast<float>(x >> 40) / static_cast<float>(1 << 24) - 0.5f;
}

struct Counts {
  std::int64_t tokens = 0;      ///< run through the first layer
  std::int64_t layer_runs = 0;  ///< tokens times layers
  std::int64_t head_rows = 0;
  std::int64_t most_rows = 0;  ///< of one call
  std::int64_t changed = 0;    ///< calls of with_layer
};

class FakeCache : public KvCache {
 public:
  FakeCache(std::int64_t num_blocks, std::int64_t block_size, std::int64_t num_layers)
      : num_blocks_(num_blocks),
        block_size_(block_size),
        tokens_(static_cast<std::size_t>(num_blocks * block_size * num_layers), -1) {}
  std::int64_t num_blocks() const override { return num_blocks_; }
  std::int64_t block_size() const override { return block_size_; }
  std::int64_t bytes() const override { return static_cast<std::int64_t>(tokens_.size()) * 4; }

  std::int32_t& at(std::int64_t layer, std::span<const std::int32_t> table, std::int64_t place) {
    const auto block = static_cast<std::size_t>(place / block_size_);
    if (block >= table.size() || table[block] < 0 || table[block] >= num_blocks_)
      throw std::logic_error("no block for token " + std::to_string(place));
    return tokens_[static_cast<std::size_t>((layer * num_blocks_ + table[block]) * block_size_ +
                                            place % block_size_)];
  }

 private:
  std::int64_t num_blocks_, block_size_;
  std::vector<std::int32_t> tokens_;
};

class FakeModel : public LanguageModel {
 public:
  struct Options {
    std::int64_t num_layers = 3, max_context_tokens = 512;
    std::uint64_t seed = 1;
    float sharpness = 6;  ///< 0: uniform
    int num_threads = 1;
    std::int64_t broken_token = -1;  ///< behind it logits are not numbers
    bool with_experts = false;
    std::string text_path = "fake";
  };

  explicit FakeModel(Options options) : options_(std::move(options)) { make_shape(); }
  FakeModel() : FakeModel(Options{}) {}

  /// What comes after `history`, as the definition of this model.
  std::vector<float> logits_after(std::span<const std::int32_t> history) const {
    const auto last = static_cast<std::int64_t>(history.size()) - 1;
    std::vector<float> row = embedding(history.back());
    for (std::int64_t i = 0; i < options_.num_layers; ++i) {
      add_layer(i, history.front(), last > 0 ? history[history.size() - 2] : -1, history.back(),
                last, row.data());
    }
    return row;
  }
  /// The negative log likelihood of `token` behind `history`, in double throughout.
  double loss_after(std::span<const std::int32_t> history, std::int32_t token) const {
    return -log_probabilities(history)[static_cast<std::size_t>(token)];
  }
  std::vector<double> log_probabilities(std::span<const std::int32_t> history) const {
    const std::vector<float> row = logits_after(history);
    double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<double>(x));
    std::vector<double> result;
    for (const float x : row) result.push_back(static_cast<double>(x) - std::log(sum));
    return result;
  }

  const ModelShape& shape() const override { return shape_; }
  ModelShape& shape() { return shape_; }
  const LoadRequest& request() const override { return request_; }
  const Tokens& tokens() const override { return tokens_; }
  std::int64_t weight_bytes() const override { return 1000; }
  std::string describe_layer(std::int64_t layer) const override {
    return layer == changed_layer_ ? "changed" : "f32";
  }
  int num_threads() const override { return options_.num_threads; }

  std::unique_ptr<KvCache> make_cache(std::int64_t num_blocks,
                                      std::int64_t block_size) const override {
    return std::make_unique<FakeCache>(num_blocks, block_size, options_.num_layers);
  }

  void step(std::span<const SequenceStep> batch, KvCache& cache,
            std::span<float> logits) const override {
    std::vector<float> hidden(static_cast<std::size_t>(num_tokens(batch) * kVocab));
    embed(batch, hidden);
    run_layers(0, options_.num_layers, batch, cache, hidden);
    std::vector<float> rows;
    std::size_t end = 0;
    for (const SequenceStep& sequence : batch) {
      end += sequence.tokens.size();
      if (sequence.num_logits < 1 ||
          sequence.num_logits > static_cast<std::int64_t>(sequence.tokens.size()))
        throw std::logic_error("num_logits");
      const std::size_t first = end - static_cast<std::size_t>(sequence.num_logits);
      rows.insert(rows.end(), hidden.begin() + static_cast<std::ptrdiff_t>(first * kVocab),
                  hidden.begin() + static_cast<std::ptrdiff_t>(end * kVocab));
    }
    if (rows.size() != logits.size()) throw std::logic_error("size of the logits");
    head(rows, logits);
  }
  void embed(std::span<const SequenceStep> batch, std::span<float> hidden) const override {
    auto out = hidden.begin();
    for (const SequenceStep& sequence : batch) {
      for (const std::int32_t token : sequence.tokens) {
        const std::vector<float> row = embedding(token);
        out = std::copy(row.begin(), row.end(), out);
      }
    }
    if (out != hidden.end()) throw std::logic_error("size of the hidden states");
  }
  void run_layers(std::int64_t first, std::int64_t last, std::span<const SequenceStep> batch,
                  KvCache& cache, std::span<float> hidden) const override {
    auto& own = dynamic_cast<FakeCache&>(cache);
    counts_->layer_runs += num_tokens(batch) * (last - first);
    if (first == 0) counts_->tokens += num_tokens(batch);
    for (std::int64_t layer = first; layer < last; ++layer) {
      float* row = hidden.data();
      for (const SequenceStep& s : batch) {
        for (std::size_t t = 0; t < s.tokens.size(); ++t, row += kVocab) {
          const std::int64_t place = s.context_tokens + static_cast<std::int64_t>(t);
          own.at(layer, s.block_table, place) = s.tokens[t];
          add_layer(layer, own.at(layer, s.block_table, 0),
                    place > 0 ? own.at(layer, s.block_table, place - 1) : -1, s.tokens[t], place,
                    row);
        }
      }
    }
  }
  void head(std::span<const float> hidden, std::span<float> logits) const override {
    const auto rows = static_cast<std::int64_t>(hidden.size()) / kVocab;
    counts_->head_rows += rows;
    counts_->most_rows = std::max(counts_->most_rows, rows);
    std::copy(hidden.begin(), hidden.end(), logits.begin());
  }

  std::shared_ptr<const LanguageModel> with_layer(std::int64_t layer,
                                                  const LayerForm& form) const override {
    auto other = std::make_shared<FakeModel>(*this);
    other->changed_layer_ = layer;
    // Some layers do better with the error than without.
    other->error_ = (layer == 1 ? -0.02f : 1.0f) * std::ldexp(4.0f, -form.bitwidth);
    ++counts_->changed;
    return other;
  }

  /// What the matrices read: noise of layer, matrix, token and feature.
  static float input_of(std::int64_t layer, std::string_view linear, std::int32_t token,
                        std::int64_t feature) {
    return noise(static_cast<std::uint64_t>(layer * 1000 + token), linear.size() * 31 + linear[0],
                 static_cast<std::uint64_t>(feature));
  }
  void observe(std::span<const SequenceStep> batch, KvCache& cache,
               const Observer& see) const override {
    std::vector<float> hidden(static_cast<std::size_t>(num_tokens(batch) * kVocab));
    embed(batch, hidden);
    run_layers(0, options_.num_layers, batch, cache, hidden);
    for (std::int64_t layer = 0; layer < options_.num_layers; ++layer) {
      for (const LinearShape& linear : shape_.layer(layer).linears) {
        if (linear.name == "k_proj" || linear.name == "v_proj" || linear.name == "up_proj" ||
            linear.num_copies > 1)
          continue;
        std::vector<float> inputs;
        for (const SequenceStep& sequence : batch) {
          for (const std::int32_t token : sequence.tokens) {
            for (std::int64_t j = 0; j < linear.in_features; ++j)
              inputs.push_back(input_of(layer, linear.name, token, j));
          }
        }
        see(layer, linear.name, inputs.data(), num_tokens(batch));
      }
    }
  }

  const Counts& counts() const { return *counts_; }
  void forget_counts() { *counts_ = {}; }

 private:
  static std::int64_t num_tokens(std::span<const SequenceStep> batch) {
    std::int64_t sum = 0;
    for (const SequenceStep& sequence : batch)
      sum += static_cast<std::int64_t>(sequence.tokens.size());
    return sum;
  }

  std::vector<float> embedding(std::int32_t token) const {
    std::vector<float> row(kVocab);
    for (std::int32_t v = 0; v < kVocab; ++v) {
      row[static_cast<std::size_t>(v)] =
          options_.sharpness *
          noise(options_.seed, static_cast<std::uint64_t>(token), static_cast<std::uint64_t>(v));
    }
    return row;
  }

  void add_layer(std::int64_t layer, std::int32_t first, std::int32_t before, std::int32_t token,
                 std::int64_t place, float* row) const {
    if (first < 0 || before < -1) throw std::logic_error("a token that was never run is read");
    const auto key = static_cast<std::uint64_t>((before + 1) * 200 + first + place * 100'000);
    for (std::int32_t v = 0; v < kVocab; ++v) {
      const auto own = options_.seed * 100 + static_cast<std::uint64_t>(layer);
      row[v] += options_.sharpness / 4 * noise(own, key, static_cast<std::uint64_t>(v));
      if (layer == changed_layer_)
        row[v] +=
            error_ * (layer == 1 ? row[v] : 4 * noise(own + 7, key, static_cast<std::uint64_t>(v)));
    }
    if (token == options_.broken_token) row[3] = std::numeric_limits<float>::quiet_NaN();
  }

  void make_shape() {
    LayerShape layer;
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
      layer.linears.push_back({name, 8, 8});
    layer.linears.push_back({"gate_proj", 8, 12});
    layer.linears.push_back({"up_proj", 8, 12});
    layer.linears.push_back({"down_proj", 12, 8});
    if (options_.with_experts) layer.linears.push_back({"experts.down_proj", 12, 8, 4, 1});
    layer.num_heads = layer.num_kv_heads = 2;
    layer.head_dim = 4;
    shape_.name = "fake";
    shape_.num_layers = options_.num_layers;
    shape_.hidden_size = kVocab;
    shape_.vocab_size = kVocab;
    shape_.max_context_tokens = options_.max_context_tokens;
    shape_.layer_classes = {layer};
    shape_.layer_class.assign(static_cast<std::size_t>(options_.num_layers), 0);
    request_.path = options_.text_path;
  }

  Options options_;
  ModelShape shape_;
  LoadRequest request_;
  FakeTokens tokens_;
  std::int64_t changed_layer_ = -1;
  float error_ = 0;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

/// Tokens of a text that repeats little.
inline std::vector<std::int32_t> random_tokens(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    const float draw = noise(seed, static_cast<std::uint64_t>(i), 5) + 0.5f;
    tokens.push_back(std::min(kVocab - 1, static_cast<std::int32_t>(draw * kVocab)));
  }
  return tokens;
}

}  // namespace tessera::lm::test
