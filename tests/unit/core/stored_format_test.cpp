// How configurations say that weights are quantised, in the forms that the hub has.
#include "tessera/core/stored_format.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "expect_error.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera {
namespace {

struct Case {
  const char* config;
  std::optional<std::string> format;
  std::optional<double> bits;
};

void expect_format(const Case& one, const std::string& folder = "/no/such/folder") {
  const StoredFormat found = stored_format(parse_json(one.config, "config"), folder);
  EXPECT_EQ(found.format, one.format) << one.config;
  EXPECT_EQ(found.bits, one.bits) << one.config;
}

std::string groups(const std::string& list) {
  return R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {)" +
         list + "}}}";
}

TEST(StoredFormatTest, IsThatOfTheConfiguration) {
  const std::vector<Case> cases = {
      {R"({"hidden_size": 8})", std::nullopt, std::nullopt},
      {R"({"quantization_config": null})", std::nullopt, std::nullopt},
      {R"({"quantization_config": {"quant_method": "awq", "bits": 4}})", "awq", 4},
      {R"({"quantization_config": {"quant_method": "awq", "w_bit": 4}})", "awq", 4},
      {R"({"quantization_config": {"quant_method": "gptq", "bits": 3}})", "gptq", 3},
      {R"({"quantization_config": {"quant_method": "GPTQ", "bits": 8}})", "gptq", 8},
      {R"({"quantization_config": {"quant_method": "fp8"}})", "fp8", 8},
      {R"({"quantization_config": {"quant_method": "fbgemm_fp8"}})", "fp8", 8},
      {R"({"expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8"}})",
       "fp8 with fp4 experts", 4},
      {R"({"quantization_config": {"quant_method": "fp8", "expert_dtype": "fp4"}})",
       "fp8 with fp4 experts", 4},
      {R"({"expert_dtype": "fp8", "quantization_config": {"quant_method": "fp8"}})", "fp8", 8},
      {R"({"quantization_config": {"quant_method": "mxfp4"}})", "mxfp4", 4},
      {R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true}})",
       "bitsandbytes", 4},
      {R"({"quantization_config": {"load_in_8bit": true}})", "bitsandbytes", 8},
      {R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})", "nvfp4",
       4},
      {R"({"quantization_config": {"quant_method": "hqq"}})", "hqq", std::nullopt},
      {R"({"quantization_config": {"quant_method": "hqq", "quant_config":
          {"weight_quant_params": {"nbits": 3}}}})",
       "hqq", 3},
      {R"({"quantization_config": {"quant_method": "torchao", "quant_type":
          {"default": {"_type": "Int4WeightOnlyConfig"}}}})",
       "torchao", 4},
      {R"({"quantization_config": {"quant_method": "quark", "global_quant_config":
          {"weight": {"dtype": "fp8_e4m3"}}}})",
       "quark", 8},
      {R"({"quantization_config": {"quant_method": "hqq", "bits": 1e9}})", "hqq", std::nullopt},
      {R"({"text_config": {"quantization_config": {"quant_method": "fp8"}}})", "fp8", 8}};
  for (const Case& one : cases) expect_format(one);
}

TEST(StoredFormatTest, OfCompressedTensorsIsThatOfAllGroups) {
  const std::string four = R"("a": {"weights": {"num_bits": 4, "type": "int"}})";
  const std::string w8a8 = R"("b": {"weights": {"num_bits": 8, "type": "int"},
                                    "input_activations": {"num_bits": 8}})";
  const std::string fp8 = R"("c": {"weights": {"num_bits": 8, "type": "float"},
                                   "input_activations": {"num_bits": 8}})";
  const std::string broken = R"("d": {"weights": {"type": "int"}})";
  expect_format({groups(four).c_str(), "compressed-tensors w4a16", 4});
  expect_format({groups(w8a8).c_str(), "compressed-tensors w8a8", 8});
  expect_format({groups(fp8).c_str(), "fp8", 8});
  expect_format({groups(four + "," + w8a8).c_str(), "compressed-tensors mix", 8});
  expect_format({groups(w8a8 + "," + broken).c_str(), "compressed-tensors", std::nullopt});
  expect_format({groups("").c_str(), "compressed-tensors", std::nullopt});
}

TEST(StoredFormatTest, HasTheGroupsThatNoCutMayPart) {
  const auto group = [](const std::string& config) {
    return stored_format(parse_json(R"({"quantization_config": )" + config + "}", ""), "/no")
        .group_size;
  };
  EXPECT_EQ(group(R"({"quant_method": "awq", "bits": 4, "group_size": 64})"), 64);
  EXPECT_EQ(group(R"({"quant_method": "gptq", "bits": 4, "group_size": -1})"), std::nullopt);
  EXPECT_EQ(group(R"({"quant_method": "fp8", "weight_block_size": [64, 128]})"), 128);
  EXPECT_EQ(group(R"({"quant_method": "fp8"})"), std::nullopt);
  EXPECT_EQ(group(R"({"quant_method": "mxfp4"})"), std::nullopt);
  EXPECT_EQ(group(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})"), 16);
  EXPECT_EQ(group(R"({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights":
      {"num_bits": 4, "group_size": 32}}}})"),
            32);
}

