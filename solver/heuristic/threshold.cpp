// threshold: one limit T on the weighted time of every stage. For a given T the devices are filled
// in order, each with as many layers as T and its memory let it take; what room is left then buys
// bitwidths. The smallest T that places all layers, and looser ones, are tried. No linear programme
// and no shortest path: a plan in about a millisecond per order and pair of micro-batch sizes.

#include <algorithm>
#include <cmath>
#include <limits>

#include "starts.h"
#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/instance/no_plan.h"
#include "tessera/solver/instance/numbers.h"
#include "tessera/solver/instance/planner.h"
#include "tessera/solver/moves/assign_bits.h"

namespace tessera::solver {
namespace {

constexpr int kBisections = 24;  ///< the least T is known to 1e-7 of its range
/// Looser limits tried, as multiples of the least.
constexpr double kLooser[] = {1, 1.02, 1.05, 1.1, 1.2, 1.35, 1.6, 2, 3, 5, 10, 100};

/// Fills the stages of one order at one pair of micro-batch sizes.
class Filling {
 public:
  Filling(const Instance& instance, Candidate frame)
      : instance_(instance),
        frame_(std::move(frame)),
        prefill_(instance.prefill(frame_.prefill_micro_batch_size)),
        decode_(instance.decode(frame_.decode_micro_batch_size)) {
    const ObjectiveCoefficients c =
        objective_coefficients(instance, instance.objective, frame_.prefill_micro_batch_size,
                               frame_.decode_micro_batch_size);
    prefill_weight_ = c.prefill_max + c.prefill_sum;
    decode_weight_ = c.decode_max + c.decode_sum + c.round * std::max(1.0, c.round_micro_batches);
  }

  /// The plan under limit `most_s`, or nothing when layers are left over.
  std::optional<Candidate> fill(double most_s) const {
    Candidate c = frame_;
    const std::size_t layers = instance_.num_layers(), stages = c.order.size();
    c.first_layer.assign(1, 0);
    c.bit.assign(layers, 0);
    for (std::size_t k = 0; k < stages; ++k) {
      const std::size_t begin = c.first_layer.back(), later = stages - k - 1;
      Room room = room_of(c, k, most_s);
      const auto [bit, taken] = most_layers(c.order[k], begin, layers - later, room);
      if (taken == 0) return std::nullopt;
      for (std::size_t i = begin; i < begin + taken; ++i) c.bit[i] = bit;
      c.first_layer.push_back(begin + taken);
    }
    if (c.first_layer.back() != layers) return std::nullopt;
    for (std::size_t k = 0; k < stages; ++k) spend(c, k, most_s);
    improve_bits(instance_, c);
    return c;
  }

  /// A limit at which time binds no stage.
  double loosest_s() const {
    double total = 0;
    for (std::size_t g = 0; g < instance_.groups.size(); ++g) {
      for (std::size_t layer = 0; layer < instance_.num_layers(); ++layer) {
        double slowest = 0;
        for (std::size_t bit = 0; bit < instance_.num_bits(); ++bit) {
          if (instance_.allowed_at(g, bit)) slowest = std::max(slowest, layer_s(g, layer, bit));
        }
        total += slowest;
      }
      total += end_s(g, true) + end_s(g, false);
    }
    return total;
  }

 private:
  struct Room {
    double s = 0, bytes = 0;
  };

  double layer_s(std::size_t group, std::size_t layer, std::size_t bit) const {
    const std::int32_t cls = instance_.layer_class[layer];
    return prefill_weight_ * instance_.layer_s(prefill_, group, cls, bit) +
           decode_weight_ * instance_.layer_s(decode_, group, cls, bit);
  }

  double end_s(std::size_t group, bool first) const {
    const auto& prefill = first ? prefill_.first_s : prefill_.last_s;
    const auto& decode = first ? decode_.first_s : decode_.last_s;
    return prefill_weight_ * prefill[group] + decode_weight_ * decode[group];
  }

  double bytes(std::size_t group, std::size_t layer, std::size_t bit) const {
    return instance_.layer_bytes_at(group, instance_.layer_class[layer], bit);
  }

  /// What stage k has for layers.
  Room room_of(const Candidate& c, std::size_t k, double most_s) const {
    const StagePlace place = place_at(k, c.order.size());
    Room room{most_s, instance_.groups[c.order[k]].usable_bytes -
                          instance_.fixed_bytes(c.order[k], place, prefill_, decode_)};
    if (is_first(place)) room.s -= end_s(c.order[k], true);
    if (is_last(place)) room.s -= end_s(c.order[k], false);
    return room;
  }

  /// The bitwidth at which a stage takes most layers, the highest among equals, and how many.
  std::pair<std::size_t, std::size_t> most_layers(std::size_t group, std::size_t begin,
                                                  std::size_t end, const Room& room) const {
    std::pair<std::size_t, std::size_t> best{0, 0};
    for (std::size_t bit = 0; bit < instance_.num_bits(); ++bit) {
      if (!instance_.allowed_at(group, bit)) continue;
      Room left = room;
      std::size_t i = begin;
      for (; i < end; ++i) {
        left.s -= layer_s(group, i, bit);
        left.bytes -= bytes(group, i, bit);
        if (left.s < 0 || left.bytes < 0) break;
      }
      if (i - begin >= best.second && i > begin) best = {bit, i - begin};
    }
    return best;
  }

