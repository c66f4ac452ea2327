// What a job does about what is lost.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "job_parts.h"

namespace tessera::run {
namespace {

constexpr Nanoseconds kMinute = 60 * kSecond;
constexpr Nanoseconds kLeastStep = 30 * kSecond, kUnknownStep = 600 * kSecond;
constexpr std::int64_t kTimesPredicted = 10;
// From the loss of a link between workers on: of one that has died the master hears by then.
constexpr Nanoseconds kNews = kSecond;

double seconds_of(Nanoseconds time) { return static_cast<double>(time) / kSecond; }

}  // namespace

bool Job::may_return(std::int32_t rank) {
  if (!options_.recover || state_ == JobState::connecting) return false;
  std::vector<Nanoseconds>& returns = ranks_[static_cast<std::size_t>(rank)].returns;
  const Nanoseconds now = transport_.now();
  std::erase_if(returns, [&](Nanoseconds at) { return now - at > kMinute; });
  if (std::ssize(returns) >= options_.most_restarts_per_minute) return false;
  returns.push_back(now);
  return true;
}

void Job::lost(std::int32_t rank, const std::string& why, bool is_ending) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  if (r.state == Rank::State::retired) return;
  r.state = Rank::State::absent;
  const std::string ending = is_ending && hooks_.ending ? hooks_.ending(rank) : "";
  // A signal says it all; a status, that it noticed something itself.
  std::string text = why;
  if (ending.find("signal") != std::string::npos)
    text = ending;
  else if (!ending.empty())
    text += "; it " + ending;
  Engine& engine = *engines_[r.engine];
  if (hooks_.abort_sums && engine.stages[r.stage].size() > 1) hooks_.abort_sums(r.engine, r.stage);
  Remedy remedy = Remedy::none;
  if (is_ending && hooks_.restart && may_return(rank)) {
    lose_steps(engine);
    r.process = 0;
    remedy = hooks_.restart(rank) ? Remedy::restarted : Remedy::awaited;
  } else if (replan(rank)) {
    remedy = Remedy::moved;
  } else if (hand_on(rank)) {
    remedy = Remedy::handed_on;
  }
  note_fault(rank, text, remedy);
}

void Job::note_fault(std::int32_t rank, const std::string& why, Remedy remedy) {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  faults_.push_back({rank, static_cast<std::int64_t>(r.engine), static_cast<std::int64_t>(r.stage),
                     start_ > 0 ? transport_.now() - start_ : 0, why, remedy});
  if (is_done()) return;
  if (hooks_.faulted) ask([&] { hooks_.faulted(faults_.back()); });
  if (remedy == Remedy::none) fail(rank, why);
}

// Both ends live: all of the engine's links are opened anew.
void Job::relink(Engine& engine) {
  const Engine::LostLink link = *std::exchange(engine.lost_link, std::nullopt);
  if (!may_return(link.rank)) {
    transport_.disconnect(link.rank);
    return lost(link.rank, link.why, false);
  }
  lose_steps(engine);
  if (is_whole(engine)) reset(engine);
  note_fault(link.rank, link.why, Remedy::relinked);
}

void Job::lose_steps(Engine& engine) {
  if (state_ != JobState::loading || start_ > 0) state_ = JobState::recovering;
  for (Engine* one : linked(engine)) {
    if (std::exchange(one->is_running, false)) one->live.core().lose_steps(moment_);
    ++one->epoch;
    one->lost_link.reset();
    one->executor.lose_steps(one->epoch);
  }
  if (exchange_) exchange_->lose_steps();
}

// The engine goes on with the ranks that it has left, under the micro-batches that it had.
bool Job::replan(std::int32_t rank) {
  if (!options_.recover || !hooks_.replan || state_ == JobState::connecting) return false;
  Engine& engine = *engines_[ranks_[static_cast<std::size_t>(rank)].engine];
  if (engine.ranks.size() != engine.stages.size()) return false;  // ranks that share layers
  std::vector<MovedStage> moved;
  ask([&] { moved = hooks_.replan(engine.index, rank); });
  if (is_done()) return true;
  if (moved.empty()) return false;
  ++num_replans_;
  lose_steps(engine);
  const std::vector<std::int32_t> before = std::exchange(engine.ranks, {});
  engine.stages.clear();
  engine.shared.assign(moved.size(), "");
  std::vector<LoadOrder>& orders = options_.engines[engine.index].stages;
  orders.clear();
  for (MovedStage& stage : moved) {
    Rank& r = ranks_[static_cast<std::size_t>(stage.rank)];
    r.stage = engine.stages.size();
    r.must_load = true;
    engine.ranks.push_back(stage.rank);
    engine.stages.push_back({stage.rank});
    orders.push_back(std::move(stage.order));
  }
  for (const std::int32_t left : before) {
    if (std::ranges::find(engine.ranks, left) != engine.ranks.end()) continue;
    ranks_[static_cast<std::size_t>(left)].state = Rank::State::retired;
    transport_.send(left, {.kind = Kind::stop}, {});
  }
  engine.executor.move_to(engine.stages);
  if (is_whole(engine)) reset(engine);
  return true;
}

