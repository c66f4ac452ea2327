#include "tessera/lm/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "means.h"
#include "scores.h"
#include "sequences.h"
#include "tessera/core/error.h"
#include "windows.h"

namespace tessera::lm {
namespace {

using quality::BatchMeans;
using quality::ReferenceRunner;
using quality::Window;
using quality::WindowRunner;

std::int64_t context_of(const PerplexityRequest& request, const ModelShape& shape) {
  const std::int64_t most = shape.max_context_tokens;
  const std::int64_t context = request.context_tokens.value_or(std::min(kPaperContextTokens, most));
  if (context < 2 || context > most) {
    refuse(ErrorCode::out_of_range, "context_tokens", "{} is outside [2, {}], which {} has",
           context, most, shape.name);
  }
  if (request.stride && (*request.stride < 1 || *request.stride > context)) {
    refuse(ErrorCode::out_of_range, "stride", "{} is outside [1, {}], the context", *request.stride,
           context);
  }
  if (request.max_tokens && *request.max_tokens < 2) {
    refuse(ErrorCode::out_of_range, "max_tokens", "{} is less than 2: one to predict the next",
           *request.max_tokens);
  }
  if (request.chunk_tokens < 1)
    refuse(ErrorCode::out_of_range, "chunk_tokens", "{} is less than 1", request.chunk_tokens);
  if (request.reference != nullptr && request.reference->shape().vocab_size != shape.vocab_size) {
    refuse("reference", "has a vocabulary of {}, {} of {}: no divergence is defined",
           request.reference->shape().vocab_size, shape.name, shape.vocab_size);
  }
  if (request.reference != nullptr && request.reference->shape().max_context_tokens < context) {
    refuse(ErrorCode::out_of_range, "context_tokens", "{} is more than the reference's {}", context,
           request.reference->shape().max_context_tokens);
  }
  return context;
}

std::vector<Window> windows_of(std::int64_t num_tokens, std::int64_t context,
                               const std::optional<std::int64_t>& stride) {
  std::vector<Window> windows;
  if (!stride) {
    if (num_tokens < context) return {{0, num_tokens, 1}};
    for (std::int64_t begin = 0; begin + context <= num_tokens; begin += context)
      windows.push_back({begin, begin + context, begin + 1});
    return windows;
  }
  std::int64_t seen = 0;
  for (std::int64_t begin = 0; seen < num_tokens; begin += *stride) {
    const std::int64_t end = std::min(begin + context, num_tokens);
    const std::int64_t first = std::max(seen, begin + 1);
    if (first < end) windows.push_back({begin, end, first});
    seen = end;
  }
  return windows;
}

class PerplexityRun {
 public:
  PerplexityRun(const LanguageModel& model, const PerplexityRequest& request)
      : model_(model), request_(request) {
    result_.context_tokens = context_of(request, model.shape());
    tokens_ = tokens_of(request.input, model);
    if (request.max_tokens && *request.max_tokens < static_cast<std::int64_t>(tokens_.size()))
      tokens_.resize(static_cast<std::size_t>(*request.max_tokens));
    const auto num_tokens = static_cast<std::int64_t>(tokens_.size());
    if (num_tokens < 2) {
      refuse(request.input.name, "has {} {}; a prediction takes at least 2", num_tokens,
             num_tokens == 1 ? "token" : "tokens");
    }
    windows_ = windows_of(num_tokens, result_.context_tokens, request.stride);
    result_.num_left_tokens = num_tokens - windows_.back().end;
    for (const Window& window : windows_) total_ += window.end - window.first_scored;
  }

  Perplexity run() {
    std::int64_t longest = 0, most = 0;
    for (const Window& window : windows_) longest = std::max(longest, window.run_tokens());
    for (std::size_t i = 0; i < windows_.size(); i += together(i))
      most = std::max(most, static_cast<std::int64_t>(together(i)));
    WindowRunner model(model_, most, longest);
    std::optional<ReferenceRunner> reference;
    if (request_.reference != nullptr) {
      reference.emplace(*request_.reference, most, longest, request_.reference_states.get(),
                        states_key());
    }
    for (std::size_t i = 0; i < windows_.size() && !result_.partial;) {
      const std::span group = std::span(windows_).subspan(i, together(i));
      run_group(group, model, reference ? &*reference : nullptr);
      i += group.size();
    }
    if (reference && !result_.partial) reference->keep();
    return finished();
  }

