// Profiles, held-out errors, fits and calibration, on the simplest of the models (latency and
// bandwidth): what holds for any model.
#include "tessera/cost/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "devices.h"
#include "expect_error.h"
#include "shapes.h"
#include "tessera/core/cluster.h"
#include "tessera/core/record_json.h"
#include "tessera/core/rng.h"
#include "tessera/cost/fit.h"

namespace tessera::cost::profile_test {
namespace {

using test::expect_error;
using ::testing::HasSubstr;

Sample moved(double bytes, double seconds) {
  Sample sample;
  sample.query.op = Op::elementwise;
  sample.query.bytes = bytes;
  sample.latency_s = seconds;
  return sample;
}

// 5 us and 200 GB/s, with up to `noise` of relative error.
std::vector<Sample> samples(int count, double noise = 0) {
  std::vector<Sample> made;
  Rng rng(7);
  for (int i = 1; i <= count; ++i) {
    const double bytes = 1e6 * i;
    made.push_back(moved(bytes, (5e-6 + bytes / 200e9) * (1 + noise * (2 * rng.uniform() - 1))));
  }
  return made;
}

TEST(Errors, ByHand) {
  const Errors errors = errors_of({1.1, 0.9, 1.3, 1.0}, {1, 1, 1, 1}, "by hand");
  EXPECT_NEAR(errors.median, 0.1, 1e-12);
  EXPECT_NEAR(errors.mean, 0.125, 1e-12);
  EXPECT_NEAR(errors.worst, 0.3, 1e-12);
  EXPECT_NEAR(errors.p90, 0.1 + 0.7 * 0.2, 1e-12);
  EXPECT_EQ(errors.num_points, 4);
  EXPECT_EQ(json_of(from_json<Errors>(json_of(errors), "e")).dump(), json_of(errors).dump());
}

TEST(Errors, WrongListsAreNamed) {
  expect_error(ErrorCode::invalid_argument, {"2 predictions", "1 measurements"}, [] {
    errors_of({1, 2}, {1}, "");
  });
  expect_error(ErrorCode::invalid_argument, {"measurement 1 is 0"}, [] {
    errors_of({1, 2}, {1, 0}, "");
  });
}

TEST(Folds, KeepGroupsTogetherAndAreReproducible) {
  std::vector<Sample> grid;
  for (double n : {1., 2., 3., 4., 5., 6., 7.}) {
    for (double m : {1., 2., 3.}) {
      Sample sample;
      sample.query.dtype = "float16";
      sample.query.m = m;
      sample.query.n = n;
      sample.query.k = 8;
      grid.push_back(sample);
    }
  }
  const auto folds = folds_by(grid, {"n", "k"}, 3, 11);
  EXPECT_EQ(folds, folds_by(grid, {"n", "k"}, 3, 11));
  EXPECT_NE(folds, folds_by(grid, {"n", "k"}, 3, 12));
  EXPECT_EQ(std::set<std::int32_t>(folds.begin(), folds.end()).size(), 3u);
  for (std::size_t i = 0; i < grid.size(); ++i) EXPECT_EQ(folds[i], folds[i - i % 3]);
  const auto single = folds_by(grid, {"n"}, 0, 0);
  EXPECT_EQ(std::set<std::int32_t>(single.begin(), single.end()).size(), 7u);
  expect_error(ErrorCode::invalid_argument, {"nothing to hold out"},
               [&] { folds_by(grid, {"k"}, 3, 0); });
  expect_error(ErrorCode::invalid_argument, {"'nn'", "did you mean 'n'"},
               [&] { folds_by(grid, {"nn"}, 3, 0); });
}

TEST(CrossValidation, NeverSeesTheFoldThatItPredicts) {
  auto points = samples(12);
  points[5].latency_s *= 100;  // an outlier can spoil the others' predictions, not its own
  std::vector<std::int32_t> folds(points.size(), 0);
  folds[5] = 1;
  const auto predicted =
      cross_validate(find_fit_method(Op::elementwise, "bandwidth"), test::t4(), points, folds);
  EXPECT_NEAR(predicted[5], 5e-6 + points[5].query.bytes / 200e9, 1e-12);
}

TEST(FitProfile, FindsWhatMadeThePoints) {
  const Profile profile = fit_profile(test::t4(), "modern", samples(20), {});
  ASSERT_EQ(profile.parts.size(), 1u);
  const ProfilePart& part = profile.parts.front();
  EXPECT_NEAR(part.model->coefficients()["latency_s"].get<double>(), 5e-6, 1e-10);
  EXPECT_NEAR(part.model->coefficients()["bytes_per_s"].get<double>(), 200e9, 1e3);
  EXPECT_EQ(part.num_points, 20);
  EXPECT_EQ(part.range.at("bytes"), (std::pair<double, double>{1e6, 20e6}));
  ASSERT_TRUE(part.held_out.has_value());
  EXPECT_LT(part.held_out->worst, 1e-9);
  EXPECT_THAT(part.held_out->split, HasSubstr("5 folds"));
}

TEST(FitProfile, HeldOutErrorIsThatOfTheNoise) {
  const Profile profile = fit_profile(test::t4(), "modern", samples(200, 0.1), {});
  EXPECT_NEAR(profile.parts.front().held_out->mean, 0.05, 0.015);  // of a uniform draw
}

TEST(FitProfile, OnePointHasNoHeldOutErrorAndIsModelled) {
  const Profile profile = fit_profile(test::t4(), "modern", samples(1), {});
  EXPECT_FALSE(profile.parts.front().held_out.has_value());
  EXPECT_EQ(profile.parts.front().provenance, Provenance::modelled);
  EXPECT_EQ(profile.parts.front().num_points, 1);
  // Neither do many points of one value of what is held out.
  std::vector<Sample> repeated(5, moved(1e6, 1e-5));
  EXPECT_EQ(fit_profile(test::t4(), "modern", repeated, {}).parts.front().provenance,
            Provenance::modelled);
  EXPECT_EQ(fit_profile(test::t4(), "modern", samples(2), {}).parts.front().provenance,
            Provenance::fitted);
}

// The method with the least error on a few noisy points owes some of it to luck. An error that
// counts the choice is larger, on average.
TEST(FitProfile, TheErrorOfAChoiceCountsTheChoice) {
  double chosen = 0, counted = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    std::vector<Sample> points;
    for (int i = 1; i <= 8; ++i) {
      const double s = 5e-6 + 1e6 * i / 200e9;
      points.push_back(moved(1e6 * i, s * (1 + 0.3 * (2 * rng.uniform() - 1))));
    }
    FitOptions options;
    options.folds = 0;
    const Profile profile = fit_profile(test::t4(), "modern", points, options);
    counted += profile.parts.front().held_out->mean;
    EXPECT_THAT(profile.parts.front().held_out->split, HasSubstr("method chosen within"));
    const ProfilePart part = fit_part(test::t4(), points, options);
    chosen += part.held_out->mean;
    EXPECT_EQ(part.method, profile.parts.front().method);
    options.method = part.method;
    const Profile named = fit_profile(test::t4(), "modern", points, options);
    EXPECT_EQ(named.parts.front().held_out->mean, part.held_out->mean);
    EXPECT_EQ(named.parts.front().held_out->split.find("chosen"), std::string::npos);
  }
  EXPECT_GT(counted, chosen);
}

TEST(FitProfile, SaysWhatCannotBeFitted) {
  expect_error(ErrorCode::invalid_argument, {"no samples"},
               [] { fit_profile(test::t4(), "modern", {}, {}); });
  FitOptions options;
  options.method = "bandwith";
  expect_error(ErrorCode::not_found, {"'bandwith'", "did you mean 'bandwidth'"},
               [&] { fit_profile(test::t4(), "modern", samples(5), options); });
}

Json profile_json() {
  Profile profile = fit_profile(test::t4(), "modern", samples(20, 0.05), {});
  profile.source = "test";
  profile.device.pcie_bytes_per_s = kDefaultPcieBytesPerS;  // the test device has none
  profile.device_by_name = false;
  return to_json(profile);
}

TEST(ProfileFile, ReadsBackExactly) {
  const Json json = profile_json();
  const Profile again = profile_from_json(json, "p.json", DataFolders({}));
  EXPECT_EQ(to_json(again).dump(), json.dump());
  OpQuery query;
  query.op = Op::elementwise;
  query.bytes = 3e6;
  ASSERT_NE(again.find(query), nullptr);
  EXPECT_NEAR(again.find(query)->model->seconds(query), 2e-5, 2e-6);
}

TEST(ProfileFile, BadFieldsAreNamed) {
  struct Bad {
    const char* pointer;
    Json value;
    std::vector<std::string> parts;
    ErrorCode code = ErrorCode::invalid_argument;
  };
  const std::vector<Bad> all = {
      {"/parts/0/op", "gem", {"'gem' is not known", "did you mean 'gemm'"}},
      {"/parts/0/method", "table2", {"no method 'table2'"}, ErrorCode::not_found},
      {"/parts/0/range/bytes", {5, 1}, {"[least, largest]"}},
      {"/parts/0/range/bites", {1, 2}, {"'bites'"}},
      {"/parts/0/provenance", "guessed", {"'guessed'"}},
      {"/parts/0/dtype", "int3", {"unknown dtype 'int3'"}},
      {"/parts/0/colour", "red", {"colour"}},
      {"/parts/0/coefficients/bytes_per_s", -1, {"bytes_per_s"}, ErrorCode::out_of_range},
      {"/parts", Json::array(), {"1 to 1024 parts"}}};
  for (const Bad& bad : all) {
    Json json = profile_json();
    json[Json::json_pointer(bad.pointer)] = bad.value;
    SCOPED_TRACE(bad.pointer);
    expect_error(bad.code, bad.parts, [&] { profile_from_json(json, "p.json", DataFolders({})); });
  }
  Json twice = profile_json();
  twice["parts"].push_back(twice["parts"][0]);
  expect_error(ErrorCode::invalid_argument, {"parts[1]", "the same op"},
               [&] { profile_from_json(twice, "p.json", DataFolders({})); });
}

TEST(ProfileFile, SaysHowAQueryLeavesTheRange) {
  const Profile profile = profile_from_json(profile_json(), "p.json", DataFolders({}));
  OpQuery query;
  query.op = Op::elementwise;
  query.bytes = 5e6;
  EXPECT_FALSE(outside(profile.parts.front(), query).has_value());
  query.bytes = 5e9;
  EXPECT_EQ(outside(profile.parts.front(), query).value(),
            "bytes 5000000000 is above the fitted 1000000 .. 20000000");
}

// A model of layers that takes one second per sequence, to see what is made of it.
class PerSequence final : public OpModel {
 public:
  double seconds(const OpQuery& query) const override { return query.batch_size; }
  Json coefficients() const override { return Json::object(); }
};

// Products at their rate stay fitted beyond the rows that were measured, with the error of that.
TEST(Predict, TallerProductsAtTheirRateHaveTheErrorOfCarryingOn) {
  ProfilePart part;
  part.dtype = "bfloat16";
  part.method = "test";
  part.range = {{"m", {1, 8192}}, {"n", {32, 65536}}, {"k", {32, 65536}}};
  part.held_out = errors_of({1.02}, {1}, "test");
  part.beyond = errors_of({1.25}, {1}, "taller");
  part.model = std::make_shared<PerSequence>();
  const auto predicted = [&](double m, double n) {
    OpQuery query;
    query.batch_size = 1;
    query.dtype = "bfloat16";
    query.m = m;
    query.n = n;
    query.k = 4096;
    return predict(part, query);
  };
  EXPECT_NEAR(*predicted(8192, 4096).seconds.error, 0.02, 1e-12);
  const Prediction taller = predicted(32768, 4096);
  EXPECT_EQ(taller.seconds.provenance, Provenance::fitted);
  EXPECT_NEAR(*taller.seconds.error, 0.25, 1e-12);
  EXPECT_FALSE(taller.outside);
  for (const auto& [m, n] : {std::pair{32769.0, 4096.0}, {32768.0, 64.0}, {32768.0, 70000.0}}) {
    const Prediction left = predicted(m, n);
    EXPECT_EQ(left.seconds.provenance, Provenance::modelled) << m << " " << n;
    EXPECT_FALSE(left.seconds.error);
    EXPECT_TRUE(left.outside);
  }
  part.beyond.reset();
  EXPECT_TRUE(predicted(32768, 4096).outside);
}

std::shared_ptr<const Profile> layers_at_16_bits() {
  auto profile = std::make_shared<Profile>();
  profile->device = test::t4();
  ProfilePart part;
  part.op = Op::layer;
  part.bitwidth = 16;
  part.phase = Phase::decode;
  part.method = "test";
  part.range["batch_size"] = {1, 8};
  part.held_out = errors_of({1.02}, {1}, "test");
  part.model = std::make_shared<PerSequence>();
  profile->parts.push_back(part);
  return profile;
}

const LayerShape& opt_layer() {
  static const ModelShape model = test::opt_30b();
  return model.layer_classes.front();
}

TEST(Profiled, ALayerPartPricesTheLayer) {
  const auto model = make_profiled(layers_at_16_bits(), test::test_kernels());
  const Prediction inside = model->layer(opt_layer(), 16, 16, {Phase::decode, 4, 1, 100});
  EXPECT_EQ(inside.seconds.value, 4);
  EXPECT_EQ(inside.seconds.provenance, Provenance::fitted);
  EXPECT_NEAR(inside.seconds.error.value(), 0.02, 1e-12);
  EXPECT_FALSE(inside.outside.has_value());
  const Prediction beyond = model->layer(opt_layer(), 16, 16, {Phase::decode, 9, 1, 100});
  EXPECT_EQ(beyond.seconds.provenance, Provenance::modelled);
  EXPECT_FALSE(beyond.seconds.error.has_value());
  EXPECT_THAT(beyond.outside.value(), HasSubstr("batch_size 9 is above the fitted 1 .. 8"));
}

TEST(Profiled, OtherBitwidthsAreCarriedOverByTheRooflinesRatio) {
  const auto kernels = test::test_kernels();
  const auto model = make_profiled(layers_at_16_bits(), kernels);
  const auto roofline = make_roofline(test::t4(), kernels);
  const LayerWork work{Phase::decode, 4, 1, 100}, first{Phase::decode, 4, 1, 0};
  const double ratio =
      roofline->layer_s(opt_layer(), 4, 16, first) / roofline->layer_s(opt_layer(), 16, 16, first);
  EXPECT_NEAR(model->layer(opt_layer(), 4, 16, first).seconds.value / ratio,
              model->layer(opt_layer(), 16, 16, first).seconds.value, 1e-12);
  const Prediction carried = model->layer(opt_layer(), 4, 16, work);
  // What four bits save does not depend on the context.
  EXPECT_NEAR(model->layer(opt_layer(), 16, 16, work).seconds.value - carried.seconds.value,
              model->layer(opt_layer(), 16, 16, first).seconds.value * (1 - ratio), 1e-12);
  EXPECT_EQ(carried.seconds.provenance, Provenance::modelled);
  EXPECT_FALSE(carried.seconds.error.has_value());
  EXPECT_THAT(carried.method, HasSubstr("roofline ratio"));
}

TEST(Profiled, WithoutAPartTheRooflineAnswers) {
  const auto kernels = test::test_kernels();
  const auto model = make_profiled(layers_at_16_bits(), kernels);
  const LayerWork work{Phase::prefill, 4, 128, 0};
  EXPECT_EQ(model->layer(opt_layer(), 16, 16, work).seconds.value,
            make_roofline(test::t4(), kernels)->layer_s(opt_layer(), 16, 16, work));
}

TEST(CarriedOver, ByDataSheetWithoutAnErrorOfItsOwn) {
  Profile donor = fit_profile(test::t4(), "tessera", samples(10), {});
  ProfilePart links = donor.parts.front();
  links.op = Op::all_reduce;
  donor.parts.push_back(links);
  Device twice = test::t4();
  twice.memory_bytes_per_s *= 2;
  const auto carried = carried_over(twice, donor);
  ASSERT_NE(carried, nullptr);
  ASSERT_EQ(carried->parts.size(), 1u);  // links are no matter of the GPU
  const ProfilePart& part = carried->parts.front();
  EXPECT_EQ(part.provenance, Provenance::modelled);
  EXPECT_FALSE(part.held_out.has_value());
  // The launch stays, the rate follows the memory.
  EXPECT_NEAR(part.model->seconds(moved(4e6, 1).query), 5e-6 + 4e6 / 400e9, 1e-12);
}

TEST(Calibrate, SaysTheErrorBeforeAndAfter) {
  const auto points = samples(10);
  FitOptions options;
  options.folds = 0;
  const Calibration result =
      calibrate(test::t4(), test::test_kernels(), points, {}, nullptr, options);
  EXPECT_GT(result.before.median, 0.05);
  EXPECT_LT(result.after.worst, 1e-9);
  EXPECT_EQ(result.after.num_points, 10);
  EXPECT_TRUE(result.donor.empty());
  EXPECT_EQ(result.profile->parts.size(), 1u);
  expect_error(ErrorCode::invalid_argument, {"at least one point"},
               [&] { calibrate(test::t4(), test::test_kernels(), {}, {}, nullptr, options); });
}

// Twenty products that take `seconds(product)` on a T4.
template <typename Seconds>
std::vector<Sample> products(const Seconds& seconds) {
  std::vector<Sample> made;
  Rng rng(3);
  for (int i = 0; i < 20; ++i) {
    Sample sample;
    sample.query.dtype = "bfloat16";
    sample.query.m = std::exp2(std::floor(11 * rng.uniform()));
    sample.query.n = 512 * std::ceil(16 * rng.uniform());
    sample.query.k = 512 * std::ceil(16 * rng.uniform());
    sample.latency_s = seconds(sample.query) * (0.95 + 0.1 * rng.uniform());
    made.push_back(sample);
  }
  return made;
}

TEST(Calibrate, TakesPointsAloneWhereTheyClearlyDoBetterThanADonor) {
  const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  const auto donor = find_profile("A100-80G", "modern", folders);
  FitOptions options;
  options.folds = 0;
  const auto donor_after = [&](const std::vector<Sample>& points) {
    return calibrate(test::t4(), test::test_kernels(), points, {donor}, nullptr, options).donor;
  };
  const ProfilePart& form = *donor->find(products([](const OpQuery&) { return 1.; })[0].query);
  EXPECT_EQ(donor_after(products([&](const OpQuery& q) { return 5 * form.model->seconds(q); })),
            "A100-80G");
  // Nothing that the size of a product explains.
  EXPECT_EQ(donor_after(products([](const OpQuery&) { return 1e-3; })), "");
}

TEST(Queries, WrongSizesAreNamed) {
  OpQuery query;
  query.dtype = "float16";
  query.m = 4;
  query.n = -1;
  query.k = 3;
  expect_error(ErrorCode::out_of_range, {"gemm: n is -1"}, [&] { check_query(query); });
  query.n = std::nan("");
  expect_error(ErrorCode::out_of_range, {"gemm: n is nan"}, [&] { check_query(query); });
  OpQuery layer;
  layer.op = Op::layer;
  layer.batch_size = layer.tokens = 1;
  expect_error(ErrorCode::out_of_range, {"no model"}, [&] { check_query(layer); });
}

TEST(Work, OfAGemmByHand) {
  Device device = test::t4();
  device.flop_per_s["int8"] = 130e12;
  OpQuery query;
  query.dtype = "int4_wo";
  query.m = 8;
  query.n = 32;
  query.k = 16;
  const OpWork work = work_of(device, query);
  EXPECT_EQ(work.flop, 2. * 8 * 32 * 16);
  EXPECT_EQ(work.bytes, 32. * 16 / 2 + 8 * 16 * 2 + 8 * 32 * 2);
  EXPECT_EQ(work.flop_per_s, device.flop_per_s.at("fp16"));
  query.dtype = "sq";
  EXPECT_EQ(work_of(device, query).bytes, 32. * 16 + 8 * 16 + 8 * 32 * 2);
  EXPECT_EQ(work_of(device, query).flop_per_s, device.flop_per_s.at("int8"));
}

}  // namespace
}  // namespace tessera::cost::profile_test
