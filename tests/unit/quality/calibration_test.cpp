// Files of statistics against those made from all inputs at once.

#include "tessera/lm/calibration.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "fake_language_model.h"
#include "folder.h"
#include "tessera/quant/statistics.h"

namespace tessera::lm::calibration_test {
namespace {

using fakes::FakeModel;
using tessera::test::expect_error;

class CalibrationTest : public tessera::test::FolderTest {
 protected:
  CalibrationTest() {
    request_.input.token_ids = fakes::random_tokens(100, 1);
    request_.input.name = "random";
    request_.num_samples = 3;
    request_.sample_tokens = 25;
    request_.out = path("statistics.safetensors");
  }

  quant::LinearStatistics expected(std::int64_t layer, std::string_view linear,
                                   std::int64_t features) const {
    std::vector<float> inputs;
    for (std::size_t t = 0; t < 75; ++t) {
      for (std::int64_t j = 0; j < features; ++j)
        inputs.push_back(FakeModel::input_of(layer, linear, request_.input.token_ids[t], j));
    }
    return quant::statistics_of(inputs.data(), 75, features, true);
  }

  FakeModel model_;
  CalibrationRequest request_;
};

TEST_F(CalibrationTest, WritesWhatTheMatricesRead) {
  request_.with_hessian = true;
  std::vector<std::int64_t> done;
  request_.progress = [&](std::int64_t now, std::int64_t total) {
    EXPECT_EQ(total, 3);
    done.push_back(now);
  };
  const Calibration written = calibrate(model_, request_);
  EXPECT_EQ(done, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(written.num_inputs, 3 * 4);
  EXPECT_EQ(written.num_tokens, 75);
  const quant::Statistics file = quant::Statistics::open(request_.out);
  EXPECT_EQ(file.model(), "fake");
  EXPECT_EQ(file.source(), "random, 3 pieces of 25 tokens, tessera");
  EXPECT_EQ(file.num_tokens(), 75);
  EXPECT_EQ(file.num_samples(), 3);
  EXPECT_EQ(file.num_layers(), 3);
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    for (const LinearShape& linear : model_.shape().layer(layer).linears) {
      std::string owner = linear.name;
      if (owner == "k_proj" || owner == "v_proj") owner = "q_proj";
      if (owner == "up_proj") owner = "gate_proj";
      const auto found = file.find(layer, linear.name);
      ASSERT_TRUE(found) << linear.name;
      const auto own = expected(layer, owner, linear.in_features);
      EXPECT_TRUE(found->mean.isApprox(own.mean, 1e-5f)) << layer << linear.name;
      EXPECT_TRUE(found->variance.isApprox(own.variance, 1e-5f));
      EXPECT_TRUE(found->abs_mean.isApprox(own.abs_mean, 1e-5f));
      EXPECT_EQ(found->abs_max, own.abs_max);
      EXPECT_NEAR(found->token_variance, own.token_variance, 1e-6);
      EXPECT_NEAR(found->token_mean_square, own.token_mean_square, 1e-6);
      EXPECT_TRUE(found->hessian->isApprox(*own.hessian, 1e-5f));
    }
  }
}

TEST_F(CalibrationTest, IsTheSameALayerAtATime) {
  request_.with_hessian = true;
  calibrate(model_, request_);
  const std::string whole = read(request_.out);
  for (const std::int64_t layers : {1, 2, 5}) {
    request_.layers_at_once = layers;
    std::int64_t last = 0;
    request_.progress = [&](std::int64_t now, std::int64_t total) {
      EXPECT_EQ(total, 3 * ((3 + layers - 1) / layers));
      last = now;
    };
    calibrate(model_, request_);
    EXPECT_EQ(read(request_.out), whole) << layers;
    EXPECT_EQ(last, 3 * ((3 + layers - 1) / layers));
  }
}

TEST_F(CalibrationTest, LeavesHessiansOutUnlessAsked) {
  calibrate(model_, request_);
  const quant::Statistics file = quant::Statistics::open(request_.out);
  ASSERT_TRUE(file.find(2, "down_proj"));
  EXPECT_FALSE(file.find(2, "down_proj")->hessian);
}

TEST_F(CalibrationTest, WritesNothingWhereItFails) {
  const auto refused = [&](ErrorCode code, const std::vector<std::string>& parts, auto change) {
    CalibrationRequest request = request_;
    change(request);
    expect_error(code, parts, [&] { calibrate(model_, request); });
    EXPECT_EQ(num_files(), 0u);
  };
  const auto range = ErrorCode::out_of_range, invalid = ErrorCode::invalid_argument;
  refused(invalid, {"out", "empty"}, [](auto& r) { r.out = ""; });
  refused(range, {"num_samples"}, [](auto& r) { r.num_samples = 0; });
  refused(range, {"sample_tokens"}, [](auto& r) { r.sample_tokens = 0; });
  refused(range, {"layers_at_once"}, [](auto& r) { r.layers_at_once = -1; });
  refused(invalid, {"random", "100 tokens", "5 pieces of 25 take 125"},
          [](auto& r) { r.num_samples = 5; });
  refused(ErrorCode::not_found, {"nowhere"},
          [&](auto& r) { r.out = path("nowhere/statistics.safetensors"); });
  const std::atomic<bool> stop = true;
  refused(ErrorCode::interrupted, {"0 samples"}, [&](auto& r) { r.stop = &stop; });
  const FakeModel experts({.with_experts = true});
  expect_error(invalid, {"layer 0 experts.down_proj", "no token", "num_samples"},
               [&] { calibrate(experts, request_); });
  EXPECT_EQ(num_files(), 0u);
}

}  // namespace
}  // namespace tessera::lm::calibration_test
