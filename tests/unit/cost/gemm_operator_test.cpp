#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "devices.h"
#include "expect_error.h"
#include "tessera/core/cluster.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/rng.h"
#include "tessera/cost/held_out.h"
#include "tessera/cost/profile.h"

namespace tessera::cost::gemm_operator_test {
namespace {

using test::expect_error;

Device a100() {
  Device device = test::device("A100-80G", 79, 2039, 312, 8.0);
  device.flop_per_s["int8"] = 624e12;
  return device;
}
Device h200() { return test::device("H200-141G", 140, 4800, 989.4, 9.0); }

const FitMethod& method() { return find_fit_method(Op::gemm, "operator"); }

OpQuery product(double m, double n, double k, const char* dtype = "bfloat16") {
  OpQuery query;
  query.dtype = dtype;
  query.m = m;
  query.n = n;
  query.k = k;
  return query;
}

std::vector<OpQuery> grid() {
  std::vector<OpQuery> queries;
  for (const double m : {1, 8, 32, 64, 96, 128, 256, 512, 1024, 4096}) {
    for (const double n : {256, 1024, 3584, 8192, 28672}) {
      for (const double k : {256, 1024, 4096, 16384}) queries.push_back(product(m, n, k));
    }
  }
  return queries;
}

// A GPU that does what a model says, on which everything takes `factor` as long, give or take
// `noise`.
std::vector<Sample> measured_on(const OpModel& truth, const std::vector<OpQuery>& queries,
                                double factor = 1, double noise = 0) {
  Rng rng(7);
  std::vector<Sample> samples;
  for (const OpQuery& query : queries) {
    Sample sample;
    sample.query = query;
    sample.latency_s = truth.seconds(query) * factor * (1 + noise * (2 * rng.uniform() - 1));
    samples.push_back(sample);
  }
  return samples;
}

Errors errors_on(const OpModel& model, const std::vector<Sample>& samples) {
  std::vector<double> predicted;
  for (const Sample& sample : samples) predicted.push_back(model.seconds(sample.query));
  return errors_of(predicted, latencies_of(samples), "seen");
}

// A model of known coefficients, typical of nothing.
std::unique_ptr<OpModel> truth(const Device& device) {
  const std::vector<Sample> one = {{product(1024, 4096, 4096), 300e-6, "", "", ""}};
  Json json = method().fit(device, one, nullptr)->coefficients();
  json["tiles"]["launch_s"] = 7e-6;
  json["tiles"]["memory_ratio"] = 0.6;
  for (Json& ratio : json["tiles"]["rate_ratio"]) ratio = 0.45;
  for (Json& setup : json["tiles"]["setup_s"]) setup = 3e-6;
  return method().read(device, json, "truth");
}

TEST(GemmOperator, FindsTheTruthOfAnInventedGpu) {
  const auto samples = measured_on(*truth(a100()), grid(), 1, 0.03);
  const Errors errors = errors_on(*method().fit(a100(), samples, nullptr), samples);
  EXPECT_LT(errors.median, 0.03);
  EXPECT_LT(errors.p90, 0.06);
}

TEST(GemmOperator, PredictsMatricesThatItHasNotSeen) {
  const auto samples = measured_on(*truth(a100()), grid(), 1, 0.03);
  const auto folds = folds_by(samples, {"n", "k"}, 5, 1);
  const auto predicted = cross_validate(method(), a100(), samples, folds);
  EXPECT_LT(errors_of(predicted, latencies_of(samples), "unseen").median, 0.05);
}

TEST(GemmOperator, ReadsBackExactly) {
  const auto model = method().fit(a100(), measured_on(*truth(a100()), grid(), 1.3, 0.2), nullptr);
  const Json json = model->coefficients();
  const auto again = method().read(a100(), parse_json(json.dump(), "test"), "test");
  EXPECT_EQ(again->coefficients(), json);
  for (const OpQuery& query : grid()) EXPECT_EQ(again->seconds(query), model->seconds(query));
}

TEST(GemmOperator, FollowsTheDataSheetWithoutPoints) {
  const auto donor = truth(a100());
  const auto carried = method().fit(h200(), {}, donor.get());
  const OpQuery large = product(8192, 16384, 16384);
  EXPECT_NEAR(donor->seconds(large) / carried->seconds(large), 989.4 / 312, 0.4);
  const OpQuery skinny = product(1, 65536, 16384);
  EXPECT_NEAR(donor->seconds(skinny) / carried->seconds(skinny), 4800.0 / 2039, 0.3);
}

TEST(GemmOperator, KeepsTheRatesOfAChipWhereOnlyTheMemoryIsSlower) {
  const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  const auto donor = find_profile("H200-141G", "vllm", folders);
  ASSERT_NE(donor, nullptr);
  Device slower = donor->device;
  slower.memory_bytes_per_s *= 0.7;
  for (const ProfilePart& part : donor->parts) {
    if (part.op != Op::gemm) continue;
    const auto carried = method().fit(slower, {}, part.model.get());
    for (OpQuery query : grid()) {
      query.dtype = part.dtype;
      const double ratio = carried->seconds(query) / part.model->seconds(query);
      EXPECT_GT(ratio, 0.99) << describe(query);
      EXPECT_LT(ratio, 1.01 / 0.7) << describe(query);
    }
    const OpQuery large = product(8192, 14336, 8192, part.dtype.c_str());
    EXPECT_NEAR(carried->seconds(large) / part.model->seconds(large), 1, 0.02) << part.dtype;
    // A chip of the same architecture with half the processors: its caches are half as fast as
    // well.
    Device half = donor->device;
    half.num_multiprocessors = 66;
    for (auto& [dtype, rate] : half.flop_per_s) rate /= 2;
    const auto smaller = method().fit(half, {}, part.model.get());
    EXPECT_NEAR(smaller->seconds(large) / part.model->seconds(large), 2, 0.5) << part.dtype;
  }
}

TEST(GemmOperator, ScalesToAnotherGpuByTwentyPoints) {
  const auto donor = truth(a100());
  const auto other = method().fit(h200(), {}, donor.get());
  const auto all = measured_on(*other, grid(), 1.5);
  std::vector<Sample> few;
  for (std::size_t i = 0; i < all.size(); i += 10) few.push_back(all[i]);
  ASSERT_EQ(few.size(), 20u);
  EXPECT_LT(errors_on(*method().fit(h200(), few, donor.get()), all).median, 0.05);
  EXPECT_GT(errors_on(*other, all).median, 0.3);
}

TEST(GemmOperator, ShippedProfilesReadAndAnswer) {
  const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  struct File {
    const char *device, *set;
    std::size_t parts;
  };
  for (const File& file : {File{"A100-80G", "modern", 3}, File{"A100-80G", "modern_w8a8", 3},
                           File{"H200-141G", "modern", 3}, File{"H200-141G", "modern_w8a8", 3},
                           File{"H200-141G", "modern_fp8", 5}}) {
    const auto profile = find_profile(file.device, file.set, folders);
    ASSERT_NE(profile, nullptr) << file.device << " " << file.set;
    std::size_t parts = 0;
    for (const ProfilePart& part : profile->parts) {
      if (part.op != Op::gemm) continue;
      ++parts;
      EXPECT_LT(part.held_out.value().median, 0.06) << part.dtype;
      const OpQuery query = product(1024, 4096, 4096, part.dtype.c_str());
      // Not below what the data sheet allows, nor ten times that.
      const double floor_s = work_of(profile->device, query).floor_s();
      EXPECT_GT(part.model->seconds(query), floor_s) << part.dtype;
      EXPECT_LT(part.model->seconds(query), 10 * floor_s) << part.dtype;
    }
    EXPECT_EQ(parts, file.parts) << file.device << " " << file.set;
  }
}

// What finding and applying the scale of activations takes alone on an H200: 9.4 us at few rows of
// any width, 0.24 ms at 8,192 rows of 8,192.
TEST(GemmOperator, StaticScalesSaveWhatFindingThemTakes) {
  const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  const auto profile = find_profile("H200-141G", "modern_fp8", folders);
  ASSERT_NE(profile, nullptr);
  const auto seconds = [&](const char* dtype, double m, double n, double k) {
    const OpQuery query = product(m, n, k, dtype);
    return profile->find(query)->model->seconds(query);
  };
  for (const double m : {1, 8, 64, 256, 1024, 8192}) {
    for (const double n : {1024, 8192, 28672}) {
      for (const double k : {1024, 8192}) {
        EXPECT_LT(seconds("fp8_static", m, n, k), seconds("fp8", m, n, k)) << m << " " << n;
      }
    }
  }
  const auto saved = [&](double m, double n, double k) {
    return seconds("fp8", m, n, k) - seconds("fp8_static", m, n, k);
  };
  EXPECT_NEAR(saved(1, 1024, 8192), 9.4e-6, 2e-6);
  EXPECT_NEAR(saved(16, 8192, 8192), 10e-6, 3e-6);
  EXPECT_NEAR(saved(8192, 8192, 8192), 236e-6, 80e-6);
}

TEST(GemmOperator, RefusesWhatCannotBeFitted) {
  expect_error(ErrorCode::invalid_argument, {"no samples"},
               [] { method().fit(a100(), {}, nullptr); });
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    expect_error(ErrorCode::invalid_argument, {"latency_s", "m 8"}, [&] {
      method().fit(a100(), {{product(8, 64, 64), bad, "", "", ""}}, nullptr);
    });
  }
  expect_error(ErrorCode::out_of_range, {"m is 0"}, [] {
    method().fit(a100(), {{product(0, 64, 64), 1e-5, "", "", ""}}, nullptr);
  });
  expect_error(ErrorCode::out_of_range, {"k is -1"},
               [] { (void)truth(a100())->seconds(product(1, 64, -1)); });
}

TEST(GemmOperator, RefusesADonorOfAnotherKind) {
  const FitMethod& line = find_fit_method(Op::elementwise, "bandwidth");
  const auto donor = line.read(a100(), {{"latency_s", 1e-6}, {"bytes_per_s", 1e12}}, "test");
  expect_error(ErrorCode::invalid_argument, {"donor"},
               [&] { method().fit(a100(), {}, donor.get()); });
}

TEST(GemmOperator, RefusesBadCoefficients) {
  const Json good = truth(a100())->coefficients();
  const auto refuse = [&](const char* what, const std::function<void(Json&)>& spoil) {
    Json bad = good;
    spoil(bad);
    try {
      method().read(a100(), bad, "part.coefficients");
      ADD_FAILURE() << "accepted a bad " << what;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("part.coefficients"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr(what));
    }
  };
  refuse("launch_s", [](Json& json) { json["tiles"]["launch_s"] = -1; });
  refuse("memory_ratio", [](Json& json) { json["tiles"].erase("memory_ratio"); });
  refuse("rate_ratio", [](Json& json) { json["tiles"]["rate_ratio"].push_back(0.5); });
  refuse("setup_s", [](Json& json) { json["tiles"]["setup_s"][0] = "fast"; });
  refuse("warp", [](Json& json) { json["tiles"]["warp"] = 1; });
  refuse("correction_permille", [](Json& json) { json["correction_permille"] = "1 2 3"; });
  refuse("correction_permille", [](Json& json) {
    json["correction_permille"] = json["correction_permille"].get<std::string>() + " x";
  });
  refuse("correction_permille", [](Json& json) {
    json["correction_permille"] = "99999" + json["correction_permille"].get<std::string>();
  });
  refuse("extra", [](Json& json) { json["extra"] = 1; });
}

}  // namespace
}  // namespace tessera::cost::gemm_operator_test
