#include "tessera/profile/deployment.h"

#include <algorithm>
#include <ctime>
#include <optional>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/rng.h"
#include "tessera/lm/slots.h"
#include "tessera/profile/timing.h"

namespace tessera::profile {
namespace {

constexpr std::int64_t kWarmUpTokens = 2;

double processor_s() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The copies and sums of ranks that are not there, whose values are zeros.
class EmulatedReducer final : public lm::Reducer {
 public:
  EmulatedReducer(std::int32_t rank, std::int32_t ranks)
      : rank_(rank), values_(static_cast<std::size_t>(ranks)) {}

  std::int32_t rank() const override { return rank_; }
  std::int32_t ranks() const override { return static_cast<std::int32_t>(values_.size()); }
  void sum(std::span<float> values) override {
    for (std::vector<float>& of_rank : values_)
      of_rank.resize(std::max(of_rank.size(), values.size()));
    std::copy(values.begin(), values.end(), values_[static_cast<std::size_t>(rank_)].begin());
    std::copy_n(values_.front().begin(), values.size(), values.begin());
    for (std::size_t rank = 1; rank < values_.size(); ++rank) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += values_[rank][i];
    }
  }
  void abort() noexcept override {}

 private:
  std::int32_t rank_;
  std::vector<std::vector<float>> values_;  ///< [ranks]
};

/// One stage of a rank in memory.
struct Stage {
  std::shared_ptr<const lm::LanguageModel> model;
  std::optional<lm::Slots> slots;
  std::int64_t beside_bytes = 0;  ///< the matrices, once loaded

  std::int64_t num_layers() const {
    return model->request().last_layer - model->request().first_layer;
  }
  std::int64_t weight_bytes() const { return model->weight_bytes() + beside_bytes; }
  std::int64_t kv_cache_bytes() const { return slots->cache().bytes(); }
  std::int64_t scratch_bytes() const {
    return model->memory_use().peak_bytes - beside_bytes - kv_cache_bytes();
  }
};

/// The stages of one rank.
class Rank {
 public:
  Rank(const lm::LoadRequest& base, const ModelShape& shape, const DeploymentRequest& request,
       const Loader& load, std::int32_t rank)
      : shape_(shape), request_(request) {
    const double start = steady_s();
    const std::int64_t length = request.prompt_tokens + num_outputs() - 1;
    for (std::int64_t k = 0; k < request.pipeline_parallel; ++k) {
      Stage& stage = stages_.emplace_back();
      stage.model = load(part_of(base, k, rank));
      stage.beside_bytes = stage.model->memory_use().now_bytes;
      stage.slots.emplace(*stage.model, 1, std::max(length, request.cache_tokens));
      stage.slots->cache().touch();
    }
    load_s_ = steady_s() - start;
    Rng rng(1);
    for (std::int64_t i = 0; i < length; ++i)
      tokens_.push_back(static_cast<std::int32_t>(rng.integer(0, shape.vocab_size - 1)));
  }

  /// Seconds until each output.
  std::vector<double> run(std::int64_t outputs) {
    std::vector<double> seconds;
    const double start = now_s();
    for (std::int64_t i = 0; i < outputs; ++i) {
      if (request_.interrupted && request_.interrupted())
        throw Error(ErrorCode::interrupted, "interrupted while a deployment was measured");
      step(i == 0 ? 0 : request_.prompt_tokens + i - 1, i == 0 ? request_.prompt_tokens : 1);
      seconds.push_back(now_s() - start);
    }
    return seconds;
  }

  void add_to(Deployment& sum, std::int64_t ranks) const {
    std::int64_t before = 0;
    for (const Stage& stage : stages_) {
      std::int64_t scratch = stage.scratch_bytes();
      if (stage.num_layers() == 0) scratch = std::max(scratch, before);
      before = scratch;
      sum.weight_bytes += ranks * stage.weight_bytes();
      sum.kv_cache_bytes += ranks * stage.kv_cache_bytes();
      sum.scratch_bytes += ranks * scratch;
    }
  }

