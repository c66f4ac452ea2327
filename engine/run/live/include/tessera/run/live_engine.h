#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/run/session.h"
#include "tessera/serving/engine_core.h"

namespace tessera::run {

/// How a request ended.
enum class Ending { finished, rejected, cancelled };

/// An engine that serves requests with real tokens: its scheduler decides, an executor runs what it
/// decided. It has no time of its own. Whoever drives it calls at each moment, in this order,
/// take_ends, cancel, submit and decide: an event loop of sockets, or one that follows a traffic.
class LiveEngine {
 public:
  /// What is told of requests as they end, with what they have. A request may be submitted or
  /// cancelled there, for the same moment.
  using OnEnd = std::function<void(std::int64_t request, Session session, Ending how)>;

  /// @param core whose works hold the blocks of their items. @param executor stays as long as this
  LiveEngine(serving::EngineCore core, SessionExecutor& executor, OnEnd on_end);

  /// Steps that are done.
  void take_ends(serving::Ticks now);
  /// A request comes, of a number that was never used; rejected where it can never run here.
  /// @param sequence its number, its arrival, what it may have of tokens as policies see it, its
  /// rank among others. @param prompt stays until it ends. @param most_new tokens that it really
  /// may have. @param salt what it finds in the prefix cache was put there under the same
  void submit(serving::Sequence sequence, const Prompt& prompt, std::int64_t most_new,
              serving::Ticks now, const std::string& salt = {});
  /// One that has tokens of an earlier engine goes on here, where all of them are computed again.
  void go_on(serving::Sequence sequence, Session session, serving::Ticks now,
             const std::string& salt = {});
  /// Its client has gone; false for one that is not here (any more).
  bool cancel(std::int64_t request, serving::Ticks now);
  /// It goes on elsewhere, anew: nobody is told of its end here. False for one that is not here.
  bool withdraw(std::int64_t request, serving::Ticks now);
  /// Steps while there is room.
  void decide(serving::Ticks now) { core_.decide_all(now, executor_); }

  /// Told of one that is read, and that another engine is to decode: its blocks wait for that.
  std::function<void(std::int64_t request)> on_hold = {};

  serving::EngineCore& core() { return core_; }
  const serving::EngineCore& core() const { return core_; }

 private:
  serving::EngineCore core_;
  SessionExecutor& executor_;
  OnEnd on_end_;
};

}  // namespace tessera::run
