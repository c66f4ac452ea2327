#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search_space.h"

namespace tessera::solver::exact {

/// One more device in the pipeline.
struct Transition {
  std::uint32_t to = 0;  ///< state after it; unused for the last stage
  std::uint16_t kind = 0, group = 0;
  StagePlace place = StagePlace::middle;
  bool may_be_empty = false;
};

/// The state space of the dynamic programme: states of the pipeline as it is built front to back,
/// numbered in topological order (every transition leads to a higher one); state 0 has no device. A
/// last stage ends the pipeline from any state that offers one.
class Graph {
 public:
  /// Position by position along one order.
  static Graph chain(const SearchSpace& space, const std::vector<std::size_t>& order);
  /// All orders: the state is the number of devices used per kind. Links must not matter.
  static Graph counts(const SearchSpace& space);
  /// All orders: devices used per group and the last group, for links that matter.
  static Graph linked(const SearchSpace& space);
  /// Orders in which the devices of a group stand together: for clusters whose counts are too many.
  static Graph blocks(const SearchSpace& space);
  /// The orders that the instance's stage rule allows: nodes begun, devices used of the last one
  /// per group, and the last group. Nodes that are alike are begun in their order. Absent above
  /// `max_states`.
  static std::optional<Graph> ruled(const SearchSpace& space, std::size_t max_states);

  /// States that these would have; as a double, for it may be astronomical.
  static double num_count_states(const SearchSpace& space);
  static double num_linked_states(const SearchSpace& space);
  static double num_block_states(const SearchSpace& space);

  std::size_t num_states() const { return begin_.size() - 1; }
  const Transition* begin(std::size_t state) const { return transitions_.data() + begin_[state]; }
  const Transition* end(std::size_t state) const { return transitions_.data() + begin_[state + 1]; }
  /// Whether transitions carry true groups and states their last group.
  bool knows_links() const { return !last_group_.empty(); }
  std::size_t last_group(std::size_t state) const { return last_group_[state]; }

 private:
  void close_state() { begin_.push_back(static_cast<std::uint32_t>(transitions_.size())); }

  std::vector<std::uint32_t> begin_{0};
  std::vector<Transition> transitions_;
  std::vector<std::uint16_t> last_group_;
};

}  // namespace tessera::solver::exact
