#include "tessera/solver/plan/plan_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention_text.h"
#include "offload_text.h"
#include "stage_table.h"
#include "tessera/core/colour.h"
#include "tessera/core/error.h"
#include "tessera/core/layout.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/solver/plan/build_plan.h"

namespace tessera::solver {
namespace {

// "feasible, cut short by its time limit"
std::string status_words(const PlanSummary& plan) {
  std::string words(name_of(plan.status));
  if (plan.stopped_by) {
    words += *plan.stopped_by == PlanStop::interrupted ? ", interrupted"
                                                       : ", cut short by its time limit";
  }
  return paint(plan.status == PlanStatus::optimal ? Tone::good : Tone::warning, words);
}

std::string proof(const PlanSummary& plan) {
  if (!plan.bound) return "no bound was computed";
  const double gap = plan.gap.value_or(0);
  // Within the tolerance of floating-point solvers, digits say nothing.
  const std::string shown =
      gap > 0 && gap < 1e-5 ? "< 0.001 %" : fmt::format("{:.3g} %", 100 * gap);
  return fmt::format("objective at least {}, gap {}", format_seconds(*plan.bound), shown);
}

std::string describe_stages(const PipelinePlan& plan) {
  std::string text = stage_table(plan);
  if (plan.offload) text += describe_offload(plan);
  text += describe_attention(plan);
  return text + fmt::format("  micro-batches: prefill {}, decode {}\n",
                            plan.prefill_micro_batch_size, plan.decode_micro_batch_size);
}

// Nothing where the cache is not quantised.
std::string describe_kv_cache(const Problem& problem) {
  const BatchProblem* batch = problem.batch();
  if (batch == nullptr || batch->kv_bitwidth >= 16) return "";
  return fmt::format("  KV cache {} bit, {} of omega ({})\n", batch->kv_bitwidth,
                     format_number(total_kv_omega(problem), 4),
                     batch->kv_omega.empty() ? "assumed" : "given");
}

std::string describe_parts(const PipelinePlan& plan) {
  return describe_stages(plan) + describe_kv_cache(plan.problem.problem());
}

/// " 8 requests on 1xA100-80G, 1.17 s" and what is below that line: alike where replicas are.
std::string describe_replica(const PipelinePlan& replica, std::size_t index) {
  const BatchProblem* part = replica.problem.batch();
  if (part == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("replica {} is of an instance file, which has no replicas", index),
                "plan.replicas");
  }
  const std::int64_t requests = part->workload.batch_size;
  return fmt::format(" {} request{} on {}, {}\n", requests, requests == 1 ? "" : "s",
                     part->cluster.name, format_seconds(replica.latency_s)) +
         describe_parts(replica);
}

// Neighbours that look the same share a block.
std::string describe_parts(const ReplicatedPlan& plan) {
  const std::size_t n = plan.replicas.size();
  std::vector<std::string> blocks;
  for (std::size_t r = 0; r < n; ++r) {
    blocks.push_back(describe_replica(plan.replicas[r], r + 1));
  }
  std::string text;
  for (std::size_t r = 0; r < n;) {
    std::size_t end = r + 1;
    while (end < n && blocks[end] == blocks[r]) ++end;
    text += end - r == 1 ? fmt::format(" replica {} of {}:", r + 1, n)
                         : fmt::format(" replicas {}-{} of {}, each", r + 1, end, n);
    text += blocks[r];
    r = end;
  }
  return text;
}

std::string counted(std::size_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// "  left out: 4 x L4, 2 x T4-16G"
std::string describe_unused(const Plan& plan) {
  const std::vector<std::size_t> unused = unused_devices(plan);
  if (unused.empty()) return "";
  std::vector<std::pair<std::string, std::size_t>> counts;
  for (const std::size_t i : unused) {
    const std::string& name = summary_of(plan).problem.batch()->cluster.devices[i].device.name;
    const auto known = std::find_if(counts.begin(), counts.end(),
                                    [&](const auto& count) { return count.first == name; });
    if (known != counts.end()) {
      ++known->second;
    } else {
      counts.emplace_back(name, 1);
    }
  }
  std::vector<std::string> words;
  for (const auto& [name, count] : counts) words.push_back(fmt::format("{} x {}", count, name));
  return fmt::format("  left out: {}\n", join(words, ", "));
}

// Those that were solved or failed, each; of those that others ruled out, how many.
std::string describe_candidates(const PlanSummary& plan) {
  const auto is_ruled_out = [](const PlanCandidate& c) {
    return !c.objective && c.status == "cutoff";
  };
  std::size_t width = 0, ruled_out = 0;
  for (const PlanCandidate& c : plan.candidates) {
    if (is_ruled_out(c)) {
      ++ruled_out;
    } else {
      width = std::max(width, c.name.size());
    }
  }
  std::vector<std::string> lines;
  for (const PlanCandidate& c : plan.candidates) {
    if (is_ruled_out(c)) continue;
    const std::string outcome =
        c.objective ? fmt::format("objective {}, latency {}, {}", format_seconds(*c.objective),
                                  format_seconds(c.latency_s.value_or(0)), c.status)
                    : c.message;
    lines.push_back(fmt::format("{:<{}}  {}", c.name, width, outcome));
  }
  if (ruled_out > 0) {
    lines.push_back(fmt::format("{} {} proven to be no better", counted(ruled_out, "other"),
                                ruled_out == 1 ? "is" : "are"));
  }
  std::string text;
  for (const std::string& line : lines) {
    text += fmt::format("  {} {}\n", text.empty() ? "choices:" : "        ", line);
  }
  return text;
}

// A plan with profiles was priced by measurements as far as they reach.
std::string why_no_error(const PlanSummary& plan) {
  const BatchProblem* batch = plan.problem.batch();
  const bool has_profiles = batch != nullptr && !batch->profiles.empty();
  return has_profiles ? ": not all of them were measured, so no error is known"
                      : ": no measurement stands behind them yet";
}

std::string size_of(const PipelinePlan& plan) { return counted(plan.stages.size(), "stage"); }
std::string size_of(const ReplicatedPlan& plan) { return counted(plan.replicas.size(), "replica"); }

std::string title_of(const Problem& problem) {
  const BatchProblem* batch = problem.batch();
  if (batch == nullptr) return problem.instance_file()->path;
  return fmt::format("{} on {}", batch->model.name, batch->cluster.name);
}

std::string explain_pipeline(const PipelinePlan& plan) {
  if (plan.offload) return explain_offload(plan);
  const Instance& instance = plan.problem.instance();
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
  text += explain_attention(plan);
  if (instance.theta > 0) {
    text +=
        fmt::format("  quality: theta {} times omega {} adds {} to the objective of {}\n",
                    format_number(instance.theta), format_number(plan.omega, 4),
                    format_seconds(instance.theta * plan.omega), format_seconds(plan.objective));
  }
  return text;
}

}  // namespace

std::string summarise(const Plan& plan) {
  const PlanSummary& p = summary_of(plan);
  return fmt::format("plan: {}, {}, {:.1f} tok/s, {:.2f} bits on average, {} ({})",
                     std::visit([](const auto& one) { return size_of(one); }, plan),
                     format_seconds(p.latency_s), p.throughput_tok_s, p.mean_bitwidth,
                     name_of(p.status), p.planner);
}

std::string describe(const Plan& plan) {
  const PlanSummary& p = summary_of(plan);
  std::string text =
      fmt::format("Plan for {} by {}: {}, {} (found in {})\n", title_of(p.problem.problem()),
                  p.planner, status_words(p), proof(p), format_seconds(p.solve_s));
  text += std::visit([](const auto& one) { return describe_parts(one); }, plan);
  text += describe_unused(plan);
  text +=
      paint(Tone::bold,
            fmt::format("  latency {}   throughput {:.1f} tok/s   mean bitwidth {:.2f}   omega {}",
                        format_seconds(p.latency_s), p.throughput_tok_s, p.mean_bitwidth,
                        format_number(p.omega, 4))) +
      "\n";
  if (p.quality) {
    text += fmt::format("  quality: {}; grade {} (tessera help quality)\n", in_words(*p.quality),
                        name_of(p.quality->grade));
  }
  text += fmt::format(
      "  latencies are {}{}\n", name_of(p.provenance),
      p.error ? fmt::format(", held-out error {:.1f} %", 100 * *p.error) : why_no_error(p));
  text += describe_candidates(p);
  for (const std::string& note : p.notes) text += "  note: " + note + "\n";
  return wrapped(text, text_columns());
}

std::string explain(const Plan& plan) {
  if (const auto* pipeline = std::get_if<PipelinePlan>(&plan)) return explain_pipeline(*pipeline);
  const auto& replicas = std::get<ReplicatedPlan>(plan).replicas;
  std::string text;
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    text += fmt::format("replica {}:\n{}", r + 1, explain_pipeline(replicas[r]));
  }
  return text;
}

}  // namespace tessera::solver
