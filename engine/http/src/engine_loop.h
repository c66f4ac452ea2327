#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/run/live_clock.h"
#include "tessera/run/live_engine.h"
#include "tessera/run/local_executor.h"
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
  serving::SchedulerCounts counts = {};
};

/// One model's engine, which clients' requests come to from other threads: the loop of
/// run::serve_traffic, with an inbox in the place of a traffic.
class EngineLoop {
 public:
  /// @param tell called after each moment at which something came, on the engine's thread
  /// @param records keeps all that happens, for a step log
  /// @param draft_model that guesses for it; null: none does
  EngineLoop(std::shared_ptr<const lm::LanguageModel> model, const serving::Replica& engine,
             std::function<void(News)> tell, bool records = false,
             std::shared_ptr<const lm::LanguageModel> draft_model = nullptr);

  /// From any thread, in the order of the calls.
  void submit(std::vector<Order> orders);
  /// Of those that have not ended; each is told of as its end.
  void cancel(std::vector<std::int64_t> requests);
  void stop();
  EngineState state() const;
  /// Calls `show` with the engine as it is a few times a second while anything changes, on the
  /// engine's thread; an empty one: nobody looks any more.
  void watch(std::function<void(serving::EngineView)> show);

  /// Serves on this thread until it is stopped. @throws what the model does
  void run();
  /// After that: what happened, as ts.serve tells it and ts.replay takes it again.
  serving::Served take_record();

 private:
  struct Inbox {
    std::vector<Order> orders = {};
    std::vector<std::int64_t> cancels = {};
    bool stops = false;
    std::function<void(serving::EngineView)> show = {};
    bool looks = false;  ///< who shows has changed
    bool empty() const { return orders.empty() && cancels.empty() && !stops && !looks; }
  };

  bool wait();
  void take_moment();
  void take_inbox(serving::Ticks now);
  void note_state();
  void show(serving::Ticks now);
  void note_order(const Order& order, serving::Ticks now);
  void brought(std::int64_t request, const run::Session& session, std::int64_t first);
  void over(std::int64_t request, const run::Session& session, run::Ending how);

  serving::Replica engine_;
  std::function<void(News)> tell_;
  bool records_;
  run::WallClock clock_;
  serving::Log log_;
  serving::Traffic traffic_;                               ///< what came, where that is recorded
  std::vector<serving::Output> outputs_;                   ///< and what was said
  std::unordered_map<std::int64_t, run::Prompt> prompts_;  ///< of requests that are here
  std::int64_t next_ = 0;  ///< request that comes next at the earliest
  run::LocalExecutor executor_;
  run::LiveEngine live_;
  News news_;
  serving::EngineViewer viewer_;
  std::function<void(serving::EngineView)> show_;
  serving::Ticks shown_ = -serving::kNever;  ///< last
  bool is_stale_ = false;                    ///< something happened since

  mutable std::mutex mutex_;
  std::condition_variable came_;
  Inbox inbox_;
  EngineState state_;
};

}  // namespace tessera::http
