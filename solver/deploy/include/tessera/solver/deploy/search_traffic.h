#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "tessera/serving/traffic.h"
#include "tessera/serving/traffic_options.h"
#include "tessera/solver/deploy/bounds.h"

namespace tessera::solver {

/// Requests as they are, or what they are made of.
using TrafficSource =
    std::variant<std::shared_ptr<const serving::Traffic>, serving::TrafficOptions>;

/// The traffic of a search: the same for all deployments, with as many requests as a run of so many
/// engines needs, where that may be chosen.
class SearchTraffic {
 public:
  /// @param num_requests of each engine, where options say neither how many nor how long
  /// @throws Error{invalid_argument} for a closed loop, which has no rate, and as make_traffic;
  /// `path` names the options
  SearchTraffic(const TrafficSource& source, std::int64_t num_requests, std::string path);

  /// The traffic's own; absent: it has none.
  std::optional<double> rate_per_s() const { return rate_per_s_; }
  const MeanLengths& lengths() const { return lengths_; }
  /// Whether requests may find each other's tokens in a prefix cache.
  bool shares() const { return shares_; }
  /// Whether there are as many requests as a run needs.
  bool sized() const { return sized_; }
  /// For so many engines, `least` requests at least where they are sized.
  std::shared_ptr<const serving::Traffic> of(std::int64_t num_engines, double least = 0);

 private:
  std::optional<serving::TrafficOptions> options_;
  std::int64_t num_requests_ = 0;
  std::string path_;
  bool shares_ = true, sized_ = false;
  std::optional<double> rate_per_s_;
  MeanLengths lengths_;
  std::map<std::int64_t, std::shared_ptr<const serving::Traffic>> made_;  ///< by their number
};

}  // namespace tessera::solver
