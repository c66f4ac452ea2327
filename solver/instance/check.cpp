// Written apart from evaluate() and the solvers on purpose: it walks the layers one by one, asks
// which stage holds each, and prices the plan from the definitions in solver/README.md, Objective.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/solver/instance/instance.h"
#include "tessera/solver/instance/stage_rule.h"

namespace tessera::solver {
namespace {

using Check = std::optional<Violation>;

Check broken(const char* constraint, std::string message) {
  return Violation{constraint, std::move(message)};
}

std::string stage_name(const Instance& instance, const Candidate& candidate, std::size_t stage) {
  return fmt::format("stage {} on {}", stage + 1, instance.groups[candidate.order[stage]].name);
}

Check check_devices(const Instance& instance, const Candidate& candidate) {
  if (candidate.order.empty()) return broken("devices", "the plan has no stage");
  std::vector<std::int64_t> used(instance.groups.size(), 0);
  for (std::size_t stage = 0; stage < candidate.order.size(); ++stage) {
    const std::size_t group = candidate.order[stage];
    if (group >= instance.groups.size()) {
      return broken("devices", fmt::format("stage {} names device group {}, there are {}",
                                           stage + 1, group, instance.groups.size()));
    }
    if (++used[group] > instance.groups[group].count) {
      return broken("devices",
                    fmt::format("the plan uses more {} than the {} there are",
                                instance.groups[group].name, instance.groups[group].count));
    }
  }
  return std::nullopt;
}

Check check_contiguity(const Instance& instance, const Candidate& candidate) {
  const auto& first = candidate.first_layer;
  if (first.size() != candidate.order.size() + 1) {
    return broken("contiguity", fmt::format("{} stage boundaries for {} stages", first.size(),
                                            candidate.order.size()));
  }
  if (first.front() != 0 || first.back() != instance.num_layers()) {
    return broken("contiguity", fmt::format("the stages hold layers {} to {} of 0 to {}",
                                            first.front(), first.back(), instance.num_layers()));
  }
  for (std::size_t stage = 0; stage + 1 < first.size(); ++stage) {
    if (first[stage] > first[stage + 1]) {
      return broken("contiguity", fmt::format("stage {} begins at layer {}, the next at {}",
                                              stage + 1, first[stage], first[stage + 1]));
    }
    const bool may_be_empty =
        instance.may_be_empty() && stage != 0 && stage + 1 != candidate.order.size();
    if (first[stage] == first[stage + 1] && !may_be_empty) {
      return broken("empty_stage",
                    stage_name(instance, candidate, stage) + " holds no decoder layer");
    }
  }
  return std::nullopt;
}

Check check_server(const Instance& instance, const Candidate& candidate) {
  if (instance.stage_rule == StageRule::any) return std::nullopt;
  const auto stage = StageOrder(instance).breach(candidate.order);
  if (!stage) return std::nullopt;
  return broken("server",
                fmt::format("{}@{} cannot stand there: {}", stage_name(instance, candidate, *stage),
                            instance.groups[candidate.order[*stage]].node,
                            instance.stage_rule == StageRule::one_node
                                ? "the server has the devices of one node, each a stage, or "
                                  "one group that shares all layers"
                                : "the server has one degree of tensor parallelism, and one node "
                                  "after the other, behind the first those with fewer stages "
                                  "first"));
}

Check check_micro_batches(const Instance& instance, const Candidate& candidate) {
  for (const auto& [name, size] : {std::pair{"prefill", candidate.prefill_micro_batch_size},
                                   std::pair{"decode", candidate.decode_micro_batch_size}}) {
    if (size < 1 || size > instance.batch_size) {
      return broken("micro_batch", fmt::format("{} micro-batch size {} is outside [1, {}]", name,
                                               size, instance.batch_size));
    }
  }
  return std::nullopt;
}

Check check_bits(const Instance& instance, const Candidate& candidate) {
  if (candidate.bit.size() != instance.num_layers()) {
    return broken("bitwidth", fmt::format("{} bitwidths for {} layers", candidate.bit.size(),
                                          instance.num_layers()));
  }
  for (std::size_t stage = 0; stage < candidate.order.size(); ++stage) {
    for (auto i = candidate.first_layer[stage]; i < candidate.first_layer[stage + 1]; ++i) {
      if (candidate.bit[i] >= instance.bitwidths.size()) {
        return broken("bitwidth", fmt::format("layer {}: no bitwidth number {}, there are {}", i,
                                              candidate.bit[i], instance.bitwidths.size()));
      }
      const auto row = candidate.order[stage] * instance.bitwidths.size();
      if (instance.allowed[row + candidate.bit[i]] == 0) {
        return broken("bitwidth", fmt::format("layer {}: no {}-bit kernel for {}", i,
                                              instance.bitwidths[candidate.bit[i]],
                                              stage_name(instance, candidate, stage)));
      }
    }
  }
  return std::nullopt;
}

// The layers that a term of a side constraint counts, found one by one.
long double count_layers(const RowTerm& term, const Candidate& candidate) {
  long double count = 0;
  for (std::size_t i = 0; i < candidate.bit.size(); ++i) {
    std::size_t stage = 0;
    while (candidate.first_layer[stage + 1] <= i) ++stage;
    if (stage < term.first_stage || stage >= term.end_stage) continue;
    if (!term.groups.empty() && term.groups[candidate.order[stage]] == 0) continue;
    if (term.bit.value_or(candidate.bit[i]) != candidate.bit[i]) continue;
    if (term.layer.value_or(i) == i) count += 1;
  }
  return count;
}

Check check_rows(const Instance& instance, const Candidate& candidate) {
  for (const Row& row : instance.rows) {
    long double left = 0, scale = std::fabs(static_cast<long double>(row.rhs));
    for (const RowTerm& term : row.terms) {
      left += term.coefficient * count_layers(term, candidate);
      scale = std::max(scale, std::fabs(static_cast<long double>(term.coefficient)));
    }
    const long double slack = kRowSlack * (scale > 0 ? scale : 1);
    const bool low_enough = row.sense == Sense::at_least || left <= row.rhs + slack;
    const bool high_enough = row.sense == Sense::at_most || left >= row.rhs - slack;
    if (low_enough && high_enough) continue;
    return broken("row", fmt::format("constraint {}: the left side is {:.9g}, it must be {} {:.9g}",
                                     quote(row.name), static_cast<double>(left), name_of(row.sense),
                                     row.rhs));
  }
  return std::nullopt;
}

// What the checker works out for itself.
struct Tally {
  std::vector<long double> prefill, decode, bytes;
  long double omega = 0;
};

Tally tally(const Instance& instance, const Candidate& candidate) {
  const std::size_t stages = candidate.order.size(), bits = instance.bitwidths.size();
  const auto classes = static_cast<std::size_t>(instance.num_classes);
  const PhaseCosts& pre = instance.prefill(candidate.prefill_micro_batch_size);
  const PhaseCosts& dec = instance.decode(candidate.decode_micro_batch_size);
  Tally t{std::vector<long double>(stages), std::vector<long double>(stages),
          std::vector<long double>(stages), 0};
  for (std::size_t i = 0; i < instance.layer_class.size(); ++i) {
    std::size_t stage = 0;
    while (candidate.first_layer[stage + 1] <= i) ++stage;
    const auto cls = static_cast<std::size_t>(instance.layer_class[i]);
    const std::size_t cell = (candidate.order[stage] * classes + cls) * bits + candidate.bit[i];
    t.prefill[stage] += pre.layer_s[cell];
    t.decode[stage] += dec.layer_s[cell];
    const std::size_t sharding = instance.groups[candidate.order[stage]].sharding;
    t.bytes[stage] += instance.layer_bytes[(sharding * classes + cls) * bits + candidate.bit[i]];
    t.omega += instance.omega[i * bits + candidate.bit[i]];
  }
  t.prefill.front() += pre.first_s[candidate.order.front()];
  t.decode.front() += dec.first_s[candidate.order.front()];
  t.prefill.back() += pre.last_s[candidate.order.back()];
  t.decode.back() += dec.last_s[candidate.order.back()];
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::size_t at = index_of(place_at(stage, stages)) +
                           kNumStagePlaces * instance.groups[candidate.order[stage]].sharding;
    const double activations = pre.activation_bytes[at] > dec.activation_bytes[at]
                                   ? pre.activation_bytes[at]
                                   : dec.activation_bytes[at];
    t.bytes[stage] += static_cast<long double>(instance.embedding_bytes[at]) + activations;
  }
  return t;
}

long double slowest(const Instance& instance, const Candidate& candidate, const PhaseCosts& costs,
                    std::vector<long double> times) {
  for (std::size_t stage = 1; stage < candidate.order.size(); ++stage) {
    times.push_back(
        costs.link_s[candidate.order[stage - 1] * instance.groups.size() + candidate.order[stage]]);
  }
  return *std::max_element(times.begin(), times.end());
}

long double total(const std::vector<long double>& times) {
  long double sum = 0;
  for (const long double t : times) sum += t;
  return sum;
}

long double price(const Instance& instance, const Candidate& candidate, const Tally& t) {
  const auto micro_batches = [&](std::int64_t size) -> long double {
    return static_cast<long double>(instance.batch_size / size +
                                    (instance.batch_size % size != 0 ? 1 : 0));
  };
  const long double chunks = static_cast<long double>(instance.num_chunks);
  const long double prefills = micro_batches(candidate.prefill_micro_batch_size);
  const long double decodes = micro_batches(candidate.decode_micro_batch_size);
  const long double tokens = instance.output_tokens;
  const long double tp =
      slowest(instance, candidate, instance.prefill(candidate.prefill_micro_batch_size), t.prefill);
  const long double td =
      slowest(instance, candidate, instance.decode(candidate.decode_micro_batch_size), t.decode);
  const long double quality = instance.theta * t.omega;
  if (instance.objective == Objective::paper) {
    return chunks * ((prefills - 1) * tp + total(t.prefill)) + (decodes - 1) * (tokens - 1) * td +
           total(t.decode) + quality;
  }
  return (chunks * prefills - 1) * tp + total(t.prefill) +
         (tokens - 1) * std::max(decodes * td, total(t.decode)) + quality;
}

Check check_memory(const Instance& instance, const Candidate& candidate, const Tally& t) {
  for (std::size_t stage = 0; stage < candidate.order.size(); ++stage) {
    const double usable = instance.groups[candidate.order[stage]].usable_bytes;
    if (t.bytes[stage] > usable * (1.0L + kMemorySlack)) {
      return broken(
          "memory",
          fmt::format("{} needs {}, has {}; lower bitwidths or move layers away from it",
                      stage_name(instance, candidate, stage),
                      format_bytes(static_cast<double>(t.bytes[stage])), format_bytes(usable)));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> find_violation(const Instance& instance, const Candidate& candidate,
                                        std::optional<double> claimed_objective) {
  if (Check v = check_devices(instance, candidate)) return v;
  if (Check v = check_contiguity(instance, candidate)) return v;
  if (Check v = check_server(instance, candidate)) return v;
  if (Check v = check_micro_batches(instance, candidate)) return v;
  if (Check v = check_bits(instance, candidate)) return v;
  if (Check v = check_rows(instance, candidate)) return v;
  const Tally t = tally(instance, candidate);
  if (Check v = check_memory(instance, candidate, t)) return v;
  if (instance.max_omega) {
    const long double limit =
        *instance.max_omega +
        std::fabs(static_cast<long double>(*instance.max_omega)) * kQualitySlack;
    if (t.omega > limit) {
      return broken("quality", fmt::format("omega is {:.9g}, the quality floor allows {:.9g}",
                                           static_cast<double>(t.omega), *instance.max_omega));
    }
  }
  if (claimed_objective) {
    const double own = static_cast<double>(price(instance, candidate, t));
    if (!(std::fabs(*claimed_objective - own) <= 1e-9 * std::max(1e-12, std::fabs(own)))) {
      return broken("objective",
                    fmt::format("the plan claims an objective of {:.12g}, it has {:.12g}",
                                *claimed_objective, own));
    }
  }
  return std::nullopt;
}

}  // namespace tessera::solver
