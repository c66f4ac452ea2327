#pragma once

#include <cstdint>
#include <vector>

#include "tessera/solver/moves/plan_search.h"
#include "working_plan.h"

namespace tessera::solver {

/// Hands out the moves of a plan in a fixed order: kind by kind, and within a kind by the boundary,
/// layer, stage or phase that they start from (their source). Two or fewer stages change their
/// sums in most of them, so those are priced without looking at the rest of the plan.
/// Counting prices none, except rules: which of them there are is a question of what fits.
class MoveGenerator {
 public:
  /// @param request what the caller fixed: order and micro-batch sizes stay.
  MoveGenerator(const WorkingPlan& plan, const MoveQuery& query, const PlanRequest& request);
  std::size_t next(Move* block, std::size_t capacity);
  /// How many `next` hands out in all.
  std::size_t count();
  /// The one that `next` hands out after `index` others; only it is priced.
  Move at(std::size_t index);

 private:
  using Stage = WorkingPlan::Stage;
  /// Moves [begin, end) in the order of `next` start here.
  struct Source {
    MoveKind kind;
    std::size_t source, begin, end;
    std::vector<Move> rules;  ///< of a rule: the moves, which counting has priced
  };
  static constexpr std::size_t kAll = static_cast<std::size_t>(-1), kNone = kAll - 1;
  struct RuleSize {
    std::int32_t straggler_layers = 1, pioneer_layers = 0;
    std::size_t pioneer_bit = 0;  ///< before
  };
  std::size_t num_sources(MoveKind kind) const;
  void fill(MoveKind kind, std::size_t source, std::size_t only = kAll);
  bool wanted();
  void count_sources();
  void shifts(std::size_t boundary);
  void shift_towards(std::size_t from, std::size_t to);
  void swaps(std::size_t layer);
  void retypes(std::size_t layer);
  void rules(std::size_t straggler);
  void exchanges(std::size_t straggler, std::size_t pioneer, std::size_t st, std::size_t to);
  void add_rule(std::size_t straggler, std::size_t pioneer, std::size_t st, std::size_t to,
                const RuleSize& size);
  Stage with_counts(std::size_t stage, const std::vector<std::size_t>& counts) const;
  void sizes(bool decode);
  void orders(std::size_t stage);
  bool asked(std::size_t from, std::size_t to) const;
  void emit(Move move, std::size_t from, const Stage& from_sums, std::size_t to,
            const Stage& to_sums, double omega_delta, bool runs);
  bool holds(const Stage& sums) const;
  bool keeps_quality(double omega_delta) const;

  const WorkingPlan& plan_;
  MoveQuery query_;
  const PlanRequest& request_;
  int kind_ = 0;
  std::size_t source_ = 0, taken_ = 0;
  std::vector<Move> moves_;  ///< of the source at hand
  std::size_t only_ = kAll;  ///< which of the source's moves to price
  std::size_t position_ = 0;
  std::vector<Source> sources_;  ///< once they are counted; those that have moves
  bool counted_ = false;
  std::vector<std::size_t> stage_of_;
  std::vector<std::vector<std::size_t>> counts_;  ///< [stage][bit] layers
};

}  // namespace tessera::solver
