#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "path_search.h"

namespace tessera::solver::exact {

/// The shortest path problem with resource constraints (SPPRC) of a box, solved by label setting:
/// closes what the bounds leave open. A label is a partial pipeline, built stage by stage. Its
/// resources are its slowest stages, sum of decode times and omega, so maxima, rounds and the
/// quality floor are exact. A label goes when its completion bound (its weight plus that of the
/// shortest path to the end) reaches the cutoff, and by dominance: when another at the same node
/// costs no more whatever follows. States come in topological order, so every label is extended
/// once.
class LabelSetting {
 public:
  struct Result {
    bool complete = false;       ///< nothing below the cutoff was left out
    std::optional<Path> better;  ///< the best below the cutoff
  };
  /// `search` holds the distances to the end for `weights`; `omega_to_end`, by the same nodes, the
  /// least omega to the end (empty without a quality floor).
  LabelSetting(const SearchSpace& space, const ConfigTable& table, const PathSearch& search,
               const PathSearch::Task& task, const Weights& weights,
               const std::vector<double>& omega_to_end);

  Result run(double cutoff, std::size_t max_labels, const std::function<bool()>& should_stop);

 private:
  struct Arc {
    std::uint32_t config = 0, index = 0;
    std::uint16_t length = 0;
    double weight = 0, prefill_s = 0, decode_s = 0, omega = 0;
  };
  struct Label {
    double weight = 0;  ///< under the bound's multipliers
    double cost = 0;    ///< by the objective's linear terms
    double prefill_max = 0, decode_max = 0, decode_sum = 0, omega = 0;
    std::uint32_t parent = 0;
    std::uint16_t done = 0;
    PathStage stage;
  };

  void list_arcs(StagePlace place, std::size_t kind);
  std::size_t slot(StagePlace place, std::size_t kind, std::size_t start) const {
    return (index_of(place) * space_.kinds().size() + kind) * (layers_ + 1) + start;
  }
  void extend(std::size_t state, std::uint32_t id);
  void add(std::size_t state, std::uint32_t from, const Transition& transition, const Arc& arc);
  void finish(const Label& label);
  void drop_dominated(std::vector<std::uint32_t>& ids) const;
  bool dominates(const Label& a, const Label& b) const;
  double linear_cost(double prefill, double decode, double omega) const;
  std::vector<PathStage> stages_of(const Label& label) const;

  const SearchSpace& space_;
  const ConfigTable& table_;
  const PathSearch& search_;
  PathSearch::Task task_;
  Weights weights_;
  const std::vector<double>& omega_to_end_;
  std::size_t layers_ = 0;
  double cutoff_ = kInfinity;
  std::vector<std::vector<Arc>> arcs_;  ///< [slot]
  std::vector<Label> labels_;
  std::vector<std::vector<std::uint32_t>> waiting_;  ///< [state]
  std::optional<Path> better_;
};

}  // namespace tessera::solver::exact
