#include <algorithm>
#include <utility>

#include "ranking.h"
#include "tessera/serving/simulate.h"
#include "tessera/serving/traffic_options.h"
#include "tessera/solver/deploy/plan_serving.h"

namespace tessera::solver {
namespace {

constexpr double kLoads[] = {0.1, 0.25, 0.5, 0.75, 1};

serving::Summary served_at(const ServingPlans& plans, const ServingRow& row, double rate_per_s,
                           const std::function<void(std::int64_t)>& poll) {
  const serving::Traffic traffic = serving::scaled(*plans.traffic->of(row.engines), rate_per_s);
  serving::SimulationOptions run;
  run.poll = poll;
  const serving::Log log = serving::simulate(row.deployment->deployment, traffic, std::move(run));
  return serving::summarise(log, summary_options(*row.deployment, traffic));
}

}  // namespace

double tok_s_per_user(const serving::Summary& served) {
  return 1 / served.tpot_s.p50.value_or(served.e2e_s.p50.value_or(0));
}

std::vector<FrontierRow> frontier_of(const ServingPlans& plans,
                                     std::function<void(std::int64_t)> poll) {
  std::vector<FrontierRow> points;
  for (const ServingRow& row : plans.rows) {
    for (const double load : kLoads) {
      const double rate_per_s = row.rate_per_s * load;
      const serving::Summary served =
          load == 1 ? row.found->served->summary : served_at(plans, row, rate_per_s, poll);
      points.push_back({row.rank, row.layout, rate_per_s, tok_s_per_user(served),
                        row.tok_s_per_gpu * load, row.rank == 1 && load == 1});
    }
  }
  std::sort(points.begin(), points.end(), [](const FrontierRow& a, const FrontierRow& b) {
    return std::pair(a.tok_s_per_user, a.tok_s_per_gpu) >
           std::pair(b.tok_s_per_user, b.tok_s_per_gpu);
  });
  double best = 0;
  for (FrontierRow& point : points) {
    point.efficient = point.tok_s_per_gpu > best;
    best = std::max(best, point.tok_s_per_gpu);
  }
  return points;
}

}  // namespace tessera::solver
