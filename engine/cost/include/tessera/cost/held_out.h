#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/cost/op.h"

namespace tessera::cost {

std::vector<double> latencies_of(const std::vector<Sample>& samples);

/// Relative errors |predicted / measured - 1| over points that a fit has not seen.
struct Errors {
  double median = 0, p90 = 0, worst = 0, mean = 0;
  std::int64_t num_points = 0;
  std::string split;  ///< how they were held out: "unseen (n, k), 5 folds"
};

/// @throws Error{invalid_argument} unless both are of one length, not empty, measured positive.
Errors errors_of(const std::vector<double>& predicted, const std::vector<double>& measured,
                 std::string split);

/// [sample] fold in 0 .. n-1. Samples that agree in all of `fields` are in one fold; the groups are
/// dealt out in a seeded order. `folds` 0: one fold per group.
/// @throws Error{invalid_argument} for fewer than two groups.
std::vector<std::int32_t> folds_by(const std::vector<Sample>& samples,
                                   const std::vector<std::string>& fields, std::int32_t folds,
                                   std::uint64_t seed);

/// [sample] prediction by a model that was fitted without the sample's fold.
std::vector<double> cross_validate(const FitMethod& method, const Device& device,
                                   const std::vector<Sample>& samples,
                                   const std::vector<std::int32_t>& folds,
                                   const OpModel* donor = nullptr);

/// The same by whatever makes a model of samples, as a choice among methods.
using FitSamples =
    std::function<std::shared_ptr<const OpModel>(const std::vector<Sample>& samples)>;
std::vector<double> cross_validate(const FitSamples& fit, const std::vector<Sample>& samples,
                                   const std::vector<std::int32_t>& folds);

}  // namespace tessera::cost

namespace tessera {

template <>
struct Fields<cost::Errors> {
  using Errors = cost::Errors;
  static constexpr double kMost = 1e12;
  static constexpr auto list = std::tuple{
      field<&Errors::median>(
          {.name = "median", .doc = "Half of them are below", .min = 0, .max = kMost}),
      field<&Errors::p90>({.name = "p90", .doc = "Nine in ten are below", .min = 0, .max = kMost}),
      field<&Errors::worst>({.name = "worst", .doc = "The largest", .min = 0, .max = kMost}),
      field<&Errors::mean>({.name = "mean", .doc = "Their mean", .min = 0, .max = kMost}),
      field<&Errors::num_points>({.name = "num_points", .doc = "Points", .min = 1, .max = 1e9}),
      field<&Errors::split>({.name = "split", .doc = "How the points were held out"})};
};

}  // namespace tessera
