#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tessera/lm/heads_elsewhere.h"
#include "tessera/run/stage_part.h"
#include "tessera/run/step_messages.h"
#include "tessera/run/transport.h"
#include "tessera/run/worker_records.h"

// Both ends of the link between a stage and the rank that attends to some of its heads: for every
// layer of a step rows go there and come back.
namespace tessera::run {

/// The stage's end. What it computes between two rows takes the time of the device that it
/// emulates.
class HeadsLink final : public lm::HeadsElsewhere {
 public:
  HeadsLink(Transport& transport, Peer peer, const LoadOrder& order);

  void begin(std::int64_t step, std::uint32_t epoch);
  /// When what was computed since the last rows came ends.
  Nanoseconds due() const;
  /// @throws StepLost where no rows can come any more
  void send(std::vector<float> rows) override;
  std::vector<float> receive() override;

 private:
  void hold(Nanoseconds until);
  Wanted judge(const Event& event) const;

  Transport& transport_;
  const Peer peer_;
  const std::int64_t first_layer_;
  const Emulation emulated_;
  std::int64_t step_ = 0, layer_ = 0;
  std::uint32_t epoch_ = 0;
  Nanoseconds begun_ = 0, link_free_ = 0;
};

/// The other end: answers rows in the order of steps and layers.
class HeadsServer {
 public:
  HeadsServer(Transport& transport, const Emulation& emulated);

  void take(std::int64_t step, StepOrder order);
  void take(Peer from, const Message& rows);
  /// What was under way is lost.
  void clear();
  Nanoseconds wake_at() const;
  /// One layer of a step, or its answer.
  void work(StagePart& part);

 private:
  struct Asked {
    Peer from = 0;
    Header header;
    HeadRows heads;
  };
  struct Answer {
    Nanoseconds due = 0;
    Asked asked;  ///< with the answer's rows
  };

  Transport& transport_;
  const Emulation emulated_;
  std::deque<std::pair<std::int64_t, StepOrder>> orders_;  ///< by step
  std::deque<Asked> asked_;
  std::optional<Answer> answer_;
  Nanoseconds link_free_ = 0;
};

}  // namespace tessera::run
