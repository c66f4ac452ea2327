#include "nccl.h"

#include <Eigen/Core>
#include <algorithm>

#include "additive.h"
#include "models.h"
#include "tessera/core/json.h"
#include "tessera/core/record_json.h"
#include "tessera/cost/collectives.h"

namespace tessera::cost::models {
namespace {

constexpr double kLeastSeconds = 1e-9;

/// Bytes that a device gets over its link. Of a buffer it has its share already; a sum scatters
/// and then gathers.
double wire_bytes(const OpQuery& query) {
  if (query.op == Op::send_recv) return query.bytes;
  const double devices = query.num_devices;
  const double others = (devices - 1) / devices * query.bytes;
  return query.op == Op::all_reduce ? 2 * others : others;
}

class Nccl final : public OpModel {
 public:
  Nccl(NcclWays ways, double link_bytes_per_s) : ways_(ways), link_bytes_per_s_(link_bytes_per_s) {}

  double seconds(const OpQuery& query) const override {
    return ways_.seconds(query, link_bytes_per_s_);
  }
  Json coefficients() const override {
    return {{"low_latency", json_of(ways_.low_latency)},
            {"simple", json_of(ways_.simple)},
            {"link_bytes_per_s", link_bytes_per_s_}};
  }
  const NcclWays& ways() const { return ways_; }

 private:
  NcclWays ways_;
  double link_bytes_per_s_;
};

/// Another device's ways, with one factor for all their starts and one for all their rates.
NcclWays adapted(const NcclWays& known, const std::vector<Sample>& samples,
                 double link_bytes_per_s) {
  const auto count = static_cast<Eigen::Index>(samples.size());
  Eigen::MatrixXd terms(count, 2);
  Eigen::VectorXd seconds(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const Sample& sample = samples[static_cast<std::size_t>(i)];
    const double devices = sample.query.num_devices, wire = wire_bytes(sample.query);
    const bool low = known.low_latency.seconds(wire, devices, link_bytes_per_s) <
                     known.simple.seconds(wire, devices, link_bytes_per_s);
    const LinkWay& way = low ? known.low_latency : known.simple;
    terms.row(i) << way.seconds(0, devices, link_bytes_per_s),
        wire / (way.link_ratio * link_bytes_per_s);
    seconds(i) = sample.latency_s;
  }
  const Eigen::VectorXd factors = adapt_additive(terms, seconds);
  const auto scaled = [&](const LinkWay& way) {
    const double ratio = factors(1) > 0 ? std::min(1.0, way.link_ratio / factors(1)) : 1;
    return LinkWay{way.base_s * factors(0), way.peer_s * factors(0), ratio};
  };
  return {scaled(known.low_latency), scaled(known.simple)};
}

std::unique_ptr<OpModel> fit(const Device& device, const std::vector<Sample>& samples,
                             const OpModel* donor) {
  const auto* known = dynamic_cast<const Nccl*>(donor);
  const double link_bytes_per_s = node_link(device).bytes_per_s;
  if (known != nullptr) {
    const NcclWays ways =
        samples.empty() ? known->ways() : adapted(known->ways(), samples, link_bytes_per_s);
    return std::make_unique<Nccl>(ways, link_bytes_per_s);
  }
  const LinkWays ways = fit_link_ways(samples, {wire_bytes, wire_bytes}, link_bytes_per_s, "nccl");
  return std::make_unique<Nccl>(NcclWays{ways.first, ways.second}, link_bytes_per_s);
}

std::unique_ptr<OpModel> read(const Device&, const Json& coefficients, const std::string& path) {
  JsonFields fields(coefficients, path);
  const NcclWays ways{read_field<LinkWay>(fields, "low_latency"),
                      read_field<LinkWay>(fields, "simple")};
  auto model = std::make_unique<Nccl>(ways, fields.number("link_bytes_per_s", 1, 1e18));
  fields.finish();
  return model;
}

}  // namespace

double NcclWays::seconds(const OpQuery& query, double link_bytes_per_s) const {
  const double wire = wire_bytes(query), devices = query.num_devices;
  return std::max(kLeastSeconds, std::min(low_latency.seconds(wire, devices, link_bytes_per_s),
                                          simple.seconds(wire, devices, link_bytes_per_s)));
}

const FitMethod& nccl() {
  static const FitMethod method{"nccl", fit, read};
  return method;
}

}  // namespace tessera::cost::models