  std::int64_t num_outputs() const {
    std::int64_t most = kWarmUpTokens;
    for (const std::int64_t count : request_.output_tokens) most = std::max(most, count);
    return most;
  }
  double load_s() const { return load_s_; }

 private:
  // Even layers, the first stages one more.
  lm::LoadRequest part_of(const lm::LoadRequest& base, std::int64_t stage,
                          std::int32_t rank) const {
    const std::int64_t stages = request_.pipeline_parallel, layers = request_.num_layers;
    const auto first = [&](std::int64_t k) {
      return k * (layers / stages) + std::min(k, layers % stages);
    };
    lm::LoadRequest part = base;
    part.first_layer = first(stage);
    part.last_layer = first(stage + 1);
    part.with_embedding = stage == 0;
    part.with_head = stage + 1 == stages && rank == 0;
    part.rank = rank;
    part.ranks = static_cast<std::int32_t>(request_.tensor_parallel);
    if (part.ranks > 1) part.reducer = std::make_shared<EmulatedReducer>(rank, part.ranks);
    return part;
  }

  double now_s() const {
    return request_.counted == Counted::processor ? processor_s() : steady_s();
  }

  void step(std::int64_t context, std::int64_t count) {
    const auto width = static_cast<std::size_t>(shape_.hidden_size);
    hidden_.resize(static_cast<std::size_t>(count) * width);
    for (Stage& stage : stages_) {
      const lm::SequenceStep part{
          .tokens = std::span(tokens_).subspan(static_cast<std::size_t>(context),
                                               static_cast<std::size_t>(count)),
          .context_tokens = context,
          .block_table = stage.slots->blocks(0, context + count)};
      const lm::LoadRequest& loaded = stage.model->request();
      if (loaded.with_embedding) stage.model->embed({&part, 1}, hidden_);
      if (stage.num_layers() > 0) {
        stage.model->run_layers(loaded.first_layer, loaded.last_layer, {&part, 1},
                                stage.slots->cache(), hidden_);
      }
      if (!loaded.with_head) continue;
      logits_.resize(static_cast<std::size_t>(shape_.vocab_size));
      stage.model->head(std::span(hidden_).last(width), logits_);
    }
  }

  const ModelShape& shape_;
  const DeploymentRequest& request_;
  std::vector<Stage> stages_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> hidden_, logits_;
  double load_s_ = 0;
};

void check(const DeploymentRequest& request, const ModelShape& shape) {
  if (request.num_layers > shape.num_layers) {
    refuse(ErrorCode::out_of_range, "num_layers", "{} of {}, which has {}", request.num_layers,
           shape.name, shape.num_layers);
  }
  std::int64_t longest = kWarmUpTokens;
  for (const std::int64_t count : request.output_tokens) longest = std::max(longest, count);
  if (request.prompt_tokens + longest - 1 > shape.max_context_tokens) {
    refuse(ErrorCode::out_of_range, "prompt_tokens",
           "{} tokens and {} of answer do not fit into the context of {}, {} tokens",
           request.prompt_tokens, longest, shape.name, shape.max_context_tokens);
  }
}

}  // namespace

Deployment measure_deployment(const lm::LoadRequest& base, const ModelShape& shape,
                              const DeploymentRequest& request, const Loader& load) {
  check(request, shape);
  Deployment found;
  found.emulated = request.tensor_parallel > 1;
  {
    Rank first(base, shape, request, load, 0);
    found.load_s = first.load_s();
    first.run(kWarmUpTokens);
    if (!request.output_tokens.empty()) {
      const std::vector<double> seconds = first.run(first.num_outputs());
      for (const std::int64_t count : request.output_tokens)
        found.latency_s.push_back(seconds[static_cast<std::size_t>(count - 1)]);
    }
    first.add_to(found, 1);
  }
  if (request.tensor_parallel > 1) {  // the others are alike, and have no head
    Rank other(base, shape, request, load, 1);
    other.run(kWarmUpTokens);
    other.add_to(found, request.tensor_parallel - 1);
  }
  return found;
}

}  // namespace tessera::profile
