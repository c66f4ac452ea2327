#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/thread_pool.h"
#include "tessera/lm/language_model.h"

/// A model without arithmetic whose log-probabilities are known in closed form. They depend on
/// every token's place, the token before it and the sequence's first, which each layer reads back
/// from its cache: a wrong block table, a wrong context, a step or a layer left out gives other
/// numbers, or is an error. Fewer bits in a layer move them, in later layers more.
namespace tessera::lm::fakes {

/// Tokens 0 to 255 are bytes, then the end of a text, its first token, and a blank with a small
/// letter behind it.
inline constexpr std::int32_t kEnd = 256, kBos = 257, kBlankA = 258, kVocab = kBlankA + 26;

struct FakeTokens : Tokens {
  bool is_plain = false;       ///< every byte a token: no kBos before a text, no blank joined
  std::int64_t size = kVocab;  ///< of its model

  std::vector<std::int32_t> encode(std::string_view text, bool special = true) const override {
    std::vector<std::int32_t> ids;
    if (special && !is_plain) ids.push_back(kBos);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool letter = i + 1 < text.size() && text[i + 1] >= 'a' && text[i + 1] <= 'z';
      if (!is_plain && text[i] == ' ' && letter) {
        ids.push_back(kBlankA + text[++i] - 'a');
      } else {
        ids.push_back(static_cast<unsigned char>(text[i]));
      }
    }
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (!skip_special || (id != kEnd && id != kBos)) text += token(id);
    }
    return text;
  }
  std::int64_t vocab_size() const override { return size; }
  std::optional<std::int32_t> bos_token_id() const override { return kBos; }
  std::vector<std::int32_t> stop_token_ids() const override { return {kEnd}; }
  std::string token(std::int32_t id) const override {
    if (id < kEnd) return std::string(1, static_cast<char>(id));
    if (id < kBlankA || id >= kVocab) return "<" + std::to_string(id) + ">";
    return std::string(" ") + static_cast<char>('a' + id - kBlankA);
  }
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

/// Tokens where their keys would be.
class FakeCache : public KvCache {
 public:
  FakeCache(std::int64_t num_blocks, std::int64_t block_size, std::int64_t num_layers)
      : num_blocks_(num_blocks),
        block_size_(block_size),
        tokens_(static_cast<std::size_t>(num_blocks * block_size * num_layers), kNothing) {}
  std::int64_t num_blocks() const override { return num_blocks_; }
  std::int64_t block_size() const override { return block_size_; }
  std::int64_t bytes() const override { return static_cast<std::int64_t>(tokens_.size()) * 4; }
  std::int64_t block_bytes(std::int64_t first, std::int64_t last) const override {
    return (last - first) * block_size_ * static_cast<std::int64_t>(sizeof(std::int32_t));
  }
  void read(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
            std::span<std::byte> out) const override {
    for_each_row(blocks, first, last,
                 [&, at = out.data()](std::size_t row, std::size_t size) mutable {
                   std::memcpy(at, &tokens_[row], size);
                   at += size;
                 });
  }
  void write(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
             std::span<const std::byte> in) override {
    for_each_row(blocks, first, last,
                 [&, at = in.data()](std::size_t row, std::size_t size) mutable {
                   std::memcpy(&tokens_[row], at, size);
                   at += size;
                 });
  }
  void copy(std::int32_t, std::int32_t) override { throw std::logic_error("a block is copied"); }

  void put(std::int64_t layer, std::span<const std::int32_t> table, std::int64_t place,
           std::int32_t token) {
    tokens_[slot(layer, table, place)] = token;
  }
  std::int32_t get(std::int64_t layer, std::span<const std::int32_t> table,
                   std::int64_t place) const {
    const std::int32_t token = tokens_[slot(layer, table, place)];
    if (token == kNothing) throw std::logic_error("a token that was never run is read");
    return token;
  }

 private:
  static constexpr std::int32_t kNothing = -2;
  /// Calls body(first token, bytes) of each block of each layer.
  template <class Body>
  void for_each_row(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
                    Body&& body) const {
    for (std::int64_t layer = first; layer < last; ++layer) {
      for (const std::int32_t block : blocks) {
        body(static_cast<std::size_t>((layer * num_blocks_ + block) * block_size_),
             static_cast<std::size_t>(block_size_) * sizeof(std::int32_t));
      }
    }
  }
  std::size_t slot(std::int64_t layer, std::span<const std::int32_t> table,
                   std::int64_t place) const {
    const auto block = static_cast<std::size_t>(place / block_size_);
    if (block >= table.size() || table[block] < 0 || table[block] >= num_blocks_)
      throw std::logic_error("no block for token " + std::to_string(place));
    return static_cast<std::size_t>((layer * num_blocks_ + table[block]) * block_size_ +
                                    place % block_size_);
  }
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

