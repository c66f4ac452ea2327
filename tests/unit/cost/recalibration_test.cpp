// What runs say of prices: the factor of each phase, its error, and that prices take it.
#include "tessera/cost/recalibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/core/cluster.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/model_shape.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/cost/collectives.h"
#include "tessera/cost/kernel_set.h"
#include "tessera/cost/stage_price.h"

namespace tessera::cost::recalibration_test {
namespace {

using ::testing::HasSubstr;

const DataFolders& datasets() {
  static const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return folders;
}

ModelShape model(const std::string& name) {
  return model_from_json(read_json_file(datasets().require("models", name)), name);
}

TEST(Recalibration, FitsTheGeometricMean) {
  EXPECT_EQ(fit_ratios({}).factor, 1);
  const RatioFit one = fit_ratios({1.3});
  EXPECT_DOUBLE_EQ(one.factor, 1.3);
  EXPECT_FALSE(one.error());
  const RatioFit two = fit_ratios({1, 4});
  EXPECT_DOUBLE_EQ(two.factor, 2);
  EXPECT_DOUBLE_EQ(*two.error(), std::sqrt(2.0) * std::log(2.0));
  const RatioFit three = fit_ratios({2, 2, 4});
  EXPECT_NEAR(three.factor, std::cbrt(16.0), 1e-12);
  EXPECT_NEAR(*three.error(), 1, 1e-12);  // 4, by two that say 2
}

TEST(Recalibration, IsAFieldOfAKernelSetFile) {
  KernelSet set = find_kernel_set("vllm", datasets());
  set.recalibration = Recalibration{"vllm", "m", {"L4"}, {1.5, 1.5}, {0.5}};
  const KernelSet back = kernel_set_from_json(to_json(set), "set");
  EXPECT_EQ(to_json(back), to_json(set));
  EXPECT_EQ(back.recalibration->text(),
            "prefill x 1.5 by 2 runs, decode x 0.5 by 1 run of m on L4, 0 % off");
  const auto refusal = [&](Json recalibration) {
    Json json = to_json(set);
    json["recalibration"] = std::move(recalibration);
    try {
      kernel_set_from_json(json, "set");
    } catch (const Error& error) {
      return std::string(error.message());
    }
    return std::string();
  };
  EXPECT_THAT(refusal({{"of", "vllm"}, {"model", "m"}, {"devices", {"L4"}}}),
              HasSubstr("no ratio of any run"));
  EXPECT_THAT(
      refusal({{"of", "vllm"}, {"model", "m"}, {"devices", {"L4"}}, {"decode_ratios", {0}}}),
      HasSubstr("decode_ratios"));
  EXPECT_THAT(refusal({{"of", "vllm"}, {"devices", {"L4"}}, {"decode_ratios", {1}}}),
              HasSubstr("model"));
  EXPECT_THAT(
      refusal({{"of", "vllm"}, {"model", "m"}, {"devices", Json::array()}, {"decode_ratios", {1}}}),
      HasSubstr("names none"));
}

TEST(Recalibration, IsOfOneModelAndOfDevices) {
  const Recalibration runs{"vllm", "opt-125m", {"A100-80G"}, {}, {2}};
  runs.check_is_of(model("opt-125m"), "kernel_set");
  runs.check_ran_on(find_cluster("A100-80G+T4-16G", datasets()), "kernel_set");
  const auto refusal = [](const auto& check) {
    try {
      check();
    } catch (const Error& error) {
      return std::string(error.message());
    }
    return std::string();
  };
  EXPECT_THAT(refusal([&] { runs.check_is_of(model("opt-1.3b"), "kernel_set"); }),
              HasSubstr("runs of opt-125m corrected it, which say nothing of opt-1.3b"));
  EXPECT_THAT(
      refusal([&] { runs.check_ran_on(find_cluster("2xT4-16G", datasets()), "kernel_set"); }),
      HasSubstr("runs on A100-80G corrected it, of which the cluster has none"));
}

TEST(Recalibration, ScalesThePricesOfItsPhase) {
  PricingContext plain = pricing_context(
      model("opt-125m"), find_cluster("2xA100-80G+T4-16G", datasets()), {16}, "vllm", datasets());
  PricingContext corrected = plain;
  corrected.kernel_set.recalibration = Recalibration{"vllm", "opt-125m", {"A100-80G"}, {3}, {2}};
  const auto before = make_stage_price(plain, {0}, 16),
             after = make_stage_price(corrected, {0}, 16);
  const LayerShape& layer = plain.model.layer_classes.front();
  for (const auto& [work, factor] : {std::pair{LayerWork{Phase::prefill, 1, 512, 0}, 3.0},
                                     std::pair{LayerWork{Phase::decode, 8, 1, 512}, 2.0}}) {
    EXPECT_DOUBLE_EQ(after->layer_s(layer, 16, work), factor * before->layer_s(layer, 16, work));
    EXPECT_DOUBLE_EQ(after->attention_s(layer, 16, work),
                     factor * before->attention_s(layer, 16, work));
  }
  EXPECT_DOUBLE_EQ(after->head_s(8), 2 * before->head_s(8));
  EXPECT_DOUBLE_EQ(after->embedding_s(8), 2 * before->embedding_s(8));
  EXPECT_DOUBLE_EQ(after->host_s(8, 8), 2 * before->host_s(8, 8));
  EXPECT_DOUBLE_EQ(after->host_s(1, 512), 3 * before->host_s(1, 512));
  const LayerWork step{Phase::decode, 8, 1, 512};  // on a device that did not run
  EXPECT_EQ(make_stage_price(corrected, {2}, 16)->layer_s(layer, 16, step),
            make_stage_price(plain, {2}, 16)->layer_s(layer, 16, step));
  const Link link = slowest_link(plain.cluster, {0}, {1});
  EXPECT_EQ(after->hop_s(8, link), before->hop_s(8, link));  // what links take stays
}

}  // namespace
}  // namespace tessera::cost::recalibration_test
