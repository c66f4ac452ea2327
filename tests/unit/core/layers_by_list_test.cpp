// Families whose config.json says layer by layer what they are, or names another family's class.
#include <gmock/gmock.h>

#include <algorithm>

#include "model_files.h"

namespace tessera::layers_by_list_test {
namespace {

using test::error_of;
using test::from_config;
using test::shipped_json;
using ::testing::HasSubstr;

Json config_of(const std::string& name) { return shipped_json(name).at("config"); }

Json with(Json config, const char* key, Json value) {
  config[key] = std::move(value);
  return config;
}

Error refusal(const Json& config) {
  return error_of([&config] { from_config(config); });
}

// Which layers see their chunk alone, and which have experts, by rule or by list.
TEST(ConfigOptions, LayersOfLlama4) {
  const Json config = config_of("llama-4-scout");
  const auto window = [](const Json& of, std::int64_t layer) {
    return from_config(of).layer(layer).attention_window;
  };
  EXPECT_EQ(window(config, 0), 8192);
  EXPECT_EQ(window(config, 3), std::nullopt);
  EXPECT_EQ(from_config(with(config, "no_rope_layers", Json::array())), from_config(config));
  Json turning = Json::array();
  for (int i = 0; i < 48; ++i) turning.push_back(1);
  turning[0] = 0;
  EXPECT_EQ(window(with(config, "no_rope_layers", turning), 0), std::nullopt);
  EXPECT_EQ(window(with(config, "no_rope_layers", turning), 3), 8192);
  EXPECT_EQ(window(with(config, "no_rope_layer_interval", 2), 1), std::nullopt);
  EXPECT_THAT(refusal(with(config, "no_rope_layers", {1, 1})).what(), HasSubstr("no_rope_layers"));
  Json types(48, "chunked_attention");
  EXPECT_EQ(window(with(config, "layer_types", types), 3), 8192);
  const ModelShape listed = from_config(with(config, "moe_layers", {1, 47}));
  for (std::int64_t i = 0; i < listed.num_layers; ++i) {
    const auto has_copies = [](const LinearShape& linear) { return linear.num_copies > 1; };
    EXPECT_EQ(std::ranges::any_of(listed.layer(i).linears, has_copies), i == 1 || i == 47) << i;
  }
  EXPECT_THAT(refusal(with(config, "moe_layers", Json::array({48}))).what(),
              HasSubstr("moe_layers"));
}

// transformers 5 saves some families by the class that it runs them by.
TEST(ConfigOptions, ClassesThatRunOtherFamilies) {
  const Json exaone = config_of("exaone-3.5-7.8b");
  const auto by = [](const Json& config, const char* name) {
    return with(config, "architectures", Json::array({name}));
  };
  EXPECT_EQ(from_config(by(exaone, "LlamaForCausalLM")), from_config(exaone));
  EXPECT_EQ(refusal(by(exaone, "Qwen2ForCausalLM")).code(), ErrorCode::unsupported);
  EXPECT_EQ(refusal(by(config_of("llama-2-7b"), "ExaoneForCausalLM")).code(),
            ErrorCode::unsupported);
}

// Two numbers of each network's activation are learned.
TEST(ConfigOptions, ActivationsOfApertus) {
  EXPECT_EQ(from_config(config_of("apertus-8b")).layer(0).other_parameters, 2 * 4096 + 2 * 128 + 2);
}

// What transformers 5 writes of Kimi Linear in place of linear_attn_config.
TEST(ConfigOptions, LayersOfKimiLinear) {
  Json config = config_of("kimi-linear-48b-a3b");
  const ModelShape published = from_config(config);
  Json types = Json::array();
  for (std::int64_t i = 0; i < published.num_layers; ++i)
    types.push_back(published.layer(i).attends() ? "full_attention" : "linear_attention");
  config.erase("linear_attn_config");
  EXPECT_FALSE(from_config(config).layer(0).attends());
  EXPECT_TRUE(from_config(config).layer(4).attends());
  config["layer_types"] = types;
  EXPECT_EQ(from_config(config), published);
  config["linear_head_dim"] = 64;
  EXPECT_LT(from_config(config).num_parameters(), published.num_parameters());
  config["mlp_layer_types"] = Json(types.size(), "dense");
  EXPECT_EQ(from_config(config).num_active_parameters(), from_config(config).num_parameters());
}

}  // namespace
}  // namespace tessera::layers_by_list_test
