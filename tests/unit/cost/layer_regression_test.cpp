#include "models/layer_regression.h"

#include <gtest/gtest.h>

#include <cmath>

#include "expect_error.h"
#include "layer_samples.h"
#include "nnls.h"
#include "tessera/core/json.h"
#include "tessera/cost/held_out.h"

namespace tessera::cost::layer_regression_test {
namespace {

using test::decode_query;
using test::expect_error;
using test::opt_13b;
using test::opt_30b;
using test::opt_66b;
using test::prefill_query;
using test::t4;
using test::v100;

const FitMethod& regression() { return models::layer_regression(); }

Sample at(OpQuery query, double latency_s) { return {std::move(query), latency_s, "", "", ""}; }

std::vector<Sample> decode_points(const std::vector<double>& batches,
                                  const std::vector<double>& seconds, std::int32_t bitwidth = 16) {
  std::vector<Sample> points;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    points.push_back(at(decode_query(opt_30b(), batches[i], 512, bitwidth), seconds[i]));
  }
  return points;
}

double value(const OpModel& model, const char* name) {
  return model.coefficients().at(name).get<double>();
}

TEST(Nnls, IsLeastSquaresWhereThatIsPositive) {
  Eigen::MatrixXd a(3, 2);
  a << 1, 0, 1, 1, 1, 2;
  Eigen::VectorXd b(3);
  b << 1, 3, 5;
  const Eigen::VectorXd x = nnls(a, b);
  EXPECT_NEAR(x(0), 1, 1e-12);
  EXPECT_NEAR(x(1), 2, 1e-12);
}

TEST(Nnls, LeavesOutWhatWouldBeNegative) {
  Eigen::MatrixXd a(3, 2);
  a << 1, 1, 1, 2, 1, 3;
  Eigen::VectorXd b(3);
  b << 1, 3, 5;  // the line 2 x - 1
  const Eigen::VectorXd x = nnls(a, b);
  EXPECT_EQ(x(0), 0);
  EXPECT_NEAR(x(1), 22.0 / 14, 1e-12);
  EXPECT_EQ(nnls(a, -b).norm(), 0);
}

TEST(Nnls, RefusesWhatItCannotSolve) {
  const Eigen::MatrixXd a = Eigen::MatrixXd::Ones(3, 2);
  expect_error(ErrorCode::invalid_argument, {"3 x 2", "against 2 values"},
               [&] { nnls(a, Eigen::VectorXd::Ones(2)); });
  expect_error(ErrorCode::invalid_argument, {"not a finite number"},
               [&] { nnls(a, Eigen::VectorXd::Constant(3, std::nan(""))); });
}

TEST(LayerRegression, PassesThroughALine) {
  const auto model = regression().fit(t4(), decode_points({2, 4, 8}, {5e-3, 6e-3, 8e-3}), nullptr);
  EXPECT_NEAR(model->seconds(decode_query(opt_30b(), 2, 512)), 5e-3, 5e-5);
  EXPECT_NEAR(model->seconds(decode_query(opt_30b(), 6, 512)), 7e-3, 7e-5);
  EXPECT_NEAR(model->seconds(decode_query(opt_30b(), 16, 512)), 12e-3, 12e-5);
}

// Twice the batch in 2.5 times the time, as the first GPTQ kernels on T4: no line that starts at or
// above 0 does.
TEST(LayerRegression, FollowsABend) {
  const auto model =
      regression().fit(t4(), decode_points({2, 4, 8}, {4e-3, 10e-3, 25e-3}, 4), nullptr);
  EXPECT_GT(value(*model, "exponent"), 1.15);
  EXPECT_NEAR(model->seconds(decode_query(opt_30b(), 4, 512, 4)) / 10e-3, 1, 0.05);
  // Above the data it is a straight line again.
  const double at_8 = model->seconds(decode_query(opt_30b(), 8, 512, 4));
  const double at_16 = model->seconds(decode_query(opt_30b(), 16, 512, 4));
  const double at_24 = model->seconds(decode_query(opt_30b(), 24, 512, 4));
  EXPECT_NEAR(at_24 - at_16, at_16 - at_8, 1e-12);
}

TEST(LayerRegression, ScalesWithTheMatrices) {
  const auto model = regression().fit(
      v100(),
      {at(prefill_query(opt_30b(), 2, 512, 4), 0.5), at(prefill_query(opt_30b(), 8, 512, 4), 2)},
      nullptr);
  const double parameters = std::pow(9216.0 / 7168, 2);
  EXPECT_NEAR(model->seconds(prefill_query(opt_66b(), 8, 512, 4)), 2 * parameters, 0.02);
  EXPECT_NEAR(model->seconds(prefill_query(opt_13b(), 8, 512, 4)), 2 * std::pow(5.0 / 7, 2), 0.02);
}

TEST(LayerRegression, TellsAttentionFromMatricesByContext) {
  const auto query = [](double context) { return decode_query(opt_30b(), 4, context); };
  const auto model = regression().fit(
      v100(), {at(query(128), 4e-3), at(query(1024), 6.3e-3), at(query(2048), 9e-3)}, nullptr);
  EXPECT_NEAR(model->seconds(query(512)) / 5e-3, 1, 0.04);
  EXPECT_NEAR(model->seconds(query(4096)) / 14.3e-3, 1,
              0.08);  // 2048 tokens beyond the data, and a prior
}

// A step of OPT-30b on V100 whose weights take 1.5 times as long as they must, its products what
// they must, and its attention `share` of the bandwidth.
Sample v100_step(double batch, double context, std::int32_t bitwidth, double share) {
  const LayerShape layer = opt_30b().layer_classes.front();
  double parameters = 0;
  for (const LinearShape& linear : layer.linears) {
    parameters += static_cast<double>(linear.in_features * linear.out_features);
  }
  const Device device = v100();
  const double kv_bytes = 2 * 2 * 7168 * batch * (context + 1);
  return at(decode_query(opt_30b(), batch, context, bitwidth),
            1.5 * parameters * bitwidth / 8 / device.memory_bytes_per_s +
                2 * parameters * batch / device.flop_per_s.at("fp16") +
                kv_bytes / (share * device.memory_bytes_per_s) + 150e-6);
}

// What attention costs in 16-bit decode was read off such rows once, so a fold of them must not be
// told it: whatever their share of the bandwidth, it comes from the rows that are there.
TEST(LayerRegression, AFoldOfSixteenBitDecodeEstimatesAttentionItself) {
  for (const double share : {0.05, 0.14, 0.5}) {
    std::vector<Sample> points;
    for (const double batch : {2., 4., 8.}) points.push_back(v100_step(batch, 512, 16, share));
    const auto predicted = cross_validate(regression(), v100(), points, {0, 1, 2});
    for (std::size_t i = 0; i < points.size(); ++i) {
      EXPECT_NEAR(predicted[i] / points[i].latency_s, 1, 0.01) << share << ", batch " << i;
    }
    const auto model = regression().fit(v100(), points, nullptr);
    EXPECT_NEAR(value(*model, "attention") * share / 0.14, 1, 0.1) << share;
    // So what it says of four times the context rests on the rows and not on the constant.
    const Sample longer = v100_step(8, 2048, 16, share);
    EXPECT_NEAR(model->seconds(longer.query) / longer.latency_s, 1, 0.05) << share;
  }
}

// Products of other bitwidths may grow with the batch as attention does, and contexts that are all
// but alike tell of noise: there the prior stays.
TEST(LayerRegression, OtherwiseAttentionStaysNearItsPrior) {
  std::vector<Sample> points;
  for (const double batch : {2., 4., 8.}) points.push_back(v100_step(batch, 512, 4, 0.05));
  EXPECT_NEAR(value(*regression().fit(v100(), points, nullptr), "attention"), 1, 0.2);
  points = {v100_step(4, 512, 16, 0.14), v100_step(4, 592, 16, 0.14)};
  points.back().latency_s *= 1.1;
  EXPECT_NEAR(value(*regression().fit(v100(), points, nullptr), "attention"), 1, 0.2);
}

TEST(LayerRegression, HalfALayerTellsOfTheWhole) {
  OpQuery half = decode_query(opt_30b(), 4, 0);
  half.name = "self_attn";
  const auto model = regression().fit(v100(), {at(half, 3e-3)}, nullptr);
  EXPECT_NEAR(model->seconds(half), 3e-3, 1e-4);
  half.name = "ffn";
  EXPECT_GT(model->seconds(half), 5e-3);  // twice the weights
  EXPECT_NEAR(model->seconds(decode_query(opt_30b(), 4, 0)), 9e-3, 1e-3);
  half.name = "mlp";
  expect_error(ErrorCode::invalid_argument, {"no part 'mlp'"}, [&] { model->seconds(half); });
}

TEST(LayerRegression, IsNeverFasterThanTheDataSheet) {
  const auto model = regression().fit(t4(), decode_points({4}, {1e-6}), nullptr);
  const OpQuery query = decode_query(opt_30b(), 4, 512);
  EXPECT_EQ(model->seconds(query), work_of(t4(), query).floor_s());
}

// One point of another device moves the whole donor, and keeps its form.
TEST(LayerRegression, ADonorIsScaled) {
  const auto donor =
      regression().fit(v100(), decode_points({2, 4, 8}, {2.4e-3, 2.65e-3, 3.15e-3}), nullptr);
  const auto query = [](double batch) { return decode_query(opt_30b(), batch, 512); };
  const auto own = regression().read(t4(), donor->coefficients(), "");
  const double twice = 2 * own->seconds(query(4));
  const auto model = regression().fit(t4(), {at(query(4), twice)}, donor.get());
  for (const double batch : {2.0, 4.0, 8.0}) {
    EXPECT_NEAR(model->seconds(query(batch)) / own->seconds(query(batch)), 2, 0.15) << batch;
  }
}

TEST(LayerRegression, WithoutPointsTheDonorIsCarriedOverByDataSheet) {
  const auto donor =
      regression().fit(v100(), decode_points({2, 4, 8}, {2e-3, 3e-3, 5e-3}), nullptr);
  Device half = v100();
  half.memory_bytes_per_s /= 2;
  for (auto& [dtype, rate] : half.flop_per_s) rate /= 2;
  const auto model = regression().fit(half, {}, donor.get());
  const OpQuery query = decode_query(opt_30b(), 4, 512);
  EXPECT_NEAR(model->seconds(query), 2 * donor->seconds(query) - value(*donor, "overhead_s"), 1e-9);
}

TEST(LayerRegression, RefusesBadPoints) {
  expect_error(ErrorCode::invalid_argument, {"no samples"},
               [] { regression().fit(t4(), {}, nullptr); });
  expect_error(ErrorCode::out_of_range, {"decode batch_size 2", "latency_s is 0"},
               [] { regression().fit(t4(), decode_points({2}, {0}), nullptr); });
  std::vector<Sample> points = decode_points({2}, {1e-3});
  points[0].query.layer = nullptr;
  expect_error(ErrorCode::out_of_range, {"no model"},
               [&] { regression().fit(t4(), points, nullptr); });
  Device bare = t4();
  bare.flop_per_s = {{"fp32", 8e12}};
  expect_error(ErrorCode::invalid_argument, {"no fp16"},
               [&] { regression().fit(bare, decode_points({2}, {1e-3}), nullptr); });
}

TEST(LayerRegression, RefusesBadCoefficients) {
  const Json good =
      regression().fit(t4(), decode_points({2, 4}, {1e-2, 2e-2}), nullptr)->coefficients();
  const auto reads = [](const Json& json) { return regression().read(t4(), json, "part"); };
  EXPECT_NO_THROW(reads(good));
  Json bad = good;
  bad["products"] = -1;
  expect_error(ErrorCode::out_of_range, {"part: products: -1"}, [&] { reads(bad); });
  bad = good;
  bad["slope"] = 1;
  expect_error(ErrorCode::invalid_argument, {"slope"}, [&] { reads(bad); });
  bad = good;
  for (const char* term : {"weights", "products", "attention", "overhead_s"}) bad[term] = 0;
  expect_error(ErrorCode::out_of_range, {"all terms are 0"}, [&] { reads(bad); });
}

}  // namespace
}  // namespace tessera::cost::layer_regression_test
