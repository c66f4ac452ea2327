// The loop of an engine that follows a traffic: at each moment ends of steps, cancels, arrivals,
// then decisions, as the simulator takes them.

#include "tessera/run/serve_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "tessera/run/live_clock.h"
#include "tessera/run/live_engine.h"
#include "tessera/run/local_engine.h"
#include "tessera/run/local_executor.h"
#include "tessera/run/traffic_tokens.h"
#include "tessera/serving/arrivals.h"
#include "tessera/serving/engine_setup.h"
#include "tessera/serving/state_samples.h"

namespace tessera::run {
namespace {

using serving::kNever;
using serving::Ticks;

constexpr std::int64_t kPollEvery = 64;  // moments

class TrafficServer {
 public:
  TrafficServer(const ServeRequest& request, const serving::Deployment& deployment,
                const serving::Traffic& traffic, const serving::SimulationOptions& options)
      : request_(request),
        traffic_(traffic),
        options_(options),
        replica_(engine_of(deployment, *request.model, "ts.serve.real", request.draft_model.get())),
        by_model_(request.clock == ServeClock::model),
        api_(by_model_ ? serving::to_ticks(deployment.api_s, "api_s") : 0),
        horizon_(serving::to_ticks(options.horizon_s, "horizon_s")),
        tokens_(traffic, request.token_seed, request.model->shape().vocab_size),
        arrivals_(traffic, api_,
                  [this](Ticks time, std::int64_t id) {
                    push({time, Kind::arrival, id});
                  }),
        samples_(traffic),
        stages_(*replica_.cost, serving::swap_per_block(replica_)),
        clock_(by_model_ ? std::unique_ptr<LiveClock>(std::make_unique<ModelClock>())
                         : std::make_unique<WallClock>()),
        executor_(request.model, executor_options(), *clock_, by_model_ ? &stages_ : nullptr),
        live_(serving::EngineCore(serving::scheduler_of(replica_, named_kv_options(replica_)),
                                  serving::Ledger(log_, 0, options.record_steps),
                                  {.num_stages = replica_.cost->num_stages(), .with_tables = true}),
              executor_, [this](std::int64_t id, const Session& session, Ending how) {
                over(id, session, how);
              }) {
    log_.requests.resize(traffic.requests.size());
    log_.steps_recorded = options.record_steps;
    outputs_.resize(traffic.requests.size());
    if (!request.on_tokens) return;
    executor_.on_tokens = [this](std::int64_t id, const Session& session, std::int64_t first) {
      request_.on_tokens(id, session.answer().subspan(static_cast<std::size_t>(first)));
    };
  }

  serving::Ran run() {
    executor_.touch();
    arrivals_.begin();
    while (!stopped_) {
      const Ticks next = next_moment();
      if (next == kNever) break;
      if (!wait_until(next)) break;
      take_moment();
    }
    close();
    return {std::move(log_), std::move(outputs_)};
  }

 private:
  enum class Kind : std::int8_t { cancel, arrival };  // in this order at one moment
  struct Event {
    Ticks time = 0;
    Kind kind = Kind::cancel;
    std::int64_t request = 0;
    bool operator>(const Event& other) const {
      return std::tie(time, kind, request) > std::tie(other.time, other.kind, other.request);
    }
  };
  template <class T>
  using Earliest = std::priority_queue<T, std::vector<T>, std::greater<>>;

  LocalExecutor::Options executor_options() const {
    return executor_options_of(replica_,
                               request_.ignore_stop_tokens
                                   ? std::vector<std::int32_t>{}
                                   : request_.model->tokens().stop_token_ids(),
                               request_.draft_model);
  }

  void push(const Event& event) { events_.push(event); }

  Ticks next_moment() const {
    Ticks next = std::min(executor_.due(), live_.core().decide_again());
    if (!events_.empty()) next = std::min(next, events_.top().time);
    return next;
  }

  // False where that is beyond the horizon.
  bool wait_until(Ticks time) {
    do {
      if (options_.poll && (!by_model_ || num_moments_ % kPollEvery == 0))
        options_.poll(num_ended_);
      clock_->wait_until(std::min(time, horizon_ + 1));
    } while (clock_->now() < std::min(time, horizon_ + 1));
    ++num_moments_;
    if (clock_->now() <= horizon_) return true;
    log_.cut_off = fmt::format("the horizon of {} s was reached", options_.horizon_s);
    return false;
  }

  void take_moment() {
    executor_.run();
    clock_->wait_until(0);  // what was computed is done now
    const Ticks now = clock_->now();
    while (now >= samples_.next()) samples_.add(state());
    live_.take_ends(now);
    if (std::string why = serving::why_circling(live_.core(), replica_); !why.empty()) {
      stopped_ = log_.stuck = true;
      log_.cut_off = std::move(why);
      return;
    }
    take_events(now);
    live_.decide(now);
  }

