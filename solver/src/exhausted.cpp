#include "src/exhausted.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/units.h"

namespace tessera::solver {
namespace {

bool fits_without_floor(const Instance& instance, PlanRequest request, double left_s,
                        const Solve& solve) {
  Instance without = instance;
  without.max_omega.reset();
  request.on_incumbent = nullptr;
  request.time_limit_s = std::min(2.0, std::max(0.1, left_s));
  request.gap = 0.5;
  return solve(without, request).candidate.has_value();
}

double room(const Instance& instance, const PlanRequest& request) {
  double bytes = 0;
  if (request.order) {
    for (const std::size_t g : *request.order) bytes += instance.groups[g].usable_bytes;
  } else {
    for (const DeviceGroup& group : instance.groups) bytes += group.count * group.usable_bytes;
  }
  return bytes;
}

}  // namespace

std::optional<PlanResult> refuse_hopeless(const Instance& instance, const PlanRequest& request) {
  auto violation = find_obvious_infeasibility(instance, request);
  if (!violation) return std::nullopt;
  PlanResult result;
  result.status = SolveStatus::infeasible;
  result.violation = std::move(violation);
  return result;
}

Violation explain_exhausted(const Instance& instance, const PlanRequest& request,
                            bool has_micro_batches, double left_s, const Solve& solve) {
  if (request.cutoff) {
    return {"cutoff", fmt::format("no plan has an objective below the cutoff of {}",
                                  format_seconds(*request.cutoff))};
  }
  if (!has_micro_batches) {
    return {"micro_batch",
            "no decode micro-batch size is at least the prefill micro-batch size that was asked "
            "for; ask for a smaller one"};
  }
  if (instance.max_omega && fits_without_floor(instance, request, left_s, solve)) {
    return {"quality",
            fmt::format("plans fit the devices, but none with omega at most {:.6g}; lower the "
                        "quality floor, or add memory for higher bitwidths",
                        *instance.max_omega)};
  }
  return {"memory",
          fmt::format("no contiguous partition of the {} layers fits the devices ({} in total) at "
                      "any allowed bitwidth and micro-batch size; add devices or lower bitwidths, "
                      "or reduce batch size or context",
                      instance.num_layers(), format_bytes(room(instance, request)))};
}

}  // namespace tessera::solver
