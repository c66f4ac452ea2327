#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/cost/latency.h"

namespace tessera::solver {

/// Times of a group of devices for one micro-batch size.
struct GroupTimes {
  std::vector<double> layer_s;  ///< [class][bitwidth], mean over the units of a phase
  double embedding_s = 0, head_s = 0;
};

/// Times that the ways to settle a problem have in common: of a group of devices they are the same
/// whatever the other devices, the mesh around it and the number of requests are. For problems of
/// one model, prompt and output lengths, list of bitwidths and profiles; for one thread at a time.
class SharedTimes {
 public:
  /// The number of a kind of group, by all that its times depend on besides phase and size.
  std::size_t number_of(const std::string& kind);

  /// The times of a kind of group, computed when first asked for. Stay where they are.
  const GroupTimes& get(std::size_t kind, cost::Phase phase, std::int64_t size,
                        const std::function<GroupTimes()>& compute);

 private:
  std::map<std::string, std::size_t> kinds_;
  std::map<std::tuple<std::size_t, cost::Phase, std::int64_t>, GroupTimes> times_;
};

}  // namespace tessera::solver
