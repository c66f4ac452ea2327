#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cut_model.h"
#include "enumeration.h"
#include "path_search.h"

namespace tessera::solver::exact {

/// The graphs of one search. With a fixed order `plain` is the chain.
struct Graphs {
  std::optional<Graph> plain;   ///< where links are no slower than the box
  std::optional<Graph> linked;  ///< elsewhere; absent when it is not needed or too large
};

/// One open part of the search: a pair of micro-batch sizes, a box of (Tp, Td), and what of the
/// options survived in the box around it.
struct OpenBox {
  std::size_t pair = 0;
  Box box;
  Multipliers multipliers;
  std::shared_ptr<const OptionSet> options;      ///< absent at the root: all that fit
  std::shared_ptr<const std::vector<Cut>> cuts;  ///< pipelines met in the boxes around it
  const Graph* graph = nullptr;                  ///< whose nodes the options' windows mean
  double bound = -kInfinity;
  std::size_t number = 0;  ///< of creation; breaks ties
};

/// What became of a box.
struct BoxOutcome {
  std::vector<OpenBox> children;
  std::optional<Path> better;  ///< best pipeline met below the cutoff
  double bound = kInfinity;    ///< of everything in the box; children have at least this
  bool unresolved = false;     ///< given up with `bound`: too large for this search
};

/// Bounds a box, drops what cannot beat the cutoff, closes or splits it. One per thread.
class BoxSolver {
 public:
  BoxSolver(const SearchSpace& space, const ConfigTable& table, const Graphs& graphs,
            const std::vector<FluidBound>& fluid)
      : space_(space), table_(table), graphs_(graphs), fluid_(fluid), search_(space, table) {}

  /// Same answer on every thread and at every time, unless stopped.
  /// @param tolerance relative gain that a plan must offer to be looked for.
  BoxOutcome solve(const OpenBox& open, double cutoff, double tolerance,
                   const std::function<bool()>& should_stop);
  /// Only looks for a pipeline, of what may be part of one below the cutoff.
  std::optional<Path> probe(const OpenBox& open, double cutoff,
                            const std::function<bool()>& should_stop);

 private:
  void prepare(const OpenBox& open);
  void ascend(std::size_t max_steps);
  Cut cut_of(const Path& path) const;
  void meet(Path path);
  void seek_quality(Multipliers at, std::size_t max_steps);
  bool misses_floor();
  Weights omega_alone() const;
  void dive();
  bool enumerate(std::size_t max_labels);
  void split(BoxOutcome& outcome);
  OpenBox child() const;

  const SearchSpace& space_;
  const ConfigTable& table_;
  const Graphs& graphs_;
  const std::vector<FluidBound>& fluid_;  ///< [pair]
  PathSearch search_;

  // The box at hand.
  const Pair* pair_ = nullptr;
  std::size_t pair_index_ = 0;
  Box box_;
  OptionSet options_;
  PathSearch::Task task_;
  double cutoff_ = kInfinity, tolerance_ = 0, best_bound_ = -kInfinity;
  Multipliers best_at_;
  Path best_path_;
  bool empty_ = false;
  bool links_unknown_ = false;  ///< links matter, but the graph does not know them
  std::vector<Cut> cuts_;
  std::optional<Path> better_;
  std::function<bool()> should_stop_;
};

}  // namespace tessera::solver::exact
