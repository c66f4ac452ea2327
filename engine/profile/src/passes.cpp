#include "tessera/profile/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "tessera/core/error.h"
#include "tessera/core/rng.h"
#include "tessera/lm/sampling.h"
#include "tessera/lm/slots.h"

namespace tessera::profile {
namespace {

// A run of more rows takes fewer layers in proportion, and the next run goes on behind them: all
// are as cold as in a run of all, in a share of the time.
constexpr std::int64_t kRowsOfAllLayers = 16;

// Every byte of keys, values and scales: a small number in f32, bf16, f16 and int8. Pages that
// nobody has written would all be one page of zeros.
constexpr std::byte kCacheByte{0x3d};

std::vector<float> random_floats(std::int64_t count, Rng& rng) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.uniform() - 0.5);
  return values;
}

/// One thread's way through a piece of a model.
class Runner {
 public:
  Runner(const lm::LanguageModel& model, const Pass& pass, std::int64_t start)
      : model_(model),
        pass_(pass),
        first_(model.request().first_layer),
        num_layers_(layers_of(model)),
        layers_a_run_(std::clamp<std::int64_t>(
            num_layers_ * kRowsOfAllLayers / std::max<std::int64_t>(pass.rows(), 1), 1,
            std::max<std::int64_t>(num_layers_, 1))),
        next_(num_layers_ > 0 ? start % num_layers_ : 0) {
    Rng rng(static_cast<std::uint64_t>(start) + 1);
    const ModelShape& shape = model.shape();
    const bool of_rows = pass.piece == Piece::layer || pass.piece == Piece::embedding;
    const std::int64_t rows = of_rows ? pass.rows() : pass.batch_size;
    hidden_ = random_floats(rows * shape.hidden_size, rng);
    if (pass.piece == Piece::head || pass.piece == Piece::sampling)
      logits_ = random_floats(rows * shape.vocab_size, rng);
    if (of_rows) make_batch(rng);
    if (pass.piece == Piece::layer) fill_cache();
  }

  /// Layers that one run goes through.
  std::int64_t layers_a_run() const { return pass_.piece == Piece::layer ? layers_a_run_ : 1; }

  void run() {
    switch (pass_.piece) {
      case Piece::layer:
        return run_layers();
      case Piece::embedding:
        return model_.embed(batch_, hidden_);
      case Piece::head:
        return model_.head(hidden_, logits_);
      case Piece::sampling:
        return choose();
    }
  }

 private:
  static std::int64_t layers_of(const lm::LanguageModel& model) {
    const std::int64_t last = model.request().last_layer;
    return (last < 0 ? model.shape().num_layers : last) - model.request().first_layer;
  }

  void make_batch(Rng& rng) {
    for (std::int64_t i = 0; i < pass_.rows(); ++i)
      tokens_.push_back(static_cast<std::int32_t>(rng.integer(0, model_.shape().vocab_size - 1)));
    const std::int64_t length = pass_.context_tokens + pass_.tokens;
    slots_.emplace(model_, pass_.batch_size, length);
    const auto count = static_cast<std::size_t>(pass_.tokens);
    for (std::int64_t i = 0; i < pass_.batch_size; ++i) {
      batch_.push_back(
          {.tokens = std::span(tokens_).subspan(static_cast<std::size_t>(i) * count, count),
           .context_tokens = pass_.context_tokens,
           .block_table = slots_->blocks(i, length)});
    }
  }

  void fill_cache() {
    lm::KvCache& cache = slots_->cache();
    const std::int64_t last = first_ + num_layers_;
    const std::vector<std::byte> bytes(static_cast<std::size_t>(cache.block_bytes(first_, last)),
                                       kCacheByte);
    for (std::int32_t block = 0; block < cache.num_blocks(); ++block)
      cache.write({&block, 1}, first_, last, bytes);
  }

  // The next layers, from the first on again behind the last; a copy of the hidden states, which
  // would grow from run to run.
  void run_layers() {
    states_ = hidden_;
    std::int64_t left = layers_a_run_;
    while (left > 0) {
      const std::int64_t count = std::min(left, num_layers_ - next_);
      model_.run_layers(first_ + next_, first_ + next_ + count, batch_, slots_->cache(), states_);
      next_ = (next_ + count) % num_layers_;
      left -= count;
    }
  }

  void choose() {
    const auto vocab = static_cast<std::size_t>(model_.shape().vocab_size);
    for (std::size_t row = 0; row < logits_.size() / vocab; ++row)
      sampler_.choose(std::span(logits_).subspan(row * vocab, vocab), 0);
  }

  const lm::LanguageModel& model_;
  Pass pass_;
  std::int64_t first_, num_layers_, layers_a_run_, next_;
  std::vector<float> hidden_, states_, logits_;
  std::vector<std::int32_t> tokens_;
  std::vector<lm::SequenceStep> batch_;
  std::optional<lm::Slots> slots_;
  lm::Sampler sampler_{{.temperature = 0}, model_.shape().vocab_size};
};

void check(const Pass& pass, const lm::LanguageModel& model) {
  const std::int64_t length = pass.context_tokens + pass.tokens;
  if (length <= model.shape().max_context_tokens) return;
  refuse(ErrorCode::out_of_range, "passes",
         "{} tokens in the cache and {} new ones are more than the context of {}, {} tokens",
         pass.context_tokens, pass.tokens, model.shape().name, model.shape().max_context_tokens);
}

Timing time_one(const lm::LanguageModel& model, const lm::LanguageModel* other, const Pass& pass,
                const PassesRequest& request) {
  Runner own(model, pass, 0);
  const std::int64_t count = other == nullptr ? 0 : request.others;
  // Each starts at another layer: those that share a cache read different weights.
  std::vector<std::unique_ptr<Runner>> loads;
  for (std::int64_t i = 0; i < count; ++i)
    loads.push_back(std::make_unique<Runner>(*other, pass, i));
  OtherCores others(request.cpu, request.cores, count,
                    [&](std::int64_t i) { loads[static_cast<std::size_t>(i)]->run(); });
  Timing timing = time_of([&] { own.run(); }, request.timing, request.clock);
  others.stop();
  const auto layers = static_cast<double>(own.layers_a_run());
  for (double* seconds : {&timing.median_s, &timing.low_s, &timing.high_s}) *seconds /= layers;
  return timing;
}

}  // namespace

std::vector<TimedPass> time_passes(const lm::LanguageModel& model, const lm::LanguageModel* other,
                                   const PassesRequest& request) {
  for (const Pass& pass : request.passes) check(pass, model);
  const Pinned pinned(request.cpu, request.cores);
  std::vector<TimedPass> timed;
  const auto total = static_cast<std::int64_t>(request.passes.size());
  for (const Pass& pass : request.passes) {
    const auto done = static_cast<std::int64_t>(timed.size());
    if (request.interrupted && request.interrupted()) {
      throw Error(ErrorCode::interrupted,
                  fmt::format("interrupted after {} of {} passes", done, total));
    }
    timed.push_back({pass, time_one(model, other, pass, request)});
    if (request.progress) request.progress(done + 1, total);
  }
  return timed;
}

}  // namespace tessera::profile
