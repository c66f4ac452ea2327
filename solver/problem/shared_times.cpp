#include "tessera/solver/problem/shared_times.h"

namespace tessera::solver {

std::size_t SharedTimes::number_of(const std::string& kind) {
  return kinds_.try_emplace(kind, kinds_.size()).first->second;
}

const GroupTimes& SharedTimes::get(std::size_t kind, cost::Phase phase, std::int64_t size,
                                   const std::function<GroupTimes()>& compute) {
  const auto key = std::tuple(kind, phase, size);
  const auto known = times_.find(key);
  if (known != times_.end()) return known->second;
  return times_.emplace(key, compute()).first->second;
}

}  // namespace tessera::solver
