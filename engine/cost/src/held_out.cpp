#include "tessera/cost/held_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tessera/core/error.h"
#include "tessera/core/rng.h"
#include "tessera/core/statistics.h"

namespace tessera::cost {

std::vector<double> latencies_of(const std::vector<Sample>& samples) {
  std::vector<double> result;
  for (const Sample& sample : samples) result.push_back(sample.latency_s);
  return result;
}

Errors errors_of(const std::vector<double>& predicted, const std::vector<double>& measured,
                 std::string split) {
  if (predicted.size() != measured.size() || measured.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("errors of {} predictions against {} measurements: both lists need "
                            "the same length, at least 1",
                            predicted.size(), measured.size()));
  }
  std::vector<double> errors;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (!(measured[i] > 0)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("measurement {} is {} s, a positive time is needed", i, measured[i]));
    }
    errors.push_back(std::abs(predicted[i] / measured[i] - 1));
  }
  std::sort(errors.begin(), errors.end());
  Errors result;
  result.median = quantile(errors, 0.5);
  result.p90 = quantile(errors, 0.9);
  result.worst = errors.back();
  result.mean =
      std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  result.num_points = static_cast<std::int64_t>(errors.size());
  result.split = std::move(split);
  return result;
}

std::vector<std::int32_t> folds_by(const std::vector<Sample>& samples,
                                   const std::vector<std::string>& fields, std::int32_t folds,
                                   std::uint64_t seed) {
  std::map<std::vector<double>, std::int32_t> groups;
  std::vector<std::vector<double>> keys;
  for (const Sample& sample : samples) {
    std::vector<double> key;
    for (const std::string& field : fields) key.push_back(field_value(sample.query, field));
    groups.emplace(key, 0);
    keys.push_back(std::move(key));
  }
  if (groups.size() < 2) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("nothing to hold out: the {} samples have {} distinct value(s) of the "
                            "fields to hold out by, at least 2 are needed",
                            samples.size(), groups.size()),
                "hold_out");
  }
  const auto count = static_cast<std::int32_t>(groups.size());
  std::vector<std::int32_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  Rng rng(seed);
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    const auto other = rng.integer(0, static_cast<std::int64_t>(i));
    std::swap(order[i], order[static_cast<std::size_t>(other)]);
  }
  const std::int32_t used = folds <= 0 ? count : std::min(folds, count);
  std::size_t next = 0;
  for (auto& [key, fold] : groups) fold = order[next++] % used;
  std::vector<std::int32_t> result;
  for (const auto& key : keys) result.push_back(groups.at(key));
  return result;
}

std::vector<double> cross_validate(const FitMethod& method, const Device& device,
                                   const std::vector<Sample>& samples,
                                   const std::vector<std::int32_t>& folds, const OpModel* donor) {
  return cross_validate([&](const auto& rest) { return method.fit(device, rest, donor); }, samples,
                        folds);
}

std::vector<double> cross_validate(const FitSamples& fit, const std::vector<Sample>& samples,
                                   const std::vector<std::int32_t>& folds) {
  if (folds.size() != samples.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} folds for {} samples", folds.size(), samples.size()), "folds");
  }
  std::map<std::int32_t, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < folds.size(); ++i) members[folds[i]].push_back(i);
  std::vector<double> predicted(samples.size());
  for (const auto& [fold, held_out] : members) {
    std::vector<Sample> rest;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (folds[i] != fold) rest.push_back(samples[i]);
    }
    const auto model = fit(rest);
    for (const std::size_t i : held_out) predicted[i] = model->seconds(samples[i].query);
  }
  return predicted;
}

}  // namespace tessera::cost
