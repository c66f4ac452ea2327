// adabits: what a planner that knows memory and quality, but no speed, would choose. LLM-PQ's ILP
// without its latency terms (Algorithm 2, lines 1-2; compared in its Sec. 6.9).

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "starts.h"
#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/instance/no_plan.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver {
namespace {

/// Share of the span of omega that times may decide: among plans of the same quality, the one whose
/// layers are spread evenly.
constexpr double kTieBreak = 1e-6;

struct UnitCosts {
  std::function<const PhaseCosts&(std::int64_t)> source;
  double layer_s = 0;
  std::map<std::int64_t, PhaseCosts> known;

  const PhaseCosts& at(std::int64_t size) {
    const auto [it, fresh] = known.try_emplace(size);
    if (!fresh) return it->second;
    PhaseCosts& costs = it->second;
    costs = source(size);
    for (std::vector<double>* times : {&costs.first_s, &costs.last_s, &costs.link_s}) {
      std::fill(times->begin(), times->end(), 0.0);
    }
    std::fill(costs.layer_s.begin(), costs.layer_s.end(), layer_s);
    return costs;
  }
};

double omega_span(const Instance& instance) {
  double span = 0;
  for (std::size_t layer = 0; layer < instance.num_layers(); ++layer) {
    const auto first =
        instance.omega.begin() + static_cast<std::ptrdiff_t>(layer * instance.num_bits());
    const auto [low, high] =
        std::minmax_element(first, first + static_cast<std::ptrdiff_t>(instance.num_bits()));
    span += *high - *low;
  }
  return span;
}

}  // namespace

Instance without_latency(const Instance& instance) {
  Instance blind = instance;
  blind.objective = Objective::steady;
  blind.theta = 1;
  const double layers = static_cast<double>(instance.num_layers());
  const double rounds = 1 + instance.output_tokens * static_cast<double>(instance.batch_size);
  const double span = omega_span(instance);
  const double unit = kTieBreak * (span > 0 ? span : 1) / (layers * rounds);
  for (auto* costs : {&blind.prefill, &blind.decode}) {
    auto units = std::make_shared<UnitCosts>(UnitCosts{*costs, unit, {}});
    *costs = [units](std::int64_t size) -> const PhaseCosts& { return units->at(size); };
  }
  return blind;
}

PlanResult adabits_at(const Instance& instance, PlanRequest request, std::int64_t prefill_size,
                      std::int64_t decode_size) {
  request.prefill_micro_batch_size = prefill_size;
  request.decode_micro_batch_size = decode_size;
  request.on_incumbent = nullptr;  // its figures would be those of the blind instance
  PlanResult result = make_exact_planner()->plan(without_latency(instance), request);
  if (result.candidate) result.objective = evaluate(instance, *result.candidate).objective;
  if (result.status == SolveStatus::optimal) result.status = SolveStatus::feasible;
  result.bound.reset();
  return result;
}

namespace {

class Adabits final : public Planner {
 public:
  Card card() const override {
    return {"adabits",
            "Least omega that fits in memory, whatever the latency; then the best micro-batch "
            "sizes for that plan",
            "LLM-PQ Algorithm 2 lines 1-2, Sec. 6.9"};
  }

  PlanResult plan(const Instance& instance, const PlanRequest& request) const override {
    if (auto refusal = refuse_hopeless(instance, request)) return *std::move(refusal);
    const Deadline deadline(request);
    PlanResult result;
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [prefill, decode] : roomiest_sizes(instance, request)) {
      PlanRequest rest = request;
      rest.time_limit_s = deadline.left_s();
      PlanResult found = adabits_at(instance, rest, prefill, decode);
      if (!found.candidate) {
        if (!result.candidate) result = std::move(found);
        continue;
      }
      const double omega = evaluate(instance, *found.candidate).omega;
      if (result.candidate && omega >= least) continue;
      least = omega;
      result = std::move(found);
    }
    if (result.candidate) choose_sizes(instance, request, result);
    if (result.candidate && request.on_incumbent) {
      request.on_incumbent(
          {*result.candidate, result.objective, -std::numeric_limits<double>::infinity()});
    }
    result.solve_s = deadline.elapsed_s();
    return result;
  }

 private:
  using Pair = std::pair<std::int64_t, std::int64_t>;

  /// The pairs that leave most memory to layers: for each other pair there is one of these that
  /// takes no more of any device. Most often that is the smallest pair alone.
  static std::vector<Pair> roomiest_sizes(const Instance& instance, const PlanRequest& request) {
    std::vector<std::pair<Pair, std::vector<double>>> kept;
    std::vector<Pair> sizes = size_pairs(instance, request);
    if (sizes.empty()) sizes.push_back(nearest_sizes(instance, request));
    for (const Pair& pair : sizes) {
      const std::vector<double> bytes = fixed_bytes(instance, pair);
      const auto no_more = [](const std::vector<double>& a, const std::vector<double>& b) {
        return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
      };
      if (std::any_of(kept.begin(), kept.end(),
                      [&](const auto& other) { return no_more(other.second, bytes); })) {
        continue;
      }
      std::erase_if(kept, [&](const auto& other) { return no_more(bytes, other.second); });
      kept.emplace_back(pair, bytes);
    }
    std::vector<Pair> pairs;
    for (const auto& [pair, bytes] : kept) pairs.push_back(pair);
    return pairs;
  }

  /// The even share, raised or lowered to what the request fixes, where no pair is worth trying.
  static Pair nearest_sizes(const Instance& instance, const PlanRequest& request) {
    const std::int64_t even = even_share(instance, request);
    const std::int64_t prefill = request.prefill_micro_batch_size.value_or(even);
    return {prefill, request.decode_micro_batch_size.value_or(std::max(even, prefill))};
  }

  /// What a stage holds besides its layers, for every device and place.
  static std::vector<double> fixed_bytes(const Instance& instance, const Pair& sizes) {
    const PhaseCosts& prefill = instance.prefill(sizes.first);
    const PhaseCosts& decode = instance.decode(sizes.second);
    std::vector<double> bytes;
    for (std::size_t g = 0; g < instance.groups.size(); ++g) {
      for (const StagePlace place : kStagePlaces) {
        bytes.push_back(instance.fixed_bytes(g, place, prefill, decode));
      }
    }
    return bytes;
  }

  static void choose_sizes(const Instance& instance, const PlanRequest& request,
                           PlanResult& result) {
    for (const auto& [prefill, decode] : size_pairs(instance, request)) {
      Candidate other = *result.candidate;
      other.prefill_micro_batch_size = prefill;
      other.decode_micro_batch_size = decode;
      if (find_violation(instance, other)) continue;
      const double objective = evaluate(instance, other).objective;
      if (objective >= result.objective) continue;
      result.objective = objective;
      result.candidate = std::move(other);
    }
  }
};

}  // namespace

std::unique_ptr<Planner> make_adabits_planner() { return std::make_unique<Adabits>(); }

}  // namespace tessera::solver