  /// Raises bitwidths while there is room. Greedy: the largest fall of omega first, relative to the
  /// larger of the shares of time and memory that it takes.
  void spend(Candidate& c, std::size_t k, double most_s) const {
    Room room = room_of(c, k, most_s);
    for (std::size_t i = c.first_layer[k]; i < c.first_layer[k + 1]; ++i) {
      room.s -= layer_s(c.order[k], i, c.bit[i]);
      room.bytes -= bytes(c.order[k], i, c.bit[i]);
    }
    for (;;) {
      double best_rate = 0;
      std::size_t best_layer = 0, best_bit = 0;
      for (std::size_t i = c.first_layer[k]; i < c.first_layer[k + 1]; ++i) {
        for (std::size_t bit = 0; bit < instance_.num_bits(); ++bit) {
          const double rate = worth(c, k, i, bit, room);
          if (rate <= best_rate) continue;
          best_rate = rate;
          best_layer = i;
          best_bit = bit;
        }
      }
      if (best_rate <= 0) return;
      const std::size_t old = c.bit[best_layer];
      room.s -= layer_s(c.order[k], best_layer, best_bit) - layer_s(c.order[k], best_layer, old);
      room.bytes -= bytes(c.order[k], best_layer, best_bit) - bytes(c.order[k], best_layer, old);
      c.bit[best_layer] = best_bit;
    }
  }

  /// Omega that a change of bitwidth saves, per share of the room that it takes; 0: not possible.
  double worth(const Candidate& c, std::size_t k, std::size_t layer, std::size_t bit,
               const Room& room) const {
    const std::size_t group = c.order[k], old = c.bit[layer];
    if (!instance_.allowed_at(group, bit)) return 0;
    const double gain = instance_.omega_at(layer, old) - instance_.omega_at(layer, bit);
    const double s = layer_s(group, layer, bit) - layer_s(group, layer, old);
    const double more = bytes(group, layer, bit) - bytes(group, layer, old);
    if (gain <= 0 || s > room.s || more > room.bytes) return 0;
    const double share = std::max(s > 0 ? s / room.s : 0, more > 0 ? more / room.bytes : 0);
    return gain / std::max(share, 1e-9);
  }

  const Instance& instance_;
  Candidate frame_;
  const PhaseCosts& prefill_;
  const PhaseCosts& decode_;
  double prefill_weight_ = 0, decode_weight_ = 0;
};

class Threshold final : public Planner {
 public:
  Card card() const override {
    return {"threshold",
            "Fills devices in order up to one limit on the stage time, spends the room left on "
            "bitwidths, and tries limits; order by type blocks",
            "our own"};
  }

  PlanResult plan(const Instance& instance, const PlanRequest& request) const override {
    if (auto refusal = refuse_hopeless(instance, request)) return *std::move(refusal);
    const Deadline deadline(request);
    const auto pairs = size_pairs(instance, request);
    PlanResult result;
    for (const auto& order : block_orders(instance, request)) {
      for (const auto& [prefill, decode] : pairs) {
        if ((result.stopped_by = deadline.reached())) break;
        Candidate frame;
        frame.order = order;
        frame.prefill_micro_batch_size = prefill;
        frame.decode_micro_batch_size = decode;
        try_limits(Filling(instance, std::move(frame)), instance, request, result);
      }
    }
    result.solve_s = deadline.elapsed_s();
    finish(result, pairs.empty());
    return result;
  }

 private:
  static void try_limits(const Filling& filling, const Instance& instance,
                         const PlanRequest& request, PlanResult& result) {
    double high = filling.loosest_s(), low = 0;
    if (!filling.fill(high)) return;
    const double loosest = high;
    for (int i = 0; i < kBisections; ++i) {
      const double middle = 0.5 * (low + high);
      (filling.fill(middle) ? high : low) = middle;
    }
    for (const double factor : kLooser) {
      offer(filling.fill(std::min(loosest, factor * high)), instance, request, result);
    }
  }

  static void offer(std::optional<Candidate> candidate, const Instance& instance,
                    const PlanRequest& request, PlanResult& result) {
    if (!candidate) return;
    const double objective = evaluate(instance, *candidate).objective;
    if (result.candidate && objective >= result.objective) return;
    if (find_violation(instance, *candidate)) return;
    result.candidate = std::move(candidate);
    result.objective = objective;
    if (request.on_incumbent) request.on_incumbent({*result.candidate, objective, -kInfinity});
  }

  static void finish(PlanResult& result, bool no_pairs) {
    if (result.candidate) {
      result.status = SolveStatus::feasible;
    } else if (result.stopped_by) {
      result.status = *result.stopped_by;
    } else {
      result.violation = Violation{
          no_pairs ? "micro_batch" : "memory",
          no_pairs ? "no decode micro-batch size is at least the prefill micro-batch size that was "
                     "asked for; ask for a smaller one"
                   : "filling the devices in order leaves layers over, or too little quality, in "
                     "every order of the device types; planner \"exact\" searches further"};
    }
  }
};

}  // namespace

std::unique_ptr<Planner> make_threshold_planner() { return std::make_unique<Threshold>(); }

}  // namespace tessera::solver
