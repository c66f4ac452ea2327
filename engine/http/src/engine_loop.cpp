#include "engine_loop.h"

#include <algorithm>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/run/local_engine.h"
#include "tessera/serving/engine_setup.h"

namespace tessera::http {

EngineLoop::EngineLoop(std::shared_ptr<const lm::LanguageModel> model,
                       const serving::Replica& engine, std::function<void(News)> tell, bool records,
                       std::shared_ptr<const lm::LanguageModel> draft_model)
    : Engine(std::move(tell), records),
      engine_(engine),
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
  end_moment(0);
}

// The cache is as large as the machine allows, and its pages take longer to make than all else
// that a start does: a thread makes them once requests can come, those first that are used first.
void EngineLoop::run(const std::function<void()>& on_ready) {
  if (on_ready) on_ready();
  touching_ = std::jthread([this](const std::stop_token& stop) { executor_.touch(stop); });
  while (wait()) take_moment();
}

// Until there is something to do; false where that is nothing any more.
bool EngineLoop::wait() {
  std::unique_lock lock(mutex_);
  if (executor_.due() == serving::kNever) {
    const serving::Ticks again = std::min(live_.core().decide_again(), view_due());
    const auto came = [this] { return !inbox_.empty(); };
    if (again == serving::kNever) {
      has_come_.wait(lock, came);
    } else if (again > clock_.now()) {
      has_come_.wait_for(lock, std::chrono::nanoseconds((again - clock_.now()) / 1000), came);
    }
  }
  return !inbox_.stops;
}

void EngineLoop::take_moment() {
  stir();
  executor_.run();
  clock_.wait_until(0);  // what was computed is done now
  const serving::Ticks now = clock_.now();
  live_.take_ends(now);
  if (const std::string why = serving::why_circling(live_.core(), engine_); !why.empty())
    refuse(ErrorCode::unsupported, "engine", "{}", why);
  take_inbox(
      now,
      [&](serving::Sequence sequence, const run::Prompt& prompt, const std::string& salt) {
        live_.submit(std::move(sequence), prompt, prompt.max_tokens, now, salt);
      },
      [&](std::int64_t request) { live_.cancel(request, now); });
  live_.decide(now);
  if (live_.core().decide_again() == serving::kNever) {
    if (const std::string why = serving::why_stalled(live_.core(), engine_); !why.empty())
      refuse(ErrorCode::unsupported, "engine", "{}", why);
  }
  end_moment(now);
}

serving::Served EngineLoop::take_record() {
  serving::EngineCore& core = live_.core();
  log_.end = executor_.last_end();
  if (!core.requests().empty()) log_.cut_off = "the server ended before its requests";
  core.ledger().close(core.scheduler(), log_.end, !core.is_idle(), {.name = engine_.name}, {});
  log_.replicas.back().stage_busy = {log_.replicas.back().busy};
  std::vector<std::pair<std::int64_t, std::vector<std::int32_t>>> unfinished;
  for (const std::int64_t id : core.requests())
    unfinished.emplace_back(id, executor_.take(id).tokens);
  return served(std::move(log_), {engine_}, unfinished);
}

}  // namespace tessera::http
