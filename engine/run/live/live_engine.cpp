#include "tessera/run/live_engine.h"

#include <memory>
#include <utility>

namespace tessera::run {

LiveEngine::LiveEngine(serving::EngineCore core, SessionExecutor& executor, OnEnd on_end)
    : core_(std::move(core)), executor_(executor), on_end_(std::move(on_end)) {}

void LiveEngine::take_ends(serving::Ticks now) {
  for (const serving::Ended& ended : core_.take_ends(now, executor_)) {
    if (ended.hold) {
      on_hold(ended.request);
      continue;
    }
    core_.ledger().record(ended.request).outcome = serving::Outcome::finished;
    on_end_(ended.request, executor_.take(ended.request), Ending::finished);
  }
}

void LiveEngine::submit(serving::Sequence s, const Prompt& prompt, std::int64_t most_new,
                        serving::Ticks now, const std::string& salt) {
  go_on(std::move(s), Session(prompt, most_new), now, salt);
}

void LiveEngine::go_on(serving::Sequence s, Session session, serving::Ticks now,
                       const std::string& salt) {
  const serving::BlockManager& kv = core_.scheduler().kv();
  const std::int64_t request = s.request;
  s.prompt_tokens = std::ssize(session.prompt->tokens);
  s.known = std::ssize(session.tokens);
  if (kv.caches_prefixes()) {
    s.content.tokens = std::make_shared<serving::TokenChain>(kv.block_size(), salt);
    s.content.tokens->append(session.tokens);
  }
  executor_.add(request, std::move(session));
  if (core_.submit(std::move(s), now)) return;
  on_end_(request, executor_.take(request), Ending::rejected);
}

bool LiveEngine::cancel(std::int64_t request, serving::Ticks now) {
  if (!core_.cancel(request, now)) return false;
  on_end_(request, executor_.take(request), Ending::cancelled);
  return true;
}

bool LiveEngine::withdraw(std::int64_t request, serving::Ticks now) {
  if (!core_.withdraw(request, now)) return false;
  executor_.take(request);
  return true;
}

}  // namespace tessera::run