  // All that is due, as if it had come at the same time.
  void take_events(Ticks now) {
    Earliest<std::tuple<Kind, std::int64_t, Ticks>> due;
    while (true) {
      for (; !events_.empty() && events_.top().time <= now; events_.pop()) {
        const Event& event = events_.top();
        due.push({event.kind, event.request, event.time});
      }
      if (due.empty()) return;
      const auto [kind, id, time] = due.top();
      due.pop();
      kind == Kind::cancel ? void(live_.cancel(id, now)) : arrive(id, time, now);
    }
  }

  void arrive(std::int64_t id, Ticks time, Ticks now) {
    const auto index = static_cast<std::size_t>(id);
    log_.requests[index].arrival = time - api_;
    if (const Ticks at = arrivals_.leaves_at(id, time); at != kNever) {
      push({at, Kind::cancel, id});
    }
    arrivals_.came(id, time);
    const serving::Request& r = traffic_.requests[index];
    Prompt& prompt = prompts_[id];
    prompt = {.tokens = tokens_.prompt_of(id),
              .max_tokens = serving::output_of(r, replica_.engine),
              .sampling = request_.sampling};
    prompt.sampling.seed += static_cast<std::uint64_t>(id);
    serving::Sequence sequence = serving::sequence_of(traffic_, r, time - api_);
    sequence.request = id;
    live_.submit(std::move(sequence), prompt, prompt.max_tokens, now);
  }

  void over(std::int64_t id, const Session& session, Ending how) {
    serving::Output& output = outputs_[static_cast<std::size_t>(id)];
    output.prompt = session.prompt->tokens;
    output.tokens.assign(session.answer().begin(), session.answer().end());
    if (how == Ending::finished) output.stop_reason = name_of(session.stop_reason);
    tokens_.keep(id, session.tokens);
    prompts_.erase(id);
    ++num_ended_;
    arrivals_.over(id, clock_->now());
  }

  serving::StateSample state() const {
    const serving::Scheduler& scheduler = live_.core().scheduler();
    return {.num_waiting = static_cast<std::int64_t>(scheduler.num_waiting()),
            .num_running = scheduler.num_running(),
            .used_blocks = scheduler.kv().num_blocks() - scheduler.kv().num_free(),
            .output_tokens = live_.core().ledger().output_tokens()};
  }

  void close() {
    log_.end = executor_.last_end();
    const auto count = static_cast<std::int64_t>(traffic_.requests.size());
    if (log_.cut_off.empty() && num_ended_ < count) {
      log_.stuck = true;
      log_.cut_off = serving::why_stalled(live_.core(), replica_);
      if (log_.cut_off.empty()) {
        log_.cut_off =
            fmt::format("{} requests were never sent or never ended", count - num_ended_);
      }
    }
    log_.samples = samples_.take(log_.end);
    serving::EngineCore& core = live_.core();
    std::vector<Ticks> busy = stages_.busy();
    if (!by_model_) busy.clear();
    serving::EngineCard card{replica_.name};
    if (by_model_) {  // prices and watts are of the deployment's devices, which did not run
      card = {replica_.name, replica_.usd_per_h, replica_.idle_w, replica_.busy_w};
    }
    core.ledger().close(core.scheduler(), log_.end, !core.is_idle(), card, std::move(busy));
    if (!by_model_) log_.replicas.back().stage_busy = {log_.replicas.back().busy};
    for (const std::int64_t id : core.requests()) {
      const Session session = executor_.take(id);
      serving::Output& output = outputs_[static_cast<std::size_t>(id)];
      output.prompt = session.prompt->tokens;
      output.tokens.assign(session.answer().begin(), session.answer().end());
    }
  }

  const ServeRequest& request_;
  const serving::Traffic& traffic_;
  const serving::SimulationOptions& options_;
  serving::Replica replica_;
  bool by_model_;
  Ticks api_, horizon_;
  TrafficTokens tokens_;
  serving::Arrivals arrivals_;
  serving::StateSamples samples_;
  serving::StageClocks stages_;
  std::unique_ptr<LiveClock> clock_;
  serving::Log log_;
  std::vector<serving::Output> outputs_;
  std::unordered_map<std::int64_t, Prompt> prompts_;  ///< of requests that are here
  LocalExecutor executor_;
  LiveEngine live_;
  Earliest<Event> events_;
  std::int64_t num_ended_ = 0, num_moments_ = 0;
  bool stopped_ = false;
};

}  // namespace

serving::Ran serve_traffic(const ServeRequest& request, const serving::Deployment& deployment,
                           const serving::Traffic& traffic,
                           const serving::SimulationOptions& options) {
  return TrafficServer(request, deployment, traffic, options).run();
}

}  // namespace tessera::run
