#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "random_instance.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver::instances {

/// A random instance, and requests that are drawn for it.
struct RandomCase {
  RandomCase(std::uint64_t case_seed, const RandomLimits& limits)
      : seed(case_seed), random(case_seed, limits), in(random.make()) {}

  /// Both sizes of micro-batches are given, and the order if `with_order`.
  PlanRequest sized(bool with_order = false) {
    PlanRequest request;
    if (with_order) request.order = random.order(in);
    request.prefill_micro_batch_size = random.micro_batch(in);
    request.decode_micro_batch_size = random.micro_batch(in);
    return request;
  }

  /// Order and sizes are searched; each is given for some of the seeds.
  PlanRequest searched() {
    PlanRequest request;
    if (seed % 5 == 0) request.order = random.order(in);
    if (seed % 7 == 0) request.prefill_micro_batch_size = random.micro_batch(in);
    if (seed % 11 == 0) request.decode_micro_batch_size = random.micro_batch(in);
    return request;
  }

  std::uint64_t seed;
  RandomInstance random;
  Instance in;
};

/// Runs `body(RandomCase&)` for the seeds `first` to `last`, up to the first fatal failure. Every
/// failure names its seed.
template <typename Body>
void for_each_case(std::uint64_t first, std::uint64_t last, const RandomLimits& limits,
                   const Body& body) {
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomCase drawn(seed, limits);
    body(drawn);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace tessera::solver::instances
