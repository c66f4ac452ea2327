#pragma once

#include <cstdint>

namespace tessera {

/// xoshiro256** seeded by SplitMix64 (Blackman and Vigna, 2018). The same seed gives the same
/// numbers on every platform and standard library, which std::*_distribution does not promise.
class Rng {
 public:
  explicit Rng(std::uint64_t seed);

  std::uint64_t next();
  double uniform();                                           ///< in [0, 1), 53 bits
  std::int64_t integer(std::int64_t low, std::int64_t high);  ///< in [low, high], unbiased

 private:
  std::uint64_t state_[4];
};

}  // namespace tessera
