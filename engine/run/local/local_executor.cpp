#include "tessera/run/local_executor.h"

#include <algorithm>
#include <utility>

#include "drafter.h"
#include "tessera/core/error.h"
#include "tessera/core/rng.h"
#include "tessera/serving/content.h"
#include "tessera/serving/prompt_lookup.h"
#include "tessera/serving/verify.h"

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
  if (options_.draft_model) {
    drafter_ = std::make_unique<Drafter>(options_.draft_model, options_.kv_blocks,
                                         options_.block_size, options_.num_drafts);
  }
}

LocalExecutor::~LocalExecutor() = default;

void LocalExecutor::touch(const std::stop_token& stop) {
  cache_->touch(stop);
  if (drafter_) drafter_->cache().touch(stop);
}

void LocalExecutor::gone(std::int64_t request) {
  drawings_.erase(request);
  if (drafter_) drafter_->gone(request);
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
  score_prompts(step);
  draw(step);
  if (drafter_) draft(step);
  is_computed_ = true;
}

void LocalExecutor::move(const serving::Moves& moves) {
  std::vector<std::pair<lm::KvCache*, std::int64_t>> caches{
      {cache_.get(), model_->shape().num_layers}};
  if (drafter_) caches.emplace_back(&drafter_->cache(), options_.draft_model->shape().num_layers);
  // A block of host memory has those of all caches.
  const auto each = [&](std::vector<std::byte>& block, auto&& f) {
    std::size_t at = 0;
    for (const auto& [cache, layers] : caches) {
      const auto size = static_cast<std::size_t>(cache->block_bytes(0, layers));
      block.resize(std::max(block.size(), at + size));
      f(*cache, layers, std::span(block).subspan(at, size));
      at += size;
    }
  };
  for (const serving::Moves::Move& out : moves.swap_out) {
    each(host_[out.to], [&](lm::KvCache& cache, std::int64_t layers, std::span<std::byte> to) {
      cache.read({&out.from, 1}, 0, layers, to);
    });
  }
  for (const serving::Moves::Move& in : moves.swap_in) {
    each(host_.at(in.from),
         [&](lm::KvCache& cache, std::int64_t layers, std::span<std::byte> from) {
           cache.write({&in.to, 1}, 0, layers, from);
         });
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
    part.first_row = rows;
    if (const Session* session = find(item.request)) {
      fill_in(item, part, *session);
      if (std::ssize(part.tokens) != item.tokens - item.drafts) {
        refuse(ErrorCode::internal, "step", "{} tokens of request {} are known, of {}",
               part.tokens.size(), item.request, item.tokens - item.drafts);
      }
      part.draws = item.samples;
      // Every token of a chunk says how likely the one behind it was, as far as that is the
      // prompt's.
      if (session->prompt->scores_prompt) {
        const auto last = std::ssize(session->prompt->tokens) - 1;
        part.num_scored = std::clamp<std::int64_t>(last - item.context, 0, item.tokens);
      }
      if (item.drafts > 0) {
        const std::vector<std::int32_t>& drafts = drawing_of(item.request, *session).drafts.tokens;
        part.num_drafts = std::min<std::int64_t>(item.drafts, std::ssize(drafts));
        part.tokens.insert(part.tokens.end(), drafts.begin(), drafts.begin() + part.num_drafts);
      }
    }
    // Logits are those of an item's last tokens.
    std::int64_t own = part.draws ? 1 + part.num_drafts : 0;
    if (part.num_scored > 0) own = std::ssize(part.tokens);
    rows += own;
    part.row = rows - (part.draws ? 1 + part.num_drafts : 0);
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

void LocalExecutor::score_prompts(const UnderWay& step) {
  for (std::size_t i = 0; i < step.parts.size(); ++i) {
    const Part& part = step.parts[i];
    if (part.num_scored == 0) continue;
    const serving::BatchItem& item = step.work.batch.items[i];
    Session& session = *find(item.request);
    const Prompt& prompt = *session.prompt;
    session.of_prompt.resize(prompt.tokens.size() - 1);
    for (std::int64_t row = 0; row < part.num_scored; ++row) {
      const auto at = static_cast<std::size_t>(item.context + row);
      session.of_prompt[at] = lm::log_probabilities(
          logits_of(part.first_row + row), prompt.tokens[at + 1], prompt.num_top.value_or(0));
    }
  }
}

void LocalExecutor::draw(const UnderWay& step) {
  const std::vector<serving::BatchItem>& items = step.work.batch.items;
  generated_.assign(items.size(), {});
  std::vector<lm::Choice> choices;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Part& part = step.parts[i];
    if (!part.draws || is_drawn_by_rule(items[i].request, part)) continue;
    const Session& session = *find(items[i].request);
    choices.push_back({.sampler = &drawing_of(items[i].request, session).sampler,
                       .logits = logits_of(part.row),
                       .step = session.num_new()});
  }
  lm::choose(choices, model_->num_threads());
  std::size_t next = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Part& part = step.parts[i];
    if (!part.draws) continue;
    std::optional<std::int32_t> chosen;
    if (!is_drawn_by_rule(items[i].request, part)) chosen = choices[next++].token;
    generated_[i] = verify(items[i].request, chosen, part);
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

// Whether drafts were drawn from what a draft model says, and pass by Leviathan's rule.
bool LocalExecutor::is_drawn_by_rule(std::int64_t request, const Part& part) {
  if (!drafter_ || part.num_drafts == 0) return false;
  const Session* session = find(request);
  return session != nullptr && !drawing_of(request, *session).drafts.probabilities.empty();
}

// The token behind the drafts that passed. A draft that nothing drew passes where it is the token
// that would have been drawn there anyhow: a draw depends on seed and place alone, so that text and
// distribution are those without drafts. One that a draft model drew passes, or another takes its
// place, by the rule under which the distribution is that without drafts.
std::int32_t LocalExecutor::next_token(const Session& session, Drawing& drawing, std::int64_t row,
                                       std::int64_t passed) {
  const Drafts& drafts = drawing.drafts;
  const std::span<const float> logits = logits_of(row + passed);
  const auto at = static_cast<std::size_t>(passed);
  const std::size_t vocabulary = logits.size();
  if (drafts.probabilities.size() < (at + 1) * vocabulary)
    return drawing.sampler.choose(logits, session.num_new());
  std::vector<double> rows = drawing.sampler.probabilities(logits, session.num_new());
  rows.resize(2 * vocabulary);  // what would follow the draft is not drawn here
  rows[vocabulary] = 1;
  Rng rng(serving::mixed_hash(session.prompt->sampling.seed,
                              static_cast<std::uint64_t>(2 * session.num_new() + 1)));
  const std::span<const double> q(drafts.probabilities);
  const serving::Verified verified = serving::verify<double>(
      {&drafts.tokens[at], 1}, {q.subspan(at * vocabulary, vocabulary), vocabulary},
      {rows, vocabulary}, rng);
  return verified.num_accepted == 1 ? drafts.tokens[at] : verified.next;
}

serving::Generated LocalExecutor::verify(std::int64_t request, std::optional<std::int32_t> chosen,
                                         const Part& part) {
  Session& session = *find(request);
  Drawing& drawing = drawing_of(request, session);
  drawing.drafts.tokens.resize(static_cast<std::size_t>(part.num_drafts));
  drawing.drafts.probabilities.resize(
      std::min(drawing.drafts.probabilities.size(),
               static_cast<std::size_t>(part.num_drafts * model_->shape().vocab_size)));
  const std::int64_t before = session.num_new();
  std::int64_t passed = 0;
  std::int32_t token = chosen ? *chosen : next_token(session, drawing, part.row, 0);
  while (true) {
    if (put_token(session, token, part.row + passed)) break;
    drawing.sampler.add(token);
    const auto at = static_cast<std::size_t>(passed);
    if (passed == part.num_drafts || drawing.drafts.tokens[at] != token) break;
    ++passed;
    token = next_token(session, drawing, part.row, passed);
  }
  const bool stopped = session.stop_reason == lm::StopReason::stop_token;
  const bool ended = stopped || session.num_new() >= session.most_new;
  serving::Generated g = brought(request, session, before, ended);
  g.accepted = passed;
  if (options_.num_drafts > 0 && !ended && !drafter_) look_up_drafts(request, g);
  return g;
}

void LocalExecutor::look_up_drafts(std::int64_t request, serving::Generated& g) {
  Session& session = *find(request);
  const auto found = serving::prompt_lookup(session.tokens, kShortestMatch, kLongestMatch,
                                            static_cast<std::size_t>(options_.num_drafts));
  std::vector<std::int32_t>& drafts = drawing_of(request, session).drafts.tokens;
  drafts.assign(found.begin(), found.end());
  g.next_drafts = std::ssize(drafts);
}

// What the draft model reads of a step, and guesses for the next one. It reads what the model did,
// also of a request that is gone: others may find it in the prefix cache.
void LocalExecutor::draft(const UnderWay& step) {
  const std::vector<serving::BatchItem>& items = step.work.batch.items;
  std::vector<Drafter::Part> parts;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Part& part = step.parts[i];
    Drafter::Part read{
        .request = items[i].request,
        .context = items[i].context,
        .kept = std::ssize(part.tokens) - part.num_drafts + generated_[i].accepted,
        .tokens = part.tokens,
        .decodes = items[i].decodes,
        .table = step.work.tables.at(i),
    };
    if (const Session* session = find(items[i].request)) {
      const bool goes_on = part.draws && !generated_[i].ended;
      read.most_drafts = goes_on ? session->most_new - session->num_new() - 1 : 0;
      read.tokens = std::span(session->tokens)
                        .subspan(static_cast<std::size_t>(read.context))
                        .first(static_cast<std::size_t>(read.kept + (read.most_drafts > 0)));
      read.sampling = &session->prompt->sampling;
      read.num_new = session->num_new();
    }
    parts.push_back(std::move(read));
  }
  drafter_->run(parts);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!step.parts[i].draws || generated_[i].ended) continue;
    generated_[i].next_drafts = std::ssize(parts[i].drafts.tokens);
    const Session& session = *find(items[i].request);
    drawing_of(items[i].request, session).drafts = std::move(parts[i].drafts);
  }
}

}  // namespace tessera::run
