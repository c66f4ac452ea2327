#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/rng.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver {

class Deadline;
class MoveGenerator;
class WorkingPlan;

enum class MoveKind : std::int32_t {
  shift,        ///< layers next to a boundary go to the neighbouring stage, with their bitwidths
  swap,         ///< a layer of one stage and one of another trade bitwidths
  retype,       ///< one layer gets another bitwidth
  rule,         ///< Algorithm 2: layers of a straggler against bits of a pioneer
  micro_batch,  ///< another size of the micro-batches of one phase
  order,        ///< two stages trade devices
};
inline constexpr int kNumMoveKinds = 6;

/// One step from the plan at hand and what it would change. A plain record, because scripts read
/// blocks of them in place.
struct Move {
  std::int32_t kind = 0;  ///< MoveKind
  std::int32_t from_stage = 0;
  std::int32_t to_stage = 0;
  std::int32_t first_layer = 0;    ///< first layer that changes; of `micro_batch`: the phase
  std::int32_t num_layers = 0;     ///< how many move; of `micro_batch`: the new size
  std::int32_t from_bitwidth = 0;  ///< before; 0 where layers keep theirs
  std::int32_t to_bitwidth = 0;    ///< after
  std::int32_t other_layer = 0;    ///< of `swap`: the layer that trades with `first_layer`
  /// Of `rule`: how many layers of the pioneer, `to_stage`, change, and their bitwidth before. At
  /// `to_bitwidth` they go to the straggler in exchange; at another they become `to_bitwidth`, as
  /// the straggler's layers do, and so make room for them.
  std::int32_t pioneer_layers = 0;
  std::int32_t pioneer_bitwidth = 0;
  double objective_delta = 0;     ///< prefill_delta_s + decode_delta_s + theta omega_delta
  double prefill_delta_s = 0;     ///< of the terms of the objective that price prefill
  double decode_delta_s = 0;      ///< of those that price decoding
  double omega_delta = 0;         ///< in the units that theta multiplies
  double memory_delta_bytes = 0;  ///< of `to_stage`
  bool fits = false;              ///< memory, kernels, empty stages and quality floor hold
};

/// Which moves to hand out. Absent stages: any.
struct MoveQuery {
  std::optional<std::size_t> from_stage, to_stage;
  std::uint32_t kinds = (1u << kNumMoveKinds) - 1;  ///< bit set of MoveKind
  bool wants(MoveKind kind) const { return ((kinds >> static_cast<int>(kind)) & 1u) != 0; }

  friend bool operator==(const MoveQuery&, const MoveQuery&) = default;
};

/// A stage of the plan that a search is at.
struct SearchStage {
  std::string device;
  std::size_t first_layer = 0, num_layers = 0;
  std::vector<std::int32_t> bitwidths;  ///< [num_layers]
  double prefill_s = 0, decode_s = 0;   ///< one micro-batch
  double memory_bytes = 0;              ///< in use, what does not depend on layers included
  double memory_left_bytes = 0;         ///< of what is usable
};

/// A feasible plan and the steps that lead on from it. What heuristics work on, in C++ and in Lua.
/// Deterministic for a seed, unless the limits cut it short.
class PlanSearch {
 public:
  /// @throws Error{invalid_argument} when `start` violates a constraint of the instance.
  PlanSearch(const Instance& instance, Candidate start, const PlanRequest& request);
  ~PlanSearch();
  PlanSearch(const PlanSearch&) = delete;
  PlanSearch& operator=(const PlanSearch&) = delete;

  const Instance& instance() const { return instance_; }
  const Candidate& current() const;
  double objective() const;
  const Candidate& best() const { return best_; }
  double best_objective() const { return best_objective_; }
  std::int64_t moves_made() const { return moves_made_; }
  Rng& random() { return rng_; }
  /// The time is up, or Ctrl-C was pressed.
  bool expired() const { return stopped_by().has_value(); }
  std::optional<SolveStatus> stopped_by() const;
  /// The stage whose micro-batch times weigh most in the objective.
  std::size_t slowest_stage() const { return stages_slowest_first().front(); }
  std::vector<std::size_t> stages_slowest_first() const;
  /// Of the plan at hand, in pipeline order.
  std::vector<SearchStage> stages() const;
  /// Of the plan at hand, in the units that theta multiplies.
  double omega() const;

  /// Starts handing out moves; `next` writes up to `capacity` of them and returns how many, 0 at
  /// the end. Applying or undoing ends the round.
  void start(const MoveQuery& query);
  std::size_t next(Move* block, std::size_t capacity);

  /// How many moves a round hands out. Except for rules, none is priced.
  std::size_t count(const MoveQuery& query);
  /// One of the round's moves, each as likely as the others (`fitting`: of those that fit), drawn
  /// by random(); absent where there is none. Drawing does not end a round, and what was counted
  /// for it serves until the next step.
  std::optional<Move> random_move(const MoveQuery& query, bool fitting);

  /// The move priced from scratch: what `next` computes incrementally.
  Move evaluate(const Move& move) const;
  /// Makes the step. Its figures are not trusted but computed anew.
  /// @throws Error{invalid_argument} when it is none of the current plan's, or does not fit.
  void apply(const Move& move);
  /// Takes the last applied step back; false when there is none.
  bool undo();
  /// Random steps that fit, about `strength` times the number of layers.
  void perturb(double strength);

 private:
  void adopt(Candidate candidate);
  std::unique_ptr<MoveGenerator> generator_for(const MoveQuery& query) const;
  MoveGenerator& sampler(const MoveQuery& query);

  const Instance& instance_;
  PlanRequest request_;
  std::unique_ptr<Deadline> deadline_;
  Rng rng_;
  std::unique_ptr<WorkingPlan> plan_;
  std::unique_ptr<MoveGenerator> generator_;
  std::unique_ptr<MoveGenerator> sampler_;  ///< counted for sampled_, on the plan at hand
  MoveQuery sampled_;
  std::vector<Candidate> history_;
  Candidate best_;
  double best_objective_ = 0;
  std::int64_t moves_made_ = 0;
};

/// Improves a feasible plan.
class Heuristic {
 public:
  virtual ~Heuristic() = default;
  virtual Card card() const = 0;
  virtual void improve(PlanSearch& search) const = 0;
};

}  // namespace tessera::solver

namespace tessera {

template <>
inline constexpr auto kEnumNames<solver::MoveKind> =
    enum_names<solver::MoveKind>({{solver::MoveKind::shift, "shift"},
                                  {solver::MoveKind::swap, "swap"},
                                  {solver::MoveKind::retype, "retype"},
                                  {solver::MoveKind::rule, "rule"},
                                  {solver::MoveKind::micro_batch, "micro_batch"},
                                  {solver::MoveKind::order, "order"}});
static_assert(kEnumNames<solver::MoveKind>.size() == solver::kNumMoveKinds);

}  // namespace tessera
