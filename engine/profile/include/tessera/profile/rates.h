#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/profile/cores.h"
#include "tessera/profile/timing.h"

namespace tessera::profile {

/// What a share of this CPU does a second, while the other cores do the same.
struct Rates {
  double memory_bytes_per_s = 0;  ///< a plain sum over more than the caches hold
  double fp32_flop_per_s = 0;     ///< products of numbers, by the kernels that run models
  double int8_flop_per_s = 0;     ///< of 8-bit weights with 8-bit activations
  double int4_flop_per_s = 0;     ///< of 4-bit weights with 8-bit activations
};

/// One core's rates while each other core does the same, times the `cores` of the share.
Rates measure_rates(const Cpu& cpu, std::int64_t cores, const Clock& clock = steady_s);

struct Transfer {
  double bytes = 0;
  Timing timing;
};
/// A buffer that goes over TCP from one thread to another on loopback and back: one way.
/// @throws Error{io} where the system gives no sockets
std::vector<Transfer> measure_loopback(const std::vector<std::int64_t>& bytes,
                                       const TimingOptions& options, const Clock& clock = steady_s);
/// Sums of so many bytes of f32 over tensor-parallel ranks of this machine (lm::SharedRanks), each
/// on a share of so many cores.
/// @throws Error{out_of_range} for fewer than 2 ranks and more than there are shares; Error{io}
std::vector<Transfer> measure_sums(const Cpu& cpu, std::int64_t cores, std::int32_t ranks,
                                   const std::vector<std::int64_t>& bytes,
                                   const TimingOptions& options, const Clock& clock = steady_s);

}  // namespace tessera::profile

namespace tessera {

template <>
struct Fields<profile::Rates> {
  using R = profile::Rates;
  static constexpr auto list = std::tuple{
      field<&R::memory_bytes_per_s>(
          {.name = "memory_bytes_per_s", .doc = "Of a plain sum", .unit = "bytes/s"}),
      field<&R::fp32_flop_per_s>(
          {.name = "fp32_flop_per_s", .doc = "Of products of numbers", .unit = "FLOP/s"}),
      field<&R::int8_flop_per_s>(
          {.name = "int8_flop_per_s", .doc = "8-bit weights and activations", .unit = "FLOP/s"}),
      field<&R::int4_flop_per_s>({.name = "int4_flop_per_s",
                                  .doc = "4-bit weights, 8-bit activations",
                                  .unit = "FLOP/s"})};
};

}  // namespace tessera