TEST(StoredFormatTest, IsRefusedWhereTheConfigurationNamesNone) {
  for (const char* config : {"{}", "[]", "\"awq\"", R"({"bits": "x"})", R"({"quant_method": 4})"}) {
    const Json whole = parse_json(std::string(R"({"quantization_config": )") + config + "}", "");
    test::expect_error(ErrorCode::invalid_argument, {"/m/config.json", "quantization_config"},
                       [&] { stored_format(whole, "/m"); });
  }
}

TEST(StoredFormatTest, RefusesTwoOfOneFile) {
  const Json two = parse_json(R"({"quantization_config": {"quant_method": "gptq", "bits": 4},
      "compression_config": {"quant_method": "fp8"}})",
                              "");
  test::expect_error(ErrorCode::invalid_argument,
                     {"config.json", "compression_config says fp8 of 8 bits",
                      "quantization_config of the same file gptq of 4 bits"},
                     [&] { stored_format(two, "/m"); });
  expect_format({R"({"compression_config": {"quant_method": "fp8"}})", "fp8", 8}, "/m");
  expect_format({R"({"quantization_config": {"quant_method": "fp8"},
      "text_config": {"quantization_config": {"quant_method": "fp8"}}})",
                 "fp8", 8},
                "/m");
}

// Layers 1 to 3 of 4, by every way of saying so.
TEST(StoredFormatTest, LeavesWhatItLeavesIn16Bits) {
  ModelShape model;
  model.num_layers = 4;
  LayerShape layer;
  layer.linears = {{"q_proj", 8, 8},
                   {"gate_proj", 8, 8},
                   {"experts.up_proj", 8, 8, 4, 1},
                   {"shared_expert.up_proj", 8, 8}};
  model.layer_classes = {layer};
  model.layer_class = {0, 0, 0, 0};
  const auto kept = [&](const std::string& key, const std::string& list) {
    const Json config =
        parse_json(R"({"quantization_config": {")" + key + "\": " + list + "}}", "");
    std::string words;
    for (const auto& [name, share] : kept_linears(kept_modules(config, "/no"), model))
      words += fmt::format("{} {:g};", name, share);
    return words;
  };
  EXPECT_EQ(kept("ignore", R"(["lm_head", "re:.*lm_head", "model.layers.0.mlp.gate"])"), "");
  EXPECT_EQ(kept("ignore", R"(["re:.*self_attn.*", "re:vision_tower.*"])"), "q_proj 1;");
  EXPECT_EQ(kept("ignore", R"(["re:.*mlp\\.(gate|up)_proj.*"])"), "gate_proj 1;");
  EXPECT_EQ(kept("ignore", R"(["re:.*shared_expert.*"])"), "shared_expert.up_proj 1;");
  EXPECT_EQ(kept("modules_to_not_convert", R"(["model.layers.*.self_attn", "model.embed_tokens"])"),
            "q_proj 1;");
  EXPECT_EQ(kept("modules_to_not_convert", R"(["model.layers.1.self_attn.q_proj",
      "language_model.model.layers.2.self_attn.q_proj", "model.layers.2.mlp.gate_proj",
      "model.layers.9.mlp.gate_proj"])"),
            "gate_proj 0.25;q_proj 0.5;");
  EXPECT_EQ(kept("llm_int8_skip_modules", R"(["self_attn", "mlp.experts", "up"])"),
            "experts.up_proj 1;q_proj 1;");
  EXPECT_EQ(kept("ignored_layers", R"(["model.layers.3.mlp"])"),
            "experts.up_proj 0.25;gate_proj 0.25;shared_expert.up_proj 0.25;");
  EXPECT_EQ(kept("ignore", "3"), "");
}

TEST(StoredFormatTest, MayStandBesideThePlainConfiguration) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "stored_format";
  std::filesystem::create_directories(folder);
  const auto says = [&](const char* text) {
    std::ofstream(folder / "hf_quant_config.json") << text;
  };
  says(R"({"quantization": {"quant_algo": "NVFP4", "group_size": 16}})");
  expect_format({"{}", "nvfp4", 4}, folder.string());
  expect_format({R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})",
                 "nvfp4", 4},
                folder.string());
  // Two quantisations are one too many.
  test::expect_error(ErrorCode::invalid_argument,
                     {"hf_quant_config.json", "quantization.quant_algo says nvfp4 of 4 bits",
                      "quantization_config of the config.json beside it fp8 of 8 bits"},
                     [&] {
                       stored_format(
                           parse_json(R"({"quantization_config": {"quant_method": "fp8"}})", ""),
                           folder.string());
                     });
  says(R"({"quantization": {"quant_algo": null, "kv_cache_quant_algo": "FP8"}})");
  expect_format({"{}", std::nullopt, std::nullopt}, folder.string());
  says(R"({"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {
      "model.layers.0.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16},
      "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"}}}})");
  expect_format({"{}", "modelopt mix", 8}, folder.string());
  says("{");
  EXPECT_THROW(stored_format(parse_json("{}", "config"), folder.string()), Error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera
