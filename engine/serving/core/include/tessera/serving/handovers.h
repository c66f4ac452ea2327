#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "tessera/serving/engine_core.h"

// Requests that are read in one pool and decoded in another: their keys and values on the way. A
// simulator and a server hand them over by the same rules.
namespace tessera::serving {

/// A prompt that is read: its keys and values are to go to an engine that decodes.
struct Handover {
  std::int64_t request = 0;
  std::size_t source = 0, target = 0;
  Ticks started = 0, ready = 0;  ///< when it began to be read, and was
  Ticks end = kNever;            ///< of the transfer, once it is on the way and where that is known
  bool cancelled = false;        ///< on the way
};

/// What handovers need of the engines, whoever runs them.
class Pools {
 public:
  /// In place of a target: there is none yet.
  static constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

  virtual ~Pools() = default;
  /// Who is to decode it; kNobody.
  virtual std::size_t decoder_of(std::int64_t request, Ticks now) = 0;
  virtual EngineCore& core_of(std::size_t engine) = 0;
  /// As it will join an engine that decodes: all computed but its last token.
  virtual Sequence loading_sequence(const Handover& handover) = 0;
  /// Brings an engine to where single steps would have it. @return whether that ended a step of it
  virtual bool settle(std::size_t engine, Ticks now) = 0;
  /// Its keys and values go on their way. @return when they will have come; kNever: whoever carries
  /// them will say
  virtual Ticks send(const Handover& handover, Ticks now) = 0;
  /// It can never be decoded where it was to be: it is over.
  virtual void reject(std::int64_t request, Ticks now) = 0;
  /// Something has come to an engine, which may decide now; it gave back blocks or a seat of what
  /// it has handed over.
  virtual void came(std::size_t engine, Ticks now) = 0;
  virtual void has_released(std::size_t engine, Ticks now) = 0;
};

class Handovers {
 public:
  explicit Handovers(Pools& pools) : pools_(pools) {}

  /// @param handover of a request that was just read; its target is chosen here
  void hand_over(Handover handover, Ticks now);
  /// Those that wait for blocks of an engine, in their order, as far as there are any.
  void try_waiting(std::size_t target, Ticks now);
  /// Those that wait for an engine, or for any to come, choose again.
  void choose_again(std::size_t target, Ticks now);
  /// Its keys and values have come. @return what came of it; nothing where an end of it has gone
  /// meanwhile, or it is to come at another time than now
  std::optional<Handover> end(std::int64_t request, Ticks now);
  /// Its client leaves; false where it is not on its way from one engine to another. What is on the
  /// wire is not recalled: both ends keep their blocks until it has come.
  bool cancel(std::int64_t request, Ticks now);
  /// What an engine was to send or to get is given up, with the blocks of both ends.
  /// @return requests that somebody still waits for, and that are at no engine now
  std::vector<std::int64_t> break_off(std::size_t engine, Ticks now);

  std::size_t num_under_way() const { return under_way_.size(); }
  std::size_t num_waiting() const;
  /// For an engine to come.
  std::size_t num_without_target() const;

 private:
  void release(const Handover& handover, Ticks now);

  Pools& pools_;
  std::map<std::size_t, std::deque<Handover>> waiting_;  ///< by target; kNobody too
  std::map<std::int64_t, Handover> under_way_;           ///< by request
};

}  // namespace tessera::serving
