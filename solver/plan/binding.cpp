#include "tessera/solver/plan/binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/core/units.h"
#include "tessera/solver/instance/numbers.h"

namespace tessera::solver {
namespace {

/// What one phase of a plan waits for.
struct Phase {
  const char* name;
  const PhaseCosts& costs;
  double StageEvaluation::*stage_s;
  double seconds;  ///< of the objective that hang on the slowest stage or link
};

Binding slowest(const Instance& instance, const Candidate& plan, const Evaluation& e,
                const Phase& phase) {
  Binding found{"straggler", 0, phase.name, phase.seconds, 0, 0, ""};
  double longest = 0;
  for (std::size_t k = 0; k < e.stages.size(); ++k) {
    if (e.stages[k].*phase.stage_s <= longest) continue;
    longest = e.stages[k].*phase.stage_s;
    found.stage = k;
  }
  for (std::size_t k = 0; k + 1 < plan.order.size(); ++k) {
    const double link = instance.link_s(phase.costs, plan.order[k], plan.order[k + 1]);
    if (link <= longest) continue;
    longest = link;
    found.kind = "link";
    found.stage = k;
  }
  const std::size_t k = *found.stage;
  const std::string& device = instance.groups[plan.order[k]].name;
  found.text =
      found.kind == "link"
          ? fmt::format("{}: the link from stage {} ({}) to stage {} ({}), {} a micro-batch",
                        phase.name, k, device, k + 1, instance.groups[plan.order[k + 1]].name,
                        format_seconds(longest))
          : fmt::format("{}: stage {} ({}), {} a micro-batch", phase.name, k, device,
                        format_seconds(longest));
  found.text += fmt::format(", {} of the objective", format_seconds(phase.seconds));
  return found;
}

void add_times(const Instance& instance, const Candidate& plan, const Evaluation& e,
               std::vector<Binding>& found) {
  const ObjectiveCoefficients c = objective_coefficients(
      instance, instance.objective, plan.prefill_micro_batch_size, plan.decode_micro_batch_size);
  const double filling_s = c.prefill_sum * e.prefill_sum_s;
  if (filling_s > c.prefill_max * e.prefill_max_s) {
    found.push_back({"micro_batch", std::nullopt, "prefill", filling_s, 0, 0,
                     fmt::format("prefill: the first micro-batch goes through {} stage{} in {}, "
                                 "longer than the slowest stage takes for the others; {} of the "
                                 "objective",
                                 plan.order.size(), plan.order.size() == 1 ? "" : "s",
                                 format_seconds(e.prefill_sum_s), format_seconds(filling_s))});
  }
  if (c.prefill_max > 0) {
    found.push_back(slowest(instance, plan, e,
                            {"prefill", instance.prefill(plan.prefill_micro_batch_size),
                             &StageEvaluation::prefill_s, c.prefill_max * e.prefill_max_s}));
  }
  const double round_s = c.round_micro_batches * e.decode_max_s;
  const double decode_s =
      c.decode_max * e.decode_max_s + c.round * std::max(round_s, e.decode_sum_s);
  if (c.round > 0 && round_s < e.decode_sum_s) {
    found.push_back({"micro_batch", std::nullopt, "decode", decode_s, 0, 0,
                     fmt::format("decode: {:.0f} micro-batch{} in {} stages, a step goes round in "
                                 "{}, the slowest stage is busy for {} of it; {} of the objective",
                                 c.round_micro_batches, c.round_micro_batches == 1 ? "" : "es",
                                 plan.order.size(), format_seconds(e.decode_sum_s),
                                 format_seconds(round_s), format_seconds(decode_s))});
  } else if (decode_s > 0) {
    found.push_back(slowest(instance, plan, e,
                            {"decode", instance.decode(plan.decode_micro_batch_size),
                             &StageEvaluation::decode_s, decode_s}));
  }
}

/// Bytes of the smallest thing that could still be put on a stage.
double smallest_step(const Instance& instance, const Candidate& plan, std::size_t stage) {
  const std::size_t group = plan.order[stage];
  const std::size_t begin = plan.first_layer[stage], end = plan.first_layer[stage + 1];
  double step = kInfinity;
  const auto bytes = [&](std::size_t layer, std::size_t bit) {
    return instance.layer_bytes_at(group, instance.layer_class[layer], bit);
  };
  for (std::size_t bit = 0; bit < instance.num_bits(); ++bit) {
    if (!instance.allowed_at(group, bit)) continue;
    if (begin > 0) step = std::min(step, bytes(begin - 1, bit));
    if (end < instance.num_layers()) step = std::min(step, bytes(end, bit));
    for (std::size_t layer = begin; layer < end; ++layer) {
      const double more = bytes(layer, bit) - bytes(layer, plan.bit[layer]);
      if (more > 0) step = std::min(step, more);
    }
  }
  return step;
}

void add_memory(const Instance& instance, const Candidate& plan, const Evaluation& e,
                std::vector<Binding>& found) {
  for (std::size_t k = 0; k < e.stages.size(); ++k) {
    const StageEvaluation& stage = e.stages[k];
    const double used = stage.layers_bytes + stage.fixed_bytes;
    const double left = stage.usable_bytes - used;
    const double step = smallest_step(instance, plan, k);
    if (step == kInfinity || left * (1 + kMemorySlack) >= step) continue;
    const double ratio = used / std::max(stage.usable_bytes, 1.0);
    found.push_back({"memory", k, "", 0, left, ratio,
                     fmt::format("memory of stage {} ({}): {} of {} usable ({:.1f} %), {} left and "
                                 "the smallest step takes {}",
                                 k, instance.groups[plan.order[k]].name, format_bytes(used),
                                 format_bytes(stage.usable_bytes), 100 * ratio, format_bytes(left),
                                 format_bytes(step))});
  }
}

void add_quality(const Instance& instance, const Candidate& plan, const Evaluation& e,
                 std::vector<Binding>& found) {
  if (!instance.max_omega) return;
  double step = kInfinity;
  for (std::size_t k = 0; k < plan.order.size(); ++k) {
    for (std::size_t i = plan.first_layer[k]; i < plan.first_layer[k + 1]; ++i) {
      for (std::size_t bit = 0; bit < instance.num_bits(); ++bit) {
        const double more = instance.omega_at(i, bit) - instance.omega_at(i, plan.bit[i]);
        if (more > 0 && instance.allowed_at(plan.order[k], bit)) step = std::min(step, more);
      }
    }
  }
  const double limit = *instance.max_omega;
  const double left = limit + std::fabs(limit) * kQualitySlack - e.omega;
  if (step == kInfinity || left >= step) return;
  const double ratio = limit != 0 ? e.omega / limit : 1;
  found.push_back({"quality", std::nullopt, "", 0, 0, ratio,
                   fmt::format("quality floor: omega {:.6g} of at most {:.6g}, the smallest step "
                               "takes {:.3g}",
                               e.omega, limit, step)});
}

}  // namespace

std::vector<Binding> find_bindings(const Instance& instance, const Candidate& candidate) {
  const Evaluation e = evaluate(instance, candidate);
  std::vector<Binding> found;
  add_times(instance, candidate, e, found);
  add_memory(instance, candidate, e, found);
  add_quality(instance, candidate, e, found);
  return found;
}

std::optional<Binding> host_binding(const PipelinePlan& plan) {
  const BatchProblem* batch = plan.problem.batch();
  if (batch == nullptr || plan.stages.empty()) return std::nullopt;
  const auto size = static_cast<double>(plan.decode_micro_batch_size);
  const auto first = static_cast<std::size_t>(plan.stages.front().device_index);
  const Device& device = batch->device(first);
  const double step_s = batch->kernel_set.measured_factor(cost::Phase::decode, device) *
                        batch->kernel_set.host_s(size, size);
  const double first_s = plan.stages.front().decode_s;
  if (step_s == 0 || first_s <= 0) return std::nullopt;
  const double rounds = (batch->workload.output_tokens - 1) *
                        std::ceil(static_cast<double>(batch->workload.batch_size) /
                                  static_cast<double>(plan.decode_micro_batch_size));
  const double ratio = step_s / first_s;
  return Binding{
      "host",
      0,
      "decode",
      rounds * step_s,
      0,
      ratio,
      fmt::format("host: {} of each decode step on stage 0, {:.1f} %, is scheduling, inputs and "
                  "sampling, not kernels (kernel set {})",
                  format_seconds(step_s), 100 * ratio, batch->kernel_set.name)};
}

}  // namespace tessera::solver
