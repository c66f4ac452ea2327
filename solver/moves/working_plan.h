#pragma once

#include <cstddef>
#include <vector>

#include "tessera/solver/instance/instance.h"

namespace tessera::solver {

/// A candidate with the sums that steps change, so that the price of a step takes the one or two
/// stages that it changes, not the whole plan (delta evaluation). The candidate need not fit.
class WorkingPlan {
 public:
  WorkingPlan(const Instance& instance, Candidate start);

  struct Stage {
    double prefill_s = 0, decode_s = 0, bytes = 0, usable_bytes = 0;
  };
  /// Terms of the objective that price each phase; the rest is theta times omega.
  struct Times {
    double prefill_s = 0, decode_s = 0;
  };

  const Instance& instance() const { return instance_; }
  const Candidate& candidate() const { return at_; }
  std::size_t num_stages() const { return at_.order.size(); }
  const Stage& stage(std::size_t k) const { return stage_[k]; }
  std::size_t stage_of(std::size_t layer) const;
  double omega() const { return omega_; }
  const Times& times() const { return times_; }
  double objective() const { return times_.prefill_s + times_.decode_s + instance_.theta * omega_; }
  /// What a layer takes and holds on a stage's device at a bitwidth; usable_bytes is not set.
  Stage layer_on(std::size_t stage, std::size_t layer, std::size_t bit) const;
  bool runs(std::size_t stage, std::size_t bit) const {
    return instance_.allowed_at(at_.order[stage], bit);
  }

  /// Times when one or two stages had other sums. `other` may equal `stage`.
  Times times_with(std::size_t stage, const Stage& sums, std::size_t other,
                   const Stage& other_sums) const;

  /// By how much limits are exceeded, relative to them, summed; 0 for a plan that fits.
  double excess() const;

  void set_bit(std::size_t layer, std::size_t bit);
  /// Moves boundary k (between stages k-1 and k) by one layer, which gets `bit`.
  void shift(std::size_t k, bool right, std::size_t bit);
  void swap_groups(std::size_t a, std::size_t b);

 private:
  // The largest of a quantity over stages and links, when up to two stages are left out.
  struct Largest {
    double value[3] = {0, 0, 0};
    std::size_t stage[3] = {};
    void offer(double v, std::size_t k);
    double without(std::size_t a, std::size_t b) const;
  };

  void add(std::size_t stage, std::size_t layer, double sign);
  void refresh();
  void recompute();
  Times price(double prefill_max, double prefill_sum, double decode_max, double decode_sum) const;

  const Instance& instance_;
  const PhaseCosts& prefill_;
  const PhaseCosts& decode_;
  ObjectiveCoefficients coefficients_;
  Candidate at_;
  std::vector<Stage> stage_;
  Largest prefill_largest_, decode_largest_;
  double prefill_sum_ = 0, decode_sum_ = 0, omega_ = 0;
  double link_prefill_ = 0, link_decode_ = 0;
  Times times_;
};

}  // namespace tessera::solver
