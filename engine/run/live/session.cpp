#include "tessera/run/session.h"

#include <algorithm>
#include <utility>

namespace tessera::run {

Session SessionExecutor::take(std::int64_t request) {
  gone(request);
  return std::move(sessions_.extract(request).mapped());
}

Session* SessionExecutor::find(std::int64_t request) {
  const auto found = sessions_.find(request);
  return found == sessions_.end() ? nullptr : &found->second;
}

bool SessionExecutor::add_token(Session& session, std::int32_t token, serving::Ticks now) const {
  if (session.first_token == serving::kNever) session.first_token = now;
  session.last_token = now;
  const Prompt& prompt = *session.prompt;
  if ((!prompt.ignore_stop_tokens && stop_tokens_.contains(token)) ||
      std::ranges::find(prompt.stop_tokens, token) != prompt.stop_tokens.end()) {
    session.stop_reason = lm::StopReason::stop_token;
    session.stop_token = token;
    return true;
  }
  session.tokens.push_back(token);
  return session.num_new() >= session.most_new;
}

serving::Generated SessionExecutor::brought(std::int64_t request, const Session& session,
                                            std::int64_t num_before, bool ended) const {
  serving::Generated g;
  g.ended = ended;
  g.token_ids = session.answer().subspan(static_cast<std::size_t>(num_before));
  const bool stopped = ended && session.stop_reason == lm::StopReason::stop_token;
  g.tokens = std::ssize(g.token_ids) + (stopped ? 1 : 0);
  if (on_tokens && !g.token_ids.empty()) on_tokens(request, session, num_before);
  return g;
}

}  // namespace tessera::run
