// Encoders of pictures and sound beside a decoder, against counts of their modules.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model_files.h"

namespace tessera::towers_test {
namespace {

using test::from_config;
using test::shipped;

// Any decoder: what its file says beside it is what is read.
Json decoder(std::int64_t hidden_size, Json beside) {
  Json config = {{"model_type", "x"},
                 {"text_config",
                  {{"model_type", "llama"},
                   {"hidden_size", hidden_size},
                   {"num_hidden_layers", 2},
                   {"num_attention_heads", 16},
                   {"intermediate_size", 64},
                   {"vocab_size", 64}}}};
  config.update(beside);
  return config;
}

struct Case {
  std::int64_t parameters;  ///< of the modules beside the decoder, transformers 5.24
  std::int64_t hidden_size;
  const char* key;
  Json tower, outer;
};

// Sizes as the classes have them by default, or as models were published with them.
std::vector<Case> cases() {
  const Json siglip = {{"num_hidden_layers", 27},
                       {"hidden_size", 1152},
                       {"intermediate_size", 4304},
                       {"model_type", "siglip_vision_model"}};
  const Json glm = {{"depth", 24},
                    {"hidden_size", 1536},
                    {"intermediate_size", 13696},
                    {"out_hidden_size", 4096},
                    {"spatial_merge_size", 2}};
  const Json clip = {{"num_hidden_layers", 24}, {"hidden_size", 1024}, {"intermediate_size", 4096}};
  const auto qwen = [](std::int64_t depth, const char* width_key, std::int64_t width,
                       std::int64_t ffn) {
    return Json{{"depth", depth},
                {width_key, width},
                {"intermediate_size", ffn},
                {"out_hidden_size", 3584},
                {"spatial_merge_size", 2}};
  };
  Json qwen3 = qwen(27, "hidden_size", 1152, 4304);
  Json early = qwen3;
  early["deepstack_visual_indexes"] = {8, 16, 24};
  Json gemma4 = siglip, llama4 = {{"num_hidden_layers", 34},
                                  {"hidden_size", 1408},
                                  {"intermediate_size", 5632},
                                  {"projector_input_dim", 4096},
                                  {"projector_output_dim", 4096}};
  gemma4["model_type"] = "gemma4_vision";
  Json pixtral = clip;
  pixtral["model_type"] = "pixtral";
  return {
      {675759104,
       8192,
       "vision_config",
       {{"depth", 32},
        {"embed_dim", 1280},
        {"hidden_size", 3584},
        {"mlp_ratio", 4},
        {"spatial_merge_size", 2}},
       {{"model_type", "qwen2_vl"}}},
      {3083025152,
       8192,
       "vision_config",
       qwen(32, "hidden_size", 3584, 3420),
       {{"model_type", "qwen2_5_vl"}}},
      {453650672, 4096, "vision_config", qwen3, {{"model_type", "qwen3_5"}}},
      {566949104, 4096, "vision_config", early, {{"model_type", "qwen3_vl"}}},
      {892498432, 4096, "vision_config", glm, {{"model_type", "glm4v_moe"}}},
      {438298688, 5376, "vision_config", siglip, {{"model_type", "gemma3"}}},
      {540351360, 2304, "vision_config", gemma4, {{"model_type", "gemma4"}}},
      {438958080, 5120, "vision_config", pixtral, {{"model_type", "mistral3"}}},
      {324487168, 4096, "vision_config", clip, {{"model_type", "llava"}}},
      {337509376, 4096, "vision_config", clip, {{"model_type", "internvl"}}},
      {871932416, 5120, "vision_config", llama4, {{"model_type", "llama4"}}},
      {171270144,
       4096,
       "vision_config",
       {{"num_hidden_layers", 12}, {"hidden_size", 1152}, {"intermediate_size", 3072}},
       {{"model_type", "smolvlm"}, {"scale_factor", 2}}},
      {670168832,
       8192,
       "vision_config",
       {{"num_hidden_layers", 27}, {"hidden_size", 1152}, {"intermediate_size", 3072}},
       {{"model_type", "cohere2_vision"},
        {"alignment_intermediate_size", 36864},
        {"downsample_factor", 2}}},
      {865567232,
       6144,
       "vision_config",
       {{"num_hidden_layers", 32},
        {"hidden_size", 1280},
        {"intermediate_size", 5120},
        {"spatial_merge_size", 2}},
       {{"model_type", "minimax_m3_vl"}, {"projector_hidden_size", 6144}}},
      {1981014784,
       4096,
       "vision_config",
       {{"layers", 47}, {"width", 1536}, {"mlp_ratio", 8960.0 / 1536}},
       {{"model_type", "step3p7"}}},
      {642215936,
       4096,
       "audio_config",
       {{"d_model", 1280}, {"encoder_layers", 32}, {"encoder_ffn_dim", 5120}},
       {{"model_type", "qwen2_audio"}}},
      {681348640,
       2048,
       "audio_config",
       {{"conf_num_hidden_layers", 12}, {"hidden_size", 1536}},
       {{"model_type", "gemma3n"}}},
  };
}

TEST(Towers, HoldWhatTheirModulesDoWithinATenth) {
  for (const Case& one : cases()) {
    Json beside = one.outer;
    beside[one.key] = one.tower;
    const ModelShape model = from_config(decoder(one.hidden_size, beside));
    ASSERT_EQ(model.towers.size(), 1U) << one.outer;
    EXPECT_EQ(model.towers[0].name, one.key == std::string("vision_config") ? "vision" : "audio");
    EXPECT_NEAR(static_cast<double>(model.tower_parameters()), static_cast<double>(one.parameters),
                0.1 * static_cast<double>(one.parameters))
        << one.outer;
  }
}

TEST(Towers, OfModelsThatShip) {
  EXPECT_EQ(shipped("llama-3.1-8b").towers.size(), 0U);
  EXPECT_EQ(shipped("devstral-small-24b").towers.size(), 0U);
  EXPECT_EQ(shipped("medgemma-27b-text").towers.size(), 0U);
  // The checkpoints hold so many parameters more than their decoders.
  EXPECT_NEAR(static_cast<double>(shipped("llama-4-scout").tower_parameters()),
              108641793536.0 - 107769861120.0, 0.02 * 871932416);
  EXPECT_NEAR(static_cast<double>(shipped("gemma-3-27b").tower_parameters()),
              27432406640.0 - 27009346304.0, 0.05 * 423060336);
  const ModelShape both = shipped("gemma-3n-e4b");
  ASSERT_EQ(both.towers.size(), 2U);
  EXPECT_EQ(both.towers[1].name, "audio");
  EXPECT_EQ(both.towers[0].parameters, 0);  // a network that is named, its sizes not said
  EXPECT_NEAR(static_cast<double>(both.towers[1].parameters), 681348640, 0.01 * 681348640);
}

TEST(Towers, AreNotThereForClassesOfTextAlone) {
  const Json tower = {{"depth", 2}, {"hidden_size", 8}, {"intermediate_size", 16}};
  Json config = {{"model_type", "llama"},    {"hidden_size", 64},       {"num_hidden_layers", 2},
                 {"num_attention_heads", 4}, {"intermediate_size", 64}, {"vocab_size", 64},
                 {"vision_config", tower}};
  EXPECT_EQ(from_config(config).tower_parameters(), 2 * 8 * (4 * 8 + 2 * 16));
  config["architectures"] = {"LlamaForCausalLM"};
  EXPECT_TRUE(from_config(config).towers.empty());
  config["architectures"] = {"LlamaForConditionalGeneration"};
  EXPECT_EQ(from_config(config).towers.size(), 1U);
}

TEST(Towers, ThatSayNoSizesAreNamed) {
  for (const Json& tower : {Json("x"), Json::array(), Json{{"width", 3}}, Json{{"depth", "3"}},
                            Json{{"depth", 1e300}, {"hidden_size", 8}, {"intermediate_size", 8}},
                            Json{{"depth", -1}, {"hidden_size", 8}, {"intermediate_size", 8}}}) {
    const ModelShape model = from_config(decoder(64, {{"vision_config", tower}}));
    ASSERT_EQ(model.towers.size(), 1U) << tower;
    EXPECT_EQ(model.tower_parameters(), 0) << tower;
  }
  EXPECT_TRUE(from_config(decoder(64, {{"vision_config", nullptr}})).towers.empty());
}

TEST(Towers, ComeBackFromFiles) {
  const ModelShape model = shipped("gemma-3-27b");
  EXPECT_EQ(model_shape_from_json(to_json(model), "test"), model);
}

}  // namespace
}  // namespace tessera::towers_test
