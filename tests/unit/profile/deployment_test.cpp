#include "tessera/profile/deployment.h"

#include <gtest/gtest.h>

#include "decoder.h"
#include "model_files.h"
#include "tessera/lm/backend.h"
#include "tessera/profile/random_model.h"

namespace tessera::profile::deployment_cases {
namespace {

constexpr std::int64_t kLayers = 6, kHidden = 96, kKv = 2 * 16, kFfn = 160, kVocab = 320;

ModelShape shape() {
  return test::from_config(Json{{"model_type", "llama"},
                                {"hidden_size", kHidden},
                                {"intermediate_size", kFfn},
                                {"num_hidden_layers", kLayers},
                                {"num_attention_heads", 6},
                                {"num_key_value_heads", 2},
                                {"max_position_embeddings", 128},
                                {"vocab_size", kVocab}});
}

class MeasuredDeployment : public ::testing::Test {
 protected:
  Deployment measure(const DeploymentRequest& request, std::int32_t kv_bitwidth = 16) {
    lm::LoadRequest base{.path = model_.path(),
                         .dtype = kernels::Real::bf16,
                         .kv_bitwidth = kv_bitwidth,
                         .num_threads = 1};
    return measure_deployment(base, shape_, request, [](const lm::LoadRequest& part) {
      return lm::Decoder::load(part, lm::make_cpu_backend(1));
    });
  }

  const ModelShape shape_ = shape();
  const RandomModel model_{shape_, kLayers};
};

TEST_F(MeasuredDeployment, CountsWeightsAndCacheByLayer) {
  const Deployment one = measure({.num_layers = 1, .prompt_tokens = 30});
  const Deployment two = measure({.num_layers = 2, .prompt_tokens = 30});
  const std::int64_t matrices = 2 * kHidden * kHidden + 2 * kHidden * kKv + 3 * kHidden * kFfn;
  // Norms are f32, and the cache's two blocks of 16 tokens hold 31.
  EXPECT_EQ(two.weight_bytes - one.weight_bytes, 2 * matrices + 2 * 4 * kHidden);
  EXPECT_EQ(one.weight_bytes, 2 * matrices + 2 * kVocab * kHidden + 3 * 4 * kHidden);
  EXPECT_EQ(one.kv_cache_bytes, 32 * 2 * kKv * 2);
  EXPECT_EQ(two.kv_cache_bytes, 2 * one.kv_cache_bytes);
  const Deployment roomy = measure({.num_layers = 1, .prompt_tokens = 30, .cache_tokens = 60});
  EXPECT_EQ(roomy.kv_cache_bytes, 64 * 2 * kKv * 2);
  EXPECT_EQ(two.scratch_bytes, one.scratch_bytes);
  // Hidden states three times, attention's and the network's, at the least, of 30 tokens.
  const std::int64_t least = 30 * 4 * (3 * kHidden + 2 * kHidden + 2 * kKv + 2 * kFfn);
  EXPECT_GE(one.scratch_bytes, least);
  EXPECT_LE(one.scratch_bytes, least + 20000);
  EXPECT_TRUE(one.latency_s.empty());
  EXPECT_FALSE(one.emulated);
}

TEST_F(MeasuredDeployment, OfStagesAndRanksAddsUp) {
  const Deployment whole = measure({.num_layers = 4, .prompt_tokens = 20});
  const Deployment stages = measure({.num_layers = 4, .pipeline_parallel = 2, .prompt_tokens = 20});
  EXPECT_EQ(stages.weight_bytes, whole.weight_bytes);
  EXPECT_EQ(stages.kv_cache_bytes, whole.kv_cache_bytes);
  EXPECT_EQ(stages.scratch_bytes, 2 * whole.scratch_bytes);
  const Deployment ranks = measure({.num_layers = 4, .tensor_parallel = 2, .prompt_tokens = 20});
  EXPECT_EQ(ranks.kv_cache_bytes, whole.kv_cache_bytes);
  EXPECT_EQ(ranks.weight_bytes, whole.weight_bytes + 4 * 2 * 4 * kHidden);  // norms twice
  EXPECT_GT(ranks.scratch_bytes, whole.scratch_bytes);
  EXPECT_LT(ranks.scratch_bytes, 2 * whole.scratch_bytes);
  EXPECT_TRUE(ranks.emulated);
}

TEST_F(MeasuredDeployment, CountsAStageWithoutLayersLikeOneWithThem) {
  const Deployment one = measure({.num_layers = 1, .pipeline_parallel = 2, .prompt_tokens = 20});
  const Deployment two = measure({.num_layers = 2, .pipeline_parallel = 2, .prompt_tokens = 20});
  EXPECT_EQ(one.scratch_bytes, two.scratch_bytes);
}

TEST_F(MeasuredDeployment, HalvesTheCacheAtEightBits) {
  const Deployment half = measure({.num_layers = 2, .prompt_tokens = 30}, 8);
  EXPECT_EQ(half.kv_cache_bytes, 2 * 32 * 2 * (kKv + 2 * 4));  // a scale for each head
}

TEST_F(MeasuredDeployment, TimesTheLengthsThatAreAskedFor) {
  for (const Counted counted : {Counted::wall, Counted::processor}) {
    const Deployment found = measure(
        {.num_layers = 2, .prompt_tokens = 8, .output_tokens = {64, 1}, .counted = counted});
    ASSERT_EQ(found.latency_s.size(), 2u);
    EXPECT_GT(found.latency_s[1], 0);
    EXPECT_GT(found.latency_s[0], found.latency_s[1]);
    EXPECT_LT(found.latency_s[0], 60);
  }
}

TEST_F(MeasuredDeployment, RefusesWhatTheModelHasNot) {
  const auto refused = [&](const DeploymentRequest& request) {
    return test::error_of([&] { measure(request); }).code();
  };
  EXPECT_EQ(refused({.num_layers = kLayers + 1}), ErrorCode::out_of_range);
  EXPECT_EQ(refused({.num_layers = 2, .prompt_tokens = 100, .output_tokens = {30}}),
            ErrorCode::out_of_range);
  EXPECT_EQ(refused({.num_layers = 2, .tensor_parallel = 4, .prompt_tokens = 8}),
            ErrorCode::out_of_range);
  EXPECT_EQ(refused({.num_layers = 2, .prompt_tokens = 8, .interrupted = [] { return true; }}),
            ErrorCode::interrupted);
}

}  // namespace
}  // namespace tessera::profile::deployment_cases
