#include "tessera/serving/handovers.h"

#include <algorithm>
#include <utility>

namespace tessera::serving {

void Handovers::hand_over(Handover handover, Ticks now) {
  handover.target = pools_.decoder_of(handover.request, now);
  waiting_[handover.target].push_back(handover);
  if (handover.target != Pools::kNobody) try_waiting(handover.target, now);
}

void Handovers::try_waiting(std::size_t target, Ticks now) {
  std::deque<Handover>& waiting = waiting_[target];
  while (!waiting.empty()) {
    Handover& first = waiting.front();
    EngineCore& core = pools_.core_of(target);
    Sequence sequence = pools_.loading_sequence(first);
    if (!core.scheduler().why_never(sequence.prompt_tokens, sequence.max_tokens).empty()) {
      const Handover never = first;
      waiting.pop_front();
      release(never, now);
      pools_.reject(never.request, now);
      continue;
    }
    // As far as can be told before the engine is brought up to now: what a stretch has not taken
    // yet only makes blocks fewer.
    if (!core.scheduler().may_load(sequence)) return;
    if (pools_.settle(target, now)) continue;  // which tries them too
    if (!core.begin_loading(std::move(sequence), now)) return;
    first.end = pools_.send(first, now);
    under_way_.emplace(first.request, first);
    waiting.pop_front();
  }
}

void Handovers::choose_again(std::size_t target, Ticks now) {
  for (const Handover& handover : std::exchange(waiting_[target], {})) hand_over(handover, now);
}

// Its sender keeps nothing of it.
void Handovers::release(const Handover& handover, Ticks now) {
  pools_.core_of(handover.source).let_go(handover.request, now);
  pools_.has_released(handover.source, now);
}

std::optional<Handover> Handovers::end(std::int64_t request, Ticks now) {
  const auto it = under_way_.find(request);
  if (it == under_way_.end() || (it->second.end != kNever && it->second.end != now)) return {};
  const Handover handover = it->second;
  under_way_.erase(it);
  release(handover, now);
  if (handover.cancelled) {
    pools_.settle(handover.target, now);
    pools_.core_of(handover.target).withdraw(request, now);
    try_waiting(handover.target, now);
  } else {
    pools_.core_of(handover.target).finish_loading(request);
  }
  pools_.came(handover.target, now);
  return handover;
}

bool Handovers::cancel(std::int64_t request, Ticks now) {
  if (const auto it = under_way_.find(request); it != under_way_.end()) {
    it->second.cancelled = true;
    pools_.core_of(it->second.source).ledger().cancelled(request, now);
    return true;
  }
  for (auto& [target, waiting] : waiting_) {
    const auto it = std::ranges::find(waiting, request, &Handover::request);
    if (it == waiting.end()) continue;
    const Handover handover = *it;
    waiting.erase(it);
    pools_.core_of(handover.source).ledger().cancelled(request, now);
    release(handover, now);
    if (target != Pools::kNobody) try_waiting(target, now);  // the next one may be smaller
    return true;
  }
  return false;
}

std::vector<std::int64_t> Handovers::break_off(std::size_t engine, Ticks now) {
  std::vector<std::int64_t> requests;
  for (auto& [target, waiting] : waiting_) {
    std::erase_if(waiting, [&](const Handover& handover) {
      if (handover.source != engine) return false;
      pools_.core_of(engine).let_go(handover.request, now);
      requests.push_back(handover.request);
      return true;
    });
  }
  std::vector<Handover> broken;
  for (const auto& [request, handover] : under_way_) {
    if (handover.source == engine || handover.target == engine) broken.push_back(handover);
  }
  for (const Handover& handover : broken) {
    under_way_.erase(handover.request);
    release(handover, now);
    pools_.settle(handover.target, now);
    pools_.core_of(handover.target).withdraw(handover.request, now);
    if (!handover.cancelled) requests.push_back(handover.request);
    pools_.came(handover.target, now);
  }
  return requests;
}

std::size_t Handovers::num_waiting() const {
  std::size_t count = 0;
  for (const auto& [target, waiting] : waiting_) count += waiting.size();
  return count;
}

std::size_t Handovers::num_without_target() const {
  const auto it = waiting_.find(Pools::kNobody);
  return it == waiting_.end() ? 0 : it->second.size();
}

}  // namespace tessera::serving
