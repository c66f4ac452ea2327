#include "engine.h"

#include <algorithm>
#include <utility>

namespace tessera::http {
namespace {

constexpr serving::Ticks kBetweenViews = serving::kTicksPerSecond / 5;

}  // namespace

Engine::Engine(std::function<void(News)> tell, bool records)
    : records_(records), tell_(std::move(tell)) {}

// ------------------------------------------------------------------------------------ from outside

void Engine::submit(std::vector<Order> orders) {
  const std::lock_guard lock(mutex_);
  std::ranges::move(orders, std::back_inserter(inbox_.orders));
  has_come_.notify_one();
  came();
}

void Engine::cancel(std::vector<std::int64_t> requests) {
  const std::lock_guard lock(mutex_);
  std::ranges::copy(requests, std::back_inserter(inbox_.cancels));
  has_come_.notify_one();
  came();
}

void Engine::stop() {
  const std::lock_guard lock(mutex_);
  inbox_.stops = true;
  has_come_.notify_one();
  came();
}

void Engine::watch(std::function<void(serving::EngineView)> show) {
  const std::lock_guard lock(mutex_);
  inbox_.show = std::move(show);
  inbox_.looks = true;
  has_come_.notify_one();
  came();
}

EngineState Engine::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

// ---------------------------------------------------------------------------------------- a moment

// A cancel that comes with its request is for the next moment: at this one it would be before that.
void Engine::take_inbox(serving::Ticks now, const Submit& submit,
                        const std::function<void(std::int64_t request)>& leaves) {
  Inbox inbox;
  {
    const std::lock_guard lock(mutex_);
    inbox = std::exchange(inbox_, {.stops = inbox_.stops});
  }
  if (inbox.looks) {
    show_ = std::move(inbox.show);
    shown_ = now - kBetweenViews;
    viewer_.forget();
    for (serving::EngineCore* core : cores()) {
      core->on_step = {};
      if (!show_) continue;
      core->on_step = [this](const serving::Work& work, const serving::StepTimes& times) {
        viewer_.step(work, times);
      };
    }
  }
  for (const std::int64_t id : inbox.cancels) {
    if (prompts_.contains(id)) leaves(id);
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
    cores().front()->ledger().record(id).arrival = now;
    submit(std::move(sequence), prompt, order.salt);
    if (std::ranges::find(inbox.cancels, id) != inbox.cancels.end()) cancel({id});
  }
}

void Engine::note_order(const Order& order, serving::Ticks now) {
  outputs_.resize(static_cast<std::size_t>(next_));
  outputs_.back() = {.prompt = order.prompt.tokens, .salt = order.salt};
  traffic_.requests.resize(static_cast<std::size_t>(next_));
  serving::Request& request = traffic_.requests.back();
  request.arrival = now;
  request.prompt_tokens = std::ssize(order.prompt.tokens);
  request.output_tokens = request.max_tokens = order.prompt.max_tokens;
}

void Engine::tell_of_prompt(std::int64_t request, const run::Session& session) {
  if (!session.prompt->scores_prompt) return;
  news_.pieces.push_back({.request = request, .of_prompt = session.of_prompt});
}

void Engine::brought(std::int64_t request, const run::Session& session, std::int64_t first) {
  if (first == 0) tell_of_prompt(request, session);
  const auto from = static_cast<std::size_t>(first);
  const auto tokens = session.answer().subspan(from);
  News::Piece piece{.request = request, .tokens = {tokens.begin(), tokens.end()}};
  if (session.prompt->num_top) {
    const auto& all = session.log_probabilities;
    piece.log_probabilities.assign(all.begin() + first, all.end());
  }
  news_.pieces.push_back(std::move(piece));
}

void Engine::over(std::int64_t request, const run::Session& session, run::Ending how) {
  const std::vector<serving::EngineCore*> all = cores();
  if (how == run::Ending::finished && session.num_new() == 0) tell_of_prompt(request, session);
  news_.ends.push_back({.request = request,
                        .how = how,
                        .is_stopped = session.stop_reason == lm::StopReason::stop_token,
                        .stop_token = session.stop_token,
                        .record = all.front()->ledger().record(request)});
  news_.ends.back().record.first_token = session.first_token;
  news_.ends.back().record.last_token = session.last_token;
  if (how == run::Ending::rejected) {
    const run::Prompt& prompt = *session.prompt;
    news_.ends.back().why_never =
        all.back()->scheduler().why_never(std::ssize(prompt.tokens), prompt.max_tokens);
  }
  if (records_) {
    const auto tokens = session.answer();
    outputs_[static_cast<std::size_t>(request)].tokens.assign(tokens.begin(), tokens.end());
  }
  prompts_.erase(request);
}

void Engine::end_moment(serving::Ticks now, bool is_ready, std::int64_t num_between) {
  const std::vector<serving::EngineCore*> all = cores();
  note_state(all, is_ready, num_between);
  if (show_ && now >= shown_ + kBetweenViews) {
    shown_ = now;
    is_stale_ = false;
    show_(viewer_.take(all, now));
  }
  if (!records_) {
    const auto number = [](const auto& prompt) { return prompt.first; };
    const auto oldest = std::ranges::min_element(prompts_, {}, number);
    all.front()->ledger().forget_before(oldest == prompts_.end() ? next_ : oldest->first);
  }
  if (news_.pieces.empty() && news_.ends.empty()) return;
  tell_(std::exchange(news_, {}));
}

serving::Ticks Engine::view_due() const {
  return show_ && is_stale_ ? shown_ + kBetweenViews : serving::kNever;
}

void Engine::note_state(std::span<serving::EngineCore* const> all, bool is_ready,
                        std::int64_t num_between) {
  EngineState now{.num_waiting = num_between, .is_ready = is_ready};
  for (const serving::EngineCore* core : all) {
    const serving::Scheduler& scheduler = core->scheduler();
    const serving::Ledger& ledger = core->ledger();
    now.num_waiting += static_cast<std::int64_t>(scheduler.num_waiting());
    now.num_running += scheduler.num_running();
    now.kv_blocks += scheduler.kv().num_blocks();
    now.used_blocks += scheduler.kv().num_blocks() - scheduler.kv().num_free();
    now.num_drafts += ledger.num_drafts();
    now.drafted += ledger.drafted_tokens();
    now.accepted += ledger.accepted_tokens();
    now.counts += scheduler.counts();
  }
  const std::lock_guard lock(mutex_);
  state_ = now;
}

serving::Served Engine::served(
    serving::Log log, std::vector<serving::Replica> engines,
    const std::vector<std::pair<std::int64_t, std::vector<std::int32_t>>>& unfinished) {
  for (const auto& [id, tokens] : unfinished) {
    auto& output = outputs_[static_cast<std::size_t>(id)];
    output.tokens.assign(tokens.begin() + std::ssize(output.prompt), tokens.end());
  }
  serving::Served served;
  served.log = std::move(log);
  served.outputs = std::move(outputs_);
  served.traffic = std::make_shared<const serving::Traffic>(std::move(traffic_));
  serving::Deployment deployment;
  deployment.replicas = std::move(engines);
  served.deployment = std::make_shared<const serving::Deployment>(std::move(deployment));
  return served;
}

}  // namespace tessera::http
