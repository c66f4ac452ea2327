#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/solver/instance/instance.h"

namespace tessera::solver {

/// Which orders of devices an instance's StageRule allows, told stage by stage.
class StageOrder {
 public:
  explicit StageOrder(const Instance& instance);

  /// What of an order matters for its next stage. Later states compare greater.
  struct State {
    std::size_t num_nodes = 0;  ///< begun
    std::size_t used = 0;       ///< stages on the node at hand
    std::size_t least = 0;      ///< of these that there have to be
    std::size_t node = 0, sharding = 0;
    std::vector<std::uint8_t> begun;  ///< [node]; empty before the first stage

    friend std::strong_ordering operator<=>(const State&, const State&) = default;
  };

  /// Whether the rule forbids some order of these devices.
  bool binds() const;
  std::size_t num_nodes() const { return num_nodes_; }
  std::size_t node_of(std::size_t group) const { return node_of_[group]; }

  /// One more stage; absent where the rule forbids it.
  std::optional<State> after(State state, std::size_t group) const;
  bool may_end(const State& state) const { return state.used >= state.least; }

  /// The first stage at which an order breaks the rule; absent where it keeps it.
  std::optional<std::size_t> breach(const std::vector<std::size_t>& order) const;

 private:
  StageRule rule_;
  std::size_t num_nodes_ = 0;
  std::vector<std::size_t> node_of_, sharding_;  ///< [group]
  std::vector<std::uint8_t> is_alone_;           ///< [group]; no stage is beside it
};

}  // namespace tessera::solver
