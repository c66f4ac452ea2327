#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "graph.h"
#include "options.h"

namespace tessera::solver::exact {

/// One stage of a pipeline that the search found.
struct PathStage {
  std::size_t group = 0, kind = 0, place = 0;
  std::size_t start = 0, length = 0;
  std::uint32_t config = 0;  ///< meaningless for an empty stage
  double prefill_s = 0, decode_s = 0, omega = 0;
};

/// A whole pipeline, priced.
struct Path {
  std::vector<PathStage> stages;
  double prefill_max_s = 0, decode_max_s = 0, omega = 0;
  double prefill_sum_s = 0, decode_sum_s = 0;
  double objective = 0;  ///< to rounding; the final word is evaluate()'s
  bool meets_floor = true;
};

/// Prices stages in sequence. @param true_groups false: the groups stand for their kinds, and every
/// link counts as the slowest there is, which is never too little.
Path price_path(const SearchSpace& space, const Pair& pair, std::vector<PathStage> stages,
                bool true_groups);
Usage usage_of(const SearchSpace& space, const Path& path);

/// Values by (place, kind, first layer, length).
class ArcTable {
 public:
  void reset(std::size_t kinds, std::size_t layers, std::size_t max_length);
  double& at(std::size_t place, std::size_t kind, std::size_t start, std::size_t length) {
    switch (place) {
      case 0:
        return middle(kind, length)[start];
      case 1:
        return first_[kind * (max_length_ + 1) + length];
      case 2:
        return last_[kind * (layers_ + 1) + start];
      default:
        return only_[kind];
    }
  }
  /// [first layer]
  double* middle(std::size_t kind, std::size_t length) {
    return &middle_[(kind * (max_length_ + 1) + length) * (layers_ + 1)];
  }

 private:
  std::size_t layers_ = 0, max_length_ = 0;
  std::vector<double> middle_, first_, last_, only_;
};

/// Shortest paths through the graph of (state, layers done) with the best option on every arc.
/// Owns the scratch memory, so one per thread. Call `find` first, the rest refers
/// to it.
class PathSearch {
 public:
  PathSearch(const SearchSpace& space, const ConfigTable& table) : space_(space), table_(table) {}

  struct Task {
    const Pair* pair = nullptr;
    const Graph* graph = nullptr;
    Box box;
    const OptionSet* options = nullptr;
  };
  /// Least weight of a pipeline, without the weights' constant; infinite when there is none.
  double find(const Task& task, const Weights& weights);
  /// The pipeline that has it.
  Path trace();
  /// Drops options and nodes of which every pipeline weighs more than `limit`.
  void reduce(double limit, OptionSet& options);

  /// Weight of the best way from a node to the end.
  double to_end(std::size_t state, std::size_t layers_done) const {
    return to_end_[state * (layers_ + 1) + layers_done];
  }
  const std::vector<double>& to_end() const { return to_end_; }
  double option_weight(const Option& option, std::size_t kind, std::size_t index) const {
    return weights_.prefill[kind] * option.prefill_s + weights_.decode[kind] * option.decode_s +
           weights_.omega * table_.omega(option.config)[index];
  }
  bool forbidden(const Task& task, std::size_t state, const Transition& transition) const;

 private:
  void price_arcs();
  void search_backward();
  void search_forward();
  void collect_through();
  void reduce_nodes(double limit, OptionSet& options) const;
  const Option* option_of(std::size_t place, std::size_t kind, std::size_t start,
                          std::size_t length, std::size_t* index) const;
  bool empty_fits(std::size_t kind) const { return task_.pair->room_bytes[4 * kind] >= 0; }
  void find_windows();
  void reach_forward();
  void reach_backward();

  const SearchSpace& space_;
  const ConfigTable& table_;
  Task task_;
  Weights weights_;
  std::size_t layers_ = 0, max_length_ = 0;
  std::vector<std::size_t> shortest_[4], longest_[4];  ///< [place][kind] lengths of options
  std::vector<std::uint16_t> first_, end_;             ///< [state] nodes worth looking at
  ArcTable arcs_, through_;
  std::vector<double> to_end_, from_start_;
};

}  // namespace tessera::solver::exact
