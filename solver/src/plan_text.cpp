#include "tessera/solver/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "offload/text.h"
#include "tessera/core/colour.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/solver/problem.h"

namespace tessera::solver {
namespace {

/// "16 x 8-bit, 4 x 4-bit", highest first.
std::string bitwidth_counts(const PlanStage& stage) {
  std::map<std::int32_t, int, std::greater<>> counts;
  for (std::int32_t bit : stage.bitwidths) ++counts[bit];
  std::vector<std::string> parts;
  for (const auto& [bit, count] : counts) parts.push_back(fmt::format("{} x {}-bit", count, bit));
  return parts.empty() ? "-" : join(parts, ", ");
}

std::string layer_range(const PlanStage& stage) {
  if (stage.num_layers == 0) return "none";
  return fmt::format("{}-{}", stage.first_layer, stage.first_layer + stage.num_layers - 1);
}

// An instance's device may have no memory, and hold a stage of none.
double used_ratio(const StageMemory& memory) {
  return memory.capacity_bytes > 0 ? memory.total_bytes / memory.capacity_bytes : 0;
}

std::string memory_bar(const StageMemory& memory) {
  constexpr int kWidth = 20;
  const int filled = std::clamp(static_cast<int>(used_ratio(memory) * kWidth + 0.5), 0, kWidth);
  std::string used, left;
  for (int i = 0; i < kWidth; ++i) (i < filled ? used : left) += i < filled ? "█" : "░";
  const double ratio = used_ratio(memory);
  const Tone tone = ratio > 0.97 ? Tone::bad : ratio > 0.85 ? Tone::warning : Tone::good;
  return paint(tone, used) + paint(Tone::faint, left);
}

std::string status_word(PlanStatus status) {
  return paint(status == PlanStatus::optimal ? Tone::good : Tone::warning, to_string(status));
}

std::string proof(const Plan& plan) {
  if (!plan.bound) return "no bound was computed";
  const double gap = plan.gap.value_or(0);
  // Within the tolerance of floating-point solvers, digits say nothing.
  const std::string shown =
      gap > 0 && gap < 1e-5 ? "< 0.001 %" : fmt::format("{:.3g} %", 100 * gap);
  return fmt::format("bound {}, gap {}", format_seconds(*plan.bound), shown);
}

std::string describe_stages(const Plan& plan) {
  std::size_t device_width = 6, bits_width = 9;
  for (const PlanStage& stage : plan.stages) {
    device_width = std::max(device_width, stage.device.size());
    bits_width = std::max(bits_width, bitwidth_counts(stage).size());
  }
  std::string text =
      paint(Tone::faint,
            fmt::format("  stage  {:<{}}  layers   {:<{}}  {:>9}  {:>9}  memory", "device",
                        device_width, "bitwidths", bits_width, "prefill", "decode")) +
      "\n";
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    text += fmt::format("  {:>5}  {:<{}}  {:<7}  {:<{}}  {:>9}  {:>9}  {} {} of {} ({:.0f} %)\n", k,
                        stage.device, device_width, layer_range(stage), bitwidth_counts(stage),
                        bits_width, format_seconds(stage.prefill_s), format_seconds(stage.decode_s),
                        memory_bar(stage.memory), format_bytes(stage.memory.total_bytes),
                        format_bytes(stage.memory.capacity_bytes), 100 * used_ratio(stage.memory));
  }
  if (plan.offload) text += describe_offload(plan);
  return text + fmt::format("  micro-batches: prefill {}, decode {}\n",
                            plan.prefill_micro_batch_size, plan.decode_micro_batch_size);
}

// Nothing where the cache is not quantised.
std::string describe_kv_cache(const Problem& problem) {
  if (!problem.serving || problem.serving->kv_bitwidth >= 16) return "";
  return fmt::format("  KV cache {} bit, {} of omega ({})\n", problem.serving->kv_bitwidth,
                     format_number(total_kv_omega(problem), 4),
                     problem.serving->kv_omega.empty() ? "assumed" : "given");
}

std::string describe_replicas(const Plan& plan) {
  std::string text;
  for (std::size_t r = 0; r < plan.replicas.size(); ++r) {
    const Plan& replica = plan.replicas[r];
    const Problem part = problem_from_json(*replica.problem, "plan.replicas.problem");
    if (!part.serving) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("replica {} is of an instance file, which has no replicas", r + 1),
                  "plan.replicas");
    }
    text += fmt::format(" replica {} of {}: {} requests on {}, {}\n", r + 1, plan.replicas.size(),
                        part.serving->workload.batch_size, part.serving->cluster.name,
                        format_seconds(replica.latency_s));
    text += describe_stages(replica) + describe_kv_cache(part);
  }
  return text;
}

