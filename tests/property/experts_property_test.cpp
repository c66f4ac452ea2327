// Whatever its coefficients, the kernel of experts is physical.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "devices.h"
#include "tessera/core/json.h"
#include "tessera/cost/op.h"

namespace tessera::cost::experts_property_test {
namespace {

double real(double low, double high) {
  return low + (high - low) * *rc::gen::inRange(0, 1'000'001) / 1e6;
}

const std::vector<Device>& devices() {
  static const std::vector<Device> all = [] {
    Device h200 = test::v100();
    h200.memory_bytes_per_s = 4.8e12;
    h200.flop_per_s = {{"fp16", 989.4e12}, {"fp8", 1978.9e12}};
    h200.compute_capability = 9;
    return std::vector<Device>{test::t4(), test::v100(), h200};
  }();
  return all;
}

Json any_expert_kernel() {
  Json kernel{{"launch_s", real(1e-7, 1e-4)},  {"expert_s", real(1e-10, 1e-6)},
              {"memory_ratio", real(0.05, 1)}, {"moved_ratio", real(0.02, 20)},
              {"passed_ratio", real(1e-4, 5)}, {"blend", real(1.2, 8)},
              {"wave_share", real(0.001, 1)},  {"spread_s", real(1e-9, 1e-4)}};
  for (const char* tile : {"16", "32", "64", "128"}) {
    kernel[std::string("rate_ratio_") + tile] = real(0.001, 1);
    kernel[std::string("setup_s_") + tile] = real(1e-9, 1e-5);
  }
  return kernel;
}

OpQuery any_experts() {
  OpQuery query;
  query.op = Op::experts;
  query.dtype = *rc::gen::element("bfloat16", "fp8", "int4_wo");
  query.hidden_size = *rc::gen::inRange(1, 9000);
  query.inner_size = *rc::gen::inRange(1, 17000);
  query.num_experts = *rc::gen::inRange(1, 600);
  query.top_k = *rc::gen::inRange(1, 1 + static_cast<int>(query.num_experts));
  query.routing = *rc::gen::element(0.0, 1.0, kServingRouting, 1.2, real(0, kSteepestRouting));
  query.num_devices = *rc::gen::inRange(1, 1 + static_cast<int>(query.num_experts));
  query.tokens = std::exp(real(0, 11));
  query.batch_size = *rc::gen::element(0.0, 1.0);
  return query;
}

RC_GTEST_PROP(ExpertsProperty, MoreTokensNeverCostLessAndNothingIsFasterThanTheDevice, ()) {
  const Device device = *rc::gen::elementOf(devices());
  OpQuery query = any_experts();
  const auto model =
      find_fit_method(Op::experts, "experts")
          .read(device, {{"dtype", query.dtype}, {"kernel", any_expert_kernel()}}, "any");
  const double seconds = model->seconds(query);
  RC_ASSERT(std::isfinite(seconds) && seconds > 0);
  RC_ASSERT(seconds >= work_of(device, query).floor_s() * (1 - 1e-9));
  query.tokens += *rc::gen::element(0.01, 1.0, 7.0, query.tokens);
  RC_ASSERT(model->seconds(query) >= seconds * (1 - 1e-9));
}

}  // namespace
}  // namespace tessera::cost::experts_property_test
