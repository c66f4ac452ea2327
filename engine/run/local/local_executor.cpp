#include "tessera/run/local_executor.h"

#include <algorithm>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/serving/prompt_lookup.h"

namespace tessera::run {
namespace {

// Tokens that have to be the same for what follows them to be a guess: the longest match counts.
constexpr std::size_t kShortestMatch = 2, kLongestMatch = 4;

}  // namespace

LocalExecutor::LocalExecutor(std::shared_ptr<const lm::LanguageModel> model, Options options,
                             const LiveClock& clock, serving::StageClocks* model_times)
    : SessionExecutor(std::move(options.stop_tokens)),
      model_(std::move(model)),
      options_(std::move(options)),
      clock_(clock),
      model_times_(model_times),
      cache_(model_->make_cache(options_.kv_blocks, options_.block_size)) {
  cache_->touch();
}

void LocalExecutor::launch(const serving::Work& work) {
  UnderWay& step = under_way_.emplace_back(UnderWay{.work = work});
  for (const serving::BatchItem& item : work.batch.items) {
    fill_in(item, step.parts.emplace_back(), *find(item.request));
  }
  step.times = model_times_ != nullptr ? model_times_->take(work.batch, clock_.now())
                                       : serving::StepTimes::of(clock_.now(), clock_.now());
}

serving::Ticks LocalExecutor::due() const {
  if (under_way_.empty()) return serving::kNever;
  return model_times_ != nullptr ? under_way_.front().times.end : 0;
}

void LocalExecutor::run() {
  if (model_times_ != nullptr || under_way_.empty() || is_computed_) return;
  compute(under_way_.front());
}

std::optional<serving::Done> LocalExecutor::finished() {
  if (under_way_.empty()) return std::nullopt;
  serving::StepTimes times = under_way_.front().times;
  if (model_times_ != nullptr) {
    if (times.end > clock_.now()) return std::nullopt;
    compute(under_way_.front());
  } else {
    if (!is_computed_) return std::nullopt;
    times = serving::StepTimes::of(std::max(times.start, last_end_), clock_.now());
  }
  serving::Done done{
      .step = under_way_.front().work.step, .times = times, .generated = std::move(generated_)};
  last_end_ = times.end;
  is_computed_ = false;
  under_way_.pop_front();
  return done;
}

// ------------------------------------------------------------------------------------------ a step

void LocalExecutor::compute(UnderWay& step) {
  move(step.work.batch.moves);
  lay_out(step);
  if (!steps_.empty()) model_->step(steps_, *cache_, logits_);
  draw(step);
  is_computed_ = true;
}

void LocalExecutor::move(const serving::Moves& moves) {
  const std::int64_t layers = model_->shape().num_layers;
  const auto size = static_cast<std::size_t>(cache_->block_bytes(0, layers));
  for (const serving::Moves::Move& out : moves.swap_out) {
    std::vector<std::byte>& block = host_[out.to];
    block.resize(size);
    cache_->read({&out.from, 1}, 0, layers, block);
  }
  for (const serving::Moves::Move& in : moves.swap_in) {
    cache_->write({&in.to, 1}, 0, layers, host_.at(in.from));
    host_.erase(in.from);
  }
}

// The tokens of an item that are known; of a step decided ahead the last one may still be to come.
void LocalExecutor::fill_in(const serving::BatchItem& item, Part& part, const Session& session) {
  const std::int64_t end = std::min(item.context + item.tokens - item.drafts,
                                    static_cast<std::int64_t>(std::ssize(session.tokens)));
  for (std::int64_t p = item.context + std::ssize(part.tokens); p < end; ++p) {
    part.tokens.push_back(session.tokens[static_cast<std::size_t>(p)]);
  }
}

// Of a request that is gone what was known is computed all the same: others may have found it in
// the prefix cache since the step was decided.
void LocalExecutor::lay_out(UnderWay& step) {
  const std::vector<serving::BatchItem>& items = step.work.batch.items;
  std::int64_t rows = 0;
  steps_.clear();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const serving::BatchItem& item = items[i];
    Part& part = step.parts[i];
    part.row = rows;
    if (const Session* session = find(item.request)) {
      fill_in(item, part, *session);
      if (std::ssize(part.tokens) != item.tokens - item.drafts) {
        refuse(ErrorCode::internal, "step", "{} tokens of request {} are known, of {}",
               part.tokens.size(), item.request, item.tokens - item.drafts);
      }
      part.draws = item.samples;
      if (item.drafts > 0) {
        const std::vector<std::int32_t>& drafts = drawing_of(item.request, *session).drafts;
        part.num_drafts = std::min<std::int64_t>(item.drafts, std::ssize(drafts));
        part.tokens.insert(part.tokens.end(), drafts.begin(), drafts.begin() + part.num_drafts);
      }
    }
    const std::int64_t own = part.draws ? 1 + part.num_drafts : 0;
    rows += own;
    if (part.tokens.empty()) continue;
    steps_.push_back({.tokens = part.tokens,
                      .context_tokens = item.context,
                      .block_table = step.work.tables.at(i),
                      .num_logits = own});
  }
  logits_.resize(static_cast<std::size_t>(rows * model_->shape().vocab_size));
}

