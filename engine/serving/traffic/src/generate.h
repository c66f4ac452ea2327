#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tessera/core/requests.h"
#include "tessera/serving/traffic_options.h"

namespace tessera::serving {

/// Requests by function of time: piecewise constant rates.
struct RateFunction {
  std::vector<double> start_s;     ///< [pieces] ascending, the first at 0
  std::vector<double> rate_per_s;  ///< [pieces]
  double end_s = 0;

  double mean_per_s() const;
};

/// What a generator takes beside the options.
struct Sources {
  const RequestTrace* lengths = nullptr;  ///< pairs in place of distributions
  const RateFunction* rates = nullptr;    ///< in place of a constant rate
};

struct GeneratedTraffic {
  Traffic traffic;           ///< all but description and notes
  std::int64_t num_cut = 0;  ///< outputs that max_tokens ended
};

/// Requests of options that their check let pass.
GeneratedTraffic generate(const TrafficOptions& options, const Sources& sources,
                          const std::string& path);

/// Draws classes for the arrivals; requests of one stream are of the same class.
void set_classes(const TrafficOptions& options, Traffic& traffic);

/// Draws when clients leave.
void set_patience(const TrafficOptions& options, Traffic& traffic);

/// Sets max_tokens; returns how many outputs end there.
std::int64_t limit_outputs(const TrafficOptions& options, Traffic& traffic);

}  // namespace tessera::serving
