// Shapes and counts of the shipped architectures, against published figures and against counts
// made by hand.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include "case_name.h"
#include "model_files.h"
#include "tessera/core/arithmetic.h"

namespace tessera::models_test {
namespace {

using test::shipped;
using test::shipped_json;
using ::testing::HasSubstr;

double relative_difference(std::int64_t derived, double published) {
  return std::fabs(static_cast<double>(derived) - published) / published;
}

class ShippedModel : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Files, ShippedModel, ::testing::ValuesIn(test::shipped_names()),
                         test::case_name);

TEST_P(ShippedModel, AgreesWithPublishedParameterCount) {
  const Json file = shipped_json(GetParam());
  const ModelShape model = shipped(GetParam());
  EXPECT_EQ(model.name, GetParam());
  EXPECT_FALSE(file.at("parameters_source").get<std::string>().empty());
  const double published = file.at("published_parameters").get<double>();
  EXPECT_LE(relative_difference(model.num_parameters(), published), 0.005)
      << model.num_parameters() << " derived, " << published << " published";
  const double active = file.value("published_active_parameters", published);
  EXPECT_LE(relative_difference(model.num_active_parameters(), active), 0.005)
      << model.num_active_parameters() << " derived, " << active << " published";
}

TEST_P(ShippedModel, SurvivesItsJsonForm) {
  const ModelShape model = shipped(GetParam());
  const Json json = to_json(model);
  EXPECT_EQ(model_shape_from_json(json, "plan.json: model"), model);
  EXPECT_EQ(model_shape_from_json(parse_json(json.dump(), "text"), "plan.json: model"), model);
}

TEST_P(ShippedModel, IsWholeAndConsistent) {
  const ModelShape model = shipped(GetParam());
  EXPECT_EQ(model.layer_class.size(), static_cast<std::size_t>(model.num_layers));
  EXPECT_THAT(model.source, HasSubstr("https://"));
  EXPECT_GT(model.num_parameters(), 0);
  EXPECT_LE(model.num_active_parameters(), model.num_parameters());
  bool experts = false;
  for (const LayerShape& layer : model.layer_classes) {
    experts = experts || std::any_of(layer.linears.begin(), layer.linears.end(),
                                     [](const auto& linear) { return linear.num_copies > 1; });
  }
  EXPECT_EQ(model.num_active_parameters() < model.num_parameters(), experts);
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const LayerShape& layer = model.layer(i);
    EXPECT_EQ(layer.num_heads % std::max<std::int64_t>(layer.num_kv_heads, 1), 0);
    EXPECT_FALSE(kind_of(layer).empty()) << i;
  }
}

TEST(ShippedModels, AreTheOnesPromised) {
  const std::vector<std::string> names = test::shipped_names();
  for (const char* name :
       {"opt-125m",     "opt-350m",          "opt-1.3b",      "opt-2.7b",         "opt-6.7b",
        "opt-13b",      "opt-30b",           "opt-66b",       "opt-175b",         "bloom-560m",
        "bloom-1b7",    "bloom-3b",          "bloom-176b",    "llama-2-7b",       "llama-2-13b",
        "llama-2-70b",  "llama-3-8b",        "llama-3-70b",   "llama-3.3-70b",    "qwen2.5-0.5b",
        "qwen2.5-7b",   "qwen2.5-14b",       "qwen2.5-32b",   "qwen2.5-72b",      "qwen3-8b",
        "qwen3-32b",    "qwen3-30b-a3b",     "mixtral-8x7b",  "falcon-7b",        "falcon-40b",
        "gpt-j-6b",     "mistral-7b",        "deepseek-v3",   "deepseek-v2-lite", "gpt-oss-20b",
        "gpt-oss-120b", "qwen1.5-moe-a2.7b", "qwen2-57b-a14b"}) {
    EXPECT_THAT(names, ::testing::Contains(name));
  }
}

