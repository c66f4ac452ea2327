#pragma once

#include <cstdint>
#include <vector>

#include "splits.h"
#include "tessera/solver/instance/mix_bound.h"
#include "tessera/solver/problem/open_problem.h"

namespace tessera::solver {

/// What parts of a cluster can serve at most, told without planning them: see MixBound. For the
/// steady objective, where a pipeline has one degree of tensor parallelism.
class PartBound {
 public:
  PartBound(const OpenProblem& whole, const std::vector<AlikeDevices>& alike);

  /// No plan of a share of the requests on these devices has a lower objective.
  double objective(const Counts& part, std::int64_t share) const;
  /// The largest share, of at most `high`, that may have a plan below the cutoff; 0: none.
  std::int64_t most_served(const Counts& part, std::int64_t high, double cutoff) const;

 private:
  /// One way to settle the choices: a degree, a KV bitwidth, a kernel set.
  struct Way {
    LoweredProblem all, one;  ///< of all requests, of one
    MixBound bound;
    struct Group {
      std::size_t alike = 0;  ///< devices that its groups are made of
      std::size_t degree = 1;
    };
    std::vector<Group> groups;
  };
  std::vector<Way> ways_;
  bool is_known_ = true;  ///< false: some way is not priced, or not in a moment
};

}  // namespace tessera::solver
