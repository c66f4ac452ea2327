#include "tessera/solver/replan/replan.h"

#include <algorithm>
#include <cmath>

#include "orders.h"
#include "stage_dp.h"
#include "tessera/solver/instance/deadline.h"

namespace tessera::solver {
namespace {

using replan_detail::Setting;
using replan_detail::StageProgramme;

constexpr std::size_t kMostSettings = 48;
/// Limits on the slowest stage, as shares of what the slack on the objective allows.
constexpr double kShares[] = {0, 1.0 / 3, 2.0 / 3, 1};

/// Keeps the candidate that loads least; of equals the one of lower objective.
class Best {
 public:
  Best(const Instance& instance, const std::vector<Holding>& holdings, const WeightBytes& weights,
       double max_objective)
      : instance_(instance),
        holdings_(holdings),
        weights_(weights),
        max_objective_(max_objective) {}

  bool offer(const Candidate& plan) {
    if (find_violation(instance_, plan)) return false;
    const double objective = evaluate(instance_, plan).objective;
    if (objective > max_objective_) return false;
    Moves moves = count_moves(instance_, plan, holdings_, weights_);
    if (found_) {
      const double slack = 1e-9 * (moves.moved_bytes + moves_.moved_bytes);
      if (moves.moved_bytes > moves_.moved_bytes + slack) return false;
      const bool equal = moves.moved_bytes >= moves_.moved_bytes - slack;
      if (equal && objective >= objective_ - 1e-12 * std::fabs(objective_)) return false;
    }
    found_ = true;
    plan_ = plan;
    moves_ = std::move(moves);
    objective_ = objective;
    return true;
  }

  const Candidate& plan() const { return plan_; }
  const Moves& moves() const { return moves_; }

 private:
  const Instance& instance_;
  const std::vector<Holding>& holdings_;
  const WeightBytes& weights_;
  double max_objective_;
  bool found_ = false;
  Candidate plan_;
  Moves moves_;
  double objective_ = 0;
};

// One layer's bitwidth, or one layer across a boundary at any bitwidth.
bool step(const Instance& instance, Best& best, const Deadline& deadline) {
  const Candidate start = best.plan();
  bool better = false;
  for (std::size_t i = 0; i < instance.num_layers() && !deadline.reached(); ++i) {
    for (std::size_t bit = 0; bit < instance.num_bits(); ++bit) {
      Candidate changed = best.plan();
      changed.bit[i] = bit;
      if (best.offer(changed)) better = true;
    }
  }
  for (std::size_t k = 1; k + 1 < start.first_layer.size() && !deadline.reached(); ++k) {
    for (const int shift : {-1, 1}) {
      for (std::size_t bit = 0; bit < instance.num_bits(); ++bit) {
        Candidate changed = best.plan();
        std::size_t& boundary = changed.first_layer[k];
        if (shift < 0 ? boundary <= changed.first_layer[k - 1]
                      : boundary >= changed.first_layer[k + 1]) {
          continue;
        }
        changed.bit[shift < 0 ? boundary - 1 : boundary] = bit;
        boundary = shift < 0 ? boundary - 1 : boundary + 1;
        if (best.offer(changed)) better = true;
      }
    }
  }
  return better;
}

/// Limits on one phase's slowest stage: the optimum's, and as much more as the slack pays for.
std::vector<double> limits(double at_optimum_s, double slack_s, double weight) {
  if (weight <= 0) return {1e300};
  std::vector<double> list;
  for (const double share : kShares) list.push_back(at_optimum_s + share * slack_s / weight);
  return list;
}

// The optimum's order with its best matching, then the earlier order brought up to date.
std::vector<Setting> all_settings(const Instance& instance, const std::vector<Holding>& holdings,
                                  const WeightBytes& weights, const Candidate& optimum) {
  std::vector<Setting> settings{
      {optimum.order, count_moves(instance, optimum, holdings, weights).from}};
  for (Setting& setting : replan_detail::settings_of(instance, holdings, kMostSettings)) {
    if (!(setting == settings.front())) settings.push_back(std::move(setting));
  }
  return settings;
}

std::vector<std::pair<std::int64_t, std::int64_t>> all_sizes(const Instance& instance,
                                                             const ReplanRequest& request) {
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes{
      {request.optimum.prefill_micro_batch_size, request.optimum.decode_micro_batch_size}};
  const std::pair earlier{request.earlier.prefill_micro_batch_size,
                          request.earlier.decode_micro_batch_size};
  if (earlier != sizes.front() && std::max(earlier.first, earlier.second) <= instance.batch_size) {
    sizes.push_back(earlier);
  }
  return sizes;
}

}  // namespace

Replanned replan(const Instance& instance, const std::vector<Holding>& holdings,
                 const WeightBytes& weights, const ReplanRequest& request) {
  PlanRequest limit;
  limit.time_limit_s = request.time_limit_s;
  const Deadline deadline(limit);
  Best best(instance, holdings, weights, request.max_objective);
  best.offer(request.optimum);
  if (!request.earlier.order.empty()) best.offer(request.earlier);
  const Evaluation optimum = evaluate(instance, request.optimum);
  const double slack = std::max(0.0, request.max_objective - optimum.objective);
  const double least = least_moved_bytes(instance, holdings, weights) * (1 + 1e-9);
  const auto done = [&] { return best.moves().moved_bytes <= least || deadline.reached(); };
  for (const Setting& setting : all_settings(instance, holdings, weights, request.optimum)) {
    for (const auto& [prefill, decode] : all_sizes(instance, request)) {
      if (done()) break;
      const StageProgramme programme(instance, holdings, weights, setting, request.optimum, prefill,
                                     decode);
      const auto c = objective_coefficients(instance, instance.objective, prefill, decode);
      const double decode_weight = c.decode_max + c.round * c.round_micro_batches;
      for (const double p : limits(optimum.prefill_max_s, slack, c.prefill_max)) {
        for (const double d : limits(optimum.decode_max_s, slack, decode_weight)) {
          if (done()) break;
          for (const Candidate& plan : programme.solve(p, d, request.max_objective)) {
            best.offer(plan);
          }
        }
      }
    }
  }
  while (!done() && step(instance, best, deadline)) {
  }
  const bool proven = best.moves().moved_bytes <= least;
  return {best.plan(), best.moves(), !proven && deadline.reached()};
}

}  // namespace tessera::solver
