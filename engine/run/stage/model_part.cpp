// A part of a model that runs, with the cache and the samplers of the requests that are answered.

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "parts.h"
#include "tessera/core/error.h"
#include "tessera/lm/module.h"
#include "tessera/lm/reducer.h"
#include "tessera/run/process_memory.h"
#include "tessera/run/stage_part.h"

namespace tessera::run {
namespace {

// Of a stage's cores those of one of its ranks.
std::vector<std::int32_t> share_of(const std::vector<std::int32_t>& cores, std::int32_t rank,
                                   std::int32_t ranks) {
  const std::size_t count = cores.size() / static_cast<std::size_t>(ranks);
  const auto first = cores.begin() + static_cast<std::ptrdiff_t>(count) * rank;
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

constexpr std::chrono::seconds kSumDeadline(30);  // the master hears of a rank that is gone sooner

/// The sums of a rank, in memory that is replaced where a rank was lost.
class Sums final : public lm::Reducer {
 public:
  Sums(std::int32_t rank, std::int32_t ranks) : rank_(rank), ranks_(ranks) {}

  void meet(const std::string& shared) {
    ends_ = lm::SharedRanks::open(shared)->reducer(rank_, kSumDeadline);
  }
  std::int32_t rank() const override { return rank_; }
  std::int32_t ranks() const override { return ranks_; }
  void sum(std::span<float> values) override {
    try {
      ends_->sum(values);
    } catch (const Error& error) {
      throw StepLost(error.code(), error.message(), error.where());
    }
  }
  void abort() noexcept override {
    if (ends_) ends_->abort();
  }

 private:
  std::int32_t rank_, ranks_;
  std::unique_ptr<lm::Reducer> ends_;
};

/// What of a model is wanted on, all else given up; null where that is nothing.
std::shared_ptr<const lm::LanguageModel> rest_of(std::shared_ptr<const lm::LanguageModel> held,
                                                 const lm::LoadRequest& wanted) {
  if (!held || held->request().elsewhere || wanted.elsewhere) return nullptr;
  lm::LoadRequest rest = held->request();
  rest.first_layer = std::max(rest.first_layer, wanted.first_layer);
  rest.last_layer = std::min(rest.last_layer, wanted.last_layer);
  if (rest.first_layer >= rest.last_layer) return nullptr;
  rest.with_embedding = rest.with_embedding && wanted.with_embedding;
  rest.with_head = rest.with_head && wanted.with_head;
  rest.progress = nullptr;
  rest.held = std::move(held);
  return lm::module().load(rest);  // reads nothing
}

class ModelPart final : public StagePart {
 public:
  ModelPart(const LoadOrder& order, std::shared_ptr<const lm::LanguageModel> held,
            std::shared_ptr<lm::HeadsElsewhere> elsewhere) {
    const auto start = std::chrono::steady_clock::now();
    loaded_.before_bytes = process_memory().anonymous_bytes;
    const MemoryWatch watch;
    settle(order, share_of(order.cores, order.tensor_rank, order.tensor_ranks));
    lm::LoadRequest request = request_of(order);
    request.progress = [this](std::int64_t, std::int64_t total) { loaded_.layers_read = total; };
    if (order.tensor_ranks > 1) {
      sums_ = std::make_shared<Sums>(order.tensor_rank, order.tensor_ranks);
      sums_->meet(order.shared);
      request.reducer = sums_;
    }
    request.elsewhere = std::move(elsewhere);
    request.held = rest_of(std::move(held), request);
    model_ = lm::module().load(request);
    request.held = nullptr;  // before the cache is there too
    ::malloc_trim(0);        // what was freed while it loaded
    cache_ = model_->make_cache(order.kv_blocks, order.block_size);
    cache_->touch();
    first_ = order.first_layer;
    last_ = order.last_layer;
    embeds_ = order.with_embedding;
    loaded_.load_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    loaded_.weight_bytes = model_->weight_bytes();
    loaded_.kv_cache_bytes = cache_->bytes();
    loaded_.hidden_size = model_->shape().hidden_size;
  }

  /// The model, to load another part of it.
  std::shared_ptr<const lm::LanguageModel> give_up() {
    cache_.reset();
    return std::move(model_);
  }

  void run(const StepOrder& order, std::vector<float>& hidden) override {
    const auto width = static_cast<std::size_t>(model_->shape().hidden_size);
    lay_out(order);
    if (embeds_) {
      hidden.resize(num_tokens_ * width);
      model_->embed(steps_, hidden);
    } else if (hidden.size() != num_tokens_ * width) {
      refuse(ErrorCode::out_of_range, "hidden", "{} numbers for {} tokens of {}", hidden.size(),
             num_tokens_, width);
    }
    model_->run_layers(first_, last_, steps_, *cache_, hidden);
  }

  std::vector<std::int32_t> sample(const StepOrder& order,
                                   const std::vector<float>& hidden) override {
    for (const std::int64_t request : order.gone) samplers_.erase(request);
    for (const NewSampler& made : order.samplers) {
      const auto [it, fresh] = samplers_.insert_or_assign(
          made.request, lm::Sampler(made.options, model_->shape().vocab_size));
      for (const std::int32_t token : made.text) it->second.see(token);
    }
    return draw(order, hidden);
  }

  std::vector<float> attend(const StepOrder&, std::int64_t, std::vector<float>) override {
    refuse(ErrorCode::internal, "attend", "a part with layers attends for no other");
  }

  std::vector<std::byte> read(std::span<const std::int32_t> blocks, std::int64_t first,
                              std::int64_t last) const override {
    std::vector<std::byte> data(blocks.size() *
                                static_cast<std::size_t>(cache_->block_bytes(first, last)));
    cache_->read(blocks, first, last, data);
    return data;
  }

  void write(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
             std::span<const std::byte> data) override {
    cache_->write(blocks, first, last, data);
  }

  void forget(const std::string& shared) override {
    samplers_.clear();
    if (sums_) sums_->meet(shared);
  }

  Loaded loaded() const override {
    Loaded now = loaded_;
    const ProcessMemory memory = process_memory();
    now.resident_bytes = memory.anonymous_bytes;
    now.peak_bytes = memory.peak_bytes;
    return now;
  }

 private:
  void lay_out(const StepOrder& order) {
    steps_.clear();
    num_tokens_ = 0;
    for (const StepItem& item : order.items) {
      const auto count = static_cast<std::size_t>(item.tokens);
      if (embeds_ && item.token_ids.size() != count) {
        refuse(ErrorCode::out_of_range, "step", "{} token ids for {} tokens", item.token_ids.size(),
               count);
      }
      num_tokens_ += count;
      if (!embeds_ && nobody_.size() < count) nobody_.resize(count, 0);
    }
    for (const StepItem& item : order.items) {
      const auto count = static_cast<std::size_t>(item.tokens);
      steps_.push_back({.tokens = embeds_ ? std::span<const std::int32_t>(item.token_ids)
                                          : std::span(nobody_).first(count),
                        .context_tokens = item.context_tokens,
                        .block_table = item.block_table,
                        .num_logits = item.draw >= 0 ? 1 : 0});
    }
  }

  std::vector<std::int32_t> draw(const StepOrder& order, const std::vector<float>& hidden) {
    const auto width = static_cast<std::size_t>(model_->shape().hidden_size);
    const auto vocabulary = static_cast<std::size_t>(model_->shape().vocab_size);
    std::vector<float> rows;
    std::size_t token = 0;
    for (const StepItem& item : order.items) {
      token += static_cast<std::size_t>(item.tokens);
      if (item.draw < 0) continue;
      const auto last = hidden.begin() + static_cast<std::ptrdiff_t>((token - 1) * width);
      rows.insert(rows.end(), last, last + static_cast<std::ptrdiff_t>(width));
    }
    logits_.resize(rows.size() / width * vocabulary);
    if (!rows.empty()) model_->head(rows, logits_);
    std::vector<lm::Choice> choices;
    for (const StepItem& item : order.items) {
      if (item.draw < 0) continue;
      const auto found = samplers_.find(item.request);
      if (found == samplers_.end()) {
        refuse(ErrorCode::out_of_range, "step", "nobody said how request {} is sampled",
               item.request);
      }
      choices.push_back({.sampler = &found->second,
                         .logits = std::span<const float>(logits_).subspan(
                             choices.size() * vocabulary, vocabulary),
                         .step = item.draw});
    }
    lm::choose(choices, model_->num_threads());
    std::vector<std::int32_t> tokens(order.items.size(), -1);
    std::size_t row = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (order.items[i].draw < 0) continue;
      const lm::Choice& choice = choices[row++];
      tokens[i] = choice.token;
      choice.sampler->add(choice.token);
    }
    return tokens;
  }

  std::shared_ptr<const lm::LanguageModel> model_;
  std::unique_ptr<lm::KvCache> cache_;
  std::int64_t first_ = 0, last_ = 0;
  bool embeds_ = false;
  std::shared_ptr<Sums> sums_;  ///< of a tensor-parallel rank
  Loaded loaded_;
  std::unordered_map<std::int64_t, lm::Sampler> samplers_;  ///< by request
  // Of the step.
  std::vector<lm::SequenceStep> steps_;
  std::size_t num_tokens_ = 0;
  std::vector<std::int32_t> nobody_;  ///< tokens whose ids only the first stage knows
  std::vector<float> logits_;
};

}  // namespace

std::unique_ptr<StagePart> load_model_part(const LoadOrder& order,
                                           std::unique_ptr<StagePart> before,
                                           std::shared_ptr<lm::HeadsElsewhere> elsewhere) {
  if (order.attends) return load_heads_part(order);
  auto* old = dynamic_cast<ModelPart*>(before.get());
  return std::make_unique<ModelPart>(order, old != nullptr ? old->give_up() : nullptr,
                                     std::move(elsewhere));
}

}  // namespace tessera::run
