#pragma once

#include <vector>

#include "orders.h"

namespace tessera::solver::replan_detail {

/// The dynamic programme over (stage, layers done) for one order of devices and one pair of
/// micro-batch sizes: fewest bytes loaded within limits on the slowest stage and on the objective.
/// Bitwidths of a stage follow one of a few rules, so the sums over an interval are prefix sums.
class StageProgramme {
 public:
  /// @param wanted bitwidth index of each layer in the optimum, @param held in the earlier plan
  /// (num_bits where the instance does not offer it).
  StageProgramme(const Instance& instance, const std::vector<Holding>& holdings,
                 const WeightBytes& weights, const Setting& setting, const Candidate& optimum,
                 std::int64_t prefill_micro_batch_size, std::int64_t decode_micro_batch_size);

  /// Decisions that load little, best first, whose stages take at most the given seconds and whose
  /// objective is at most `max_objective`; at most a handful, the caller prices them.
  std::vector<Candidate> solve(double max_prefill_s, double max_decode_s,
                               double max_objective) const;

 private:
  struct Sums {
    double prefill_s = 0, decode_s = 0, bytes = 0, omega = 0, loaded = 0;
    int impossible = 0;  ///< layers for which the rule has no bitwidth
  };
  struct Label {
    double loaded = 0, cost = 0, decode_s = 0, omega = 0;
    std::size_t begin = 0, before = 0, rule = 0;  ///< stage's first layer, label there, rule
  };
  struct Limits {
    double prefill_s, decode_s, objective, fixed;
  };
  using Labels = std::vector<std::vector<std::vector<Label>>>;  ///< [stage][layers done]

  std::size_t num_rules() const { return 2 * (instance_.num_bits() + 2); }
  std::size_t bit_of(std::size_t stage, std::size_t rule, std::size_t layer) const;
  void add_sums(std::size_t stage);
  void add_rests();
  void extend(Labels& labels, std::size_t stage, std::size_t begin, std::size_t end,
              const Limits& limits) const;
  void insert(std::vector<Label>& labels, const Label& label, const Limits& limits,
              std::size_t end) const;
  double objective(const Label& label, const Limits& limits, std::size_t end) const;
  Candidate trace(const Labels& labels, std::size_t label) const;

  const Instance& instance_;
  const WeightBytes& weights_;
  const Setting& setting_;
  const Candidate& optimum_;
  std::int64_t prefill_size_, decode_size_;
  const PhaseCosts& prefill_;
  const PhaseCosts& decode_;
  ObjectiveCoefficients coefficients_;
  std::vector<std::size_t> earlier_bit_;              ///< [layer] of the earlier plan
  std::vector<std::vector<std::size_t>> held_bit_;    ///< [stage][layer] num_bits: not there
  std::vector<std::vector<std::vector<Sums>>> sums_;  ///< [stage][rule][layers before]
  std::vector<Label> rest_;                           ///< [layer] least of the layers from here on
  double slowest_prefill_link_s_ = 0, slowest_decode_link_s_ = 0;
};

}  // namespace tessera::solver::replan_detail
