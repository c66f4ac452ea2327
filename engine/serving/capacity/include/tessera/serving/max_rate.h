#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/serving/served.h"
#include "tessera/serving/simulate.h"
#include "tessera/serving/summary.h"

namespace tessera::serving {

/// What counts as sustained: every statistic that the SLO names holds, of limits on each request at
/// least `attainment_ratio` are within them, and the queue does not grow.
struct MaxRateOptions {
  SummaryOptions summary;          ///< with the SLO, one at least
  double attainment_ratio = 0.99;  ///< of requests within the limits on each
  double tolerance = 0.02;         ///< of the rate: the bracket is no wider than this share of it
  std::int64_t max_runs = 40;
  /// Rates below it do not matter: the search ends when that one fails. 0: all matter.
  double least_rate_per_s = 0;
  /// Where it is expected; 0: what the deployment completes when all requests come at once.
  double guess_per_s = 0;
  std::function<void(std::int64_t)> poll = nullptr;
};

/// One simulated rate.
struct RatePoint {
  double rate_per_s = 0;
  bool holds = false;
  std::string broken;      ///< what does not hold, with numbers; empty where all does
  bool cut_short = false;  ///< the verdict was clear before the end of the run
  std::optional<double> ttft_p99_s, tpot_p99_s, attainment_ratio, throughput_tok_s;
};

/// The largest rate of requests that keeps to an SLO, between the last that held and the first
/// above it that did not. (A rate below may fail all the same: attainment need not fall with the
/// rate. The points that were simulated are all here.)
struct MaxRate {
  double rate_per_s = 0;                 ///< 0: not even requests that come one by one keep to it
  std::optional<double> fails_at_per_s;  ///< absent: nothing that was tried failed
  std::string note;        ///< where the run is too short for its rate to be that of a longer one
  std::string limited_by;  ///< what breaks there, and what requests wait for
  std::vector<RatePoint> points;  ///< in the order of the search
  std::optional<Served> served;   ///< at rate_per_s
};

/// Runs the same requests at one rate after another (common random numbers): lengths, classes and
/// the order stay, gaps are scaled. A run ends as soon as its verdict is settled.
/// @throws Error{invalid_argument} without an SLO, and for a closed loop.
MaxRate max_rate(const Deployment& deployment, const Traffic& traffic,
                 const MaxRateOptions& options);

}  // namespace tessera::serving

template <>
struct tessera::Fields<tessera::serving::MaxRateOptions> {
  using O = tessera::serving::MaxRateOptions;
  static constexpr auto rate = [](std::string_view name, std::string_view doc) -> FieldSpec {
    return {.name = name,
            .doc = doc,
            .unit = "1/s",
            .min = 0,
            .max = 1e12,
            .as_option = AsOption::defaulted};
  };
  static constexpr auto list = std::tuple{
      OptionOnly{{.name = "slo",
                  .doc = "As of ts.serve",
                  .as_option = AsOption::required,
                  .option_type = "table"},
                 OptionType::table},
      field<&O::attainment_ratio>(
          {.name = "attainment_ratio",
           .doc = "Share of requests that have to be within limits on each request",
           .min = 0,
           .max = 1,
           .as_option = AsOption::defaulted}),
      field<&O::tolerance>({.name = "tolerance",
                            .doc = "Width of the bracket, as a share of the rate",
                            .min = 1e-6,
                            .max = 1,
                            .as_option = AsOption::defaulted}),
      field<&O::least_rate_per_s>(
          rate("least_rate_per_s", "The search ends where this rate does not hold already")),
      field<&O::guess_per_s>(rate("guess_per_s",
                                  "Where the search begins; 0: at what is completed when all "
                                  "requests come at once")),
      field<&O::max_runs>({.name = "max_runs",
                           .doc = "Simulated rates at most",
                           .min = 1,
                           .max = 10000,
                           .as_option = AsOption::defaulted})};
};

template <>
struct tessera::Fields<tessera::serving::RatePoint> {
  using P = tessera::serving::RatePoint;
  static constexpr auto list = std::tuple{
      field<&P::rate_per_s>({.name = "rate_per_s", .doc = "Offered", .unit = "1/s"}),
      field<&P::holds>({.name = "holds", .doc = "Whether the SLO does"}),
      field<&P::broken>({.name = "broken", .doc = "What does not hold"}),
      field<&P::cut_short>({.name = "cut_short", .doc = "The verdict was clear before the end"}),
      field<&P::ttft_p99_s>({.name = "ttft_p99_s", .doc = "Of whole runs", .unit = "s"}),
      field<&P::tpot_p99_s>({.name = "tpot_p99_s", .doc = "Of whole runs", .unit = "s"}),
      field<&P::attainment_ratio>({.name = "attainment_ratio", .doc = "Requests within the SLO"}),
      field<&P::throughput_tok_s>(
          {.name = "throughput_tok_s", .doc = "Output tokens", .unit = "tok/s"})};
};
