// Reading config.json: options of each family, refusals, malformed fields, hostile mutations.
#include <gmock/gmock.h>

#include <iostream>
#include <utility>
#include <vector>

#include "model_files.h"
#include "tessera/core/rng.h"

namespace tessera::model_configs_test {
namespace {

using test::error_of;
using test::from_config;
using test::shipped_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

Json config_of(const std::string& name) { return shipped_json(name).at("config"); }

Json with(Json config, const char* key, Json value) {
  config[key] = std::move(value);
  return config;
}

Json without(Json config, const char* key) {
  config.erase(key);
  return config;
}

Error refusal(const Json& config) {
  return error_of([&config] { from_config(config); });
}

TEST(ConfigOptions, OldAndNewKeysOfBloomAgree) {
  const Json old_keys = config_of("bloom-560m");
  Json new_keys = {{"model_type", "bloom"}, {"hidden_size", 1024}, {"n_layer", 24},
                   {"n_head", 16},          {"n_inner", nullptr},  {"vocab_size", 250880}};
  EXPECT_EQ(from_config(old_keys), from_config(new_keys));
  EXPECT_THAT(refusal(with(old_keys, "n_head", 8)).what(), HasSubstr("contradicts"));
  EXPECT_THAT(refusal(with(old_keys, "n_inner", 1024)).what(), HasSubstr("n_inner"));
  EXPECT_EQ(from_config(old_keys).embedding_other_parameters, 2 * 1024);
}

TEST(ConfigOptions, BiasesOfLlama) {
  const Json config = config_of("llama-3-8b");
  EXPECT_EQ(from_config(with(config, "attention_bias", true)).layer(0).other_parameters,
            2 * 4096 + 4096 + 2 * 1024 + 4096);
  EXPECT_EQ(from_config(with(config, "mlp_bias", true)).layer(0).other_parameters,
            2 * 4096 + 2 * 14336 + 4096);
}

TEST(ConfigOptions, HeadsOfLlama) {
  const Json config = config_of("llama-2-7b");
  EXPECT_EQ(from_config(without(config, "num_key_value_heads")).num_kv_heads, 32);
  EXPECT_EQ(from_config(with(config, "num_key_value_heads", nullptr)).num_kv_heads, 32);
  const ModelShape wide = from_config(with(config, "head_dim", 256));
  EXPECT_EQ(wide.head_dim, 256);
  EXPECT_EQ(wide.layer(0).linears[3], (LinearShape{"o_proj", 8192, 4096}));
}

TEST(ConfigOptions, BiasesAndNormsOfOpt) {
  const Json config = config_of("opt-125m");
  EXPECT_EQ(from_config(with(config, "enable_bias", false)).layer(0).other_parameters, 4 * 768);
  EXPECT_EQ(
      from_config(with(config, "layer_norm_elementwise_affine", false)).final_other_parameters, 0);
  EXPECT_EQ(from_config(with(config, "_remove_final_layer_norm", true)).final_other_parameters, 0);
  EXPECT_EQ(from_config(without(config, "word_embed_proj_dim")), from_config(config));
}

TEST(ConfigOptions, NullWindowOfMistralIsNotItsDefault) {
  const Json config = config_of("mistral-7b");
  EXPECT_EQ(from_config(config).layer(0).attention_window, 4096);
  EXPECT_EQ(from_config(with(config, "sliding_window", nullptr)).layer(0).attention_window,
            std::nullopt);
  EXPECT_EQ(from_config(without(config, "sliding_window")).layer(0).attention_window, 4096);
  EXPECT_EQ(from_config(without(config, "num_key_value_heads")).num_kv_heads, 8);
}

TEST(ConfigOptions, WindowsOfQwen) {
  Json config = config_of("qwen2.5-7b");
  EXPECT_EQ(from_config(config).layer_classes.size(), 1u);
  config["use_sliding_window"] = true;
  config["sliding_window"] = 1000;
  config["max_window_layers"] = 20;
  const ModelShape model = from_config(config);
  EXPECT_EQ(model.layer(19).attention_window, std::nullopt);
  EXPECT_EQ(model.layer(20).attention_window, 1000);
  config["layer_types"] = Json(28, "full_attention");
  config["layer_types"][3] = "sliding_attention";
  EXPECT_EQ(from_config(config).layer(3).attention_window, 1000);
  EXPECT_EQ(from_config(config).layer(27).attention_window, std::nullopt);
  config["layer_types"][3] = "linear_attention";
  EXPECT_EQ(refusal(config).code(), ErrorCode::unsupported);
  config["layer_types"] = Json::array({"full_attention"});
  EXPECT_THAT(refusal(config).what(), HasSubstr("28 names"));
  EXPECT_EQ(refusal(with(config_of("qwen3-30b-a3b"), "use_sliding_window", true)).code(),
            ErrorCode::unsupported);
}

TEST(ConfigOptions, GemmaLeavesMuchToItsClass) {
  // The text_config that Google ships with Gemma 3 4B; count as llama.cpp has it.
  const Json text = {{"model_type", "gemma3_text"},
                     {"hidden_size", 2560},
                     {"intermediate_size", 10240},
                     {"num_hidden_layers", 34},
                     {"sliding_window", 1024}};
  const Json outer = {{"model_type", "gemma3"}, {"text_config", text}};
  const ModelShape model = from_config(outer);
  EXPECT_EQ(model.num_parameters(), 3'880'263'168);
  EXPECT_EQ(from_config(text), model);
  EXPECT_FALSE(from_config(with(outer, "tie_word_embeddings", false)).tied_embeddings);
  EXPECT_EQ(from_config(with(text, "sliding_window_pattern", 2)).layer(1).attention_window,
            std::nullopt);
  EXPECT_EQ(from_config(with(text, "sliding_window", nullptr)).layer_classes.size(), 1u);
}

TEST(ConfigOptions, VariantsOfFalcon) {
  const Json config = config_of("falcon-7b");
  const ModelShape all_heads = from_config(with(config, "multi_query", false));
  EXPECT_EQ(all_heads.num_kv_heads, 71);
  // Falcon-RW-1B: ALiBi, biases, norms one after the other.
  const Json rw = {{"model_type", "falcon"}, {"alibi", true},
                   {"bias", true},           {"hidden_size", 2048},
                   {"n_layer", 24},          {"n_head", 32},
                   {"multi_query", false},   {"parallel_attn", false},
                   {"vocab_size", 50304},    {"new_decoder_architecture", false}};
  EXPECT_EQ(from_config(rw).num_parameters(), 1'311'625'216);
  // Falcon 2 11B has the new architecture with one norm.
  const Json one_norm = with(config_of("falcon-40b"), "num_ln_in_parallel_attn", 1);
  EXPECT_EQ(from_config(one_norm).layer(0).other_parameters, 2 * 8192);
  EXPECT_EQ(from_config(config_of("falcon-40b")).layer(0).other_parameters, 4 * 8192);
}

TEST(ConfigOptions, LatentsOfDeepSeek) {
  const Json v3 = config_of("deepseek-v3");
  // Kimi K2 is saved by the classes of V3; newer files write the rotary part as head_dim.
  EXPECT_EQ(from_config(with(v3, "model_type", "kimi_k2")), from_config(v3));
  EXPECT_EQ(from_config(with(v3, "head_dim", 64)), from_config(v3));
  EXPECT_EQ(from_config(without(v3, "num_key_value_heads")), from_config(v3));
  EXPECT_EQ(from_config(without(v3, "moe_layer_freq")), from_config(v3));
  const ModelShape none_shared = from_config(with(v3, "n_shared_experts", nullptr));
  EXPECT_EQ(none_shared.layer(60).linears.back().name, "experts.down_proj");
  EXPECT_EQ(from_config(with(v3, "first_k_dense_replace", 61)).layer_classes.size(), 1u);
  EXPECT_EQ(from_config(with(v3, "moe_layer_freq", 2)).layer(5), from_config(v3).layer(0));
  for (const char* key : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
                          "q_lora_rank", "n_routed_experts", "moe_intermediate_size",
                          "num_experts_per_tok", "first_k_dense_replace"}) {
    EXPECT_THAT(refusal(without(v3, key)).what(), AllOf(HasSubstr(key), HasSubstr("missing")));
  }
  EXPECT_THAT(refusal(with(v3, "num_key_value_heads", 8)).what(), HasSubstr("latent attention"));
  EXPECT_EQ(refusal(with(v3, "n_shared_experts", 257)).code(), ErrorCode::out_of_range);
  // Of what makes the latents, and of the output.
  EXPECT_EQ(from_config(with(v3, "attention_bias", true)).layer(0).other_parameters,
            from_config(v3).layer(0).other_parameters + 1536 + 512 + 64 + 7168);
}

TEST(ConfigOptions, MixturesOfQwenAndOpenAi) {
  const Json qwen = config_of("qwen1.5-moe-a2.7b");
  EXPECT_THAT(refusal(without(qwen, "shared_expert_intermediate_size")).what(),
              HasSubstr("shared_expert_intermediate_size"));
  EXPECT_EQ(refusal(with(qwen, "use_sliding_window", true)).code(), ErrorCode::unsupported);
  EXPECT_EQ(from_config(with(qwen, "mlp_only_layers", {0})).layer(0).linears.size(), 7u);
  const Json oss = config_of("gpt-oss-20b");
  EXPECT_EQ(from_config(without(oss, "sliding_window")), from_config(oss));
  EXPECT_EQ(from_config(with(oss, "sliding_window", nullptr)).layer_classes.size(), 1u);
  const Json full = with(oss, "layer_types", Json(24, "full_attention"));
  EXPECT_EQ(from_config(full).layer(0).attention_window, std::nullopt);
}

// Families of switches that no sheet shows, counted by hand.
TEST(ConfigFamilies, WithoutASheet) {
  const std::int64_t hidden = 64, ffn = 160, heads = 8, kv_heads = 2, head = 16, vocab = 100;
  const auto config = [&](const char* type) {
    return Json{{"model_type", type},       {"hidden_size", hidden},
                {"num_hidden_layers", 2},   {"num_attention_heads", heads},
                {"intermediate_size", ffn}, {"num_key_value_heads", kv_heads},
                {"head_dim", head},         {"vocab_size", vocab}};
  };
  const std::int64_t attention = hidden * (heads + 2 * kv_heads) * head + heads * head * hidden;
  const std::int64_t layer = attention + 3 * hidden * ffn + 2 * hidden;
  const std::int64_t rest = 2 * vocab * hidden + hidden;
  EXPECT_EQ(from_config(config("ministral")).num_parameters(), rest + 2 * layer);
  EXPECT_EQ(from_config(config("ministral")).layer(1).attention_window, 4096);
  EXPECT_EQ(from_config(config("hunyuan_v1_dense")).num_parameters(),
            rest + 2 * (layer + 2 * head));
  EXPECT_EQ(from_config(with(config("helium"), "mlp_bias", true)).num_parameters(),
            rest + 2 * (layer + 2 * ffn + hidden));
}

TEST(ConfigFamilies, SwitchesThatAKeyTurns) {
  const auto other = [](const std::string& name, const char* key, const Json& value) {
    return from_config(with(config_of(name), key, value)).layer(0).other_parameters -
           from_config(config_of(name)).layer(0).other_parameters;
  };
  const std::int64_t kv = 8 * 128, hidden = 4096;
  EXPECT_EQ(other("aya-23-8b", "use_qk_norm", true), hidden + kv);
  EXPECT_EQ(other("glm-4-9b", "attention_bias", false), -(hidden + 2 * 2 * 128));
  EXPECT_EQ(other("stablelm-zephyr-3b", "use_qkv_bias", true), 3 * 2560);
  EXPECT_EQ(other("phi-2", "qk_layernorm", true), 4 * 80);
  EXPECT_EQ(other("mpt-7b", "no_bias", false), 2 * hidden + 4 * hidden + 4 * hidden + hidden);
  EXPECT_EQ(from_config(with(config_of("starcoderbase-1b"), "multi_query", false)).num_kv_heads,
            16);
  EXPECT_EQ(
      from_config(with(config_of("command-r7b"), "sliding_window", nullptr)).layer_classes.size(),
      1u);
  EXPECT_EQ(from_config(with(config_of("llama-4-scout"), "attention_chunk_size", nullptr))
                .layer_classes.size(),
            1u);
  EXPECT_THAT(refusal(with(config_of("gpt-neo-2.7b"), "attention_layers", {"global"})).what(),
              HasSubstr("32 names"));
}

TEST(ConfigFamilies, ADecoderWithEyesIsItsTextConfig) {
  Json text = config_of("mistral-7b");
  const Json outer = {{"model_type", "mistral3"},
                      {"architectures", {"Mistral3ForConditionalGeneration"}},
                      {"text_config", text},
                      {"vision_config", {{"model_type", "pixtral"}}}};
  ModelShape read = from_config(outer);
  EXPECT_EQ(std::exchange(read.towers, {}), std::vector<Tower>{{.name = "vision"}});
  EXPECT_EQ(read, from_config(text));
  text.erase("model_type");
  EXPECT_EQ(refusal(with(outer, "text_config", text)).code(), ErrorCode::unsupported);
  Json eyes = config_of("qwen2.5-7b");
  eyes["model_type"] = "qwen2_5_vl";
  eyes["architectures"] = {"Qwen2_5_VLForConditionalGeneration"};
  EXPECT_EQ(from_config(eyes), from_config(config_of("qwen2.5-7b")));
}

TEST(ConfigFamilies, FilesOfBeforeFalconWasRenamed) {
  const Json old = {{"model_type", "RefinedWeb"},
                    {"architectures", {"RWForCausalLM"}},
                    {"hidden_size", 8192},
                    {"n_layer", 60},
                    {"n_head", 128},
                    {"n_head_kv", 8},
                    {"vocab_size", 65024},
                    {"bias", false}};
  EXPECT_EQ(from_config(old).num_parameters(), 41'303'293'952);
}

// Qwen-7B: the same matrices as Qwen1.5-7B, under whose sheet it is found.
TEST(ConfigFamilies, TheFirstQwenWritesBothHalvesOfItsGate) {
  const Json config = {{"model_type", "qwen"},      {"architectures", {"QWenLMHeadModel"}},
                       {"hidden_size", 4096},       {"intermediate_size", 22016},
                       {"num_attention_heads", 32}, {"num_hidden_layers", 32},
                       {"kv_channels", 128},        {"seq_length", 8192},
                       {"vocab_size", 151936},      {"tie_word_embeddings", false}};
  const ModelShape model = from_config(config);
  EXPECT_EQ(model.num_parameters(), 7'721'324'544);
  EXPECT_EQ(model.ffn_size, 11008);
  EXPECT_EQ(model.max_context_tokens, 8192);
  EXPECT_THAT(refusal(with(config, "intermediate_size", 22017)).what(), HasSubstr("not even"));
}

// As vLLM derives the longest context.
TEST(ConfigFamilies, ScalingsOfPositionsStretchTheContext) {
  const auto longest = [](const Json& scaling, const char* key = "rope_scaling") {
    return from_config(with(config_of("qwen2.5-7b"), key, scaling)).max_context_tokens;
  };
  const std::int64_t written = from_config(config_of("qwen2.5-7b")).max_context_tokens;
  EXPECT_EQ(longest({{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 32768}}),
            131072);
  EXPECT_EQ(longest({{"rope_type", "yarn"}, {"factor", 2}}), 2 * written);
  EXPECT_EQ(longest({{"rope_type", "linear"}, {"factor", 2.5}}, "rope_parameters"),
            written * 5 / 2);
  EXPECT_EQ(longest({{"type", "dynamic"}, {"factor", 3}}), 3 * written);
  EXPECT_EQ(longest({{"rope_type", "llama3"}, {"factor", 8}}), written);
  EXPECT_EQ(longest({{"type", "longrope"}, {"long_factor", {1, 2}}}), written);
  EXPECT_EQ(longest({{"type", "mrope"}, {"mrope_section", {16, 24, 24}}}), written);
  EXPECT_EQ(
      refusal(with(config_of("qwen2.5-7b"), "rope_scaling", {{"type", "yarn"}, {"factor", 1e5}}))
          .code(),
      ErrorCode::out_of_range);
}

TEST(ConfigOptions, QuantizedCheckpointsHaveTheSameShape) {
  const Json config = config_of("llama-3-8b");
  const Json quantized =
      with(config, "quantization_config", {{"quant_method", "gptq"}, {"bits", 4}});
  EXPECT_EQ(from_config(quantized), from_config(config));
}

TEST(ConfigRefusals, NameTheModelTypeAndTheKnownFamilies) {
  const std::string known =
      "known families, " + std::to_string(known_model_families().size()) + " of them";
  for (const char* type : {"zamba2", "xlstm", "t5", "bart", "mllama", "bert", "", "opt "}) {
    const Error error = refusal(with(config_of("llama-3-8b"), "model_type", type));
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << type;
    EXPECT_THAT(error.what(), AllOf(HasSubstr("model_type"), HasSubstr(type), HasSubstr(known)));
  }
  EXPECT_THAT(refusal(with(config_of("llama-3-8b"), "model_type", "zamba2")).what(),
              HasSubstr("blocks of attention whose weights layers share"));
}

TEST(ConfigRefusals, WhatContradictsTheModelType) {
  const Json llama = config_of("llama-3-8b");
  const auto code = [](const Json& config) { return refusal(config).code(); };
  EXPECT_EQ(code(with(llama, "kv_lora_rank", 512)), ErrorCode::unsupported);
  EXPECT_EQ(code(with(llama, "is_encoder_decoder", true)), ErrorCode::unsupported);
  EXPECT_EQ(code(with(llama, "num_local_experts", 8)), ErrorCode::unsupported);
  EXPECT_EQ(code(with(llama, "hidden_act", "swiglu")), ErrorCode::unsupported);
  EXPECT_EQ(code(with(llama, "architectures", {"MistralForCausalLM"})), ErrorCode::unsupported);
  EXPECT_EQ(code(with(llama, "text_config", Json::object())), ErrorCode::invalid_argument);
  EXPECT_EQ(code(with(llama, "text_config", {{"model_type", "t5"}})), ErrorCode::unsupported);
  EXPECT_EQ(code(with(llama, "architectures", "LlamaForCausalLM")), ErrorCode::invalid_argument);
  EXPECT_EQ(code(with(config_of("gpt2"), "add_cross_attention", true)), ErrorCode::unsupported);
  EXPECT_EQ(code(with(config_of("gemma-3-27b"), "text_config", 3)), ErrorCode::invalid_argument);
  EXPECT_NO_THROW(from_config(with(llama, "architectures", Json::array())));
  EXPECT_NO_THROW(from_config(with(llama, "architectures", nullptr)));
}

TEST(ConfigErrors, NameFileFieldAndRange) {
  const Json config = config_of("opt-125m");
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_dim",
                          "vocab_size", "max_position_embeddings", "word_embed_proj_dim"}) {
    for (const Json& value : {Json(0), Json(-3), Json(3.7), Json("768"), Json(true), Json(1e300),
                              Json(std::int64_t{1} << 40), Json::array({1})}) {
      const Error error = refusal(with(config, key, value));
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("dir/config.json: " + std::string(key)), HasSubstr("[1, ")))
          << value;
      EXPECT_THAT(error.code(),
                  ::testing::AnyOf(ErrorCode::invalid_argument, ErrorCode::out_of_range));
    }
  }
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_dim", "vocab_size"}) {
    EXPECT_THAT(refusal(without(config, key)).what(),
                AllOf(HasSubstr(key), HasSubstr("missing"), HasSubstr("[1, ")));
  }
  EXPECT_THAT(refusal(with(config, "num_hidden_layers", 1'000'000'000)).what(),
              HasSubstr("1000000000 is outside [1, 10000]"));
}

TEST(ConfigErrors, InconsistentHeads) {
  EXPECT_THAT(refusal(with(config_of("opt-125m"), "num_attention_heads", 7)).what(),
              HasSubstr("not a multiple of the 7"));
  const Json llama = config_of("llama-3-8b");
  EXPECT_THAT(refusal(with(llama, "num_key_value_heads", 5)).what(), HasSubstr("split evenly"));
  EXPECT_THAT(refusal(with(llama, "num_key_value_heads", 64)).what(), HasSubstr("[1, 32]"));
  EXPECT_THAT(refusal(with(config_of("mixtral-8x7b"), "num_experts_per_tok", 9)).what(),
              HasSubstr("[1, 8]"));
  EXPECT_THAT(refusal(with(config_of("qwen3-30b-a3b"), "mlp_only_layers", {48})).what(),
              HasSubstr("mlp_only_layers[0]"));
  EXPECT_THAT(refusal(with(config_of("qwen3-30b-a3b"), "mlp_only_layers", Json(49, 0))).what(),
              HasSubstr("49 entries for 48 layers"));
}

TEST(ConfigErrors, ProductsThatNoIntegerHolds) {
  Json config = config_of("mixtral-8x7b");
  for (const char* key : {"hidden_size", "intermediate_size"}) config[key] = 1 << 24;
  config["num_local_experts"] = 65536;
  config["head_dim"] = 128;
  EXPECT_THAT(refusal(config).what(), HasSubstr("parameters, at most 9007199254740992"));
}

TEST(ModelFiles, OuterObjectIsStrict) {
  const Json file = shipped_json("opt-125m");
  const auto message = [](const Json& json) {
    return std::string(error_of([&] { model_from_json(json, "mine.json"); }).what());
  };
  EXPECT_THAT(message(with(file, "published_parameter", 3)), HasSubstr("published_parameter"));
  EXPECT_THAT(message(with(file, "published_parameters", "125M")), HasSubstr("number"));
  EXPECT_THAT(message(without(file, "name")), HasSubstr("name"));
  EXPECT_THAT(message(without(file, "config")), HasSubstr("neither"));
  EXPECT_THAT(message(with(file, "config", 3)), HasSubstr("mine.json: config"));
  EXPECT_THAT(message(Json::array()), HasSubstr("mine.json"));
  const Json minimal = {{"name", "mine"}, {"config", file.at("config")}};
  EXPECT_EQ(model_from_json(minimal, "mine.json").num_parameters(), 125'239'296);
}

const Json& hostile_value(Rng& rng) {
  static const std::vector<Json> values = {nullptr,
                                           true,
                                           0,
                                           -1,
                                           3.7,
                                           1,
                                           2,
                                           7,
                                           65536,
                                           1 << 24,
                                           1 << 28,
                                           1e18,
                                           -1e308,
                                           "x",
                                           "",
                                           "\xF0\x9F\x92\xA9",
                                           "opt",
                                           "swiglu",
                                           Json::array(),
                                           Json::array({nullptr, -1, "x"}),
                                           Json::object(),
                                           {{"model_type", "t5"}},
                                           std::int64_t{1} << 62,
                                           18446744073709551615u,
                                           9007199254740993};
  return values[static_cast<std::size_t>(
      rng.integer(0, static_cast<std::int64_t>(values.size()) - 1))];
}

// One random change to a random field, or to one of a nested object.
void mutate(Json& object, Rng& rng) {
  auto it = object.begin();
  std::advance(it, rng.integer(0, static_cast<std::int64_t>(object.size()) - 1));
  if (it->is_object() && !it->empty() && rng.uniform() < 0.8) return mutate(*it, rng);
  if (rng.uniform() < 0.2) {
    const std::string key = it.key();
    object.erase(key);
  } else {
    *it = hostile_value(rng);
  }
}

TEST(HostileConfigs, GiveAShapeOrAnError) {
  constexpr std::uint64_t kSeed = 20240917;
  constexpr int kMutantsPerFile = 400;
  std::cout << "seed " << kSeed << "\n";
  Rng rng(kSeed);
  int accepted = 0;
  int refused = 0;
  for (const std::string& name : test::shipped_names()) {
    const Json original = shipped_json(name);
    for (int i = 0; i < kMutantsPerFile; ++i) {
      Json mutant = original;
      const std::int64_t changes = rng.integer(1, 4);
      for (std::int64_t change = 0; change < changes && !mutant.empty(); ++change) {
        mutate(mutant, rng);
      }
      SCOPED_TRACE(mutant.dump(-1, ' ', false, Json::error_handler_t::replace));
      try {
        const ModelShape model = model_from_json(mutant, "mutant.json");
        ++accepted;
        EXPECT_GT(model.num_parameters(), 0);
        EXPECT_GT(model.num_active_parameters(), 0);
        EXPECT_GT(model.layer_parameters(), 0);
        EXPECT_GT(model.kv_bytes_per_token(16), 0);
        EXPECT_EQ(model_shape_from_json(to_json(model), "mutant"), model);
      } catch (const Error& error) {
        ++refused;
        EXPECT_NE(error.code(), ErrorCode::internal);
      }
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tessera::model_configs_test
