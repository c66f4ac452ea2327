#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/serving/scheduler.h"

namespace tessera::serving {

/// A request as a policy from outside sees it, as of the start of the decision and then as the
/// decision changes it. Numbers are doubles since scripts read the record in place.
struct ScriptRequest {
  double request = 0, arrival_s = 0, prompt_tokens = 0, max_tokens = 0, known_tokens = 0,
         computed_tokens = 0, generated_tokens = 0, left_tokens = 0, scheduled_tokens = 0,
         num_blocks = 0, priority = 0, slo_class = 0, num_preemptions = 0;
  double epoch = 0;         ///< of the decision
  std::int32_t handle = 0;  ///< for ScriptDecision
  bool is_running = false;
};

/// A double in a record that scripts read in place, and what they are told of it; "": nothing, it
/// is none of theirs.
struct ScriptField {
  const char* name;
  std::size_t offset;
  const char* doc;
};

/// Those of ScriptRequest, which scripts, their declaration of the record and its help have from
/// here.
inline constexpr ScriptField kScriptRequestFields[] = {
    {"request", offsetof(ScriptRequest, request), "Its number in the traffic (0-based)"},
    {"arrival_s", offsetof(ScriptRequest, arrival_s), "When it came (s)"},
    {"prompt_tokens", offsetof(ScriptRequest, prompt_tokens), "Of its prompt (tokens)"},
    {"max_tokens", offsetof(ScriptRequest, max_tokens), "It may generate at most (tokens)"},
    {"known_tokens", offsetof(ScriptRequest, known_tokens), "Prompt and output so far (tokens)"},
    {"computed_tokens", offsetof(ScriptRequest, computed_tokens),
     "Of these, in the KV cache or in a step under way (tokens)"},
    {"generated_tokens", offsetof(ScriptRequest, generated_tokens), "Output so far (tokens)"},
    {"left_tokens", offsetof(ScriptRequest, left_tokens),
     "To compute; 0 while its step is under way (tokens)"},
    {"scheduled_tokens", offsetof(ScriptRequest, scheduled_tokens),
     "In the step that is being decided (tokens)"},
    {"num_blocks", offsetof(ScriptRequest, num_blocks), "Blocks that it holds"},
    {"priority", offsetof(ScriptRequest, priority), "Lower goes first"},
    {"slo_class", offsetof(ScriptRequest, slo_class), "Which limits are its own (0-based)"},
    {"num_preemptions", offsetof(ScriptRequest, num_preemptions), "So far"},
    {"epoch", offsetof(ScriptRequest, epoch), ""}};

/// Whether the record begins with these, without gaps.
template <std::size_t N>
constexpr bool begins_with(const ScriptField (&fields)[N]) {
  for (std::size_t i = 0; i < N; ++i) {
    if (fields[i].offset != i * sizeof(double)) return false;
  }
  return true;
}
static_assert(begins_with(kScriptRequestFields));

/// What a policy from outside decides with. Every call is checked at once, so that whatever it does
/// the step keeps to the budget, the seats, the blocks and the requests.
class ScriptDecision {
 public:
  virtual ~ScriptDecision() = default;

  virtual double now_s() const = 0;
  virtual double epoch() const = 0;
  virtual std::int64_t free_blocks() const = 0;
  virtual std::int64_t tokens_left() const = 0;  ///< of max_num_batched_tokens
  virtual std::int64_t seats_left() const = 0;
  virtual std::int64_t block_size() const = 0;

  /// As of the start of the decision, from 0: running ones in order of admission, waiting ones in
  /// order of the queue. Pointers stay good until the next decision; nullptr beyond the last.
  virtual std::int64_t num_running() const = 0;
  virtual std::int64_t num_waiting() const = 0;
  virtual const ScriptRequest* running(std::int64_t i) const = 0;
  virtual const ScriptRequest* waiting(std::int64_t i) const = 0;

  /// Of a waiting one: tokens that the prefix cache holds, and free blocks that go when it is
  /// admitted whole.
  virtual std::int64_t cached_tokens(std::int32_t handle) const = 0;
  virtual std::int64_t blocks_needed(std::int32_t handle) const = 0;

  /// Puts a request into the step, at most so many tokens of it; a waiting one gets a seat and
  /// finds its cached prefix. @return tokens in the step, at most those that it has left; 0, with
  /// nothing changed, where blocks are short
  /// @throws Error{invalid_argument} naming scheduler, request and numbers: tokens below 1 or
  /// beyond the budget, no seat, a request that is in the step, was preempted in it, or has nothing
  /// left
  virtual std::int64_t schedule(std::int32_t handle, double tokens) = 0;
  /// Takes the blocks of a running request and puts it in front of the queue. @throws
  /// Error{invalid_argument} for one that does not run, is in the step, or whose step is under way
  virtual void preempt(std::int32_t handle) = 0;
};

/// A policy from outside. Called once per step, in which it may do nothing.
using DecideStep = std::function<void(ScriptDecision&)>;

/// How it is called.
struct ScriptPolicy {
  std::string name;
  DecideStep decide;
  /// Where it wants to know: a request leaves before its end (its client has gone), or loses its
  /// blocks with the KV cache.
  std::function<void(std::int64_t request)> removed = nullptr;
  /// Whether every step is asked for. Otherwise a step in which every running request decodes one
  /// token and nobody joins is taken to be decided alike until a request comes or ends, or blocks
  /// are short.
  bool every_step = false;
};

std::unique_ptr<Scheduler> make_script_scheduler(const EngineOptions& options,
                                                 const BlockManager::Options& kv,
                                                 ScriptPolicy policy);

}  // namespace tessera::serving
