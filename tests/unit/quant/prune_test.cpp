// Pruned copies of a model: which weights go, what stays as it was, and what is refused.

#include "tessera/quant/prune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/model_shape.h"
#include "tessera/weights/weights.h"
#include "tiny_llama.h"

namespace tessera::quant::prune_cases {
namespace {

using test::expect_error;
using test::TinyLlama;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t kHeadDim = 16, kKvHeads = 2;

class PruneTest : public test::FolderTest {
 protected:
  PruneTest() {
    TinyLlama tiny(11);
    tiny.write(path("tiny"));
    tiny.write_statistics(path("statistics"));
  }

  PruneRequest request(PruneMethod method, std::optional<double> ratio = {}) const {
    PruneRequest made;
    made.model = path("tiny");
    made.method = method;
    made.ratio = ratio;
    made.statistics = path("statistics");
    made.out = path("out");
    return made;
  }

  Matrix read(const char* folder, const std::string& name) const {
    const auto file = weights::Weights::open(path(folder));
    const weights::TensorInfo& tensor = file->require(name);
    Matrix out(tensor.shape[0], tensor.shape.size() > 1 ? tensor.shape[1] : 1);
    weights::read_f32(*file, tensor, 0, {out.data(), static_cast<std::size_t>(out.size())});
    return out;
  }

  Eigen::VectorXf square(std::int64_t layer, const char* linear) const {
    return Statistics::open(path("statistics")).find(layer, linear)->mean_square();
  }

  // The inputs of a matrix by the energy that they add, in groups; the `count` largest, in order.
  std::vector<std::int64_t> strongest(std::int64_t layer, const char* linear,
                                      const std::string& name, std::int64_t width,
                                      std::int64_t count) const {
    const Matrix weight = read("tiny", name);
    const Eigen::VectorXf squares = square(layer, linear);
    std::vector<std::pair<double, std::int64_t>> sums;
    for (std::int64_t g = 0; g < weight.cols() / width; ++g) {
      double sum = 0;
      for (std::int64_t c = g * width; c < (g + 1) * width; ++c)
        sum += static_cast<double>(weight.col(c).squaredNorm()) * static_cast<double>(squares[c]);
      sums.emplace_back(-sum, g);
    }
    std::sort(sums.begin(), sums.end());
    std::vector<std::int64_t> kept;
    for (std::int64_t i = 0; i < count; ++i)
      kept.push_back(sums[static_cast<std::size_t>(i)].second);
    std::sort(kept.begin(), kept.end());
    return kept;
  }

  static std::vector<std::int64_t> widened(const std::vector<std::int64_t>& kept,
                                           std::int64_t width) {
    std::vector<std::int64_t> all;
    for (const std::int64_t g : kept) {
      for (std::int64_t i = 0; i < width; ++i) all.push_back(g * width + i);
    }
    return all;
  }
};

TEST_F(PruneTest, WandaKeepsOfEveryGroupWhatCountsMost) {
  for (const auto& [method, group] :
       {std::pair{PruneMethod::wanda_2_4, 4}, std::pair{PruneMethod::wanda_4_8, 8}}) {
    const PruneSummary summary = prune_model(request(method));
    EXPECT_EQ(summary.ratio, 0.5);
    EXPECT_EQ(summary.bytes_after, summary.bytes_before);
    for (const auto& [linear, stored] :
         {std::pair{"k_proj", "self_attn.k_proj"}, std::pair{"down_proj", "mlp.down_proj"},
          std::pair{"up_proj", "mlp.up_proj"}}) {
      const std::string name = std::string("model.layers.1.") + stored + ".weight";
      const Matrix before = read("tiny", name), after = read("out", name);
      const Eigen::VectorXf norm = square(1, linear).cwiseSqrt();
      for (std::int64_t r = 0; r < before.rows(); ++r) {
        for (std::int64_t c = 0; c < before.cols(); ++c) {
          const auto score = [&](std::int64_t k) { return std::abs(before(r, k)) * norm[k]; };
          std::int64_t above = 0;
          for (std::int64_t k = c / group * group; k < (c / group + 1) * group; ++k)
            above += score(k) > score(c) || (score(k) == score(c) && k < c) ? 1 : 0;
          ASSERT_EQ(after(r, c), above < group / 2 ? before(r, c) : 0.0f) << name << r << " " << c;
        }
      }
    }
    for (const char* name : {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"})
      EXPECT_EQ(read("tiny", name), read("out", name));
    EXPECT_EQ(read_json_file(path("out/config.json")), read_json_file(path("tiny/config.json")));
    EXPECT_EQ(FolderTest::read(path("out/tokenizer.json")), "{\"version\": \"1.0\"}");
    std::filesystem::remove_all(path("out"));
  }
}

TEST_F(PruneTest, StructuresGoWithAllThatBelongsToThem) {
  // Half of the KV heads with their queries, and of the channels what makes half of the weights.
  const PruneSummary summary = prune_model(request(PruneMethod::structured, 0.5));
  EXPECT_NEAR(summary.ratio, 0.5, 0.01);
  EXPECT_EQ(summary.num_kv_heads, 1);
  EXPECT_EQ(summary.num_heads, 2);
  EXPECT_EQ(summary.ffn_size, TinyLlama::kFfn / 2);
  const Json config = read_json_file(path("out/config.json"));
  EXPECT_EQ(config["intermediate_size"], TinyLlama::kFfn / 2);
  EXPECT_EQ(config["head_dim"], kHeadDim);
  const ModelShape shape = weights::model_of(*weights::Weights::open(path("out")));
  EXPECT_EQ(shape.num_heads, 2);
  EXPECT_LT(summary.bytes_after, summary.bytes_before);
  for (std::int64_t layer = 0; layer < TinyLlama::kLayers; ++layer) {
    const std::string block = "model.layers." + std::to_string(layer) + ".";
    const auto channels =
        strongest(layer, "down_proj", block + "mlp.down_proj.weight", 1, TinyLlama::kFfn / 2);
    const auto groups =
        strongest(layer, "o_proj", block + "self_attn.o_proj.weight", 2 * kHeadDim, kKvHeads / 2);
    const auto queries = widened(groups, 2 * kHeadDim), keys = widened(groups, kHeadDim);
    const auto same = [&](const std::string& name, const std::vector<std::int64_t>& rows,
                          const std::vector<std::int64_t>& columns) {
      const Matrix before = read("tiny", block + name), after = read("out", block + name);
      if (!rows.empty()) return Matrix(before(rows, Eigen::indexing::all)) == after;
      return Matrix(before(Eigen::indexing::all, columns)) == after;
    };
    EXPECT_TRUE(same("self_attn.q_proj.weight", queries, {}));
    EXPECT_TRUE(same("self_attn.k_proj.weight", keys, {}));
    EXPECT_TRUE(same("self_attn.v_proj.weight", keys, {}));
    EXPECT_TRUE(same("self_attn.o_proj.weight", {}, queries));
    EXPECT_TRUE(same("mlp.gate_proj.weight", channels, {}));
    EXPECT_TRUE(same("mlp.up_proj.weight", channels, {}));
    EXPECT_TRUE(same("mlp.down_proj.weight", {}, channels));
    EXPECT_EQ(read("tiny", block + "input_layernorm.weight"),
              read("out", block + "input_layernorm.weight"));
  }
}

TEST_F(PruneTest, ComesNearTheRatio) {
  for (const double ratio : {0.05, 0.25, 0.4, 0.75}) {
    const PruneSummary summary = prune_model(request(PruneMethod::structured, ratio));
    EXPECT_NEAR(summary.ratio, ratio, 0.01) << ratio;
    std::filesystem::remove_all(path("out"));
  }
}

TEST_F(PruneTest, RefusesWhatCannotBe) {
  const auto refused = [&](const PruneRequest& given, ErrorCode code, const char* text) {
    expect_error(code, {text}, [&] { prune_model(given); });
    EXPECT_FALSE(std::filesystem::exists(path("out")));
  };
  for (const double ratio : {0.0, 1.0, -0.5, 2.0}) {
    refused(request(PruneMethod::structured, ratio), ErrorCode::out_of_range,
            "above 0 and below 1");
  }
  refused(request(PruneMethod::structured, 0.999), ErrorCode::out_of_range, "at most");
  refused(request(PruneMethod::wanda_2_4, 0.3), ErrorCode::out_of_range, "half");
  PruneRequest given = request(PruneMethod::wanda_4_8);
  given.statistics = "";
  refused(given, ErrorCode::invalid_argument, "calibration file");
  TinyLlama(3).write_statistics(path("two_layers"), 2);
  given.statistics = path("two_layers");
  refused(given, ErrorCode::invalid_argument, "2 layers");
  given = request(PruneMethod::wanda_2_4);
  given.model = path("nothing");
  refused(given, ErrorCode::not_found, "nothing");
  std::filesystem::create_directories(path("full"));
  write_file(path("full/file"), "here");
  given = request(PruneMethod::wanda_2_4);
  given.out = path("full");
  refused(given, ErrorCode::io, "is there already");
  given.out = path("tiny");
  refused(given, ErrorCode::io, "is there already");
  given = request(PruneMethod::wanda_2_4);
  given.progress = [](std::int64_t done, std::int64_t) {
    if (done == 5) throw Error(ErrorCode::interrupted, "stopped");
  };
  refused(given, ErrorCode::interrupted, "stopped");
}

}  // namespace
}  // namespace tessera::quant::prune_cases
