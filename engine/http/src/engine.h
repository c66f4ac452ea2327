#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/run/live_engine.h"
#include "tessera/serving/deployment.h"
#include "tessera/serving/engine_view.h"
#include "tessera/serving/log.h"
#include "tessera/serving/served.h"
#include "tessera/serving/traffic.h"

namespace tessera::http {

/// A text that is to be continued.
struct Order {
  std::int64_t request = 0;  ///< a number that was never used
  run::Prompt prompt;
  std::string salt = {};  ///< what it finds in the prefix cache was put there under the same
};

/// What came of requests at one moment.
struct News {
  struct Piece {
    std::int64_t request = 0;
    std::vector<std::int32_t> tokens = {};
    std::vector<lm::LogProbabilities> log_probabilities = {};  ///< [tokens], where wanted
    /// Of the prompt's tokens but the first, where wanted: once, in a piece of its own.
    std::optional<std::vector<lm::LogProbabilities>> of_prompt = {};
  };
  struct End {
    std::int64_t request = 0;
    run::Ending how = run::Ending::finished;
    bool is_stopped = false;       ///< by a token
    std::int32_t stop_token = -1;  ///< that one
    serving::RequestRecord record = {};
    std::string why_never = {};  ///< it was rejected
  };
  std::vector<Piece> pieces = {};
  std::vector<End> ends = {};  ///< after their pieces
};

/// What a scrape or a page asks of the engine.
struct EngineState {
  std::int64_t num_waiting = 0, num_running = 0;
  std::int64_t kv_blocks = 0, used_blocks = 0;
  std::int64_t num_drafts = 0, drafted = 0, accepted = 0;
  serving::SchedulerCounts counts = {};
  bool is_ready = true;  ///< false: it loads, or a stage is lost and comes back
};

/// One model's engine, which clients' requests come to from other threads: an inbox in the place of
/// a traffic, and what came of it told at each moment. Who derives from it has the model's steps
/// run.
class Engine {
 public:
  /// @param tell called after each moment at which something came, on the engine's thread
  /// @param records keeps all that happens, for a step log
  Engine(std::function<void(News)> tell, bool records);
  virtual ~Engine() = default;

  // From any thread, in the order of the calls.
  void submit(std::vector<Order> orders);
  /// Of those that have not ended; each is told of as its end.
  void cancel(std::vector<std::int64_t> requests);
  void stop();
  EngineState state() const;
  /// Calls `show` with the engine as it is a few times a second while anything changes, on the
  /// engine's thread; an empty one: nobody looks any more.
  void watch(std::function<void(serving::EngineView)> show);

  /// Serves on this thread until it is stopped. @param on_ready called once it can serve
  /// @throws what the model does
  virtual void run(const std::function<void()>& on_ready) = 0;
  /// After that: what happened, as ts.serve tells it and ts.replay takes it again.
  virtual serving::Served take_record() = 0;

 protected:
  struct Inbox {
    std::vector<Order> orders = {};
    std::vector<std::int64_t> cancels = {};
    bool stops = false;
    std::function<void(serving::EngineView)> show = {};
    bool looks = false;  ///< who shows has changed
    bool empty() const { return orders.empty() && cancels.empty() && !stops && !looks; }
  };

  /// The one that takes requests first; one that decodes what it has read behind it.
  virtual std::vector<serving::EngineCore*> cores() = 0;
  /// Something is in the inbox.
  virtual void came() {}
  using Submit = std::function<void(serving::Sequence sequence, const run::Prompt& prompt,
                                    const std::string& salt)>;
  /// Cancels first, as everywhere. @param submit of one that comes. @param leaves of one that was
  /// cancelled
  void take_inbox(serving::Ticks now, const Submit& submit,
                  const std::function<void(std::int64_t request)>& leaves);
  void brought(std::int64_t request, const run::Session& session, std::int64_t first);
  void over(std::int64_t request, const run::Session& session, run::Ending how);
  /// What came at a moment is told. @param num_between requests on their way from one engine to
  /// another
  void end_moment(serving::Ticks now, bool is_ready = true, std::int64_t num_between = 0);
  /// The record, of a log that is closed. @param engines that served. @param unfinished those that
  /// have not ended: their tokens from the start of their prompts
  serving::Served served(
      serving::Log log, std::vector<serving::Replica> engines,
      const std::vector<std::pair<std::int64_t, std::vector<std::int32_t>>>& unfinished);
  /// When a view is due; kNever: nobody looks, or nothing has changed.
  serving::Ticks view_due() const;
  void stir() { is_stale_ = true; }

  bool records_;
  mutable std::mutex mutex_;
  std::condition_variable has_come_;
  Inbox inbox_;

 private:
  void note_state(std::span<serving::EngineCore* const> all, bool is_ready,
                  std::int64_t num_between);
  void tell_of_prompt(std::int64_t request, const run::Session& session);
  void note_order(const Order& order, serving::Ticks now);

  std::function<void(News)> tell_;
  serving::Traffic traffic_;                               ///< what came, where that is recorded
  std::vector<serving::Output> outputs_;                   ///< and what was said
  std::unordered_map<std::int64_t, run::Prompt> prompts_;  ///< of requests that are here
  std::int64_t next_ = 0;  ///< request that comes next at the earliest
  News news_;
  serving::EngineViewer viewer_;
  std::function<void(serving::EngineView)> show_;
  serving::Ticks shown_ = 0;  ///< last
  bool is_stale_ = false;     ///< something happened since
  EngineState state_;
};

}  // namespace tessera::http
