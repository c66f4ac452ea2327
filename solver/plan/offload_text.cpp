#include "offload_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/solver/offload/offload.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/check_plan.h"

namespace tessera::solver {
namespace {

std::string shares_text(const TierRatios& r) {
  return fmt::format("{:.0f}/{:.0f}/{:.0f}", 100 * r.device, 100 * r.host, 100 * r.disk);
}

/// The term that takes longest.
std::size_t slowest_term(const std::array<OffloadTerm, kOffloadOverlaps>& terms,
                         const StageOffload& shares) {
  std::size_t slowest = 0;
  for (std::size_t i = 1; i < terms.size(); ++i) {
    if (terms[i].at(shares) > terms[slowest].at(shares)) slowest = i;
  }
  return slowest;
}

std::string bottleneck(const PipelinePlan& plan, const OffloadModel& model, const char* phase,
                       double PlanStage::*time,
                       std::array<OffloadTerm, kOffloadOverlaps> OffloadStage::*terms) {
  const auto slowest =
      std::max_element(plan.stages.begin(), plan.stages.end(),
                       [time](const auto& a, const auto& b) { return a.*time < b.*time; });
  const auto k = static_cast<std::size_t>(slowest - plan.stages.begin());
  const auto& overlaps = model.stages[k].*terms;
  const std::size_t term = slowest_term(overlaps, *slowest->offload);
  return fmt::format("  {} waits for stage {} ({}, {} per block), which waits for {} ({})\n", phase,
                     k, slowest->device, format_seconds((*slowest).*time),
                     kOffloadOverlapNames[term],
                     format_seconds(overlaps[term].at(*slowest->offload)));
}

}  // namespace

std::string describe_offload(const PipelinePlan& plan) {
  std::string text =
      fmt::format("  offloading: GPU batches of {}, shares on device/host/disk in %\n",
                  plan.offload->gpu_batch_size);
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const StageOffload& o = *plan.stages[k].offload;
    text += fmt::format(
        "  {:>5}  weights {}, KV cache {}, activations {}; {} on the host, {} on disk\n", k,
        shares_text(o.weights), shares_text(o.kv_cache), shares_text(o.activations),
        format_bytes(o.host_bytes), format_bytes(o.disk_bytes));
  }
  return text;
}

std::string explain_offload(const PipelinePlan& plan) {
  // A file may say anything; what follows indexes layers and devices by it.
  if (const auto violation = check_plan(plan)) {
    throw Error(ErrorCode::invalid_argument, "the plan is broken: " + violation->message, "plan");
  }
  const Instance& instance = plan.problem.instance();
  const OffloadModel model =
      offload_model(plan.problem.problem(), instance, candidate_of(instance, plan), *plan.offload);
  std::string text =
      bottleneck(plan, model, "prefill", &PlanStage::prefill_s, &OffloadStage::prefill) +
      bottleneck(plan, model, "decoding", &PlanStage::decode_s, &OffloadStage::decode);
  std::vector<double> held(model.host_bytes.size(), 0);
  for (std::size_t k = 0; k < plan.stages.size(); ++k)
    held[model.stages[k].node_index] += plan.stages[k].offload->host_bytes;
  for (std::size_t n = 0; n < held.size(); ++n) {
    if (held[n] <= 0) continue;
    text +=
        fmt::format("  node {} keeps {} of the {} that the plan may use of its memory\n",
                    model.node_names[n], format_bytes(held[n]), format_bytes(model.host_bytes[n]));
  }
  return text;
}

}  // namespace tessera::solver
