// The experts of a layer: how many rows each gets, and the kernel that is fitted to their times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "devices.h"
#include "expect_error.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/model_shape.h"
#include "tessera/cost/fit.h"
#include "tessera/cost/profile.h"

namespace tessera::cost::experts_test {
namespace {

using test::expect_error;
using ::testing::HasSubstr;

constexpr double kHidden = 4096, kInner = 1536;
constexpr double kMatrices = 3 * kHidden * kInner;

OpQuery experts_of(double tokens, double routing = 0, std::int32_t num_devices = 1) {
  OpQuery query;
  query.op = Op::experts;
  query.dtype = "bfloat16";
  query.tokens = tokens;
  query.hidden_size = kHidden;
  query.inner_size = kInner;
  query.num_experts = 128;
  query.top_k = 8;
  query.routing = routing;
  query.num_devices = num_devices;
  return query;
}

Device h200() {
  Device device = test::v100();
  device.name = "H200";
  device.memory_bytes_per_s = 4.8e12;
  device.flop_per_s = {{"fp16", 989.4e12}, {"fp8", 1978.9e12}};
  device.compute_capability = 9;
  return device;
}

Json kernel(double launch_s = 25e-6) {
  Json json{{"launch_s", launch_s}, {"expert_s", 1e-7}, {"memory_ratio", 0.8}, {"moved_ratio", 2.5},
            {"passed_ratio", 1},    {"blend", 2.5},     {"wave_share", 0.6}};
  const double rates[] = {0.15, 0.3, 0.45, 0.6}, setups[] = {1e-6, 1.2e-6, 1.6e-6, 2e-6};
  const char* tiles[] = {"16", "32", "64", "128"};
  for (int i = 0; i < 4; ++i) {
    json[std::string("rate_ratio_") + tiles[i]] = rates[i];
    json[std::string("setup_s_") + tiles[i]] = setups[i];
  }
  return json;
}

std::unique_ptr<OpModel> model_of(const Device& device, const Json& values) {
  return find_fit_method(Op::experts, "experts")
      .read(device, {{"dtype", "bfloat16"}, {"kernel", values}}, "file");
}

std::vector<Sample> samples_of(const OpModel& truth) {
  std::vector<Sample> samples;
  for (const double inner : {192.0, 768.0, 1536.0, 3072.0}) {
    for (const double experts : {8.0, 64.0, 256.0}) {
      for (const std::int32_t devices : {1, 4}) {
        for (double tokens = 1; tokens < 40000; tokens *= 2) {
          OpQuery query = experts_of(tokens, 1.01, devices);
          query.inner_size = inner;
          query.num_experts = experts;
          query.top_k = experts == 8 ? 2 : 8;
          samples.push_back({query, truth.seconds(query), "H200", "modern", "test"});
        }
      }
    }
  }
  return samples;
}

Profile fitted(const OpModel& truth) {
  FitOptions options;
  options.method = "experts";
  options.hold_out = {"inner_size"};
  return fit_profile(h200(), "modern", samples_of(truth), options);
}

// 8 experts of each row until all 128 have one; then no more weights are read.
TEST(ExpertLoads, TakeTurnsWhereTheyAreEven) {
  const double weights = kMatrices * 2;
  for (const double tokens : {1.0, 4.0, 16.0}) {
    const OpWork work = work_of(h200(), experts_of(tokens));
    EXPECT_DOUBLE_EQ(work.flop, 2 * 8 * tokens * kMatrices);
    EXPECT_NEAR(work.bytes / (8 * tokens * weights + tokens * kHidden * 4), 1, 1e-9);
  }
  EXPECT_NEAR(work_of(h200(), experts_of(1000)).bytes / (128 * weights + 1000 * kHidden * 4), 1,
              1e-9);
  // Each of four devices has a quarter of the experts and of the rows.
  EXPECT_NEAR(work_of(h200(), experts_of(1000, 0, 4)).flop / (2 * 2000 * kMatrices), 1, 1e-9);
}

// One row touches as many experts as it picks, however loads are spread; the rows of a batch meet
// more often the steeper they are. Sampled 300 times, 0.50, 0.46 and 0.92 of the experts.
TEST(ExpertLoads, MeetWhereTheyFollowAPowerLaw) {
  const auto touched = [](double tokens, double routing, double experts) {
    OpQuery query = experts_of(tokens, routing);
    query.num_experts = experts;
    const OpWork work = work_of(h200(), query);
    return (work.bytes - tokens * kHidden * 4) / (kMatrices * 2) / experts;
  };
  EXPECT_NEAR(touched(1, 1.01, 128), 8 / 128.0, 1e-9);
  EXPECT_NEAR(touched(16, 1.01, 128), 0.50, 0.02);
  EXPECT_NEAR(touched(16, 1.2, 128), 0.46, 0.02);
  EXPECT_NEAR(touched(1024, 1.01, 256), 0.91, 0.02);
}

// Tokens that pick for themselves reach fewer than as many that are dealt out: of 128 even experts
// 128 (1 - (1 - 8 / 128) ^ 16), not all; by a power law less than both.
TEST(ExpertLoads, MeetWhereTokensPickForThemselves) {
  const auto touched = [](double tokens, double routing, bool pick) {
    OpQuery query = experts_of(tokens, routing);
    if (pick) query.batch_size = tokens;
    return (work_of(h200(), query).bytes - tokens * kHidden * 4) / (kMatrices * 2);
  };
  EXPECT_NEAR(touched(16, 0, false), 128, 1e-6);
  EXPECT_NEAR(touched(16, 0, true), 128 * (1 - std::pow(1 - 8 / 128.0, 16)), 1e-6);
  EXPECT_NEAR(touched(1, 1.01, true), 8, 1e-6);
  for (const double tokens : {2.0, 8.0, 32.0, 128.0}) {
    EXPECT_LT(touched(tokens, 1.01, true), 0.96 * touched(tokens, 1.01, false)) << tokens;
    EXPECT_LT(touched(tokens, 1.01, true), touched(tokens, 0, true)) << tokens;
  }
  // All of them have rows either way.
  EXPECT_NEAR(touched(4096, 0, true), 128, 1e-6);
}

// Of 16 and of 1,024 tokens that pick 8 of 256 even experts on 8 devices the busiest has 1.36 and
// 1.04 times the mean of the rows, as sampled; dealt out, the mean.
TEST(ExpertLoads, GoToDevicesByChance) {
  const auto share = [](double tokens, bool pick) {
    OpQuery query = experts_of(tokens, 0, 8);
    query.num_experts = 256;
    if (pick) query.batch_size = tokens;
    return work_of(h200(), query).flop / (2 * tokens * kMatrices);
  };
  EXPECT_NEAR(share(16, false), 1, 1e-9);
  EXPECT_NEAR(share(16, true), 1.36, 0.05);
  EXPECT_NEAR(share(1024, true), 1.04, 0.01);
}

// Sampled 300 times, the busiest of 4 and 8 devices has 1.20 and 1.39 times the mean.
TEST(ExpertLoads, AreOfTheBusiestDevice) {
  const auto share = [](double devices) {
    OpQuery query = experts_of(1024, 1.01, static_cast<std::int32_t>(devices));
    query.num_experts = 256;
    return work_of(h200(), query).flop * devices / (2 * 1024 * 8 * kMatrices);
  };
  EXPECT_NEAR(share(1), 1, 1e-9);
  EXPECT_NEAR(share(4), 1.20, 0.04);
  EXPECT_NEAR(share(8), 1.39, 0.06);
  // No expert gets a token twice.
  OpQuery two = experts_of(4096, 1.2);
  two.num_experts = 2;
  two.top_k = 2;
  EXPECT_NEAR(work_of(h200(), two).flop / (2 * 8192 * kMatrices), 1, 1e-9);
}

TEST(ExpertsModel, ReadsWeightsOfAFewRowsAndWorksOffTilesOfMany) {
  const auto model = model_of(h200(), kernel());
  const double few_s = 128 * kMatrices * 2 / (0.8 * 4.8e12);
  EXPECT_NEAR(model->seconds(experts_of(32)) / (25e-6 + 128e-7 + few_s), 1, 0.1);
  const double flop = 2 * 65536 * 8 * kMatrices;
  const double many_s = flop / (0.6 * 989.4e12);
  EXPECT_NEAR(model->seconds(experts_of(65536)) / many_s, 1.3, 0.1);  // rows are moved too
}

TEST(ExpertsModel, FindsItsKernelAgain) {
  const auto truth = model_of(h200(), kernel());
  const Profile profile = fitted(*truth);
  ASSERT_EQ(profile.parts.size(), 1u);
  const ProfilePart& part = profile.parts.front();
  EXPECT_LT(part.held_out->median, 0.03);
  EXPECT_LT(part.held_out->p90, 0.08);
  EXPECT_EQ(part.range.at("num_devices"), (std::pair<double, double>(1, 4)));
  OpQuery between = experts_of(300, 0, 2);
  EXPECT_EQ(predict(part, between).seconds.provenance,
            Provenance::modelled);  // even loads were not measured
  between.routing = 1.01;
  EXPECT_EQ(predict(part, between).seconds.provenance, Provenance::fitted);
  EXPECT_NEAR(part.model->seconds(between) / truth->seconds(between), 1, 0.06);
}

// What finds a device's own rows is launched however few there are; one device has no such launch.
TEST(ExpertsModel, TakesLongerToStartWhereOthersHoldExpertsToo) {
  Json spread = kernel();
  spread["spread_s"] = 30e-6;
  const auto truth = model_of(h200(), spread), plain = model_of(h200(), kernel());
  EXPECT_EQ(truth->seconds(experts_of(4)), plain->seconds(experts_of(4)));
  const OpQuery shared = experts_of(4, 0, 8);
  EXPECT_NEAR(truth->seconds(shared) - plain->seconds(shared), 30e-6, 1e-8);
  const Json found = fitted(*truth).parts.front().model->coefficients().at("kernel");
  EXPECT_NEAR(found.at("spread_s").get<double>(), 30e-6, 3e-6);
  // Points of single devices say nothing of it, and their file neither.
  std::vector<Sample> single;
  for (const Sample& sample : samples_of(*truth)) {
    if (sample.query.num_devices == 1) single.push_back(sample);
  }
  const auto alone = find_fit_method(Op::experts, "experts").fit(h200(), single, nullptr);
  EXPECT_FALSE(alone->coefficients().at("kernel").contains("spread_s"));
}

// Rows of a step pick for themselves, beside a shared expert evenly; what they pick by is a product
// in 16 bits whatever the experts have.
TEST(ExpertsModel, OfALayerIsPickedByARouter) {
  const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  const KernelSet kernels = find_kernel_set("vllm", folders);
  const auto model = make_profiled(find_profile("H200-141G", "vllm", folders), kernels);
  const auto layer_of = [&](const char* name) {
    const std::string path = folders.require("models", name);
    return model_from_json(read_json_file(path), path).layer_classes.back();
  };
  const auto check = [&](const LayerShape& layer, double num_experts, double routing) {
    OpQuery experts, router;
    experts.op = Op::experts;
    experts.dtype = router.dtype = "bfloat16";
    experts.tokens = experts.batch_size = router.m = 16;
    experts.num_experts = router.n = num_experts;
    experts.routing = routing;
    for (const LinearShape& linear : layer.linears) {
      if (linear.name != "experts.up_proj") continue;
      experts.hidden_size = router.k = static_cast<double>(linear.in_features);
      experts.inner_size = static_cast<double>(linear.out_features);
      experts.top_k = static_cast<double>(linear.num_active);
    }
    const double parts_s = model->op(experts).seconds.value + model->op(router).seconds.value;
    EXPECT_NEAR(model->experts_s(layer, 16, {Phase::decode, 16, 1, 100}), parts_s, 1e-12);
  };
  check(layer_of("qwen3-30b-a3b"), 128, kServingRouting);
  check(layer_of("glm-4.5-air"), 128, 0);
}

TEST(ExpertsModel, ComesBackFromItsFile) {
  Profile profile = fitted(*model_of(h200(), kernel()));
  profile.device_by_name = false;
  const Profile again = profile_from_json(to_json(profile), "file", DataFolders({}));
  EXPECT_EQ(to_json(again), to_json(profile));
  const OpQuery query = experts_of(77, 1.2, 2);
  EXPECT_EQ(again.parts.front().model->seconds(query), profile.parts.front().model->seconds(query));
  Json broken = to_json(profile);
  broken["parts"][0]["coefficients"]["kernel"]["memory_ratio"] = 1.5;
  expect_error(ErrorCode::out_of_range, {"memory_ratio", "1.5"},
               [&] { profile_from_json(broken, "file", DataFolders({})); });
}

TEST(ExpertsModel, IsCarriedByDataSheetAndMovedByAFewPoints) {
  const auto donor = model_of(h200(), kernel());
  Device twice = h200();
  twice.memory_bytes_per_s *= 2;
  twice.flop_per_s = {{"fp16", 2 * 989.4e12}};
  const FitMethod& method = find_fit_method(Op::experts, "experts");
  const auto carried = method.fit(twice, {}, donor.get());
  // All but the launches takes half; twice the rate is taken for twice the multiprocessors.
  const double launch_s = 25e-6 + 128e-7;
  EXPECT_NEAR(
      (carried->seconds(experts_of(64)) - launch_s) / (donor->seconds(experts_of(64)) - launch_s),
      0.5, 0.02);
  // A kernel that reads at half of the rate, seen at 20 points.
  Json slow = kernel();
  slow["memory_ratio"] = 0.4;
  const auto truth = model_of(twice, slow);
  std::vector<Sample> few;
  for (double tokens = 1; few.size() < 20; tokens *= 1.6) {
    const OpQuery query = experts_of(tokens, 1.01);
    few.push_back({query, truth->seconds(query), "H200", "modern", "test"});
  }
  const auto moved = method.fit(twice, few, donor.get());
  const OpQuery query = experts_of(50, 1.01);
  EXPECT_GT(truth->seconds(query) / carried->seconds(query), 1.7);
  EXPECT_NEAR(moved->seconds(query) / truth->seconds(query), 1, 0.1);
}

// Half of the bytes, from a kernel that was measured in BF16 alone.
TEST(ExpertsModel, PricesOtherDtypesByTheirBytes) {
  const auto truth = model_of(h200(), kernel());
  const auto profile = std::make_shared<Profile>(fitted(*truth));
  const auto model = make_profiled(profile, test::test_kernels());
  OpQuery query = experts_of(64, 1.01);
  const Prediction full = model->op(query);
  EXPECT_EQ(full.seconds.provenance, Provenance::fitted);
  query.dtype = "int8_wo";
  const Prediction half = model->op(query);
  EXPECT_EQ(half.seconds.provenance, Provenance::modelled);
  EXPECT_FALSE(half.seconds.error.has_value());
  EXPECT_THAT(half.method, HasSubstr("carried over by the dtype"));
  EXPECT_NEAR(half.seconds.value / full.seconds.value, 0.57, 0.08);
  query.tokens = 32768;  // its arithmetic is the same
  const double many_s = model->op(query).seconds.value;
  query.dtype = "bfloat16";
  EXPECT_NEAR(many_s / model->op(query).seconds.value, 1, 0.05);
  query.dtype = "fp8";
  EXPECT_LT(model->op(query).seconds.value, 0.75 * many_s);
}

TEST(ExpertsModel, IsTheTunedOneWhereTheProfileListsTheExperts) {
  auto profile = std::make_shared<Profile>();
  profile->device = h200();
  profile->device_by_name = false;
  ProfilePart plain;
  plain.op = Op::experts;
  plain.dtype = "bfloat16";
  plain.method = "experts";
  plain.model = model_of(h200(), kernel());
  ProfilePart tuned = plain;
  tuned.name = kTunedExperts;
  tuned.tuned = {{profile->device.name, 128, {768, 1536}}, {"another GPU", 128, {512}}};
  tuned.model = model_of(h200(), kernel(1e-6));
  profile->parts = {plain, tuned};
  const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  KernelSet kernels = find_kernel_set("vllm", folders);
  const auto is_tuned = [&](double num_experts, double inner_size, std::int32_t num_devices) {
    OpQuery query = experts_of(64, 0, num_devices);
    query.num_experts = num_experts;
    query.inner_size = inner_size;
    const double seconds = make_profiled(profile, kernels)->op(query).seconds.value;
    const double plain_s = plain.model->seconds(query), tuned_s = tuned.model->seconds(query);
    EXPECT_TRUE(seconds == plain_s || seconds == tuned_s);
    return seconds == tuned_s;
  };
  EXPECT_TRUE(is_tuned(128, 1536, 1));
  EXPECT_FALSE(is_tuned(128, 512, 1));   // of another GPU
  EXPECT_FALSE(is_tuned(128, 1536, 2));  // 64 on each
  EXPECT_TRUE(is_tuned(256, 1536, 2));
  kernels.tuned_experts = false;
  EXPECT_FALSE(is_tuned(128, 1536, 1));
  kernels.tuned_experts = true;
  EXPECT_TRUE(is_tuned(128, 512, 1));
  Json file = to_json(*profile);
  EXPECT_EQ(to_json(profile_from_json(file, "p.json", folders)), file);
  file["parts"][1]["name"] = "tune";
  expect_error(ErrorCode::invalid_argument, {"parts[1]", "tuned"},
               [&] { profile_from_json(file, "p.json", folders); });
}

TEST(ExpertsModel, RefusesWhatNoLayerIs) {
  const auto refused = [](const OpQuery& query, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::out_of_range, parts, [&] { check_query(query); });
  };
  OpQuery query = experts_of(8);
  query.top_k = 200;
  refused(query, {"top_k 200 is more than num_experts 128"});
  refused(experts_of(8, 3), {"routing is 3", "0 to 2"});
  refused(experts_of(8, 0, 256), {"num_devices 256 is more than num_experts 128"});
  refused(experts_of(0), {"tokens is 0"});
  expect_error(ErrorCode::invalid_argument, {"no samples"},
               [] { find_fit_method(Op::experts, "experts").fit(h200(), {}, nullptr); });
}

}  // namespace
}  // namespace tessera::cost::experts_test
