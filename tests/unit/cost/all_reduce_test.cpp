// Sums over the devices of a node: the fit of one-shot and two-shot kernels, and what is carried to
// other links.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "devices.h"
#include "shapes.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/cost/fit.h"
#include "tessera/cost/profile.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::cost::all_reduce_test {
namespace {

using ::testing::HasSubstr;

Device on_nvlink(const char* name, double bytes_per_s) {
  Device device = test::v100();
  device.name = name;
  device.nvlink_bytes_per_s = bytes_per_s;
  return device;
}

OpQuery sum_of(double bytes, std::int32_t num_devices) {
  OpQuery query;
  query.op = Op::all_reduce;
  query.dtype = "bfloat16";
  query.bytes = bytes;
  query.num_devices = num_devices;
  return query;
}

/// Kernels that start in 4 us and read from each peer at half of 300 GB/s, or start in 12 us and
/// send their share at four fifths of it.
double truth_s(double bytes, double devices) {
  const double one = 4e-6 + 0.2e-6 * (devices - 1) + (devices - 1) * bytes / 150e9;
  const double two = 12e-6 + 0.5e-6 * (devices - 1) + 2 * (devices - 1) / devices * bytes / 240e9;
  return std::min(one, two);
}

std::vector<Sample> samples_of_truth() {
  std::vector<Sample> samples;
  for (const std::int32_t devices : {2, 4, 8}) {
    for (double bytes = 256; bytes < 6e8; bytes *= 2) {
      samples.push_back(
          {sum_of(bytes, devices), truth_s(bytes, devices), "Fast", "modern", "test"});
    }
  }
  return samples;
}

Profile fitted() {
  FitOptions options;
  options.method = "all_reduce";
  options.hold_out = {"bytes"};
  return fit_profile(on_nvlink("Fast", 300e9), "modern", samples_of_truth(), options);
}

TEST(AllReduceModel, FindsBothKernels) {
  const Profile profile = fitted();
  ASSERT_EQ(profile.parts.size(), 1u);
  const ProfilePart& part = profile.parts.front();
  for (const Sample& sample : samples_of_truth()) {
    EXPECT_NEAR(part.model->seconds(sample.query) / sample.latency_s, 1, 1e-3)
        << describe(sample.query) << " on " << sample.query.num_devices;
  }
  EXPECT_LT(part.held_out->p90, 1e-2);
  EXPECT_EQ(part.range.at("num_devices"), (std::pair<double, double>(2, 8)));
}

TEST(AllReduceModel, ComesBackFromItsFile) {
  Profile profile = fitted();
  profile.device_by_name = false;
  const Profile again = profile_from_json(to_json(profile), "file", DataFolders({}));
  EXPECT_EQ(to_json(again), to_json(profile));
  const OpQuery query = sum_of(3e5, 3);
  EXPECT_DOUBLE_EQ(again.parts.front().model->seconds(query),
                   profile.parts.front().model->seconds(query));
  Json broken = to_json(profile);
  broken["parts"][0]["coefficients"]["two_shot"]["link_ratio"] = 2;
  try {
    profile_from_json(broken, "file", DataFolders({}));
    FAIL() << "a share beyond 1 was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("link_ratio"));
  }
}

TEST(AllReduceModel, MoreBytesAndMoreDevicesNeverCostLess) {
  const Profile profile = fitted();
  for (std::int32_t devices = 2; devices < 16; ++devices) {
    double before = 0;
    for (double bytes = 100; bytes < 1e9; bytes *= 1.07) {
      const double seconds = profile.parts.front().model->seconds(sum_of(bytes, devices));
      EXPECT_GE(seconds, before);
      EXPECT_GE(profile.parts.front().model->seconds(sum_of(bytes, devices + 1)), seconds);
      before = seconds;
    }
  }
}

TEST(AllReduceModel, LeavesWhatWasFitted) {
  const auto profile = std::make_shared<Profile>(fitted());
  const Prediction more = predict(profile->parts.front(), sum_of(1e6, 16));
  EXPECT_EQ(more.seconds.provenance, Provenance::modelled);
  EXPECT_THAT(more.outside.value(), HasSubstr("num_devices 16 is above the fitted 2 .. 8"));
  const Prediction inside = predict(profile->parts.front(), sum_of(1e6, 8));
  EXPECT_EQ(inside.seconds.provenance, Provenance::fitted);
  EXPECT_TRUE(inside.seconds.error.has_value());
}

TEST(AllReduceModel, IsCarriedOverLinksOfItsKindOnly) {
  const Profile donor = fitted();
  const auto faster = carried_over(on_nvlink("Faster", 600e9), donor);
  ASSERT_NE(faster, nullptr);
  // Twice the link halves what the link takes, and leaves the start.
  const double base = truth_s(1, 2);
  EXPECT_NEAR(faster->parts.front().model->seconds(sum_of(1e8, 2)) - 12.5e-6,
              (truth_s(1e8, 2) - 12.5e-6) / 2, 1e-6);
  EXPECT_NEAR(faster->parts.front().model->seconds(sum_of(1, 2)), base, 1e-8);
  EXPECT_EQ(faster->parts.front().provenance, Provenance::modelled);
  Device pcie = test::t4();
  pcie.nvlink_bytes_per_s.reset();
  EXPECT_EQ(carried_over(pcie, donor), nullptr);
}

TEST(TensorParallelSums, AreFittedWhereTheyWereMeasured) {
  const auto profile = std::make_shared<Profile>(fitted());
  const KernelSet kernels = test::test_kernels();
  const Link same{300e9, 10e-6, "nvlink"}, slower{100e9, 10e-6, "nvlink"}, pcie{16e9, 1e-5, "pcie"};
  const LayerShape layer = test::opt_13b().layer_classes.front();
  const LayerWork work{Phase::decode, 8, 1, 100};
  const auto group = [&](const Link& link) {
    return make_tensor_parallel(make_roofline(profile->device, kernels), 2, link, profile)
        ->layer_s(layer, 16, 16, work);
  };
  const double bytes = 8 * 5120 * 2;
  const double member =
      make_roofline(profile->device, kernels)->layer_s(shard(layer, 2), 16, 16, work);
  EXPECT_NEAR(group(same), member + 2 * truth_s(bytes, 2), 1e-8);
  EXPECT_DOUBLE_EQ(group(slower), member + 2 * all_reduce_s(bytes, 2, slower));
  EXPECT_DOUBLE_EQ(group(pcie), member + 2 * all_reduce_s(bytes, 2, pcie));
}

// NCCL's sums where the runtime has no others, and what ranks wait for each other.
TEST(TensorParallelSums, AreOfTheRuntimesKernels) {
  const Link link{300e9, 10e-6, "nvlink"};
  const KernelSet kernels = test::test_kernels();
  const LayerShape layer = test::opt_13b().layer_classes.front();
  const LayerWork work{Phase::decode, 1, 1, 100};
  const auto group_s = [&](const SumKernels& sums) {
    return make_tensor_parallel(make_roofline(test::v100(), kernels), 4, link, {}, sums)
        ->layer_s(layer, 16, 16, work);
  };
  const double own = group_s({}), nccl = group_s({true, 0}), apart = group_s({true, 4e-6});
  OpQuery sum = sum_of(5120 * 2, 4);
  const double own_s = predict_sum(sum, link, nullptr).seconds.value;
  sum.name = "nccl";
  const double nccl_s = predict_sum(sum, link, nullptr).seconds.value;
  EXPECT_NEAR(nccl - own, 2 * (nccl_s - own_s), 1e-9);
  EXPECT_GT(nccl_s, 1.2 * own_s);
  EXPECT_LT(nccl_s, 5 * own_s);
  EXPECT_NEAR(apart - nccl, 2 * 3 * 4e-6, 1e-9);
}

}  // namespace
}  // namespace tessera::cost::all_reduce_test
