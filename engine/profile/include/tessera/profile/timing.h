#pragma once

#include <cstdint>
#include <functional>

#include "tessera/core/record.h"

namespace tessera::profile {

/// Seconds, from whenever: the machine's, or a test's.
using Clock = std::function<double()>;
double steady_s();

struct TimingOptions {
  std::int64_t warm_ups = 1;
  std::int64_t repeats = 5;
  double least_s = 0.02;     ///< of a repeat: what is shorter runs several times in it
  double noisy_ratio = 0.1;  ///< spread above which a time is noisy
};

/// What something takes (seconds a run), over the repeats.
struct Timing {
  double median_s = 0;
  double low_s = 0, high_s = 0;  ///< first and third quartile
  std::int64_t repeats = 0;
  bool noisy = false;

  double spread_ratio() const { return (high_s - low_s) / median_s; }
};

/// Runs it until `warm_ups` have warmed caches and clocks up, then `repeats` times.
Timing time_of(const std::function<void()>& run, const TimingOptions& options,
               const Clock& clock = steady_s);

}  // namespace tessera::profile

namespace tessera {

template <>
struct Fields<profile::TimingOptions> {
  using O = profile::TimingOptions;
  static constexpr auto list = std::tuple{
      field<&O::warm_ups>({.name = "warm_ups",
                           .doc = "Runs of each point before those that count",
                           .min = 0,
                           .max = 1000,
                           .as_option = AsOption::defaulted}),
      field<&O::repeats>({.name = "repeats",
                          .doc = "Of each point; its time is their median",
                          .min = 1,
                          .max = 1000,
                          .as_option = AsOption::defaulted}),
      field<&O::least_s>({.name = "least_s",
                          .doc = "Of a repeat: shorter runs are timed several at once",
                          .unit = "s",
                          .min = 0,
                          .max = 60,
                          .as_option = AsOption::defaulted}),
      field<&O::noisy_ratio>({.name = "noisy_ratio",
                              .doc = "Quartiles further apart than this share of the median make a "
                                     "time noisy",
                              .min = 0,
                              .max = 10,
                              .as_option = AsOption::defaulted})};
};

template <>
struct Fields<profile::Timing> {
  using T = profile::Timing;
  static constexpr auto list = std::tuple{
      field<&T::median_s>({.name = "median_s", .doc = "The middle of the repeats", .unit = "s"}),
      field<&T::low_s>({.name = "low_s", .doc = "First quartile", .unit = "s"}),
      field<&T::high_s>({.name = "high_s", .doc = "Third quartile", .unit = "s"}),
      field<&T::repeats>({.name = "repeats", .doc = "How many"}),
      field<&T::spread_ratio>(
          {.name = "spread_ratio", .doc = "Distance of the quartiles over the median"}),
      field<&T::noisy>({.name = "noisy", .doc = "Whether that is too much"})};
};

}  // namespace tessera
