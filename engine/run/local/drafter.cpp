#include "drafter.h"

#include <algorithm>
#include <utility>

#include "tessera/core/rng.h"
#include "tessera/serving/content.h"
#include "tessera/serving/verify.h"

namespace tessera::run {

Drafter::Drafter(std::shared_ptr<const lm::LanguageModel> model, std::int64_t kv_blocks,
                 std::int64_t block_size, std::int64_t num_drafts)
    : model_(std::move(model)),
      block_size_(block_size),
      num_drafts_(num_drafts),
      cache_(model_->make_cache(kv_blocks, block_size)) {}

// Of a request that decodes what it wrote ahead stays, as far as it was right.
void Drafter::run(std::span<Part> parts) {
  for (Part& part : parts) {
    const auto found = read_.find(part.request);
    const bool goes_on = part.decodes && found != read_.end();
    part.read = goes_on ? std::min(found->second, part.context + part.kept) : part.context;
    part.most_drafts = most_of(part);
    if (part.most_drafts == 0) part.tokens = part.tokens.first(static_cast<std::size_t>(part.kept));
  }
  guess(parts, [](Part& part) {
    return part.tokens.subspan(static_cast<std::size_t>(part.read - part.context));
  });
  for (std::int64_t round = 1; round < num_drafts_; ++round) {
    guess(parts, [&](Part& part) {
      const bool goes_on = round < part.most_drafts;
      return std::span<const std::int32_t>(part.drafts.tokens).last(goes_on ? 1 : 0);
    });
  }
  for (const Part& part : parts) {
    if (part.sampling != nullptr) read_[part.request] = part.read;
  }
}

// Reads tokens_of(part) of each, and draws a guess for those that want any.
template <class TokensOf>
void Drafter::guess(std::span<Part> parts, const TokensOf& tokens_of) {
  steps_.clear();
  std::vector<Part*> guessing;
  for (Part& part : parts) {
    const std::span<const std::int32_t> tokens = tokens_of(part);
    if (tokens.empty()) continue;
    const bool guesses = part.most_drafts > 0;
    steps_.push_back({.tokens = tokens,
                      .context_tokens = part.read,
                      .block_table = part.table,
                      .num_logits = guesses ? 1 : 0});
    part.read += std::ssize(tokens);
    if (guesses) guessing.push_back(&part);
  }
  if (steps_.empty()) return;
  const auto vocabulary = static_cast<std::size_t>(model_->shape().vocab_size);
  logits_.resize(guessing.size() * vocabulary);
  model_->step(steps_, *cache_, logits_);
  for (std::size_t i = 0; i < guessing.size(); ++i)
    draw(*guessing[i], std::span(logits_).subspan(i * vocabulary, vocabulary));
}

// As many as are wanted, and as its blocks and its context have room for: the last one is not read.
std::int64_t Drafter::most_of(const Part& part) const {
  const std::int64_t room =
      std::min(std::ssize(part.table) * block_size_, model_->shape().max_context_tokens) -
      part.context - std::ssize(part.tokens);
  return std::clamp<std::int64_t>(room + 1, 0, std::min(part.most_drafts, num_drafts_));
}

// By the request's own temperature and filters; its seed and the place decide.
void Drafter::draw(Part& part, std::span<const float> logits) {
  const std::int64_t step = part.num_new + std::ssize(part.drafts.tokens);
  lm::SamplingOptions options = *part.sampling;
  options.repetition_penalty = 1;
  lm::Sampler sampler(options, std::ssize(logits));
  if (options.temperature == 0) return part.drafts.tokens.push_back(sampler.choose(logits, step));
  const std::vector<double> row = sampler.probabilities(logits, step);
  Rng rng(serving::mixed_hash(options.seed, static_cast<std::uint64_t>(2 * step)));
  const serving::ProbabilityRows<double> rows{row, row.size()};
  part.drafts.tokens.push_back(serving::verify<double>({}, {}, rows, rng).next);
  part.drafts.probabilities.insert(part.drafts.probabilities.end(), row.begin(), row.end());
}

}  // namespace tessera::run