 private:
  /// How many windows from this one run side by side: those that fit a chunk whole.
  std::size_t together(std::size_t first) const {
    std::size_t count = 1;
    std::int64_t sum = windows_[first].run_tokens();
    while (first + count < windows_.size()) {
      sum += windows_[first + count].run_tokens();
      if (sum > request_.chunk_tokens) break;
      ++count;
    }
    return count;
  }

  ReferenceStates::Key states_key() const {
    return {tokens_, result_.context_tokens, request_.stride, request_.chunk_tokens};
  }

  void run_group(std::span<const Window> group, WindowRunner& model, ReferenceRunner* reference) {
    // A window longer than a chunk is alone in its group; the others are run in one step.
    for (std::int64_t offset = 0; offset < group.front().run_tokens();
         offset += request_.chunk_tokens) {
      if (quality::is_set(request_.stop)) {
        result_.partial = true;
        return;
      }
      const std::span logits = model.run(group, tokens_, offset, request_.chunk_tokens);
      if (reference != nullptr) {
        score(group, offset, logits, reference->run(group, tokens_, offset, request_.chunk_tokens));
      } else {
        score(group, offset, logits, {});
      }
      if (offset == 0) result_.num_segments += static_cast<std::int64_t>(group.size());
      report();
    }
  }

  void score(std::span<const Window> group, std::int64_t offset, std::span<const float> logits,
             std::span<const float> reference) {
    targets_.clear();
    for (const Window& window : group) {
      const std::int64_t first = window.begin + offset;
      const std::int64_t count = std::min(request_.chunk_tokens, window.run_tokens() - offset);
      num_run_ += count;
      for (std::int64_t t = std::max(first + 1, window.first_scored); t <= first + count; ++t)
        targets_.push_back(tokens_[static_cast<std::size_t>(t)]);
    }
    if (targets_.empty()) return;
    scores_.resize(targets_.size());
    quality::score_rows(logits, targets_, model_.num_threads(), scores_);
    for (const double loss : scores_) losses_.add(loss);
    if (reference.empty()) return;
    base_scores_.resize(targets_.size());
    quality::score_rows(reference, targets_, request_.reference->num_threads(), base_scores_);
    for (std::size_t i = 0; i < scores_.size(); ++i) rises_.add(scores_[i] - base_scores_[i]);
    quality::divergence_rows(reference, logits, model_.num_threads(), scores_);
    for (const double divergence : scores_) divergences_.add(divergence);
  }

  void report() const {
    if (!request_.progress || losses_.count() == 0) return;
    request_.progress({losses_.count(), total_, losses_.mean(),
                       static_cast<double>(num_run_) / std::max(watch_.seconds(), 1e-9)});
  }

  Perplexity finished() {
    if (losses_.count() == 0) {
      throw Error(ErrorCode::interrupted, "stopped before the first token was predicted");
    }
    result_.loss_nats = losses_.mean();
    result_.perplexity = std::exp(result_.loss_nats);
    result_.standard_error = losses_.standard_error();
    result_.num_tokens = losses_.count();
    if (request_.reference != nullptr) {
      result_.kl_nats = divergences_.mean();
      result_.kl_standard_error = divergences_.standard_error();
      result_.loss_increase_nats = rises_.mean();
      result_.loss_increase_standard_error = rises_.standard_error();
    }
    result_.seconds = watch_.seconds();
    result_.tok_s = static_cast<double>(num_run_) / std::max(result_.seconds, 1e-9);
    return result_;
  }

  const LanguageModel& model_;
  const PerplexityRequest& request_;
  std::vector<std::int32_t> tokens_, targets_;
  std::vector<Window> windows_;
  std::vector<double> scores_, base_scores_;
  BatchMeans losses_, divergences_, rises_;
  std::int64_t total_ = 0, num_run_ = 0;
  Perplexity result_;
  quality::Stopwatch watch_;
};

}  // namespace

Perplexity measure_perplexity(const LanguageModel& model, const PerplexityRequest& request) {
  return PerplexityRun(model, request).run();
}

}  // namespace tessera::lm
