#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/files.h"
#include "tessera/core/record.h"

/// How far from its predictions a server is to be expected, by published runs of others.
namespace tessera::cost {

enum class ServedMetric { tpot, ttft, request_rate };

/// What runs have in common whose errors are alike. In an interval, what is left out is of any.
struct RunClass {
  std::string kernel_set, runtime;
  std::optional<bool> measured_chip;  ///< a profile of the very chip prices it
  std::int32_t bitwidth = 0;          ///< of the weights, the fewest; 0: any
};

/// Four of five runs of a class lie between these multiples of what is predicted. Conformal, by
/// whole groups (a model on a GPU at a bitwidth under one harness) left out: `held_ratio` is the
/// share of the runs of groups that an interval had not seen that it held.
struct PredictionInterval {
  ServedMetric metric = ServedMetric::tpot;
  std::string name;  ///< "vllm, measured chips, 16 bits"
  RunClass of;
  double low_ratio = 1, high_ratio = 1;  ///< measured over predicted
  std::int64_t num_groups = 0, num_runs = 0;
  double held_ratio = 0;
};

/// datasets/intervals/served.json: of each metric the first that is of a run's class holds for it.
struct ServedIntervals {
  std::string doc, source;
  std::vector<PredictionInterval> intervals;
};

/// One for each metric that there is one for; none where no folder has the file. @throws Error of a
/// broken file, naming the field
std::vector<PredictionInterval> intervals_of(const RunClass& run, const DataFolders& folders);

/// The one of a metric among them, or nullptr.
const PredictionInterval* find_interval(const std::vector<PredictionInterval>& intervals,
                                        ServedMetric metric);

}  // namespace tessera::cost

namespace tessera {

template <>
inline constexpr auto kEnumNames<cost::ServedMetric> =
    enum_names<cost::ServedMetric>({{cost::ServedMetric::tpot, "tpot"},
                                    {cost::ServedMetric::ttft, "ttft"},
                                    {cost::ServedMetric::request_rate, "request_rate"}});

template <>
struct Fields<cost::RunClass> {
  using C = cost::RunClass;
  static constexpr auto list = std::tuple{
      field<&C::kernel_set>({.name = "kernel_set",
                             .doc = "That prices it; left out: any",
                             .in_file = InFile::when_set}),
      field<&C::runtime>({.name = "runtime",
                          .doc = "That has these kernels; left out: any",
                          .in_file = InFile::when_set}),
      field<&C::measured_chip>({.name = "measured_chip",
                                .doc = "Whether a profile of the very chip prices it; left out: "
                                       "either",
                                .in_file = InFile::when_set}),
      field<&C::bitwidth>({.name = "bitwidth",
                           .doc = "Of the weights, the fewest; left out: any",
                           .unit = "bits",
                           .min = 0,
                           .max = 16,
                           .in_file = InFile::when_set})};
};

template <>
struct Fields<cost::PredictionInterval> {
  using I = cost::PredictionInterval;
  static constexpr auto list = std::tuple{
      field<&I::metric>({.name = "metric", .doc = "Of the mean"}),
      field<&I::name>({.name = "name", .doc = "Of the class, in words"}),
      field<&I::of>({.name = "of",
                     .doc = "The runs that it is of; left out: any",
                     .in_file = InFile::defaulted}),
      field<&I::low_ratio>({.name = "low_ratio",
                            .doc = "Measured over predicted, of one run in ten less",
                            .min = 1e-3,
                            .max = 1e3}),
      field<&I::high_ratio>({.name = "high_ratio",
                             .doc = "Measured over predicted, of one run in ten more",
                             .min = 1e-3,
                             .max = 1e3}),
      field<&I::num_groups>({.name = "num_groups",
                             .doc = "Groups of runs, each left out once",
                             .min = 1,
                             .max = 1e6}),
      field<&I::num_runs>({.name = "num_runs", .doc = "In these groups", .min = 1, .max = 1e9}),
      field<&I::held_ratio>({.name = "held_ratio",
                             .doc = "Share of the runs of groups left out that it held",
                             .min = 0,
                             .max = 1})};
  /// @throws Error where low_ratio is above high_ratio
  static void check(const cost::PredictionInterval& interval, const FieldPath& path);
};

template <>
struct Fields<cost::ServedIntervals> {
  using S = cost::ServedIntervals;
  static constexpr auto list = std::tuple{
      field<&S::doc>({.name = "doc", .doc = "What it is", .in_file = InFile::when_set}),
      field<&S::source>(
          {.name = "source", .doc = "The runs and what made it", .in_file = InFile::when_set}),
      field<&S::intervals>({.name = "intervals", .doc = "The first of a class holds"})};
};

}  // namespace tessera