std::string describe_candidates(const Plan& plan) {
  std::string text;
  std::size_t width = 0;
  for (const PlanCandidate& c : plan.candidates) width = std::max(width, c.name.size());
  for (const PlanCandidate& c : plan.candidates) {
    std::string outcome = c.message;
    if (c.objective) {
      outcome = fmt::format("objective {}, latency {}, {}", format_seconds(*c.objective),
                            format_seconds(c.latency_s.value_or(0)), c.status);
    } else if (c.status == "cutoff") {
      outcome = "proven to be no better";
    }
    text += fmt::format("  {} {:<{}}  {}\n", text.empty() ? "choices:" : "        ", c.name, width,
                        outcome);
  }
  return text;
}

// A plan with profiles was priced by measurements as far as they reach.
std::string why_no_error(const Plan& plan) {
  const bool has_profiles = plan.problem != nullptr && plan.problem->contains("serving") &&
                            plan.problem->at("serving").contains("profiles");
  return has_profiles ? ": not all of them were measured, so no error is known"
                      : ": no measurement stands behind them yet";
}

}  // namespace

std::string summarise(const Plan& plan) {
  const bool split = !plan.replicas.empty();
  const std::size_t count = split ? plan.replicas.size() : plan.stages.size();
  return fmt::format("plan: {} {}{}, {}, {:.1f} tok/s, {:.2f} bits on average, {} ({})", count,
                     split ? "replica" : "stage", count == 1 ? "" : "s",
                     format_seconds(plan.latency_s), plan.throughput_tok_s, plan.mean_bitwidth,
                     to_string(plan.status), plan.planner);
}

std::string describe(const Plan& plan) {
  const Problem problem = problem_from_json(*plan.problem, "plan.problem");
  const std::string name = problem.serving ? fmt::format("{} on {}", problem.serving->model.name,
                                                         problem.serving->cluster.name)
                                           : problem.instance_path;
  std::string text =
      fmt::format("Plan for {} by {}: {}, {} ({})\n", name, plan.planner, status_word(plan.status),
                  proof(plan), format_seconds(plan.solve_s));
  if (plan.replicas.empty()) {
    text += describe_stages(plan) + describe_kv_cache(problem);
  } else {
    text += describe_replicas(plan);
  }
  text +=
      paint(Tone::bold,
            fmt::format("  latency {}   throughput {:.1f} tok/s   mean bitwidth {:.2f}   omega {}",
                        format_seconds(plan.latency_s), plan.throughput_tok_s, plan.mean_bitwidth,
                        format_number(plan.omega, 4))) +
      "\n";
  text += fmt::format("  latencies are {}{}\n", name_of(plan.provenance),
                      plan.error ? fmt::format(", held-out error {:.1f} %", 100 * *plan.error)
                                 : why_no_error(plan));
  text += describe_candidates(plan);
  for (const std::string& note : plan.notes) text += "  note: " + note + "\n";
  return text;
}

std::string explain(const Plan& plan) {
  if (plan.offload) return explain_offload(plan);
  if (!plan.replicas.empty()) {
    std::string text;
    for (std::size_t r = 0; r < plan.replicas.size(); ++r) {
      text += fmt::format("replica {}:\n{}", r + 1, explain(plan.replicas[r]));
    }
    return text;
  }
  const Problem problem = problem_from_json(*plan.problem, "plan.problem");
  const Instance instance = lower(problem);
  const Evaluation e = evaluate(instance, candidate_of(instance, plan));
  std::size_t tight = 0;
  for (std::size_t k = 1; k < plan.stages.size(); ++k) {
    if (used_ratio(plan.stages[k].memory) > used_ratio(plan.stages[tight].memory)) tight = k;
  }
  const ObjectiveCoefficients c = objective_coefficients(
      instance, Objective::steady, plan.prefill_micro_batch_size, plan.decode_micro_batch_size);
  const double fill = c.prefill_sum * e.prefill_sum_s;
  const double steady = c.prefill_max * e.prefill_max_s;
  const double rounds = e.latency_s - fill - steady;
  const StageMemory& memory = plan.stages[tight].memory;
  std::string text =
      fmt::format("  first micro-batch through the pipeline {}, the others {}, decoding {}\n",
                  format_seconds(fill), format_seconds(steady), format_seconds(rounds));
  text += fmt::format(
      "  memory is tightest on stage {} ({}): {} weights, {} KV cache, {} activations, {} "
      "embeddings, {} reserve; {} left\n",
      tight, plan.stages[tight].device, format_bytes(memory.weight_bytes),
      format_bytes(memory.kv_cache_bytes), format_bytes(memory.activation_bytes),
      format_bytes(memory.embedding_bytes), format_bytes(memory.reserve_bytes),
      format_bytes(memory.capacity_bytes - memory.total_bytes));
  if (instance.theta > 0) {
    text +=
        fmt::format("  quality: theta {} times omega {} adds {} to the objective of {}\n",
                    format_number(instance.theta), format_number(plan.omega, 4),
                    format_seconds(instance.theta * plan.omega), format_seconds(plan.objective));
  }
  return text;
}

}  // namespace tessera::solver
