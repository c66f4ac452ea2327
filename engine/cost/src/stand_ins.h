#pragma once

#include <utility>

#include "tessera/cost/latency.h"
#include "tessera/cost/prediction_sum.h"

/// A measured time that stands in for what was not measured.
namespace tessera::cost {

/// A time that no measurement stands behind.
inline Prediction modelled(Prediction from) {
  from.seconds.provenance = weaker(from.seconds.provenance, Provenance::modelled);
  from.seconds.error.reset();
  return from;
}

inline Prediction carried_to(Prediction from, double seconds) {
  from.seconds.value = seconds;
  from.method += ", carried over by roofline ratio";
  return modelled(std::move(from));
}

/// A time of one dtype or bitwidth taken over for another.
inline Prediction carried(const Prediction& from, double ratio) {
  return carried_to(from, from.seconds.value * ratio);
}

/// A kernel that was measured in 16 bits says by its weights' bytes what it takes in others.
inline Prediction at_dtype(Prediction from) {
  from.method += ", carried over by the dtype";
  return modelled(std::move(from));
}

}  // namespace tessera::cost
