#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tessera/run/prompts.h"
#include "tessera/serving/engine_core.h"

namespace tessera::run {

/// What a request has so far.
struct Session {
  Session() = default;
  /// @param prompt stays as long as it
  Session(const Prompt& asked, std::int64_t most)
      : prompt(&asked), tokens(asked.tokens), most_new(most) {}

  const Prompt* prompt = nullptr;
  std::vector<std::int32_t> tokens = {};  ///< prompt and answer
  std::int64_t most_new = 0;              ///< tokens that it may have beyond the prompt
  serving::Ticks first_token = serving::kNever, last_token = serving::kNever;
  lm::StopReason stop_reason = lm::StopReason::max_tokens;
  std::int32_t stop_token = -1;                              ///< that ended it
  std::vector<lm::LogProbabilities> log_probabilities = {};  ///< [answer], where they are wanted
  /// [prompt tokens but the first], where they are wanted.
  std::vector<lm::LogProbabilities> of_prompt = {};

  std::int64_t num_new() const {
    return std::ssize(tokens) - static_cast<std::int64_t>(prompt->tokens.size());
  }
  /// Its tokens without the prompt.
  std::span<const std::int32_t> answer() const {
    return std::span(tokens).subspan(prompt->tokens.size());
  }
};

/// Runs the steps of a model, and knows the tokens of its requests.
class SessionExecutor : public serving::Executor {
 public:
  /// @param stop_tokens that end an answer, and are no part of it
  explicit SessionExecutor(std::unordered_set<std::int32_t> stop_tokens)
      : stop_tokens_(std::move(stop_tokens)) {}

  /// A request comes, or goes on here.
  void add(std::int64_t request, Session session) { sessions_[request] = std::move(session); }
  /// What it has, taken out: nothing is computed for it from now on.
  Session take(std::int64_t request);

  /// Told of a request's new tokens as they come, the stop token aside: those of its answer from
  /// `first` on.
  std::function<void(std::int64_t request, const Session& session, std::int64_t first)> on_tokens =
      {};

 protected:
  /// Null: it is gone.
  Session* find(std::int64_t request);
  /// A token was chosen for it. @return whether it is the last one
  bool add_token(Session& session, std::int32_t token, serving::Ticks now) const;
  /// What a step brought for a request that had `num_before` tokens of its answer before; who
  /// listens is told.
  serving::Generated brought(std::int64_t request, const Session& session, std::int64_t num_before,
                             bool ended) const;
  virtual void gone(std::int64_t) {}

 private:
  std::unordered_set<std::int32_t> stop_tokens_;
  std::unordered_map<std::int64_t, Session> sessions_;
};

}  // namespace tessera::run
