#include "tessera/solver/instance/no_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera::solver {
namespace {

// The status of a short search for any plan.
SolveStatus try_to_fit(const Instance& instance, PlanRequest request, double left_s,
                       const Solve& solve) {
  request.on_incumbent = nullptr;
  request.start.reset();
  request.time_limit_s = std::min(2.0, std::max(0.1, left_s));
  request.gap = 0.5;
  const PlanResult result = solve(instance, request);
  return result.candidate ? SolveStatus::feasible : result.status;
}

// The side constraints that leave no plan. Each is left out in turn, and stays out when there is
// still no plan without it. Absent when plans do not fit without any.
std::optional<Violation> explain_rows(const Instance& instance, const PlanRequest& request,
                                      double left_s, const Solve& solve) {
  constexpr std::size_t kMostTried = 12;  // each costs a search
  Instance changed = instance;
  changed.rows.clear();
  if (try_to_fit(changed, request, left_s, solve) != SolveStatus::feasible) return std::nullopt;
  std::vector<Row> rows = instance.rows;
  for (std::size_t i = 0; i < rows.size() && instance.rows.size() <= kMostTried;) {
    changed.rows = rows;
    changed.rows.erase(changed.rows.begin() + static_cast<std::ptrdiff_t>(i));
    const bool guilty = changed.rows.empty() ||
                        try_to_fit(changed, request, left_s, solve) != SolveStatus::infeasible;
    if (guilty) {
      ++i;
    } else {
      rows = changed.rows;
    }
  }
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(quote(row.name));
  if (names.size() == 1) {
    return Violation{"row", fmt::format("no plan keeps the constraint {}; without it plans fit; "
                                        "loosen it",
                                        names.front())};
  }
  return Violation{"row", fmt::format("no plan keeps the constraints {} together; without them "
                                      "plans fit; loosen one of them",
                                      join(names, ", "))};
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
  if (!instance.rows.empty()) {
    if (auto violation = explain_rows(instance, request, left_s, solve)) return *violation;
  }
  Instance without_floor = instance;
  without_floor.rows.clear();
  without_floor.max_omega.reset();
  if (instance.max_omega &&
      try_to_fit(without_floor, request, left_s, solve) == SolveStatus::feasible) {
    return {"quality",
            fmt::format("plans fit the devices, but none with omega at most {:.6g}; lower the "
                        "quality floor, or add memory for higher bitwidths",
                        *instance.max_omega)};
  }
  return {
      "memory",
      fmt::format(
          "no contiguous partition of the {} layers fits the devices ({} in total){} at "
          "any allowed bitwidth and micro-batch size; add devices or lower bitwidths, "
          "or reduce batch size or context",
          instance.num_layers(), format_bytes(room(instance, request)),
          instance.stage_rule == StageRule::any ? "" : " in an order that the server can launch")};
}

}  // namespace tessera::solver