  explicit FakeModel(Options options) : options_(std::move(options)) {
    request_.num_threads = options_.num_threads;
    request_.path = options_.text_path;
    make_shape();
  }
  FakeModel() : FakeModel(Options{}) {}
  /// Of any shape, with plain tokens.
  FakeModel(ModelShape shape, LoadRequest request)
      : shape_(std::move(shape)), request_(std::move(request)) {
    own_tokens.is_plain = true;
    own_tokens.size = shape_.vocab_size;
    check_width();
  }

  FakeTokens own_tokens;
  std::function<void()> before_step;
  /// In place of the closed form: the logit of `token` after `before` (-1: none) and `last`.
  std::function<float(std::int32_t before, std::int32_t last, std::int32_t token)> logit;

  /// What comes after `history`, as the definition of this model.
  std::vector<float> logits_after(std::span<const std::int32_t> history) const {
    std::vector<float> state(width(), 0.0f), row(vocab());
    state[kToken] = static_cast<float>(history.back());
    state[kBefore] = history.size() > 1 ? static_cast<float>(history[history.size() - 2]) : -1;
    state[kFirst] = static_cast<float>(history.front());
    state[kPlace] = static_cast<float>(history.size() - 1);
    for (std::int64_t layer = 0; layer < shape_.num_layers; ++layer)
      state[kErrors + static_cast<std::size_t>(layer)] = error_of(layer);
    write_row(state, row);
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
  const Tokens& tokens() const override { return own_tokens; }
  std::int64_t weight_bytes() const override { return 1000; }
  MemoryUse memory_use() const override { return {}; }
  std::string describe_layer(std::int64_t layer) const override {
    if (request_.layers.empty()) return "f32";
    return std::to_string(request_.layers.at(static_cast<std::size_t>(layer)).bitwidth) + "-bit";
  }
  int num_threads() const override {
    return request_.num_threads > 0 ? request_.num_threads : static_cast<int>(hardware_threads());
  }
  std::unique_ptr<KvCache> make_cache(std::int64_t num_blocks,
                                      std::int64_t block_size) const override {
    return std::make_unique<FakeCache>(num_blocks, block_size, shape_.num_layers);
  }

  void step(std::span<const SequenceStep> batch, KvCache& cache,
            std::span<float> logits) const override {
    if (before_step) before_step();
    std::vector<float> hidden(static_cast<std::size_t>(num_tokens(batch)) * width()), rows;
    embed(batch, hidden);
    run_layers(0, shape_.num_layers, batch, cache, hidden);
    std::size_t end = 0;
    for (const SequenceStep& sequence : batch) {
      const auto wanted = static_cast<std::size_t>(sequence.num_logits);
      if (sequence.tokens.empty() || wanted > sequence.tokens.size())
        throw std::logic_error("num_logits");
      end += sequence.tokens.size();
      const auto from = hidden.begin() + static_cast<std::ptrdiff_t>((end - wanted) * width());
      rows.insert(rows.end(), from, from + static_cast<std::ptrdiff_t>(wanted * width()));
    }
    if (rows.size() / width() * vocab() != logits.size())
      throw std::logic_error("size of the logits");
    head(rows, logits);
  }
  void embed(std::span<const SequenceStep> batch, std::span<float> hidden) const override {
    if (hidden.size() != static_cast<std::size_t>(num_tokens(batch)) * width())
      throw std::logic_error("size of the hidden states");
    std::fill(hidden.begin(), hidden.end(), 0.0f);
    float* state = hidden.data();
    for (const SequenceStep& sequence : batch) {
      for (const std::int32_t token : sequence.tokens) {
        state[kToken] = static_cast<float>(token);
        state += width();
      }
    }
  }
  void run_layers(std::int64_t first, std::int64_t last, std::span<const SequenceStep> batch,
                  KvCache& cache, std::span<float> hidden) const override {
    auto& own = dynamic_cast<FakeCache&>(cache);
    counts_->layer_runs += num_tokens(batch) * (last - first);
    if (first == 0) counts_->tokens += num_tokens(batch);
    for (std::int64_t layer = first; layer < last; ++layer) {
      float* state = hidden.data();
      for (const SequenceStep& s : batch) {
        if (s.context_tokens + static_cast<std::int64_t>(s.tokens.size()) >
            shape_.max_context_tokens)
          throw std::logic_error("beyond the longest context");
        for (std::size_t t = 0; t < s.tokens.size(); ++t, state += width())
          run_layer(layer, s, t, own, state);
      }
    }
  }
  void head(std::span<const float> hidden, std::span<float> logits) const override {
    const std::size_t rows = hidden.size() / width();
    counts_->head_rows += static_cast<std::int64_t>(rows);
    counts_->most_rows = std::max(counts_->most_rows, static_cast<std::int64_t>(rows));
    for (std::size_t i = 0; i < rows; ++i) {
      const auto state = hidden.subspan(i * width(), width());
      if (state[kLayersRun] != static_cast<float>(shape_.num_layers))
        throw std::logic_error("the head before the last layer");
      write_row(state, logits.subspan(i * vocab(), vocab()));
    }
  }

  std::shared_ptr<const LanguageModel> with_layer(std::int64_t layer,
                                                  const LayerForm& form) const override {
    auto other = std::make_shared<FakeModel>(*this);
    other->request_.layers.resize(static_cast<std::size_t>(shape_.num_layers));
    other->request_.layers.at(static_cast<std::size_t>(layer)) = form;
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
    std::vector<float> hidden(static_cast<std::size_t>(num_tokens(batch)) * width());
    embed(batch, hidden);
    run_layers(0, shape_.num_layers, batch, cache, hidden);
    for (std::int64_t layer = 0; layer < shape_.num_layers; ++layer) {
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
  /// What a hidden state holds; from kErrors on the error of each layer.
  enum : std::size_t { kToken, kBefore, kFirst, kPlace, kLayersRun, kErrors };

  static std::int64_t num_tokens(std::span<const SequenceStep> batch) {
    std::int64_t sum = 0;
    for (const SequenceStep& sequence : batch)
      sum += static_cast<std::int64_t>(sequence.tokens.size());
    return sum;
  }
  std::size_t width() const { return static_cast<std::size_t>(shape_.hidden_size); }
  std::size_t vocab() const { return static_cast<std::size_t>(shape_.vocab_size); }
  void check_width() const {
    if (width() < kErrors + static_cast<std::size_t>(shape_.num_layers))
      throw std::logic_error("hidden states too narrow for the layers of a fake model");
  }

  // Some layers do better with the error than without.
  float error_of(std::int64_t layer) const {
    if (request_.layers.empty()) return 0;
    const int bits = request_.layers.at(static_cast<std::size_t>(layer)).bitwidth;
    if (bits >= 16) return 0;
    return (layer == 1 ? -0.02f : static_cast<float>(layer + 1)) * std::ldexp(4.0f, -bits);
  }

  void run_layer(std::int64_t layer, const SequenceStep& s, std::size_t t, FakeCache& cache,
                 float* state) const {
    const std::int64_t place = s.context_tokens + static_cast<std::int64_t>(t);
    cache.put(layer, s.block_table, place, s.tokens[t]);
    const auto first = static_cast<float>(cache.get(layer, s.block_table, 0));
    const auto before =
        place > 0 ? static_cast<float>(cache.get(layer, s.block_table, place - 1)) : -1.0f;
    if (state[kLayersRun] != static_cast<float>(layer)) throw std::logic_error("a layer left out");
    if (layer > 0 && (state[kFirst] != first || state[kBefore] != before))
      throw std::logic_error("layers whose caches differ");
    state[kFirst] = first;
    state[kBefore] = before;
    state[kPlace] = static_cast<float>(place);
    state[kLayersRun] = static_cast<float>(layer + 1);
    state[kErrors + static_cast<std::size_t>(layer)] = error_of(layer);
  }

  void write_row(std::span<const float> state, std::span<float> row) const {
    const auto token = static_cast<std::int32_t>(state[kToken]);
    const auto before = static_cast<std::int32_t>(state[kBefore]);
    const auto key = static_cast<std::uint64_t>(before + 1) * 300 +
                     static_cast<std::uint64_t>(state[kFirst]) +
                     static_cast<std::uint64_t>(state[kPlace]) * 100'000;
    for (std::size_t v = 0; v < row.size(); ++v) {
      if (logit) {
        row[v] = logit(before, token, static_cast<std::int32_t>(v));
        continue;
      }
      row[v] = options_.sharpness * noise(options_.seed, static_cast<std::uint64_t>(token), v);
      for (std::size_t layer = 0; layer < static_cast<std::size_t>(shape_.num_layers); ++layer) {
        const std::uint64_t own = options_.seed * 100 + layer;
        const float error = state[kErrors + layer];
        row[v] += options_.sharpness / 4 * noise(own, key, v);
        if (error != 0) row[v] += error * (layer == 1 ? row[v] : 4 * noise(own + 7, key, v));
      }
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
    shape_.hidden_size = 16;
    shape_.vocab_size = kVocab;
    shape_.max_context_tokens = options_.max_context_tokens;
    shape_.layer_classes = {layer};
    shape_.layer_class.assign(static_cast<std::size_t>(options_.num_layers), 0);
    check_width();
  }

  Options options_;
  ModelShape shape_;
  LoadRequest request_;
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

}  // namespace tessera::lm::fakes
