// The checker of offloading plans: shares, devices, memory of devices, hosts and disks, the quality
// floor, and that every printed number is what the cost model says.

#include "check_offload.h"

#include <fmt/format.h>

#include <cmath>

#include "compare_plans.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/solver/offload/offload.h"
#include "tessera/solver/plan/build_plan.h"

namespace tessera::solver {
namespace {

using Check = std::optional<Violation>;

Check broken(const char* constraint, std::string message) {
  return Violation{constraint, std::move(message)};
}

Check check_shares(const std::vector<StageOffload>& shares) {
  for (std::size_t k = 0; k < shares.size(); ++k) {
    for (const auto& [name, r] :
         {std::pair{"weights", shares[k].weights}, std::pair{"kv_cache", shares[k].kv_cache},
          std::pair{"activations", shares[k].activations}}) {
      const bool in_range = r.device >= 0 && r.host >= 0 && r.disk >= 0;
      if (in_range && std::fabs(r.device + r.host + r.disk - 1) <= 1e-9) continue;
      return broken("offload",
                    fmt::format("stage {}: the shares of {} on device, host and disk are "
                                "{}, {} and {}; they must be at least 0 and sum to 1",
                                k + 1, name, r.device, r.host, r.disk));
    }
  }
  return std::nullopt;
}

Check check_memory(const PipelinePlan& plan, const OffloadModel& model,
                   const std::vector<StageOffload>& shares) {
  std::vector<double> held(model.host_bytes.size(), 0);
  for (std::size_t k = 0; k < shares.size(); ++k) {
    const OffloadStage& stage = model.stages[k];
    const double needed =
        std::max(stage.device_prefill.at(shares[k]), stage.device_decode.at(shares[k]));
    if (needed > stage.usable_bytes * (1 + kMemorySlack)) {
      return broken("memory", fmt::format("stage {} on {} needs {}, has {}; offload more of it",
                                          k + 1, plan.stages[k].device, format_bytes(needed),
                                          format_bytes(stage.usable_bytes)));
    }
    if (!stage.has_disk && stage.disk.at(shares[k]) > 0) {
      return broken("offload", fmt::format("stage {} keeps data on the disk of node {}, whose "
                                           "rate the cluster does not say; give disk_bytes_per_s",
                                           k + 1, quote(model.node_names[stage.node_index])));
    }
    held[stage.node_index] +=
        std::max(stage.host_prefill.at(shares[k]), stage.host_decode.at(shares[k]));
  }
  for (std::size_t n = 0; n < held.size(); ++n) {
    if (held[n] <= model.host_bytes[n] * (1 + kMemorySlack)) continue;
    return broken("memory", fmt::format("the stages on node {} keep {} on the host, which may use "
                                        "{}; offload less, or to disk",
                                        quote(model.node_names[n]), format_bytes(held[n]),
                                        format_bytes(model.host_bytes[n])));
  }
  return std::nullopt;
}

Check check_quality(const Instance& instance, double omega) {
  if (!instance.max_omega) return std::nullopt;
  const double limit = *instance.max_omega;
  if (omega <= limit + std::fabs(limit) * kQualitySlack) return std::nullopt;
  return broken("quality",
                fmt::format("omega is {:.9g}, the quality floor allows {:.9g}", omega, limit));
}

}  // namespace

std::optional<Violation> check_offload(const PipelinePlan& plan) {
  const Problem& problem = plan.problem.problem();
  const Instance& instance = plan.problem.instance();
  PlanResult result;
  result.candidate = candidate_of(instance, plan);
  std::vector<StageOffload> shares;
  for (const PlanStage& stage : plan.stages) shares.push_back(*stage.offload);
  if (Check v = check_shares(shares)) return v;
  if (Check v = find_offload_obstacle(problem, instance, *result.candidate, *plan.offload))
    return v;
  const OffloadModel model = offload_model(problem, instance, *result.candidate, *plan.offload);
  if (Check v = check_memory(plan, model, shares)) return v;
  const PipelinePlan fresh =
      build_offload_plan(plan.problem, result, *plan.offload, shares, plan.planner);
  if (Check v = check_quality(instance, fresh.omega)) return v;
  if (plan.bound) return broken("objective", "an offloading plan has no bound: none is proven");
  return find_difference(plan, fresh);
}

}  // namespace tessera::solver
