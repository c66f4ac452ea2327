// What a job tells its workers to load, and to whom they send what.

#include <algorithm>
#include <utility>

#include "job_parts.h"
#include "tessera/run/record_body.h"

namespace tessera::run {

void Job::load_all() {
  state_ = JobState::loading;
  for (const auto& engine : engines_) share(*engine);
  for (std::int32_t rank = 0; rank < std::ssize(ranks_); ++rank) send_load(rank);
  show_progress(true);
}

void Job::share(Engine& engine) {
  for (std::size_t k = 0; k < engine.stages.size(); ++k) {
    const auto ranks = static_cast<std::int32_t>(engine.stages[k].size());
    if (ranks > 1 && hooks_.share) engine.shared[k] = hooks_.share(engine.index, k, ranks);
  }
}

// Every rank of a stage has all hidden states: rank t of the next one gets them of rank t, or of
// t modulo how many there are.
std::vector<Feed> Job::feeds_of(std::int32_t rank) const {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  const Engine& engine = *engines_[r.engine];
  const auto& stages = engine.stages;
  std::vector<Feed> feeds;
  const auto add = [&](std::int32_t to, Sent sent) {
    const Rank& other = ranks_[static_cast<std::size_t>(to)];
    feeds.push_back({to, other.address.host, other.address.port, sent});
  };
  if (r.attends) return feeds;
  if (r.stage + 1 < stages.size()) {
    const std::vector<std::int32_t>& next = stages[r.stage + 1];
    for (std::size_t part = r.part; part < next.size(); part += stages[r.stage].size())
      add(next[part], Sent::hidden);
  }
  const auto attention = engine.attention.find(r.stage);
  if (attention != engine.attention.end()) add(attention->second, Sent::heads);
  if (exchange_ && &engine == &exchange_->reader) {
    for (const GiveOrder::Part& part :
         exchange_->parts_of(options_.engines[engine.index].stages[r.stage])) {
      add(part.rank, Sent::blocks);
    }
  }
  return feeds;
}

std::vector<std::int32_t> Job::from_of(std::int32_t rank) const {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  if (r.attends) return engines_[r.engine]->stages[r.stage];
  if (r.stage == 0) return {};
  const std::vector<std::int32_t>& before = engines_[r.engine]->stages[r.stage - 1];
  return {before[r.part % before.size()]};
}

void Job::send_load(std::int32_t rank) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  Engine& engine = *engines_[r.engine];
  const EngineSpec& spec = options_.engines[r.engine];
  LoadOrder order = r.attends ? spec.attention.at(r.stage) : spec.stages[r.stage];
  order.stage = static_cast<std::int64_t>(r.stage);
  order.tensor_rank = static_cast<std::int32_t>(r.part);
  order.with_head = order.with_head && r.part == 0;
  order.shared = engine.shared[r.stage];
  order.kv_blocks = spec.kv_blocks;
  order.block_size = spec.options.block_size;
  order.from = from_of(rank);
  order.feeds = feeds_of(rank);
  if (options_.by_process_group && engine.ranks.size() > 1) order.group = engine.ranks;
  order.host = r.address.host;
  order.epoch = static_cast<std::int32_t>(engine.epoch);
  r.state = Rank::State::loading;
  r.must_load = false;
  transport_.send(rank, {.kind = Kind::load, .epoch = engine.epoch}, record_body(order));
}

void Job::reset(Engine& lost) {
  for (Engine* engine : linked(lost)) {
    share(*engine);
    for (const std::int32_t rank : engine->ranks) {
      Rank& r = ranks_[static_cast<std::size_t>(rank)];
      if (r.state == Rank::State::joined || r.must_load) {
        send_load(rank);
      } else {  // behind the load that one may be busy with
        r.state = Rank::State::resetting;
        const ResetOrder order{engine->shared[r.stage], from_of(rank), feeds_of(rank),
                               static_cast<std::int32_t>(engine->epoch)};
        transport_.send(rank, {.kind = Kind::reset, .epoch = engine->epoch}, record_body(order));
      }
    }
  }
}

}  // namespace tessera::run
