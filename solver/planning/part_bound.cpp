#include "part_bound.h"

#include <algorithm>

#include "parts.h"
#include "tessera/core/error.h"
#include "tessera/solver/instance/numbers.h"

namespace tessera::solver {
namespace {

// In which the devices that a degree leaves over, in a whole cluster, may be left out: they may not
// be there in a part.
OpenProblem relaxed(const OpenProblem& whole) {
  Problem problem = whole.first.problem();
  problem.allow_empty_stage.reset();
  problem.use_all_devices = false;
  return {LoweredProblem(std::move(problem), whole.prices), whole.choices, whole.kernel_sets,
          whole.prices};
}

LoweredProblem with_one_request(const LoweredProblem& problem,
                                const std::shared_ptr<cost::PriceCache>& prices) {
  Problem one = problem.problem();
  one.batch()->workload.batch_size = 1;
  return LoweredProblem(std::move(one), prices);
}

std::size_t alike_of(const std::vector<AlikeDevices>& alike, std::size_t device) {
  for (std::size_t k = 0; k < alike.size(); ++k) {
    const std::vector<std::size_t>& devices = alike[k].devices;
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) return k;
  }
  throw Error(ErrorCode::internal, "a device of the mesh is none of the cluster");
}

}  // namespace

PartBound::PartBound(const OpenProblem& whole, const std::vector<AlikeDevices>& alike) {
  for (const LoweredProblem& all : list_variants(relaxed(whole)).problems) {
    if (why_not_priced(all) || !MixBound::is_quick(all.instance())) {
      is_known_ = false;
      return;
    }
    LoweredProblem one = with_one_request(all, whole.prices);
    const Instance& instance = all.instance();
    ways_.push_back({all, one, MixBound(instance, &one.instance()), {}});
    for (const MeshGroup& group : mesh_groups(all.batch()->cluster, all.batch()->mesh)) {
      ways_.back().groups.push_back(
          {alike_of(alike, group.members.front().front()), static_cast<std::size_t>(group.degree)});
    }
  }
}

double PartBound::objective(const Counts& part, std::int64_t share) const {
  if (!is_known_) return -kInfinity;
  double least = kInfinity;
  std::vector<std::int64_t> counts;
  for (const Way& way : ways_) {
    counts.clear();
    for (const Way::Group& group : way.groups) {
      counts.push_back(static_cast<std::int64_t>(part[group.alike] / group.degree));
    }
    least = std::min(least, way.bound.objective(counts, share));
  }
  return least;
}

std::int64_t PartBound::most_served(const Counts& part, std::int64_t high, double cutoff) const {
  // The bound may fall with the share, what it bounds does not: all above a refused share is.
  std::int64_t low = 0, refused = high + 1;
  while (low + 1 < refused) {
    const std::int64_t middle = (low + refused) / 2;
    (objective(part, middle) < cutoff ? low : refused) = middle;
  }
  return low;
}

}  // namespace tessera::solver
