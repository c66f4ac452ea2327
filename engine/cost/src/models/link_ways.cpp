#include "link_ways.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "additive.h"
#include "tessera/core/error.h"

namespace tessera::cost::models {
namespace {

constexpr int kRounds = 40;
constexpr std::size_t kLeastSamples = 6;

/// One way to the samples that take it.
LinkWay fit_way(const std::vector<Sample>& samples, WireBytes wire_bytes, double link_bytes_per_s) {
  if (samples.empty()) return {Fields<LinkWay>::kNeverSeconds, 0, 1};
  const auto count = static_cast<Eigen::Index>(samples.size());
  const std::int32_t devices = samples.front().query.num_devices;
  const bool all_alike = std::all_of(samples.begin(), samples.end(), [&](const Sample& sample) {
    return sample.query.num_devices == devices;
  });
  Eigen::MatrixXd terms(count, 3);
  Eigen::VectorXd seconds(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const Sample& sample = samples[static_cast<std::size_t>(i)];
    // Of one number of devices, nothing tells what each of them adds.
    const double peers = all_alike ? 0 : sample.query.num_devices - 1;
    terms.row(i) << 1, peers, wire_bytes(sample.query) / link_bytes_per_s;
    seconds(i) = sample.latency_s;
  }
  const Eigen::VectorXd x = fit_additive(terms, seconds, Eigen::VectorXd::Constant(3, 1e-6));
  // A share of the link's rate beyond 1 would be a cache's.
  return {x(0), x(1), x(2) > 0 ? std::min(1.0, 1 / x(2)) : 1};
}

/// What the samples take by each way.
class Comparison {
 public:
  Comparison(const std::vector<Sample>& samples, const std::pair<WireBytes, WireBytes>& wire_bytes,
             double link_bytes_per_s)
      : samples_(samples), wire_bytes_(wire_bytes), link_bytes_per_s_(link_bytes_per_s) {}

  bool second_is_faster(const LinkWays& ways, const OpQuery& query) const {
    return second_s(ways, query) < first_s(ways, query);
  }

  double relative_errors(const LinkWays& ways) const {
    double sum = 0;
    for (const Sample& sample : samples_) {
      const double time = std::min(first_s(ways, sample.query), second_s(ways, sample.query));
      sum += std::fabs(std::log(time / sample.latency_s));
    }
    return sum;
  }

  /// Both ways, each of the samples that `takes_second` gives it.
  LinkWays fit(const std::vector<bool>& takes_second) const {
    std::vector<Sample> first, second;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      (takes_second[i] ? second : first).push_back(samples_[i]);
    }
    return {fit_way(first, wire_bytes_.first, link_bytes_per_s_),
            fit_way(second, wire_bytes_.second, link_bytes_per_s_)};
  }

 private:
  double first_s(const LinkWays& ways, const OpQuery& query) const {
    return ways.first.seconds(wire_bytes_.first(query), query.num_devices, link_bytes_per_s_);
  }
  double second_s(const LinkWays& ways, const OpQuery& query) const {
    return ways.second.seconds(wire_bytes_.second(query), query.num_devices, link_bytes_per_s_);
  }

  const std::vector<Sample>& samples_;
  std::pair<WireBytes, WireBytes> wire_bytes_;
  double link_bytes_per_s_;
};

}  // namespace

double LinkWay::seconds(double wire_bytes, double num_devices, double link_bytes_per_s) const {
  return base_s + peer_s * (num_devices - 1) + wire_bytes / (link_ratio * link_bytes_per_s);
}

/// By the ways of the last round; from several sizes to begin with, as the rounds end in the
/// nearest optimum.
LinkWays fit_link_ways(const std::vector<Sample>& samples,
                       const std::pair<WireBytes, WireBytes>& wire_bytes, double link_bytes_per_s,
                       const char* method) {
  if (samples.size() < kLeastSamples) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: six samples at least are needed", method), "samples");
  }
  const auto sorted_by = [&](auto takes_second) {
    std::vector<bool> taken(samples.size());
    std::transform(samples.begin(), samples.end(), taken.begin(),
                   [&](const Sample& sample) { return takes_second(sample.query); });
    return taken;
  };
  const Comparison comparison(samples, wire_bytes, link_bytes_per_s);
  LinkWays best;
  double least = std::numeric_limits<double>::infinity();
  for (const double first_size : {64e3, 256e3, 1e6, 4e6}) {
    std::vector<bool> takes_second =
        sorted_by([&](const OpQuery& query) { return query.bytes >= first_size; });
    for (int round = 0; round < kRounds; ++round) {
      const LinkWays ways = comparison.fit(takes_second);
      const double errors = comparison.relative_errors(ways);
      if (errors < least) {
        least = errors;
        best = ways;
      }
      std::vector<bool> next =
          sorted_by([&](const OpQuery& query) { return comparison.second_is_faster(ways, query); });
      if (next == takes_second) break;
      takes_second = std::move(next);
    }
  }
  return best;
}

}  // namespace tessera::cost::models
