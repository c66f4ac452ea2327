#include "all_reduce.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "additive.h"
#include "models.h"
#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera {

template <>
struct Fields<cost::models::AllReduceWays::Way> {
  using Way = cost::models::AllReduceWays::Way;
  static constexpr double kNeverSeconds = 1e9;  ///< the start of a way that no sample takes
  static constexpr auto list =
      std::tuple{field<&Way::base_s>({.name = "base_s",
                                      .doc = "Whatever the size",
                                      .unit = "s",
                                      .min = 0,
                                      .max = kNeverSeconds}),
                 field<&Way::peer_s>({.name = "peer_s",
                                      .doc = "For each device after the first",
                                      .unit = "s",
                                      .min = 0,
                                      .max = 3600}),
                 field<&Way::link_ratio>({.name = "link_ratio",
                                          .doc = "Reached share of the link's rate",
                                          .min = 1e-9,
                                          .max = 1})};
};

}  // namespace tessera

namespace tessera::cost::models {
namespace {

using Way = AllReduceWays::Way;

constexpr int kRounds = 40;
constexpr double kLeastSeconds = 1e-9;

double seconds_of(const Way& way, double wire_bytes, double num_devices, double link_bytes_per_s) {
  return way.base_s + way.peer_s * (num_devices - 1) +
         wire_bytes / (way.link_ratio * link_bytes_per_s);
}

/// Bytes that a device gets over its link.
double one_shot_bytes(double bytes, double num_devices) { return (num_devices - 1) * bytes; }
double two_shot_bytes(double bytes, double num_devices) {
  return 2 * (num_devices - 1) / num_devices * bytes;
}

class AllReduce final : public OpModel {
 public:
  AllReduce(AllReduceWays ways, double link_bytes_per_s)
      : ways_(ways), link_bytes_per_s_(link_bytes_per_s) {}

  double seconds(const OpQuery& query) const override {
    return ways_.seconds(query.bytes, query.num_devices, link_bytes_per_s_);
  }
  Json coefficients() const override {
    return {{"one_shot", json_of(ways_.one_shot)},
            {"two_shot", json_of(ways_.two_shot)},
            {"link_bytes_per_s", link_bytes_per_s_}};
  }
  const AllReduceWays& ways() const { return ways_; }

 private:
  AllReduceWays ways_;
  double link_bytes_per_s_;
};

/// Fits one way to the samples that take it. Where there are none, the way is never taken.
Way fit_way(const std::vector<Sample>& samples, double (*wire_bytes)(double, double),
            double link_bytes_per_s) {
  if (samples.empty()) return {Fields<Way>::kNeverSeconds, 0, 1};
  const auto count = static_cast<Eigen::Index>(samples.size());
  Eigen::MatrixXd terms(count, 3);
  Eigen::VectorXd seconds(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const Sample& sample = samples[static_cast<std::size_t>(i)];
    const double devices = sample.query.num_devices;
    terms.row(i) << 1, devices - 1, wire_bytes(sample.query.bytes, devices) / link_bytes_per_s;
    seconds(i) = sample.latency_s;
  }
  const Eigen::VectorXd x = fit_additive(terms, seconds, Eigen::VectorXd::Constant(3, 1e-6));
  // A share of the link's rate beyond 1 would be a cache's.
  return {x(0), x(1), x(2) > 0 ? std::min(1.0, 1 / x(2)) : 1};
}

double relative_errors(const AllReduceWays& ways, const std::vector<Sample>& samples,
                       double link_bytes_per_s) {
  double sum = 0;
  for (const Sample& sample : samples) {
    const double time =
        ways.seconds(sample.query.bytes, sample.query.num_devices, link_bytes_per_s);
    sum += std::fabs(std::log(time / sample.latency_s));
  }
  return sum;
}

/// Both ways, each of the samples that `takes_two` gives it.
AllReduceWays fit_both(const std::vector<Sample>& samples, const std::vector<bool>& takes_two,
                       double link_bytes_per_s) {
  std::vector<Sample> one, two;
  for (std::size_t i = 0; i < samples.size(); ++i) (takes_two[i] ? two : one).push_back(samples[i]);
  return {fit_way(one, one_shot_bytes, link_bytes_per_s),
          fit_way(two, two_shot_bytes, link_bytes_per_s)};
}

/// Each sample goes to the way that is faster by the last round; from several sizes to begin with,
/// as the rounds end in the nearest optimum.
AllReduceWays fit_ways(const std::vector<Sample>& samples, double link_bytes_per_s) {
  const auto sorted_by = [&](auto takes_two) {
    std::vector<bool> taken(samples.size());
    std::transform(samples.begin(), samples.end(), taken.begin(),
                   [&](const Sample& sample) { return takes_two(sample.query); });
    return taken;
  };
  AllReduceWays best;
  double least = std::numeric_limits<double>::infinity();
  for (const double first_size : {64e3, 256e3, 1e6, 4e6}) {
    std::vector<bool> takes_two =
        sorted_by([&](const OpQuery& query) { return query.bytes >= first_size; });
    for (int round = 0; round < kRounds; ++round) {
      const AllReduceWays ways = fit_both(samples, takes_two, link_bytes_per_s);
      const double errors = relative_errors(ways, samples, link_bytes_per_s);
      if (errors < least) {
        least = errors;
        best = ways;
      }
      std::vector<bool> next = sorted_by([&](const OpQuery& query) {
        return ways.two_shot_s(query.bytes, query.num_devices, link_bytes_per_s) <
               ways.one_shot_s(query.bytes, query.num_devices, link_bytes_per_s);
      });
      if (next == takes_two) break;
      takes_two = std::move(next);
    }
  }
  return best;
}

std::unique_ptr<OpModel> fit(const Device& device, const std::vector<Sample>& samples,
                             const OpModel* donor) {
  const auto* known = dynamic_cast<const AllReduce*>(donor);
  const double link_bytes_per_s = node_link(device).bytes_per_s;
  if (known != nullptr && samples.empty()) {
    return std::make_unique<AllReduce>(known->ways(), link_bytes_per_s);
  }
  if (samples.size() < 6) {
    throw Error(ErrorCode::invalid_argument, "all_reduce: six samples at least are needed",
                "samples");
  }
  return std::make_unique<AllReduce>(fit_ways(samples, link_bytes_per_s), link_bytes_per_s);
}

std::unique_ptr<OpModel> read(const Device&, const Json& coefficients, const std::string& path) {
  JsonFields fields(coefficients, path);
  const AllReduceWays ways{read_field<Way>(fields, "one_shot"),
                           read_field<Way>(fields, "two_shot")};
  auto model = std::make_unique<AllReduce>(ways, fields.number("link_bytes_per_s", 1, 1e18));
  fields.finish();
  return model;
}

}  // namespace

double AllReduceWays::one_shot_s(double bytes, double num_devices, double link_bytes_per_s) const {
  return seconds_of(one_shot, one_shot_bytes(bytes, num_devices), num_devices, link_bytes_per_s);
}

double AllReduceWays::two_shot_s(double bytes, double num_devices, double link_bytes_per_s) const {
  return seconds_of(two_shot, two_shot_bytes(bytes, num_devices), num_devices, link_bytes_per_s);
}

double AllReduceWays::seconds(double bytes, double num_devices, double link_bytes_per_s) const {
  return std::max(kLeastSeconds, std::min(one_shot_s(bytes, num_devices, link_bytes_per_s),
                                          two_shot_s(bytes, num_devices, link_bytes_per_s)));
}

const FitMethod& all_reduce() {
  static const FitMethod method{"all_reduce", fit, read};
  return method;
}

}  // namespace tessera::cost::models
