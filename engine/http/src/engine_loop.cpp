#include "engine_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/run/local_engine.h"
#include "tessera/serving/engine_setup.h"

namespace tessera::http {
namespace {

constexpr serving::Ticks kBetweenViews = serving::kTicksPerSecond / 5;

}  // namespace

EngineLoop::EngineLoop(std::shared_ptr<const lm::LanguageModel> model,
                       const serving::Replica& engine, std::function<void(News)> tell, bool records,
                       std::shared_ptr<const lm::LanguageModel> draft_model)
    : engine_(engine),
      tell_(std::move(tell)),
      records_(records),
      executor_(model,
                run::executor_options_of(engine_, model->tokens().stop_token_ids(),
                                         std::move(draft_model)),
                clock_),
      live_(serving::EngineCore(serving::scheduler_of(engine_, run::named_kv_options(engine_)),
                                serving::Ledger(log_, 0, records), {.with_tables = true}),
            executor_, [this](std::int64_t id, const run::Session& session, run::Ending how) {
              over(id, session, how);
            }) {
  executor_.on_tokens = [this](std::int64_t id, const run::Session& session, std::int64_t first) {
    brought(id, session, first);
  };
  log_.steps_recorded = records;
  note_state();
}

void EngineLoop::submit(std::vector<Order> orders) {
  const std::lock_guard lock(mutex_);
  std::ranges::move(orders, std::back_inserter(inbox_.orders));
  came_.notify_one();
}

void EngineLoop::cancel(std::vector<std::int64_t> requests) {
  const std::lock_guard lock(mutex_);
  std::ranges::copy(requests, std::back_inserter(inbox_.cancels));
  came_.notify_one();
}

void EngineLoop::stop() {
  const std::lock_guard lock(mutex_);
  inbox_.stops = true;
  came_.notify_one();
}

void EngineLoop::watch(std::function<void(serving::EngineView)> show) {
  const std::lock_guard lock(mutex_);
  inbox_.show = std::move(show);
  inbox_.looks = true;
  came_.notify_one();
}

EngineState EngineLoop::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void EngineLoop::run() {
  while (wait()) take_moment();
}

// Until there is something to do; false where that is nothing any more.
bool EngineLoop::wait() {
  std::unique_lock lock(mutex_);
  if (executor_.due() == serving::kNever) {
    serving::Ticks again = live_.core().decide_again();
    if (show_ && is_stale_) again = std::min(again, shown_ + kBetweenViews);
    const auto came = [this] { return !inbox_.empty(); };
    if (again == serving::kNever) {
      came_.wait(lock, came);
    } else if (again > clock_.now()) {
      came_.wait_for(lock, std::chrono::nanoseconds((again - clock_.now()) / 1000), came);
    }
  }
  return !inbox_.stops;
}

void EngineLoop::take_moment() {
  executor_.run();
  clock_.wait_until(0);  // what was computed is done now
  const serving::Ticks now = clock_.now();
  is_stale_ = true;
  live_.take_ends(now);
  if (const std::string why = serving::why_circling(live_.core(), engine_); !why.empty())
    refuse(ErrorCode::unsupported, "engine", "{}", why);
  take_inbox(now);
  live_.decide(now);
  if (live_.core().decide_again() == serving::kNever) {
    if (const std::string why = serving::why_stalled(live_.core(), engine_); !why.empty())
      refuse(ErrorCode::unsupported, "engine", "{}", why);
  }
  note_state();
  if (show_ && now >= shown_ + kBetweenViews) show(now);
  if (!records_) {
    const auto number = [](const auto& prompt) { return prompt.first; };
    const auto oldest = std::ranges::min_element(prompts_, {}, number);
    live_.core().ledger().forget_before(oldest == prompts_.end() ? next_ : oldest->first);
  }
  if (news_.pieces.empty() && news_.ends.empty()) return;
  tell_(std::exchange(news_, {}));
}

// Cancels first, as everywhere. One that comes with its request is for the next moment: at this one
// it would be before that.
void EngineLoop::take_inbox(serving::Ticks now) {
  Inbox inbox;
  {
    const std::lock_guard lock(mutex_);
    inbox = std::exchange(inbox_, {.stops = inbox_.stops});
  }
  if (inbox.looks) {
    show_ = std::move(inbox.show);
    shown_ = now - kBetweenViews;
    viewer_.forget();
    live_.core().on_step = {};
    if (show_) {
      live_.core().on_step = [this](const serving::Work& work, const serving::StepTimes& times) {
        viewer_.step(work, times);
      };
    }
  }
  for (const std::int64_t id : inbox.cancels) {
    if (prompts_.contains(id)) live_.cancel(id, now);
  }
  for (Order& order : inbox.orders) {
    const std::int64_t id = order.request;
    next_ = std::max(next_, id + 1);
    if (records_) note_order(order, now);
    const run::Prompt& prompt = prompts_[id] = std::move(order.prompt);
    serving::Sequence sequence;
    sequence.request = id;
    sequence.arrival = now;
    sequence.max_tokens = prompt.max_tokens;
    live_.core().ledger().record(id).arrival = now;
    live_.submit(std::move(sequence), prompt, prompt.max_tokens, now, order.salt);
    if (std::ranges::find(inbox.cancels, id) != inbox.cancels.end()) cancel({id});
  }
}

void EngineLoop::note_order(const Order& order, serving::Ticks now) {
  outputs_.resize(static_cast<std::size_t>(next_));
  outputs_.back() = {.prompt = order.prompt.tokens, .salt = order.salt};
  traffic_.requests.resize(static_cast<std::size_t>(next_));
  serving::Request& request = traffic_.requests.back();
  request.arrival = now;
  request.prompt_tokens = std::ssize(order.prompt.tokens);
  request.output_tokens = request.max_tokens = order.prompt.max_tokens;
}

serving::Served EngineLoop::take_record() {
  serving::EngineCore& core = live_.core();
  log_.end = executor_.last_end();
  if (!core.requests().empty()) log_.cut_off = "the server ended before its requests";
  core.ledger().close(core.scheduler(), log_.end, !core.is_idle(), {.name = engine_.name}, {});
  log_.replicas.back().stage_busy = {log_.replicas.back().busy};
  for (const std::int64_t id : core.requests()) {
    const auto answer = executor_.take(id).tokens;
    auto& output = outputs_[static_cast<std::size_t>(id)];
    const auto from = answer.begin() + std::ssize(output.prompt);
    output.tokens.assign(from, answer.end());
  }
  serving::Served served;
  served.log = std::move(log_);
  served.outputs = std::move(outputs_);
  served.traffic = std::make_shared<const serving::Traffic>(std::move(traffic_));
  serving::Deployment deployment;
  deployment.replicas = {engine_};
  served.deployment = std::make_shared<const serving::Deployment>(std::move(deployment));
  return served;
}

void EngineLoop::brought(std::int64_t request, const run::Session& session, std::int64_t first) {
  const auto from = static_cast<std::size_t>(first);
  const auto tokens = session.answer().subspan(from);
  News::Piece piece{.request = request, .tokens = {tokens.begin(), tokens.end()}};
  if (session.prompt->num_top) {
    const auto& all = session.log_probabilities;
    piece.log_probabilities.assign(all.begin() + first, all.end());
  }
  news_.pieces.push_back(std::move(piece));
}

void EngineLoop::over(std::int64_t request, const run::Session& session, run::Ending how) {
  news_.ends.push_back({.request = request,
                        .how = how,
                        .is_stopped = session.stop_reason == lm::StopReason::stop_token,
                        .stop_token = session.stop_token,
                        .record = live_.core().ledger().record(request)});
  news_.ends.back().record.first_token = session.first_token;
  news_.ends.back().record.last_token = session.last_token;
  if (how == run::Ending::rejected) {
    const run::Prompt& prompt = *session.prompt;
    news_.ends.back().why_never =
        live_.core().scheduler().why_never(std::ssize(prompt.tokens), prompt.max_tokens);
  }
  if (records_) {
    const auto tokens = session.answer();
    outputs_[static_cast<std::size_t>(request)].tokens.assign(tokens.begin(), tokens.end());
  }
  prompts_.erase(request);
}

void EngineLoop::show(serving::Ticks now) {
  shown_ = now;
  is_stale_ = false;
  show_(viewer_.take(live_.core(), now));
}

void EngineLoop::note_state() {
  const serving::Scheduler& scheduler = live_.core().scheduler();
  const std::int64_t blocks = scheduler.kv().num_blocks();
  const std::lock_guard lock(mutex_);
  state_ = {.num_waiting = static_cast<std::int64_t>(scheduler.num_waiting()),
            .num_running = scheduler.num_running(),
            .kv_blocks = blocks,
            .used_blocks = blocks - scheduler.kv().num_free(),
            .counts = scheduler.counts()};
}

}  // namespace tessera::http