// An engine is lost for good, and others live: they answer what it has not, each answer from its
// first token, so that none is of two engines.
bool Job::hand_on(std::int32_t rank) {
  if (!options_.recover || state_ == JobState::connecting || is_done() || exchange_) return false;
  Engine& lost = *engines_[ranks_[static_cast<std::size_t>(rank)].engine];
  const bool others = std::ranges::any_of(
      engines_, [&](const auto& engine) { return engine.get() != &lost && !engine->is_lost; });
  if (!others) return false;
  lose_steps(lost);
  lost.is_lost = true;
  for (const std::int32_t left : lost.ranks) {
    Rank& r = ranks_[static_cast<std::size_t>(left)];
    if (r.state != Rank::State::absent) transport_.send(left, {.kind = Kind::stop}, {});
    r.state = Rank::State::retired;
  }
  std::vector<double> given(engines_.size(), 0);
  if (start_ == 0) {
    for (const std::int64_t request : std::exchange(lost.requests, {})) {
      engines_[next_engine(given)]->requests.push_back(request);
    }
    begin_when_ready();
    return true;
  }
  const serving::Ticks now = moment_;
  for (const std::int64_t request : lost.live.core().requests()) {
    lost.live.withdraw(request, now);
    serving::RequestRecord& record = log_.requests[static_cast<std::size_t>(request)];
    record.output_tokens = 0;
    record.first_token = record.last_token = serving::kNever;
    submit(*engines_[next_engine(given)], request, now);
  }
  state_ = JobState::running;
  for (const auto& engine : engines_) {
    if (engine->is_lost) continue;
    if (engine->is_running) {
      advance(*engine);
    } else if (!is_done()) {
      state_ = JobState::recovering;
    }
    if (is_done()) break;
  }
  return true;
}

bool Job::is_whole(Engine& engine) const {
  return std::ranges::all_of(linked(engine), [&](const Engine* one) {
    return std::ranges::none_of(one->ranks, [&](std::int32_t rank) {
      return ranks_[static_cast<std::size_t>(rank)].state == Rank::State::absent;
    });
  });
}

Nanoseconds Job::step_limit(const Engine& engine) const {
  if (options_.step_limit > 0) return options_.step_limit;
  const EngineSpec& spec = options_.engines[engine.index];
  const Nanoseconds predicted =
      engine.executor.oldest_decodes() ? spec.decode_step : spec.prefill_step;
  return predicted < 0 ? kUnknownStep : kLeastStep + kTimesPredicted * predicted;
}

void Job::fail(std::int32_t rank, const std::string& why) {
  const auto total = std::ssize(answers_.prompts);
  std::string text = fmt::format("{}: {}", name_of_rank(rank), why);
  if (start_ > 0) {
    text += fmt::format("; {} of {} prompts are answered", num_answered_, total);
  }
  finish(JobState::failed, std::move(text));
}

void Job::check_limits() {
  const Nanoseconds now = transport_.now();
  const auto first_not = [&](Rank::State state) {
    return static_cast<std::int32_t>(std::ranges::find_if(ranks_,
                                                          [&](const Rank& r) {
                                                            return r.state != state &&
                                                                   r.state != Rank::State::retired;
                                                          }) -
                                     ranks_.begin());
  };
  for (std::int32_t rank = 0; hooks_.ended && rank < std::ssize(ranks_); ++rank) {
    if (ranks_[static_cast<std::size_t>(rank)].state != Rank::State::absent) continue;
    const std::string ending = hooks_.ended(rank);
    if (ending.empty()) continue;
    if (state_ == JobState::connecting) return fail(rank, ending + " before it had joined");
    lost(rank, ending + " before it had joined again");
    if (is_done()) return;
  }
  if (state_ == JobState::connecting && now - created_ > options_.start_limit) {
    const std::int32_t rank = first_not(Rank::State::joined);
    return fail(rank, fmt::format("no worker of this rank came within {} s: tessera stage --rank "
                                  "{} --connect {}",
                                  seconds_of(options_.start_limit), rank, options_.address));
  }
  if (state_ == JobState::loading && now - created_ > options_.load_limit) {
    return fail(first_not(Rank::State::ready),
                fmt::format("it was not loaded within {} s", seconds_of(options_.load_limit)));
  }
  for (std::int32_t rank = 0; rank < std::ssize(ranks_); ++rank) {
    const Rank& r = ranks_[static_cast<std::size_t>(rank)];
    if (r.state != Rank::State::absent || r.returns.empty()) continue;
    if (now - r.returns.back() < options_.start_limit) continue;
    lost(rank, fmt::format("did not come again within {} s", seconds_of(options_.start_limit)),
         false);
    if (is_done()) return;
  }
  for (const auto& engine : engines_) {
    if (engine->lost_link && now - engine->lost_link->at > kNews) relink(*engine);
    if (is_done()) return;
    if (!engine->is_running || engine->executor.num_under_way() == 0) continue;
    const Nanoseconds limit = step_limit(*engine);
    if (now - engine->executor.oldest_launch() < limit) continue;
    // Nobody knows on which of them.
    const std::vector<std::int32_t> ranks = engine->ranks;
    for (const std::int32_t rank : ranks) {
      if (is_done()) return;
      transport_.disconnect(rank);
      lost(rank, fmt::format("a step did not end within {} s", seconds_of(limit)));
    }
  }
}

}  // namespace tessera::run
