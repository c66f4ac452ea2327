// Measurements that cannot be of this device: other units, swapped columns, one point many times.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"
#include "tessera/cost/fit.h"
#include "tessera/cost/read_samples.h"

namespace tessera::cost {
namespace {

// Half of all measured points lie between 1 and 30 times the floor: nothing is ten times as fast
// as its data sheet, whatever lies in caches, and a slip of the unit is a factor of a thousand.
constexpr double kLeastOfFloor = 0.1, kMostOfFloor = 500;
constexpr double kShortestKernel_s = 1e-6;

// No weight matrix of a model is narrower, and one row is the commonest size of the other axis.
constexpr double kLeastSide = 16;
constexpr double kMostNarrow = 0.1;

double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What a CPU reads of a small model comes from its caches, of which the sheet says nothing.
double least_s(const Device& device, const OpQuery& query) {
  const OpWork work = work_of(device, query);
  return device.backend == "cpu" ? work.compute_s() : std::max(work.floor_s(), kShortestKernel_s);
}

void check_times(const Device& device, const std::vector<Sample>& part, const std::string& path) {
  std::vector<double> ratios;
  for (const Sample& sample : part) {
    const double floor_s = least_s(device, sample.query);
    ratios.push_back(sample.latency_s / floor_s);
  }
  const double ratio = middle_of(std::move(ratios));
  if (ratio >= kLeastOfFloor && ratio <= kMostOfFloor) return;
  refuse(path,
         "the times of {} points of {} are {:.3g} times the least that {}'s data sheet allows (the "
         "middle one); latency_s is in seconds: are they in another unit, or of another device?",
         part.size(), name_of(part.front().query.op), ratio, device.name);
}

void check_sides(const std::vector<Sample>& part, const std::string& path) {
  std::size_t count = 0;
  const Sample* first = nullptr;
  for (const Sample& sample : part) {
    if (std::min(sample.query.n, sample.query.k) >= kLeastSide) continue;
    if (first == nullptr) first = &sample;
    ++count;
  }
  if (first == nullptr ||
      static_cast<double>(count) <= kMostNarrow * static_cast<double>(part.size()))
    return;
  refuse(
      path,
      "{} of {} products have matrices narrower than {:g} (n {:g}, k {:g}); are the columns m, n "
      "and k swapped?",
      count, part.size(), kLeastSide, first->query.n, first->query.k);
}

}  // namespace

void check_plausible(const Device& device, const std::vector<Sample>& samples,
                     const std::string& path) {
  for (const std::vector<Sample>& part : split_by_part(samples)) {
    const Op op = part.front().query.op;
    if (op == Op::gemm) check_sides(part, path);
    if (op == Op::gemm || op == Op::attention) check_times(device, part, path);
  }
}

void check_distinct(const std::vector<Sample>& samples, const std::string& path) {
  if (samples.size() < 2) return;
  const auto first =
      first_of_repeats(samples, [&](std::size_t i) { return fmt::format("{}[{}]", path, i + 1); });
  const bool distinct =
      std::any_of(first.begin(), first.end(), [](std::size_t i) { return i > 0; });
  if (distinct) return;
  refuse(path,
         "{} samples are one point, {}; it tells nothing of other sizes: measure those that "
         "ts.calibration_points proposes",
         samples.size(), describe(samples.front().query));
}

}  // namespace tessera::cost
