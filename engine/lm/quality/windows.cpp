#include "windows.h"

#include <algorithm>
#include <utility>

namespace tessera::lm::quality {

WindowStep WindowRunner::step_of(std::span<const Window> windows,
                                 std::span<const std::int32_t> tokens, std::int64_t offset,
                                 std::int64_t chunk) const {
  WindowStep step;
  for (std::size_t slot = 0; slot < windows.size(); ++slot) {
    const Window& window = windows[slot];
    const std::int64_t count = std::min(chunk, window.run_tokens() - offset);
    const std::int64_t first = window.begin + offset;
    const std::int64_t rows =
        std::clamp<std::int64_t>(first + count + 1 - window.first_scored, 1, count);
    step.batch.push_back(
        {tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)), offset,
         slots_.blocks(static_cast<std::int64_t>(slot), offset + count), rows});
    step.num_tokens += count;
    step.num_rows += rows;
  }
  return step;
}

std::span<float> WindowRunner::logits_of(std::int64_t num_rows) {
  logits_.resize(static_cast<std::size_t>(num_rows * model_.shape().vocab_size));
  return logits_;
}

std::span<const float> WindowRunner::run(std::span<const Window> windows,
                                         std::span<const std::int32_t> tokens, std::int64_t offset,
                                         std::int64_t chunk) {
  const WindowStep step = step_of(windows, tokens, offset, chunk);
  const std::span logits = logits_of(step.num_rows);
  model_.step(step.batch, slots_.cache(), logits);
  return logits;
}

ReferenceRunner::ReferenceRunner(const LanguageModel& model, std::int64_t num_slots,
                                 std::int64_t max_tokens, ReferenceStates* states,
                                 ReferenceStates::Key key)
    : WindowRunner(model, num_slots, max_tokens),
      states_(states),
      key_(std::move(key)),
      known_(states != nullptr && states->key == key_) {}

std::span<const float> ReferenceRunner::run(std::span<const Window> windows,
                                            std::span<const std::int32_t> tokens,
                                            std::int64_t offset, std::int64_t chunk) {
  if (states_ == nullptr) return WindowRunner::run(windows, tokens, offset, chunk);
  const WindowStep step = step_of(windows, tokens, offset, chunk);
  const auto floats = static_cast<std::size_t>(step.num_rows * model_.shape().hidden_size);
  std::span<const float> hidden;
  if (known_) {
    hidden = std::span(states_->hidden).subspan(next_, floats);
    next_ += floats;
  } else {
    run_layers(step);
    hidden = hidden_;
  }
  const std::span logits = logits_of(step.num_rows);
  model_.head(hidden, logits);
  return logits;
}

void ReferenceRunner::run_layers(const WindowStep& step) {
  const std::int64_t size = model_.shape().hidden_size;
  layers_.resize(static_cast<std::size_t>(step.num_tokens * size));
  model_.embed(step.batch, layers_);
  model_.run_layers(0, model_.shape().num_layers, step.batch, slots_.cache(), layers_);
  hidden_.clear();
  auto end = layers_.begin();
  for (const SequenceStep& sequence : step.batch) {
    end += static_cast<std::ptrdiff_t>(sequence.tokens.size()) * size;
    hidden_.insert(hidden_.end(), end - sequence.num_logits * size, end);
  }
  if (kept_.size() + hidden_.size() > ReferenceStates::kMostFloats) {
    states_ = nullptr;
    kept_ = {};
  } else {
    kept_.insert(kept_.end(), hidden_.begin(), hidden_.end());
  }
}

void ReferenceRunner::keep() {
  if (states_ == nullptr || known_) return;
  states_->key = std::move(key_);
  states_->hidden = std::move(kept_);
}

}  // namespace tessera::lm::quality
