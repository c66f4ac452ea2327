// How configurations say that weights are quantised, in the forms that the hub has.
#include "tessera/core/stored_format.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

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
      {R"({"quantization_config": {"quant_method": "mxfp4"}})", "mxfp4", 4},
      {R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true}})",
       "bitsandbytes", 4},
      {R"({"quantization_config": {"load_in_8bit": true}})", "bitsandbytes", 8},
      {R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})", "nvfp4",
       4},
      {R"({"quantization_config": {"quant_method": "hqq"}})", "hqq", std::nullopt},
      {R"({"quantization_config": {"quant_method": "hqq", "bits": 1e9}})", "hqq", std::nullopt},
      {R"({"quantization_config": {"quant_method": 4, "bits": "x"}})", std::nullopt, std::nullopt},
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
  expect_format({groups(four + "," + w8a8).c_str(), "compressed-tensors", std::nullopt});
  expect_format({groups(w8a8 + "," + broken).c_str(), "compressed-tensors", std::nullopt});
  expect_format({groups("").c_str(), "compressed-tensors", std::nullopt});
}

TEST(StoredFormatTest, MayStandBesideThePlainConfiguration) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "stored_format";
  std::filesystem::create_directories(folder);
  const auto says = [&](const char* text) {
    std::ofstream(folder / "hf_quant_config.json") << text;
  };
  says(R"({"quantization": {"quant_algo": "NVFP4", "group_size": 16}})");
  expect_format({"{}", "nvfp4", 4}, folder.string());
  // What config.json says itself counts.
  expect_format({R"({"quantization_config": {"quant_method": "fp8"}})", "fp8", 8}, folder.string());
  says(R"({"quantization": {"quant_algo": null}})");
  expect_format({"{}", "modelopt", std::nullopt}, folder.string());
  says("{");
  EXPECT_THROW(stored_format(parse_json("{}", "config"), folder.string()), Error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera
