// Calibration statistics: made from inputs, and read from files of any kind.

#include "tessera/quant/statistics.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "expect_error.h"
#include "folder.h"
#include "tiny_llama.h"

namespace tessera::quant::statistics_test {
namespace {

using test::expect_error;
using test::RowMatrix;

TEST(StatisticsOf, AreWhatTheirNamesSay) {
  const RowMatrix x = (RowMatrix(2, 3) << 1, -2, 0, 3, 4, 0).finished();
  const LinearStatistics s = test::statistics_of(x);
  EXPECT_EQ(s.num_tokens, 2);
  EXPECT_EQ(s.mean, Eigen::Vector3f(2, 1, 0));
  EXPECT_EQ(s.variance, Eigen::Vector3f(1, 9, 0));
  EXPECT_EQ(s.abs_mean, Eigen::Vector3f(2, 3, 0));
  EXPECT_EQ(s.abs_max, Eigen::Vector3f(3, 4, 0));
  EXPECT_EQ(s.mean_square(), Eigen::Vector3f(5, 10, 0));
  EXPECT_TRUE(s.hessian->isApprox(x.transpose() * x / 2));
  EXPECT_NEAR(s.token_variance, ((14.0 / 9) + (26.0 / 9)) / 2, 1e-12);
  EXPECT_NEAR(s.token_mean_square, (5.0 / 3 + 25.0 / 3) / 2, 1e-12);
}

TEST(InputSums, AreTheSameInBatches) {
  Rng rng(3);
  const RowMatrix x = test::random_inputs(700, 300, rng);
  const LinearStatistics whole = test::statistics_of(x);
  InputSums sums(300, true);
  std::int64_t first = 0;
  for (const std::int64_t count : {1, 0, 255, 400, 44}) {
    sums.add(x.data() + first * 300, count);
    first += count;
  }
  const LinearStatistics s = std::move(sums).statistics();
  EXPECT_EQ(s.num_tokens, 700);
  EXPECT_TRUE(s.mean.isApprox(whole.mean, 1e-6f));
  EXPECT_TRUE(s.variance.isApprox(whole.variance, 1e-6f));
  EXPECT_EQ(s.abs_max, whole.abs_max);
  EXPECT_NEAR(s.token_variance, whole.token_variance, 1e-9);
  EXPECT_TRUE(s.hessian->isApprox(*whole.hessian, 1e-5f));
  EXPECT_EQ(*s.hessian, s.hessian->transpose());
  EXPECT_TRUE(s.hessian->isApprox(x.transpose() * x / 700, 1e-5f));
}

class StatisticsTest : public test::FolderTest {
 protected:
  struct Stored {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
    weights::DType dtype = weights::DType::f32;
  };
  std::map<std::string, Stored> tensors_ = {{"layers.0.q_proj.mean", {{2}, {1, 2}}},
                                            {"layers.0.q_proj.variance", {{2}, {1, 0}}},
                                            {"layers.0.q_proj.abs_mean", {{2}, {1, 2}}},
                                            {"layers.0.q_proj.abs_max", {{2}, {3, 2}}},
                                            {"layers.0.q_proj.token_variance", {{1}, {4}}},
                                            {"layers.0.q_proj.token_mean_square", {{1}, {5}}},
                                            {"layers.0.q_proj.hessian", {{2, 2}, {2, 1, 1, 4}}}};
  std::map<std::string, std::string> metadata_ = {{"format", "tessera.activation_statistics/1"},
                                                  {"model", "m"},
                                                  {"source", "text"},
                                                  {"num_tokens", "10"},
                                                  {"num_samples", "2"},
                                                  {"alias:layers.0.k_proj", "layers.0.q_proj"}};

  std::string write() {
    std::vector<weights::TensorSpec> specs;
    for (const auto& [name, t] : tensors_) specs.push_back({name, t.dtype, t.shape});
    weights::SafetensorsWriter writer(path("s.safetensors"), specs, {.metadata = metadata_});
    for (const auto& [name, t] : tensors_) writer.append(name, std::as_bytes(std::span(t.values)));
    writer.finish();
    return path("s.safetensors");
  }

  void refused(const std::vector<std::string>& parts, const std::function<void()>& change,
               ErrorCode code = ErrorCode::invalid_argument) {
    const auto tensors = tensors_;
    const auto metadata = metadata_;
    change();
    expect_error(code, parts, [&] { Statistics::open(write()).find(0, "q_proj"); });
    tensors_ = tensors;
    metadata_ = metadata;
  }
};

TEST_F(StatisticsTest, ReadsWhatIsThereAndAliases) {
  const Statistics file = Statistics::open(write());
  EXPECT_EQ(file.num_tokens(), 10);
  EXPECT_EQ(file.num_layers(), 1);
  EXPECT_EQ(file.model(), "m");
  for (const char* linear : {"q_proj", "k_proj"}) {
    const auto found = file.find(0, linear);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->mean, Eigen::Vector2f(1, 2));
    EXPECT_EQ((*found->hessian)(0, 1), 1);
    EXPECT_EQ(found->token_mean_square, 5);
  }
  EXPECT_FALSE(file.find(0, "q_proj", false)->hessian);
  EXPECT_FALSE(file.find(0, "v_proj"));
  EXPECT_FALSE(file.find(1, "q_proj"));
  tensors_.erase("layers.0.q_proj.hessian");
  EXPECT_FALSE(Statistics::open(write()).find(0, "q_proj")->hessian);
}

TEST_F(StatisticsTest, RefusesWhatCannotBeStatistics) {
  const std::string q = "layers.0.q_proj.";
  refused({"'format' is absent"}, [&] { metadata_.erase("format"); });
  refused(
      {"'tessera.activation_statistics/2'"},
      [&] { metadata_["format"] = "tessera.activation_statistics/2"; }, ErrorCode::unsupported);
  refused({"'num_tokens' is '-3'", "at least 1"}, [&] { metadata_["num_tokens"] = "-3"; });
  refused({"'num_samples' is absent"}, [&] { metadata_.erase("num_samples"); });
  refused({"alias:layers.0.k_proj", "does not hold"},
          [&] { metadata_["alias:layers.0.k_proj"] = "layers.7.q_proj"; });
  refused({"stored and an alias"}, [&] { metadata_["alias:layers.0.q_proj"] = "layers.0.q_proj"; });
  refused({"unknown statistic 'means'", "did you mean 'mean'"}, [&] {
    tensors_[q + "means"] = {{2}, {1, 2}};
  });
  refused({"is not named as"}, [&] { tensors_["lm_head.mean"] = {{2}, {1, 2}}; });
  refused({"'layers.0.q_proj.variance' is missing"}, [&] { tensors_.erase(q + "variance"); });
  refused({"variance[1] is -1", "not below 0"}, [&] { tensors_[q + "variance"].values[1] = -1; });
  refused({"mean[0] is nan"}, [&] { tensors_[q + "mean"].values[0] = std::nanf(""); });
  refused({"abs_max has 3 numbers, 2 belong"}, [&] { tensors_[q + "abs_max"] = {{3}, {1, 2, 3}}; });
  refused({"is not symmetric"}, [&] { tensors_[q + "hessian"].values[1] = 2; });
  refused({"hessian[3] is -4"}, [&] { tensors_[q + "hessian"].values[3] = -4; });
  refused({"[2, 2] belongs there"}, [&] { tensors_[q + "hessian"] = {{1, 4}, {1, 2, 3, 4}}; });
  refused({"is I32", "F32 with 1 dimension"},
          [&] { tensors_[q + "mean"].dtype = weights::DType::i32; });
  expect_error(ErrorCode::not_found, {"absent"}, [&] { Statistics::open(path("absent")); });
}

}  // namespace
}  // namespace tessera::quant::statistics_test
