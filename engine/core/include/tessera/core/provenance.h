#pragma once

#include <optional>

#include "tessera/core/enum_names.h"

namespace tessera {

/// Where a number comes from. Ordered from the strongest to the weakest claim.
enum class Provenance { measured, fitted, published, modelled };

template <>
inline constexpr auto kEnumNames<Provenance> =
    enum_names<Provenance>({{Provenance::measured, "measured"},
                            {Provenance::fitted, "fitted"},
                            {Provenance::published, "published"},
                            {Provenance::modelled, "modelled"}});

/// The weaker of two: what a number computed from both may claim.
constexpr Provenance weaker(Provenance a, Provenance b) { return a < b ? b : a; }

/// A number with its origin.
struct Sourced {
  double value = 0;
  Provenance provenance = Provenance::modelled;
  std::optional<double> error;  ///< held-out relative error, where one is known
};

}  // namespace tessera
