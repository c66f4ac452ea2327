#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/run/group_link.h"
#include "tessera/run/heads_link.h"
#include "tessera/run/stage_part.h"
#include "tessera/run/transport.h"

namespace tessera::run {

/// One process of a run: computes its part of each step, in the order of the steps, and sends what
/// comes of it to the next stage, or to the master.
class Worker final : public Actor {
 public:
  /// Opens the links of a process group; absent: hidden states go over the transport alone.
  using Joiner = std::function<std::unique_ptr<GroupLink>(GroupOptions)>;
  Worker(std::int32_t rank, Transport& transport, StageLoader loader, Joiner joiner = {});

  void on(Event event) override;
  bool work() override;
  Nanoseconds wake_at() const override;
  bool is_done() const override { return done_; }
  /// Why it ended, where that was not the master's wish; empty: it was.
  const std::string& why() const { return why_; }
  /// Steps that it has computed.
  std::int64_t num_steps() const { return num_steps_; }

 private:
  struct Order {
    std::int64_t step = 0;
    StepOrder order;
    Nanoseconds came = 0;
  };
  /// Of a step that is computed; where another device is emulated it is held for its time.
  struct Result {
    std::int64_t step = 0;
    Nanoseconds due = 0;
    HiddenStates hidden;
    std::vector<std::int32_t> token_ids;  ///< of the last stage
  };

  /// Blocks that came for a request, which steps before it may still write.
  struct Arrival {
    std::int64_t request = 0;
    Blocks blocks;
  };

  void take(const Message& message, Peer from);
  void give(const Message& message);
  void put_arrivals();
  void lose(const Event& event);
  void load(const Message& message);
  void reset(const Message& message);
  void begin_epoch(std::int32_t epoch);
  void connect(const std::vector<Feed>& feeds);
  void join();
  void report_when_connected();
  void compute(const Order& order, HiddenStates input);
  void hand_on();
  void report(Kind kind, std::vector<std::byte> body);
  void fail(const char* code, const std::string& message, const std::string& where);
  bool is_first() const { return from_.empty(); }
  Nanoseconds input_at(const Order& order) const;
  HiddenStates take_input(const Order& order);

  std::int32_t rank_;
  Transport& transport_;
  StageLoader loader_;
  Joiner joiner_;
  std::unique_ptr<StagePart> part_;
  std::vector<std::int32_t> from_;
  std::vector<Feed> feeds_;
  std::set<std::int32_t> connected_;  ///< of these
  GroupOptions group_options_;        ///< no ranks: there is none
  std::unique_ptr<GroupLink> group_;
  std::optional<Kind> due_;  ///< what the master is told once all are
  bool samples_ = false;
  Emulation emulated_;
  std::shared_ptr<HeadsLink> heads_;   ///< where another rank attends to some of its heads
  std::optional<HeadsServer> server_;  ///< of a rank that attends for another
  kernels::Real activation_dtype_ = kernels::Real::f32;
  std::uint32_t epoch_ = 0;
  std::deque<Order> orders_;
  /// By epoch and step: those of an epoch that is still to begin here wait for it.
  std::map<std::pair<std::uint32_t, std::int64_t>, HiddenStates> inputs_;
  std::vector<Arrival> arrivals_;
  std::int64_t computed_ = -1;  ///< last step
  Nanoseconds link_free_ = 0;   ///< of a link that is emulated: it carries one step at a time
  std::optional<Result> result_;
  bool done_ = false;
  std::string why_;
  std::int64_t num_steps_ = 0;
};

}  // namespace tessera::run
