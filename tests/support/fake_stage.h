#pragma once

// Stages that compute nothing but what tells whether they were told the right thing: what comes of
// a token depends on all tokens before it, read from a cache by block tables.

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "tessera/run/stage_part.h"

namespace tessera::run {

inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ull ^ (b + 0x7f4a7c15ull);
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 32);
}

/// Exact in an f32.
inline float as_state(std::uint64_t value) { return static_cast<float>(value & 0xffffff); }

inline constexpr std::int32_t kFakeVocabulary = 50;

inline std::int32_t fake_token(float state, std::uint64_t seed, std::int64_t draw) {
  const auto value =
      mixed(static_cast<std::uint64_t>(state), mixed(seed, static_cast<std::uint64_t>(draw)));
  return static_cast<std::int32_t>(value % kFakeVocabulary);
}

/// What a layer makes of a token, given the inputs of all tokens up to it.
inline float fake_output(const std::vector<float>& inputs, std::int64_t layer) {
  std::uint64_t value = static_cast<std::uint64_t>(layer) + 17;
  for (const float input : inputs) value = mixed(value, static_cast<std::uint64_t>(input));
  return as_state(value);
}

class FakeStage final : public StagePart {
 public:
  /// @param before what was there, whose layers are not read again; or null
  /// @param elsewhere has the caches of its layers; or null
  FakeStage(const LoadOrder& order, const StagePart* before, std::function<void(Nanoseconds)> spend,
            std::shared_ptr<lm::HeadsElsewhere> elsewhere = nullptr)
      : order_(order), spend_(std::move(spend)), elsewhere_(std::move(elsewhere)) {
    const auto* held = dynamic_cast<const FakeStage*>(before);
    for (std::int64_t layer = order.first_layer; layer < order.last_layer; ++layer) {
      if (held == nullptr || !held->caches_.contains(layer)) ++layers_read_;
      caches_[layer].resize(static_cast<std::size_t>(order.kv_blocks * order.block_size), -1);
    }
  }

  void run(const StepOrder& order, std::vector<float>& hidden) override {
    std::size_t row = 0;
    if (order_.with_embedding) {
      hidden.clear();
      for (const StepItem& item : order.items) {
        for (const std::int32_t token : item.token_ids) hidden.push_back(static_cast<float>(token));
      }
    }
    for (const StepItem& item : order.items) row += static_cast<std::size_t>(item.tokens);
    if (row != hidden.size()) throw std::runtime_error("rows that nobody asked for");
    if (spend_) spend_(200'000 + 20'000 * static_cast<Nanoseconds>(row));
    for (const auto& [layer, cache] : caches_) {
      if (elsewhere_ == nullptr) {
        hidden = through(order, layer, std::move(hidden));
        continue;
      }
      elsewhere_->send(std::move(hidden));
      hidden = elsewhere_->receive();
    }
  }

  std::vector<float> attend(const StepOrder& order, std::int64_t layer,
                            std::vector<float> rows) override {
    if (!order_.attends) throw std::runtime_error("a stage attends for another");
    if (spend_) spend_(100'000 + 10'000 * std::ssize(rows));
    return through(order, layer, std::move(rows));
  }

  std::vector<std::int32_t> sample(const StepOrder& order,
                                   const std::vector<float>& hidden) override {
    for (const std::int64_t gone : order.gone) seeds_.erase(gone);
    for (const NewSampler& made : order.samplers) seeds_[made.request] = made.options.seed;
    std::vector<std::int32_t> tokens;
    std::size_t row = 0;
    for (const StepItem& item : order.items) {
      row += static_cast<std::size_t>(item.tokens);
      tokens.push_back(
          item.draw < 0 ? -1 : fake_token(hidden.at(row - 1), seeds_.at(item.request), item.draw));
    }
    return tokens;
  }

  std::vector<std::byte> read(std::span<const std::int32_t> blocks, std::int64_t first,
                              std::int64_t last) const override {
    std::vector<float> cells;
    for (std::int64_t layer = first; layer < last; ++layer) {
      for (const std::int32_t block : blocks) {
        const auto at = caches_.at(layer).begin() + block * order_.block_size;
        cells.insert(cells.end(), at, at + order_.block_size);
      }
    }
    const std::span<const std::byte> bytes = std::as_bytes(std::span(cells));
    return {bytes.begin(), bytes.end()};
  }

  void write(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
             std::span<const std::byte> data) override {
    std::vector<float> cells(data.size() / sizeof(float));
    std::memcpy(cells.data(), data.data(), data.size());
    auto from = cells.begin();
    for (std::int64_t layer = first; layer < last; ++layer) {
      for (const std::int32_t block : blocks) {
        std::copy_n(from, order_.block_size, caches_.at(layer).begin() + block * order_.block_size);
        from += order_.block_size;
      }
    }
    if (from != cells.end()) throw std::runtime_error("blocks of another size");
  }

  void forget(const std::string&) override { seeds_.clear(); }
  Loaded loaded() const override {
    Loaded l;
    l.hidden_size = 1;
    l.layers_read = layers_read_;
    return l;
  }

 private:
  // What a layer makes of the tokens of a step.
  std::vector<float> through(const StepOrder& order, std::int64_t layer, std::vector<float> rows) {
    std::vector<float>& cache = caches_.at(layer);
    std::size_t row = 0;
    for (const StepItem& item : order.items) {
      for (std::int64_t i = 0; i < item.tokens; ++i, ++row) {
        const std::int64_t position = item.context_tokens + i;
        cell(cache, item, position) = rows.at(row);
        std::vector<float> inputs;
        for (std::int64_t p = 0; p <= position; ++p) inputs.push_back(cell(cache, item, p));
        rows.at(row) = fake_output(inputs, layer);
      }
    }
    return rows;
  }

  float& cell(std::vector<float>& cache, const StepItem& item, std::int64_t position) {
    const std::int32_t block =
        item.block_table.at(static_cast<std::size_t>(position / order_.block_size));
    return cache.at(
        static_cast<std::size_t>(block * order_.block_size + position % order_.block_size));
  }

  LoadOrder order_;
  std::map<std::int64_t, std::vector<float>> caches_;  ///< by layer
  std::int64_t layers_read_ = 0;
  std::function<void(Nanoseconds)> spend_;
  std::shared_ptr<lm::HeadsElsewhere> elsewhere_;
  std::map<std::int64_t, std::uint64_t> seeds_;
};

}  // namespace tessera::run
