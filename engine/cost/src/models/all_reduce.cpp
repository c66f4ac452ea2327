#include "all_reduce.h"

#include <algorithm>

#include "models.h"
#include "tessera/core/json.h"
#include "tessera/core/record_json.h"
#include "tessera/cost/collectives.h"

namespace tessera::cost::models {
namespace {

constexpr double kLeastSeconds = 1e-9;

/// Bytes that a device gets over its link.
double one_shot_bytes(const OpQuery& query) { return (query.num_devices - 1) * query.bytes; }

double two_shot_bytes(double bytes, double num_devices) {
  return 2 * (num_devices - 1) / num_devices * bytes;
}

double two_shot_bytes(const OpQuery& query) {
  return two_shot_bytes(query.bytes, query.num_devices);
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

std::unique_ptr<OpModel> fit(const Device& device, const std::vector<Sample>& samples,
                             const OpModel* donor) {
  const auto* known = dynamic_cast<const AllReduce*>(donor);
  const double link_bytes_per_s = node_link(device).bytes_per_s;
  if (known != nullptr && samples.empty()) {
    return std::make_unique<AllReduce>(known->ways(), link_bytes_per_s);
  }
  const LinkWays ways =
      fit_link_ways(samples, {one_shot_bytes, two_shot_bytes}, link_bytes_per_s, "all_reduce");
  return std::make_unique<AllReduce>(AllReduceWays{ways.first, ways.second}, link_bytes_per_s);
}

std::unique_ptr<OpModel> read(const Device&, const Json& coefficients, const std::string& path) {
  JsonFields fields(coefficients, path);
  const AllReduceWays ways{read_field<LinkWay>(fields, "one_shot"),
                           read_field<LinkWay>(fields, "two_shot")};
  auto model = std::make_unique<AllReduce>(ways, fields.number("link_bytes_per_s", 1, 1e18));
  fields.finish();
  return model;
}

}  // namespace

double AllReduceWays::seconds(double bytes, double num_devices, double link_bytes_per_s) const {
  const double one = one_shot.seconds((num_devices - 1) * bytes, num_devices, link_bytes_per_s);
  const double two =
      two_shot.seconds(two_shot_bytes(bytes, num_devices), num_devices, link_bytes_per_s);
  return std::max(kLeastSeconds, std::min(one, two));
}

const FitMethod& all_reduce() {
  static const FitMethod method{"all_reduce", fit, read};
  return method;
}

}  // namespace tessera::cost::models
