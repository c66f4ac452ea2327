#pragma once

#include <algorithm>
#include <vector>

#include "graph.h"
#include "kernels.h"
#include "options.h"

namespace tessera::solver::exact {

/// One stage of a pipeline that the search found.
struct PathStage {
  std::size_t group = 0, kind = 0;
  StagePlace place = StagePlace::middle;
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

/// Weights of arcs by (place, kind, first layer, length). A row holds the arcs of one place, kind
/// and length, by their first layer; those of first and only stages have one entry, for layer 0.
/// The last stage takes all layers that are left, so its row serves every length.
class ArcTable {
 public:
  void reset(std::size_t kinds, std::size_t layers, std::size_t max_length);
  double* row(StagePlace place, std::size_t kind, std::size_t length) {
    switch (place) {
      case StagePlace::middle:
        return &middle_[(kind * (max_length_ + 1) + length) * (layers_ + 1)];
      case StagePlace::first:
        return &first_[kind * (max_length_ + 1) + length];
      case StagePlace::last:
        return &last_[kind * (layers_ + 1)];
      case StagePlace::only:
        break;
    }
    return &only_[kind];
  }
  double at(StagePlace place, std::size_t kind, std::size_t start, std::size_t length) {
    return row(place, kind, length)[start];
  }
  /// Lowers the arcs of an option to `base` + `omega_price` * omega, where that is less.
  /// @param omega [index into the shape's starts]
  void lower(StagePlace place, std::size_t kind, const ConfigTable::Shape& shape,
             const Option& option, const double* omega, double base, double omega_price) {
    double* arcs = row(place, kind, shape.length);
    if (place == StagePlace::middle && shape.contiguous) {
      min_scaled(arcs + option.low, omega + option.low, base, omega_price,
                 option.high - option.low);
      return;
    }
    for (std::size_t i = option.low; i < option.high; ++i) {
      double& arc = arcs[shape.starts[i]];
      arc = std::min(arc, base + omega_price * omega[i]);
    }
  }

 private:
  std::size_t layers_ = 0, max_length_ = 0;
  std::vector<double> middle_, first_, last_, only_;
};

/// Shortest paths by dynamic programming over a layered, acyclic graph: its nodes are (state,
/// layers done), an arc is one more stage, weighted by its cheapest option. Under the weights that
/// Lagrange multipliers give, the shortest path is the bound of the Lagrangian relaxation. Owns the
/// scratch memory, so one per thread. Call `find` first, the rest refers to it.
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
  /// Reduced-cost fixing: drops options and nodes of which every pipeline weighs more than `limit`,
  /// by the distances from the start and to the end around them.
  void fix_by_reduced_cost(double limit, OptionSet& options);

  /// Weight of the best way from a node to the end.
  double to_end(std::size_t state, std::size_t layers_done) const {
    return to_end_[state * (layers_ + 1) + layers_done];
  }
  const std::vector<double>& to_end() const { return to_end_; }
  double option_weight(const Option& option, std::size_t kind, std::size_t index) const {
    return weights_.prefill[kind] * option.prefill_s + weights_.decode[kind] * option.decode_s +
           weights_.omega * table_.omega(option.config)[index];
  }
  /// Whether its link is slower than the box allows.
  bool forbidden(const Task& task, std::size_t state, const Transition& transition) const;
  static bool may_be_empty(const Task& task, const Transition& transition) {
    return transition.may_be_empty &&
           task.pair->room_bytes[transition.kind][StagePlace::middle] >= 0;
  }

 private:
  // Arcs of one transition and one length, for neighbouring first layers.
  struct ArcRow {
    const Transition* transition = nullptr;
    std::size_t length = 0;          // of the stage; 0: empty. Last stages take what is left
    std::size_t start = 0;           // first layer of the first arc
    std::size_t size = 0;            // arcs
    std::size_t tail = 0, head = 0;  // indices of the first arc's nodes in to_end_, from_start_
  };
  /// Calls visit(row) for every row of arcs that leave a state, until it returns false.
  template <class Visit>
  void visit_arcs(std::size_t state, const Visit& visit) const;
  /// [arc of the row]
  const double* weights(const ArcRow& row) {
    const Transition& t = *row.transition;
    if (row.length == 0 && !is_last(t.place)) return no_weight_.data();
    return arcs_.row(t.place, t.kind, row.length) + row.start;
  }

  void price_arcs();
  void search_backward();
  void search_forward();
  void search_through();
  void fix_nodes(double limit, OptionSet& options) const;
  PathStage stage_of(const ArcRow& row, std::size_t start) const;
  const Option* option_of(StagePlace place, std::size_t kind, std::size_t start, std::size_t length,
                          std::size_t* index) const;
  void find_windows();
  void reach_forward();
  void reach_backward();

  const SearchSpace& space_;
  const ConfigTable& table_;
  Task task_;
  Weights weights_;
  std::size_t layers_ = 0, max_length_ = 0;
  ByPlace<std::vector<std::size_t>> shortest_, longest_;  ///< [place][kind] lengths of options
  std::vector<std::uint16_t> first_, end_;                ///< [state] nodes worth looking at
  ArcTable arcs_;
  ArcTable through_;               ///< least weight of the rest of a pipeline around every arc
  std::vector<double> no_weight_;  ///< of empty stages
  std::vector<double> to_end_,
      from_start_;  ///< [state][layers done]; to_end_ with a row for the end
};

}  // namespace tessera::solver::exact
