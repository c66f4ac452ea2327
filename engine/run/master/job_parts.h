#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/run/job.h"
#include "tessera/run/live_engine.h"
#include "tessera/serving/handovers.h"

// What a job knows of its workers and its pipelines.
namespace tessera::run {

struct Job::Rank {
  enum class State { absent, joined, loading, resetting, ready, retired };
  State state = State::absent;
  std::size_t engine = 0, stage = 0;
  std::size_t part = 0;  ///< tensor-parallel rank in its stage
  bool attends = false;  ///< it has heads of its stage, and no layers
  Address address = {};
  std::int64_t process = 0;
  std::vector<Nanoseconds> returns = {};  ///< when it was to come, or to open its links, again
  bool must_load = false;                 ///< another part than it has
};

struct Job::Engine {
  struct Over {
    std::int64_t request = 0;
    Session session;
    Ending how = Ending::finished;
  };
  Engine(serving::EngineCore core, StageExecutor e)
      : executor(std::move(e)),
        live(std::move(core), executor, [this](std::int64_t request, Session session, Ending how) {
          over.push_back({request, std::move(session), how});
        }) {}
  StageExecutor executor;
  LiveEngine live;
  std::vector<Over> over;  ///< requests, while steps behind them are decided
  std::size_t index = 0;
  std::vector<std::vector<std::int32_t>> stages;  ///< ranks of each
  std::map<std::size_t, std::int32_t> attention;  ///< ranks that attend for a stage
  std::vector<std::int32_t> ranks;                ///< in order of the stages
  std::vector<std::string> shared;                ///< of each stage, where it has several ranks
  std::vector<std::int64_t> requests;             ///< that it is given at the start
  std::size_t most_stages = 0;                    ///< that it ever had
  std::uint32_t epoch = 0;
  struct LostLink {
    std::int32_t rank = 0;
    std::string why;
    Nanoseconds at = 0;
  };
  std::optional<LostLink> lost_link = {};  ///< of a rank that cannot feed another one any more
  bool is_running = false;
  bool is_lost = false;  ///< for good: others answer its prompts
};

/// Between the engine that reads prompts and the one that decodes: who goes when is decided as
/// simulations decide it, and stages send each other the blocks.
struct Job::Exchange final : serving::Pools {
  Exchange(Job& of, Engine& reads, Engine& decodes);

  /// A request comes, or comes anew with the tokens that it has.
  void submit(serving::Sequence sequence, Session session, const std::string& salt);
  /// False: it is at one of the engines.
  bool cancel(std::int64_t request);
  /// A stage has put its blocks into its cache.
  void taken(std::int64_t request);
  /// Both engines lose what is under way; what was between them is read again.
  void lose_steps();
  /// It is over.
  void forget(std::int64_t request) { came_.erase(request); }
  void try_waiting(const Engine& engine);

  std::size_t decoder_of(std::int64_t, serving::Ticks) override { return decoder.index; }
  serving::EngineCore& core_of(std::size_t engine) override;
  serving::Sequence loading_sequence(const serving::Handover& handover) override;
  bool settle(std::size_t, serving::Ticks) override { return false; }
  serving::Ticks send(const serving::Handover& handover, serving::Ticks now) override;
  void reject(std::int64_t request, serving::Ticks now) override;
  void came(std::size_t, serving::Ticks) override {}  // it decides at the end of the moment
  void has_released(std::size_t, serving::Ticks) override {}
  std::vector<GiveOrder::Part> parts_of(const LoadOrder& stage) const;

  struct Came {
    serving::Sequence sequence;
    std::string salt;
  };
  Job& job;
  Engine &reader, &decoder;
  serving::Handovers handovers{*this};

 private:
  void hold(std::int64_t request);

  std::unordered_map<std::int64_t, Came> came_;            ///< as it came, of all that are here
  std::unordered_map<std::int64_t, std::size_t> to_come_;  ///< parts of its blocks, on their way
};

}  // namespace tessera::run
