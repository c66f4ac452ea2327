#pragma once

#include <optional>
#include <string>
#include <utility>

#include "tessera/cost/latency.h"

namespace tessera::cost {

/// Adds up times of several origins: the weakest provenance, the errors weighted by time, and the
/// first part that leaves what was fitted.
class PredictionSum {
 public:
  void add(const Prediction& part, double times = 1) {
    const double seconds = times * part.seconds.value;
    total_.value += seconds;
    total_.provenance =
        parts_ == 0 ? part.seconds.provenance : weaker(total_.provenance, part.seconds.provenance);
    known_ = known_ && part.seconds.error.has_value();
    error_s_ += seconds * part.seconds.error.value_or(0);
    if (part.outside && !outside_) outside_ = part.outside;
    ++parts_;
  }
  /// Priced without a measurement, but too small a share to take the sum's name away.
  void add_minor(double seconds) { total_.value += seconds; }

  Prediction result(std::string method) const {
    Prediction sum{total_, std::move(method), outside_};
    if (known_ && total_.value > 0) sum.seconds.error = error_s_ / total_.value;
    return sum;
  }

 private:
  Sourced total_;
  std::optional<std::string> outside_;
  double error_s_ = 0;
  int parts_ = 0;
  bool known_ = true;
};

}  // namespace tessera::cost
