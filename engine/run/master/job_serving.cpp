// A job that serves: requests that come and leave, and those between the engine that reads their
// prompts and the one that decodes them.

#include <algorithm>
#include <utility>

#include "job_parts.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"

namespace tessera::run {

bool Job::work() {
  if (is_done() || !hooks_.work) return false;
  begin_moment();
  return hooks_.work();
}

void Job::submit(serving::Sequence sequence, const Prompt& prompt, const std::string& salt) {
  const std::int64_t most = most_new(prompt, options_.max_context_tokens);
  if (exchange_) return exchange_->submit(std::move(sequence), Session(prompt, most), salt);
  engines_.front()->live.submit(std::move(sequence), prompt, most, moment_, salt);
}

void Job::cancel(std::int64_t request) {
  if (exchange_ && exchange_->cancel(request)) return;
  for (const auto& engine : engines_) {
    if (!engine->live.cancel(request, moment_)) continue;
    if (exchange_) exchange_->try_waiting(*engine);
    return;
  }
}

void Job::go_on() {
  Engine& engine = *engines_.front();
  if (engine.is_running) return advance(engine);
  for (Engine* one : linked(engine)) answer(*one);
  if (hooks_.moment) ask([&] { hooks_.moment(); });
}

std::vector<serving::EngineCore*> Job::cores() {
  std::vector<serving::EngineCore*> all;
  for (const auto& engine : engines_) all.push_back(&engine->live.core());
  return all;
}

std::int64_t Job::num_handovers() const {
  if (!exchange_) return 0;
  return static_cast<std::int64_t>(exchange_->handovers.num_waiting() +
                                   exchange_->handovers.num_under_way());
}

Job::Exchange::Exchange(Job& of, Engine& reads, Engine& decodes)
    : job(of), reader(reads), decoder(decodes) {
  reader.executor.read_only();
  reader.live.on_hold = [this](std::int64_t request) { hold(request); };
}

serving::EngineCore& Job::Exchange::core_of(std::size_t engine) {
  return job.engines_[engine]->live.core();
}

// Who only reads brings one token more than there are.
void Job::Exchange::submit(serving::Sequence sequence, Session session, const std::string& salt) {
  came_[sequence.request] = {sequence, salt};
  sequence.max_tokens = session.num_new() + 1;
  reader.live.go_on(std::move(sequence), std::move(session), job.moment_, salt);
}

void Job::Exchange::hold(std::int64_t request) {
  serving::RequestRecord& record = reader.live.core().ledger().record(request);
  const serving::Ticks started =
      record.decode_started > 0 ? record.decode_started : record.first_scheduled;
  record.decode_started = serving::kNever;
  handovers.hand_over({request, reader.index, 0, started, job.moment_}, job.moment_);
}

void Job::Exchange::try_waiting(const Engine& engine) {
  handovers.try_waiting(engine.index, job.moment_);
}

serving::Sequence Job::Exchange::loading_sequence(const serving::Handover& handover) {
  const serving::Sequence& held = reader.live.core().sequence(handover.request);
  serving::Sequence next = came_.at(handover.request).sequence;
  next.prompt_tokens = held.prompt_tokens;
  next.known = held.known;
  next.computed = held.known - 1;
  next.content.tokens = held.content.tokens;
  return next;
}

// Stages of the decoder that have layers of a stage of the reader.
std::vector<GiveOrder::Part> Job::Exchange::parts_of(const LoadOrder& stage) const {
  std::vector<GiveOrder::Part> parts;
  const std::vector<LoadOrder>& others = job.options_.engines[decoder.index].stages;
  for (std::size_t k = 0; k < others.size(); ++k) {
    const std::int64_t first = std::max(stage.first_layer, others[k].first_layer);
    const std::int64_t last = std::min(stage.last_layer, others[k].last_layer);
    if (first < last) parts.push_back({decoder.stages[k].front(), first, last});
  }
  return parts;
}

serving::Ticks Job::Exchange::send(const serving::Handover& handover, serving::Ticks) {
  const serving::Sequence& held = reader.live.core().sequence(handover.request);
  const serving::Sequence& loading = decoder.live.core().sequence(handover.request);
  const auto count = static_cast<std::size_t>(
      ceil_div(loading.computed, reader.live.core().scheduler().kv().block_size()));
  const auto names = [count](const Engine& engine, const serving::Sequence& s) {
    std::vector<std::int32_t> blocks = engine.live.core().scheduler().kv().names(s.kv);
    blocks.resize(count);
    return blocks;
  };
  GiveOrder order{.from = names(reader, held), .to = names(decoder, loading)};
  order.after_step = decoder.executor.newest_step();
  const Header header{.kind = Kind::give, .epoch = reader.epoch, .step = handover.request};
  std::size_t num_parts = 0;
  const std::vector<LoadOrder>& stages = job.options_.engines[reader.index].stages;
  for (std::size_t k = 0; k < stages.size(); ++k) {
    order.parts = parts_of(stages[k]);
    num_parts += order.parts.size();
    if (!order.parts.empty()) job.transport_.send(reader.stages[k].front(), header, body_of(order));
  }
  to_come_[handover.request] = num_parts;
  return serving::kNever;
}

void Job::Exchange::taken(std::int64_t request) {
  const auto it = to_come_.find(request);
  if (it == to_come_.end()) refuse("message", "blocks of request {}, which nobody gave", request);
  if (--it->second > 0) return;
  to_come_.erase(it);
  const auto handover = handovers.end(request, job.moment_);
  if (!handover) return;
  reader.live.core().ledger().record(request).transferred = job.moment_ - handover->ready;
  if (!handover->cancelled) decoder.executor.add(request, reader.executor.take(request));
}

void Job::Exchange::reject(std::int64_t request, serving::Ticks now) {
  reader.live.core().ledger().rejected(request, now);
  reader.over.push_back({request, reader.executor.take(request), Ending::rejected});
}

bool Job::Exchange::cancel(std::int64_t request) {
  if (!handovers.cancel(request, job.moment_)) return false;
  reader.over.push_back({request, reader.executor.take(request), Ending::cancelled});
  return true;
}

void Job::Exchange::lose_steps() {
  to_come_.clear();
  for (const std::int64_t request : handovers.break_off(reader.index, job.moment_)) {
    Came came = came_.at(request);
    submit(std::move(came.sequence), reader.executor.take(request), came.salt);
  }
}

}  // namespace tessera::run
