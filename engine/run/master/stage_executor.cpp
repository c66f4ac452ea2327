#include "tessera/run/stage_executor.h"

#include <utility>

#include "tessera/core/error.h"

namespace tessera::run {

StageExecutor::StageExecutor(std::vector<std::vector<std::int32_t>> ranks,
                             std::map<std::size_t, std::int32_t> attention,
                             std::unordered_set<std::int32_t> stop_tokens, Transport& transport,
                             Emulated emulated)
    : SessionExecutor(std::move(stop_tokens)),
      ranks_(std::move(ranks)),
      attention_(std::move(attention)),
      transport_(transport),
      emulated_(std::move(emulated)) {}

void StageExecutor::gone(std::int64_t request) {
  if (sampled_.erase(request) > 0) gone_.push_back(request);
}

StepItem StageExecutor::item_of(const serving::Work& work, std::size_t i, StepOrder& order) {
  const serving::BatchItem& item = work.batch.items[i];
  const Session& session = *find(item.request);
  StepItem part{.request = item.request,
                .tokens = item.tokens,
                .context_tokens = item.context,
                .block_table = work.tables.at(i)};
  const auto first = session.tokens.begin() + item.context;
  part.token_ids.assign(first, first + item.tokens);
  if (!item.samples) return part;
  part.draw = session.num_new();
  if (sampled_.insert(item.request).second) {
    NewSampler sampler{.request = item.request, .options = session.prompt->sampling};
    if (sampler.options.repetition_penalty != 1) sampler.text = session.tokens;
    order.samplers.push_back(std::move(sampler));
  }
  return part;
}

void StageExecutor::launch(const serving::Work& work) {
  StepOrder order;
  for (std::size_t i = 0; i < work.batch.items.size(); ++i) {
    order.items.push_back(item_of(work, i, order));
  }
  const Header header{.kind = Kind::step, .epoch = epoch_, .step = work.step};
  under_way_.push_back(
      {work.step, work.batch.items, work.batch.load.unit, transport_.now(), moment_});
  std::vector<NewSampler> samplers = std::exchange(order.samplers, {});
  const std::vector<Nanoseconds>* times = emulated_times(work.batch.load.unit);
  for (std::size_t stage = 0; stage < ranks_.size(); ++stage) {
    if (stage + 1 == ranks_.size()) {
      order.samplers = std::move(samplers);
      order.gone = std::exchange(gone_, {});
    }
    if (times != nullptr) {
      order.link_time = times->at(2 * stage);
      order.least_time = times->at(2 * stage + 1);
    }
    const std::vector<std::byte> body = body_of(order);
    for (const std::int32_t rank : ranks_[stage]) transport_.send(rank, header, body);
    const auto attention = attention_.find(stage);
    if (attention != attention_.end()) transport_.send(attention->second, header, body);
    // Ids are for the first stage alone.
    for (StepItem& item : order.items) item.token_ids.clear();
  }
}

const std::vector<Nanoseconds>* StageExecutor::emulated_times(const serving::StepUnit& unit) const {
  if (emulated_.empty()) return nullptr;
  const auto found = emulated_.find({unit.decodes, unit.micro_batch, unit.index});
  if (found != emulated_.end()) return &found->second;
  refuse(ErrorCode::internal, "emulated", "{} {} of micro-batch {} has no time",
         unit.decodes ? "round" : "chunk", unit.index, unit.micro_batch);
}

std::optional<serving::Done> StageExecutor::finished() {
  if (done_.empty()) return std::nullopt;
  serving::Done done = std::move(done_.front());
  done_.pop_front();
  return done;
}

void StageExecutor::on_tokens(const Message& message) {
  if (message.header.epoch != epoch_) return;
  const StepTokens tokens = step_tokens_of(message);
  if (under_way_.empty() || under_way_.front().step != message.header.step ||
      tokens.token_ids.size() != under_way_.front().items.size() ||
      tokens.times.size() != ranks_.size()) {
    refuse("message", "tokens of step {}, which is not the oldest under way", message.header.step);
  }
  const UnderWay step = std::move(under_way_.front());
  under_way_.pop_front();
  serving::Done done{.step = step.step, .times = serving::StepTimes::of(step.start, moment_)};
  for (std::size_t i = 0; i < step.items.size(); ++i) {
    done.generated.push_back(take_token(step.items[i], tokens.token_ids[i]));
  }
  if (keeps_spans_) note_times(step, tokens.times);
  done_.push_back(std::move(done));
}

serving::Generated StageExecutor::take_token(const serving::BatchItem& item, std::int32_t token) {
  Session* session = find(item.request);
  if (!item.samples || session == nullptr) return {};
  if (token < 0) refuse("message", "no token was sampled for request {}", item.request);
  const std::int64_t before = session->num_new();
  const bool ended = add_token(*session, token, moment_);
  serving::Generated g = brought(item.request, *session, before, ended);
  if (reads_only_ && !ended) g.ended = g.hold = true;
  return g;
}

void StageExecutor::note_times(const UnderWay& step, const std::vector<StageTimes>& times) {
  std::int64_t tokens = 0;
  for (const serving::BatchItem& item : step.items) tokens += item.tokens;
  for (std::size_t stage = 0; stage < times.size(); ++stage) {
    // A peer's clock shows ours plus an offset.
    const std::int32_t rank = ranks_[stage].front();
    const Nanoseconds ahead = transport_.clock_of(rank, 0);
    const bool is_last = stage + 1 == ranks_.size();
    const std::int64_t receivers = is_last ? 1 : std::ssize(ranks_[stage + 1]);
    const auto ours = [&](Nanoseconds theirs) { return theirs - ahead - start_; };
    spans_.push_back({step.step, stage, rank, ours(times[stage].start), ours(times[stage].computed),
                      ours(times[stage].end), step.unit, std::ssize(step.items), tokens,
                      receivers * times[stage].sent_bytes});
  }
}

void StageExecutor::lose_steps(std::uint32_t epoch) {
  epoch_ = epoch;
  under_way_.clear();
  done_.clear();
  sampled_.clear();
  gone_.clear();
}

}  // namespace tessera::run
