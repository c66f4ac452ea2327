// Models described by their sizes must equal those read from a config.json.
#include <gmock/gmock.h>

#include "model_files.h"

namespace tessera::model_spec_test {
namespace {

using test::shipped;
using ::testing::HasSubstr;

// The sizes of a shape, as a user would write them down.
ModelSpec spec_of(const ModelShape& model) {
  ModelSpec spec;
  spec.name = model.name;
  spec.family = model.family;
  spec.num_layers = model.num_layers;
  spec.hidden_size = model.hidden_size;
  spec.num_heads = model.num_heads;
  spec.num_kv_heads = model.num_kv_heads;
  spec.head_dim = model.head_dim;
  spec.ffn_size = model.ffn_size;
  spec.vocab_size = model.vocab_size;
  spec.max_context_tokens = model.max_context_tokens;
  spec.tied_embeddings = model.tied_embeddings;
  spec.attention_window = model.layer(0).attention_window;
  const LinearShape& up = model.layer(0).linears.at(4);
  if (up.num_copies > 1) {
    spec.num_experts = up.num_copies;
    spec.num_active_experts = up.num_active;
  }
  return spec;
}

// Latents, shared experts and the like, of which a spec has no words.
bool of_config_only(const std::string& family) {
  for (const char* one :
       {"deepseek",   "deepseek_v2",  "deepseek_v3",      "deepseek_v32", "gemma3n",
        "gemma4",     "deepseek_v4",  "granitemoehybrid", "jamba",        "kimi_linear",
        "lfm2",       "minimax",      "nemotron_h",       "qwen3_5_moe",  "qwen3_next",
        "dots1",      "ernie4_5_moe", "glm4_moe",         "gpt_neo",      "gpt_oss",
        "granitemoe", "llama4_text",  "minimax_m2",       "mpt",          "olmoe",
        "phimoe",     "qwen",         "qwen2_moe",        "codegen"}) {
    if (family == one) return true;
  }
  return false;
}

// Models of which a key turns a switch of their family: projections, biases, norms over heads.
bool turns_a_switch(const std::string& name) {
  return name == "opt-350m" || name == "glm-4-32b-0414" || name == "command-r-plus";
}

TEST(ModelSpecs, EqualShippedFiles) {
  for (const std::string& name : test::shipped_names()) {
    if (turns_a_switch(name)) continue;
    ModelShape expected = shipped(name);
    if (of_config_only(expected.family)) continue;
    const ModelShape model = model_from_spec(spec_of(expected));
    expected.source = model.source;
    expected.towers.clear();  // a spec is of text
    EXPECT_EQ(model, expected) << name;
  }
}

TEST(ModelSpecs, DefaultsArePlain) {
  ModelSpec spec;
  spec.family = "mistral";
  spec.num_layers = 2;
  spec.hidden_size = 64;
  spec.num_heads = 4;
  spec.ffn_size = 128;
  spec.vocab_size = 1000;
  spec.max_context_tokens = 512;
  const ModelShape model = model_from_spec(spec);
  EXPECT_EQ(model.name, "mistral");
  EXPECT_EQ(model.num_kv_heads, 4);
  EXPECT_EQ(model.head_dim, 16);
  EXPECT_EQ(model.layer(0).attention_window, std::nullopt);
  EXPECT_FALSE(model.tied_embeddings);
  spec.family = "qwen3";
  spec.attention_window = 100;
  EXPECT_EQ(model_from_spec(spec).layer(0).attention_window, 100);
  spec.family = "gemma2";
  spec.attention_window = {};
  EXPECT_EQ(model_from_spec(spec).layer(0).attention_window, 4096);
}

TEST(ModelSpecs, AreRefusedInTheirOwnWords) {
  const ModelSpec good = spec_of(shipped("opt-125m"));
  const auto message = [&good](auto change) {
    ModelSpec spec = good;
    change(spec);
    return std::string(test::error_of([&] { model_from_spec(spec); }).what());
  };
  EXPECT_THAT(message([](auto& s) { s.family = "t5"; }), HasSubstr("lists the known families"));
  EXPECT_THAT(message([](auto& s) { s.family = "deepseek_v3"; }),
              HasSubstr("deepseek_v3 has sizes that these do not say; give its config.json"));
  EXPECT_THAT(message([](auto& s) { s.num_layers = 0; }), HasSubstr("model.num_layers: 0"));
  EXPECT_THAT(message([](auto& s) { s.hidden_size = -1; }), HasSubstr("model.hidden_size"));
  EXPECT_THAT(message([](auto& s) { s.num_heads = s.num_kv_heads.emplace(7); }),
              HasSubstr("model.num_heads"));
  EXPECT_THAT(message([](auto& s) { s.num_kv_heads = 6; }), HasSubstr("always num_heads in opt"));
  EXPECT_THAT(message([](auto& s) { s.num_kv_heads = 5; }), HasSubstr("split evenly"));
  EXPECT_THAT(message([](auto& s) { s.head_dim = 65; }), HasSubstr("model.head_dim"));
  EXPECT_THAT(message([](auto& s) { s.gated_ffn = true; }), HasSubstr("not gated"));
  EXPECT_THAT(message([](auto& s) { s.num_experts = 8; }), HasSubstr("no experts"));
  EXPECT_THAT(message([](auto& s) { s.attention_window = 8; }), HasSubstr("sliding-window"));
  EXPECT_THAT(message([](auto& s) { s.family = "bloom", s.ffn_size = 5; }),
              HasSubstr("4 x hidden_size"));
  EXPECT_THAT(message([](auto& s) { s.family = "mixtral"; }), HasSubstr("num_active_experts"));
  EXPECT_THAT(
      message([](auto& s) { s.family = "mixtral", s.num_experts = 8, s.num_active_experts = 9; }),
      HasSubstr("[1, 8]"));
}

TEST(ModelSpecs, FalconChoosesTheArchitectureByItsKvHeads) {
  ModelSpec spec = spec_of(shipped("falcon-7b"));
  EXPECT_EQ(model_from_spec(spec).layer(0).other_parameters, 2 * 4544);
  spec.num_heads = 64;
  spec.hidden_size = 4096;
  spec.ffn_size = 16384;
  spec.head_dim = {};
  spec.num_kv_heads = 8;
  EXPECT_EQ(model_from_spec(spec).layer(0).other_parameters, 4 * 4096);
  spec.num_kv_heads = {};
  EXPECT_EQ(model_from_spec(spec).num_kv_heads, 1);
}

}  // namespace
}  // namespace tessera::model_spec_test
