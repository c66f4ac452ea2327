#pragma once

#include <vector>

namespace tessera::solver {

/// Replicas of one kind.
struct Servers {
  double copies = 0;
  const std::vector<double>* rate = nullptr;  ///< [class of requests], each served alone
};

/// The largest x for which the servers serve x times the demand, their time shared out among the
/// classes of requests as suits best. Infinite without a demand.
double largest_multiple(const std::vector<Servers>& servers, const std::vector<double>& demand);

}  // namespace tessera::solver