std::span<const float> LocalExecutor::logits_of(std::int64_t row) const {
  const auto vocabulary = static_cast<std::size_t>(model_->shape().vocab_size);
  return std::span(logits_).subspan(static_cast<std::size_t>(row) * vocabulary, vocabulary);
}

LocalExecutor::Drawing& LocalExecutor::drawing_of(std::int64_t request, const Session& session) {
  const auto found = drawings_.find(request);
  if (found != drawings_.end()) return found->second;
  Drawing made{lm::Sampler(session.prompt->sampling, model_->shape().vocab_size,
                           session.prompt->adjustments)};
  if (session.prompt->sampling.repetition_penalty != 1) {
    for (const std::int32_t token : session.tokens) made.sampler.see(token);
  }
  return drawings_.emplace(request, std::move(made)).first->second;
}

void LocalExecutor::draw(const UnderWay& step) {
  const std::vector<serving::BatchItem>& items = step.work.batch.items;
  generated_.assign(items.size(), {});
  std::vector<lm::Choice> choices;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!step.parts[i].draws) continue;
    const Session& session = *find(items[i].request);
    choices.push_back({.sampler = &drawing_of(items[i].request, session).sampler,
                       .logits = logits_of(step.parts[i].row),
                       .step = session.num_new()});
  }
  lm::choose(choices, model_->num_threads());
  std::size_t next = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Part& part = step.parts[i];
    if (!part.draws) continue;
    generated_[i] = verify(items[i].request, choices[next++].token, part.row, part.num_drafts);
  }
}

bool LocalExecutor::put_token(Session& session, std::int32_t token, std::int64_t row) const {
  const std::int64_t before = session.num_new();
  const bool is_last = add_token(session, token, clock_.now());
  if (session.prompt->num_top && session.num_new() > before) {
    session.log_probabilities.push_back(
        lm::log_probabilities(logits_of(row), token, *session.prompt->num_top));
  }
  return is_last;
}

// A draft passes where it is the token that would have been drawn there anyhow: a draw depends on
// seed and place alone, so that text and distribution are those without drafts.
serving::Generated LocalExecutor::verify(std::int64_t request, std::int32_t token, std::int64_t row,
                                         std::int64_t num_drafts) {
  Session& session = *find(request);
  Drawing& drawing = drawing_of(request, session);
  const std::int64_t before = session.num_new();
  std::int64_t passed = 0;
  while (true) {
    if (put_token(session, token, row + passed)) break;
    drawing.sampler.add(token);
    if (passed == num_drafts || drawing.drafts[static_cast<std::size_t>(passed)] != token) break;
    ++passed;
    token = drawing.sampler.choose(logits_of(row + passed), session.num_new());
  }
  const bool stopped = session.stop_reason == lm::StopReason::stop_token;
  const bool ended = stopped || session.num_new() >= session.most_new;
  serving::Generated g = brought(request, session, before, ended);
  g.accepted = passed;
  if (options_.num_drafts == 0 || ended) return g;
  const auto found = serving::prompt_lookup(session.tokens, kShortestMatch, kLongestMatch,
                                            static_cast<std::size_t>(options_.num_drafts));
  drawing.drafts.assign(found.begin(), found.end());
  g.next_drafts = std::ssize(drawing.drafts);
  return g;
}

}  // namespace tessera::run
