#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cut_model.h"
#include "label_setting.h"
#include "path_search.h"

namespace tessera::solver::exact {

/// The graphs of one search. With a fixed order `plain` is the chain.
struct Graphs {
  std::optional<Graph> plain;   ///< where links are no slower than the box
  std::optional<Graph> linked;  ///< elsewhere; absent when it is not needed or too large
};

/// An open node of the branch and bound: a pair of micro-batch sizes, a box of (Tp, Td), and the
/// options that were left in the box around it.
struct OpenBox {
  std::size_t pair = 0;
  Box box;
  Multipliers multipliers;
  std::shared_ptr<const OptionSet> options;      ///< absent at the root: all that fit
  std::shared_ptr<const std::vector<Cut>> cuts;  ///< of pipelines found in the boxes around it
  const Graph* graph = nullptr;                  ///< whose nodes the options' windows mean
  double bound = -kInfinity;
  std::size_t number = 0;  ///< of creation; breaks ties
};

/// What became of a box.
struct BoxOutcome {
  std::vector<OpenBox> children;
  std::optional<Path> better;  ///< best pipeline found below the cutoff
  double bound = kInfinity;    ///< of everything in the box; children have at least this
  bool unresolved = false;     ///< given up with `bound`: too large for this search
};

/// One node of the branch and bound. The lower bound is a Lagrangian relaxation: shortest paths
/// under multipliers, whose dual is maximised by cutting planes (see CutModel). What cannot be part
/// of a plan below the cutoff goes by reduced-cost fixing and bound tightening. Then the box is
/// closed, by label setting where little is left, or branched on. One per thread.
class BoxSolver {
 public:
  BoxSolver(const SearchSpace& space, const ConfigTable& table, const Graphs& graphs,
            const std::vector<FluidBound>& fluid)
      : space_(space), table_(table), graphs_(graphs), fluid_(fluid), search_(space, table) {}

  /// Same answer on every thread and at every time, unless stopped.
  /// @param tolerance relative gain that a plan must offer to be looked for.
  BoxOutcome solve(const OpenBox& open, double cutoff, double tolerance,
                   const std::function<bool()>& should_stop);
  /// Primal heuristic: only looks for a pipeline, of what may be part of one below the cutoff.
  std::optional<Path> find_incumbent(const OpenBox& open, double cutoff,
                                     const std::function<bool()>& should_stop);

 private:
  void prepare(const OpenBox& open);
  void maximise_bound(std::size_t max_steps);
  Cut cut_of(const Path& path) const;
  void offer(Path path);
  void seek_quality(Multipliers at, std::size_t max_steps);
  bool misses_floor();
  Weights omega_alone() const;
  void dive();
  bool run_label_setting(std::size_t max_labels);
  void branch(BoxOutcome& outcome);
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