// Counts of the published checkpoints, to the last parameter.
TEST(ModelCounts, AreExactWhereTheCheckpointIsKnown) {
  const std::map<std::string, std::int64_t> exact = {{"opt-125m", 125'239'296},
                                                     {"opt-350m", 331'196'416},
                                                     {"opt-1.3b", 1'315'758'080},
                                                     {"opt-2.7b", 2'651'596'800},
                                                     {"opt-6.7b", 6'658'473'984},
                                                     {"bloom-560m", 559'214'592},
                                                     {"bloom-1b7", 1'722'408'960},
                                                     {"bloom-3b", 3'002'557'440},
                                                     {"bloom-176b", 176'247'271'424},
                                                     {"llama-2-7b", 6'738'415'616},
                                                     {"llama-2-13b", 13'015'864'320},
                                                     {"llama-2-70b", 68'976'648'192},
                                                     {"llama-3-8b", 8'030'261'248},
                                                     {"llama-3-70b", 70'553'706'496},
                                                     {"llama-3.3-70b", 70'553'706'496},
                                                     {"qwen2.5-0.5b", 494'032'768},
                                                     {"qwen2.5-7b", 7'615'616'512},
                                                     {"qwen2.5-14b", 14'770'033'664},
                                                     {"qwen2.5-32b", 32'763'876'352},
                                                     {"qwen2.5-72b", 72'706'203'648},
                                                     {"qwen3-8b", 8'190'735'360},
                                                     {"qwen3-32b", 32'762'123'264},
                                                     {"qwen3-30b-a3b", 30'532'122'624},
                                                     {"mixtral-8x7b", 46'702'792'704},
                                                     {"mistral-7b", 7'241'732'096},
                                                     {"falcon-7b", 6'921'720'704},
                                                     {"falcon-40b", 41'303'293'952},
                                                     {"gpt-j-6b", 6'050'882'784},
                                                     {"gpt2", 124'439'808},
                                                     {"gemma-2-9b", 9'241'705'984},
                                                     {"gemma-3-27b", 27'009'346'304},
                                                     {"deepseek-v3", 671'026'419'200},
                                                     {"deepseek-v2-lite", 15'706'484'224},
                                                     {"qwen1.5-moe-a2.7b", 14'315'784'192},
                                                     {"gpt-oss-20b", 20'914'757'184},
                                                     {"gpt-oss-120b", 116'829'156'672}};
  for (const auto& [name, count] : exact) EXPECT_EQ(shipped(name).num_parameters(), count) << name;
}

TEST(ModelCounts, OfALayerByHand) {
  // OPT: 12 h^2 in matrices, 9 h of biases, 4 h of norms.
  EXPECT_EQ(shipped("opt-30b").layer_parameters(), 12LL * 7168 * 7168 + 13LL * 7168);
  EXPECT_EQ(shipped("opt-30b").layer(0).other_parameters, 13 * 7168);
  // Llama 3: 4096 x (4096 + 1024 + 1024 + 4096) + 3 x 4096 x 14336 + two norms.
  EXPECT_EQ(shipped("llama-3-8b").layer_parameters(), 41'943'040 + 176'160'768 + 8192);
  // Qwen2.5-7B: biases of 3584 + 512 + 512.
  EXPECT_EQ(shipped("qwen2.5-7b").layer(0).other_parameters, 4608 + 2 * 3584);
  // Qwen3: norms over the head size, for queries and keys.
  EXPECT_EQ(shipped("qwen3-8b").layer(0).other_parameters, 2 * 4096 + 2 * 128);
  // Falcon-7B: 4544 x (4544 + 2 x 64) + 4544^2 + 8 x 4544^2 + one norm.
  EXPECT_EQ(shipped("falcon-7b").layer_parameters(), 21'229'568 + 9 * 20'647'936 + 9088);
  // GPT-J: 12 h^2, biases of the feed-forward network only, one norm.
  EXPECT_EQ(shipped("gpt-j-6b").layer_parameters(), 12LL * 4096 * 4096 + 5 * 4096 + 2 * 4096);
}

TEST(ModelCounts, KvBytesPerToken) {
  EXPECT_DOUBLE_EQ(shipped("llama-3-8b").kv_bytes_per_token(16), 131072);
  EXPECT_DOUBLE_EQ(shipped("llama-3-8b").kv_bytes_per_token(8), 65536);
  EXPECT_DOUBLE_EQ(shipped("opt-30b").kv_bytes_per_token(16), 2.0 * 48 * 7168 * 2);
  EXPECT_DOUBLE_EQ(shipped("falcon-7b").kv_bytes_per_token(16), 2.0 * 32 * 64 * 2);
  EXPECT_DOUBLE_EQ(shipped("qwen3-30b-a3b").kv_bytes_per_token(16), 2.0 * 48 * 4 * 128 * 2);
  // The latent and the rotary key, once for all heads: 61 x (512 + 64) values.
  EXPECT_DOUBLE_EQ(shipped("deepseek-v3").kv_bytes_per_token(16), 70272);
  EXPECT_DOUBLE_EQ(shipped("deepseek-v3").kv_bytes_per_token(8), 35136);
  EXPECT_DOUBLE_EQ(shipped("deepseek-v2-lite").kv_bytes_per_token(16), 27.0 * 576 * 2);
}

TEST(ModelCounts, LayerBytes) {
  const ModelShape model = shipped("opt-30b");
  EXPECT_DOUBLE_EQ(model.layer_bytes(16), 2.0 * (12.0 * 7168 * 7168 + 13.0 * 7168));
  EXPECT_DOUBLE_EQ(model.layer_bytes(4), 0.5 * 12 * 7168 * 7168 + 2.0 * 13 * 7168);
}

TEST(ModelShapes, MatricesOfADenseAndAGroupedLayer) {
  const ModelShape llama = shipped("llama-3-8b");
  const std::vector<LinearShape> expected = {{"q_proj", 4096, 4096},     {"k_proj", 4096, 1024},
                                             {"v_proj", 4096, 1024},     {"o_proj", 4096, 4096},
                                             {"gate_proj", 4096, 14336}, {"up_proj", 4096, 14336},
                                             {"down_proj", 14336, 4096}};
  EXPECT_EQ(llama.layer(0).linears, expected);
  const ModelShape opt = shipped("opt-125m");
  ASSERT_EQ(opt.layer(0).linears.size(), 6u);
  EXPECT_EQ(opt.layer(0).linears[4].name, "up_proj");
  // Heads of Qwen3-32B are wider together than the hidden size.
  EXPECT_EQ(shipped("qwen3-32b").layer(0).linears[0], (LinearShape{"q_proj", 5120, 8192}));
}

TEST(ModelShapes, Opt350mProjectsItsEmbedding) {
  const ModelShape model = shipped("opt-350m");
  EXPECT_EQ(model.token_embedding_parameters, 50272 * 512);
  EXPECT_EQ(model.lm_head_parameters, 50272 * 512);
  EXPECT_EQ(model.position_embedding_parameters, 2050 * 1024);
  EXPECT_EQ(model.embedding_other_parameters, 512 * 1024);
  EXPECT_EQ(model.final_other_parameters, 1024 * 512);  // and no final norm
  EXPECT_EQ(shipped("opt-125m").final_other_parameters, 2 * 768);
}

TEST(ModelShapes, TiedEmbeddingsCountOnce) {
  Json config = shipped_json("llama-3-8b").at("config");
  const ModelShape untied = test::from_config(config);
  config["tie_word_embeddings"] = true;
  const ModelShape tied = test::from_config(config);
  EXPECT_EQ(untied.num_parameters() - tied.num_parameters(), 128256LL * 4096);
  EXPECT_EQ(tied.lm_head_parameters, untied.lm_head_parameters);
}

TEST(ModelShapes, ATiedHeadKeepsItsBias) {
  Json config = shipped_json("gpt-j-6b").at("config");
  config["tie_word_embeddings"] = true;
  EXPECT_EQ(test::from_config(config).num_parameters(), 6'050'882'784 - 50400LL * 4096);
}

TEST(ModelShapes, MixturesOfExperts) {
  const ModelShape mixtral = shipped("mixtral-8x7b");
  EXPECT_EQ(mixtral.layer(0).linears.at(4), (LinearShape{"experts.gate_proj", 4096, 14336, 8, 2}));
  EXPECT_EQ(mixtral.layer(0).other_parameters, 2 * 4096 + 8 * 4096);
  EXPECT_EQ(mixtral.num_active_parameters(), 12'879'925'248);
  const ModelShape qwen = shipped("qwen3-30b-a3b");
  EXPECT_EQ(qwen.ffn_size, 768);
  EXPECT_EQ(qwen.num_active_parameters(), 3'353'032'704);
  EXPECT_EQ(qwen.layer(0).active_linear_parameters(),
            2LL * 2048 * 4096 + 2 * 2048 * 512 + 8 * 3 * 2048 * 768);
}

TEST(ModelShapes, DenseLayersAmongExperts) {
  Json config = shipped_json("qwen3-30b-a3b").at("config");
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = {1};
  const ModelShape model = test::from_config(config);
  ASSERT_EQ(model.layer_classes.size(), 2u);
  EXPECT_EQ(model.layer(0).linears.at(4), (LinearShape{"gate_proj", 2048, 6144}));
  EXPECT_EQ(model.layer(1), model.layer(0));
  EXPECT_EQ(model.layer(3).linears.at(4), (LinearShape{"experts.gate_proj", 2048, 768, 128, 8}));
  EXPECT_EQ(model.layer(0).other_parameters, 2 * 2048 + 2 * 128);  // no router
}

TEST(ModelShapes, LatentAttentionOfDeepSeek) {
  const ModelShape v3 = shipped("deepseek-v3");
  EXPECT_EQ(v3.head_dim, 192);
  EXPECT_EQ(v3.ffn_size, 2048);
  ASSERT_EQ(v3.layer_classes.size(), 2u);
  EXPECT_EQ(v3.layer(2), v3.layer(0));  // three dense layers
  EXPECT_EQ(v3.layer(3), v3.layer(60));
  const LayerShape& sparse = v3.layer(3);
  EXPECT_EQ(sparse.latent_width, 512);
  EXPECT_EQ(sparse.rope_width, 64);
  const std::vector<LinearShape> expected = {{"q_a_proj", 7168, 1536},
                                             {"q_b_proj", 1536, 128 * 192},
                                             {"kv_a_proj", 7168, 576},
                                             {"kv_b_proj", 512, 128 * 256},
                                             {"o_proj", 128 * 128, 7168},
                                             {"experts.gate_proj", 7168, 2048, 256, 8},
                                             {"experts.up_proj", 7168, 2048, 256, 8},
                                             {"experts.down_proj", 2048, 7168, 256, 8},
                                             {"shared_expert.gate_proj", 7168, 2048},
                                             {"shared_expert.up_proj", 7168, 2048},
                                             {"shared_expert.down_proj", 2048, 7168}};
  EXPECT_EQ(sparse.linears, expected);
  // Norms of the hidden state and of both latents, the router and its bias.
  EXPECT_EQ(sparse.other_parameters, 2 * 7168 + 1536 + 512 + 7168 * 256 + 256);
  EXPECT_EQ(v3.layer(0).other_parameters, 2 * 7168 + 1536 + 512);
  const ModelShape lite = shipped("deepseek-v2-lite");
  EXPECT_EQ(lite.layer(0).linears.front(), (LinearShape{"q_proj", 2048, 16 * 192}));
  EXPECT_EQ(lite.layer(1).linears.back(), (LinearShape{"shared_expert.down_proj", 2816, 2048}));
  EXPECT_EQ(lite.layer(1).other_parameters, 2 * 2048 + 512 + 2048 * 64);
}

TEST(ModelShapes, SharedExpertsOfQwen) {
  const ModelShape model = shipped("qwen1.5-moe-a2.7b");
  EXPECT_EQ(model.layer(0).linears.at(4), (LinearShape{"experts.gate_proj", 2048, 1408, 60, 4}));
  EXPECT_EQ(model.layer(0).linears.at(7), (LinearShape{"shared_expert.gate_proj", 2048, 5632}));
  // Norms, the gate of the shared expert, the router, biases of queries, keys and values.
  EXPECT_EQ(model.layer(0).other_parameters, 3 * 2048 + 60 * 2048 + 3 * 2048);
}

TEST(ModelShapes, ExpertsOfGptOssHaveBiases) {
  const ModelShape model = shipped("gpt-oss-20b");
  ASSERT_EQ(model.layer_classes.size(), 2u);
  EXPECT_EQ(model.layer(0).attention_window, 128);
  EXPECT_EQ(model.layer(1).attention_window, std::nullopt);
  // Biases of attention, norms, sinks; router and biases of 32 experts.
  EXPECT_EQ(model.layer(0).other_parameters,
            (4096 + 2 * 512 + 2880) + 2 * 2880 + 64 + 32 * (2880 + 1) + 32 * (2 * 2880 + 2880));
  EXPECT_EQ(model.layer(0).idle_parameters, 28 * (2 * 2880 + 2880));
}

TEST(ModelShapes, GemmaAlternatesWindows) {
  const ModelShape gemma2 = shipped("gemma-2-9b");
  ASSERT_EQ(gemma2.layer_classes.size(), 2u);
  EXPECT_EQ(gemma2.layer(0).attention_window, 4096);
  EXPECT_EQ(gemma2.layer(1).attention_window, std::nullopt);
  EXPECT_EQ(gemma2.layer(0).other_parameters, 4 * 3584);
  const ModelShape gemma3 = shipped("gemma-3-27b");
  EXPECT_EQ(gemma3.family, "gemma3");
  ASSERT_EQ(gemma3.layer_classes.size(), 2u);
  for (std::int64_t i = 0; i < gemma3.num_layers; ++i) {
    EXPECT_EQ(gemma3.layer(i).attention_window.has_value(), i % 6 != 5) << i;
  }
  EXPECT_EQ(gemma3.vocab_size, 262208);
  EXPECT_TRUE(gemma3.tied_embeddings);
}

TEST(ModelShapes, NamesAndSourcesOfBareConfigs) {
  const Json config = shipped_json("opt-125m").at("config");
  EXPECT_EQ(model_from_json(config, "models/my-opt/config.json").name, "my-opt");
  EXPECT_EQ(model_from_json(config, "models/mine.json").name, "mine");
  EXPECT_EQ(model_from_json(config, "models/mine.json").source, "models/mine.json");
}

TEST(ModelShapes, FamiliesAreSortedAndShipped) {
  const auto families = known_model_families();
  EXPECT_TRUE(std::is_sorted(families.begin(), families.end()));
  std::map<std::string, int> seen;
  for (const std::string& name : test::shipped_names()) ++seen[shipped(name).family];
  // Counted in model_configs_test (ConfigFamilies), layer_kinds_test and families_spec.lua.
  const std::set<std::string> not_shipped = {"afmoe",
                                             "bailing_moe",
                                             "bailing_moe_v2",
                                             "bamba",
                                             "bitnet",
                                             "chatglm",
                                             "cohere2_moe",
                                             "cwm",
                                             "dbrx",
                                             "exaone_moe",
                                             "falcon_h1",
                                             "falcon_mamba",
                                             "flex_olmo",
                                             "glm4_moe_lite",
                                             "glm_moe_dsa",
                                             "granite_swa",
                                             "granitemoeshared",
                                             "helium",
                                             "hunyuan_v1_dense",
                                             "hunyuan_v1_moe",
                                             "hy_v3",
                                             "hyperclovax",
                                             "internlm",
                                             "internlm3",
                                             "jais2",
                                             "laguna",
                                             "lfm2_moe",
                                             "longcat_flash",
                                             "mamba",
                                             "mamba2",
                                             "mellum",
                                             "mimo_v2_flash",
                                             "minicpm3",
                                             "minimax_m3",
                                             "ministral",
                                             "mistral4",
                                             "nemotron-nas",
                                             "olmo_hybrid",
                                             "orion",
                                             "persimmon",
                                             "qwen",
                                             "qwen3_5",
                                             "recurrent_gemma",
                                             "rwkv",
                                             "sarvam_mla",
                                             "sarvam_moe",
                                             "solar_open",
                                             "step3p5",
                                             "vaultgemma",
                                             "youtu"};
  for (const std::string& family : families) {
    EXPECT_EQ(seen[family] == 0, not_shipped.contains(family)) << family;
  }
}

TEST(Families, WhatComputesHasAShape) {
  const auto known = known_model_families();
  const auto computed = families_with_arithmetic();
  EXPECT_GT(computed.size(), 40);
  for (const std::string_view family : computed) {
    EXPECT_THAT(known, testing::Contains(family));
    EXPECT_TRUE(arithmetic_of(family)) << family;
  }
  EXPECT_FALSE(arithmetic_of("no_such_family"));
}

TEST(ModelJson, RefusesWhatIsNotAShape) {
  const Json good = to_json(shipped("gemma-2-9b"));
  const auto message = [&good](const char* key, const Json& value) {
    Json json = good;
    json[key] = value;
    return std::string(test::error_of([&] { model_shape_from_json(json, "plan.json"); }).what());
  };
  EXPECT_THAT(message("num_layers", 41), HasSubstr("layer_class has 42 entries"));
  EXPECT_THAT(message("layer_class", Json::array({0, 2})), HasSubstr("layer_class[1]"));
  EXPECT_THAT(message("layer_class", Json::array({0, 0.5})), HasSubstr("not an integer"));
  EXPECT_THAT(message("layer_classes", Json::array()), HasSubstr("layer_classes"));
  EXPECT_THAT(message("tied_embeddings", 1), HasSubstr("tied_embeddings"));
  EXPECT_THAT(message("lm_head_parameters", 5), HasSubstr("cannot share"));
  EXPECT_THAT(message("extra", 5), HasSubstr("extra"));
  const auto latent = [&good](std::int64_t rope_width, bool both) {
    Json json = good;
    json["layer_classes"][0]["rope_width"] = rope_width;
    if (both) json["layer_classes"][0]["latent_width"] = 512;
    return std::string(test::error_of([&] { model_shape_from_json(json, "plan.json"); }).what());
  };
  EXPECT_THAT(latent(64, false), HasSubstr("a latent_width and a rope_width"));
  const auto of_layer = [&](const char* key, std::int64_t value) {
    Json classes = good["layer_classes"];
    classes[0][key] = value;
    return message("layer_classes", classes);
  };
  EXPECT_THAT(of_layer("tokens_per_entry", 4), HasSubstr("entries are latents"));
  EXPECT_THAT(of_layer("idle_parameters", 1'000'000), HasSubstr("of 14336 other_parameters"));
  EXPECT_THAT(latent(256, true), HasSubstr("rope_width: 256 is outside [1, 255]"));
  EXPECT_THAT(message("hidden_size", 0), HasSubstr("hidden_size: 0 is outside [1, 16777216]"));
  EXPECT_THAT(message("token_embedding_parameters", -1), HasSubstr("outside [0"));
}

}  // namespace
}  // namespace tessera::models_test
