#pragma once

#include <vector>

namespace tessera::solver {

/// Replicas of one kind.
struct Servers {
  double copies = 0;
  const std::vector<double>* rate = nullptr;  ///< [class of requests], each served alone
};

/// Their time shared out among the classes of requests as suits best.
struct SharedTime {
  /// The largest x for which they serve x times the demand; infinite without one.
  double multiple = 0;
  /// [servers][class of requests] the share of their time that serves the class then.
  std::vector<std::vector<double>> share;
};
SharedTime shared_time(const std::vector<Servers>& servers, const std::vector<double>& demand);

/// The multiple alone.
double largest_multiple(const std::vector<Servers>& servers, const std::vector<double>& demand);

}  // namespace tessera::solver
