// What is wrong with checkpoints of GPTQ, AWQ, FP8 and bitsandbytes is said with the tensor or the
// key. That they are read right is in decoder_test.cpp, against transformers.

#include <cstring>
#include <filesystem>

#include "expect_error.h"
#include "folder.h"
#include "products.h"
#include "tessera/core/json.h"
#include "tessera/weights/writer.h"

namespace tessera::linear::quantised_by_others_test {
namespace {

using test::expect_error;
using weights::Readable;

using Change = std::function<bool(weights::TensorSpec&, std::string& bytes)>;

class QuantisedByOthers : public test::FolderTest {
 protected:
  // A fixture with other keys of quantization_config (null: without), and with some tensors changed
  // or left out.
  std::shared_ptr<const weights::Weights> with(const std::string& name, const Json& keys,
                                               const Change& change = nullptr) {
    const std::string from =
        std::string(TESSERA_SOURCE_DIR) + "/tests/reference/decoders/quantised/" + name;
    const std::string to = path("out" + std::to_string(++count_));
    std::filesystem::create_directories(to);
    Json config = read_json_file(from + "/config.json");
    for (const auto& [key, value] : keys.items()) {
      config["quantization_config"].erase(key);
      if (!value.is_null()) config["quantization_config"][key] = value;
    }
    file("out" + std::to_string(count_) + "/config.json", config.dump());
    const auto before = weights::Weights::open(from + "/model.safetensors");
    std::vector<weights::TensorSpec> specs;
    std::vector<std::string> data;
    for (const auto& tensor : before->tensors()) {
      weights::TensorSpec spec{tensor.name, tensor.dtype, tensor.shape};
      const auto bytes = before->bytes(tensor);
      std::string copy(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (change && !change(spec, copy)) continue;
      specs.push_back(spec);
      data.push_back(copy);
    }
    weights::SafetensorsWriter writer(to + "/model.safetensors", specs);
    for (std::size_t i = 0; i < specs.size(); ++i)
      writer.append(specs[i].name, std::as_bytes(std::span(data[i])));
    writer.finish();
    return weights::Weights::open(to);
  }

  static void read_first(const std::shared_ptr<const weights::Weights>& file,
                         const LinearForm& form = stored()) {
    const auto all = weights::linears_of(*file, weights::model_of(*file), Readable::quantised);
    make_linear(LinearSource{file, {all.front()}, {}}, form, nullptr, 1);
  }

  static Change without(const std::string& ending) {
    return [=](weights::TensorSpec& spec, std::string&) { return !spec.name.ends_with(ending); };
  }
  static Change filled(const std::string& ending, char byte) {
    return [=](weights::TensorSpec& spec, std::string& bytes) {
      if (spec.name.ends_with(ending)) bytes.assign(bytes.size(), byte);
      return true;
    };
  }
  static Change cut(const std::string& ending) {  // half as many of the first dimension
    return [=](weights::TensorSpec& spec, std::string& bytes) {
      if (!spec.name.ends_with(ending)) return true;
      spec.shape.front() /= 2;
      bytes.resize(bytes.size() / 2);
      return true;
    };
  }

 private:
  int count_ = 0;
};

TEST_F(QuantisedByOthers, AreRefusedWhereTheyAreNotWhole) {
  struct Case {
    const char* name;
    Json keys;
    Change change;
    ErrorCode code;
    std::vector<std::string> parts;
  };
  const ErrorCode unsupported = ErrorCode::unsupported, invalid = ErrorCode::invalid_argument,
                  not_found = ErrorCode::not_found;
  const Json none = Json::object();
  const std::vector<Case> cases{
      {"gptq",
       {{"checkpoint_format", "marlin"}},
       nullptr,
       unsupported,
       {"checkpoint_format", "'marlin' is not read, only gptq and gptq_v2"}},
      {"gptq", {{"group_size", nullptr}}, nullptr, invalid, {"group_size", "several groups"}},
      {"gptq", {{"group_size", 8}}, nullptr, invalid, {"2 groups", "in groups of 8 are 4"}},
      {"gptq", none, without(".scales"), not_found, {"q_proj.qweight' has no", "q_proj.scales"}},
      {"gptq", none, without(".qzeros"), not_found, {"q_proj.qzeros"}},
      {"gptq", none, cut(".qweight"), unsupported, {"q_proj.qweight", "3, 4 or 8 bits"}},
      {"gptq", none, filled(".qzeros", '\xff'), unsupported, {"is 16", "gptq_v2"}},
      {"gptq", none, filled(".g_idx", '\x01'), invalid, {"g_idx", "of group 16843009"}},
      {"gptq", none, filled(".scales", '\xff'), invalid, {"q_proj.scales", "a scale is"}},
      {"awq", {{"version", "gemv"}}, nullptr, unsupported, {"version", "'gemv'", "only gemm"}},
      {"awq", none, cut(".qzeros"), invalid, {"q_proj.qzeros", "needs I32 [2, 4]"}},
      {"fp8_block", {{"weight_block_size", nullptr}}, nullptr, not_found, {"weight_block_size"}},
      {"fp8_block", {{"weight_block_size", {0, 16}}}, nullptr, invalid, {"no pair of sizes"}},
      {"fp8_block",
       {{"weight_block_size", {8, 16}}},
       nullptr,
       invalid,
       {"weight_scale_inv", "needs [4, 2]"}},
      {"nvfp4_modelopt", none, cut(".weight_scale"), invalid, {"weight_scale", "needs [32, 2]"}},
      {"nvfp4_modelopt", none, filled(".weight_scale_2", '\0'), invalid, {"holds 0", "a scale"}},
      {"bnb_nf4", none, without(".weight.quant_map"), not_found, {"weight.quant_map"}},
      {"bnb_nf4", none, cut(".weight.absmax"), invalid, {"absmax", "16 numbers, one for 64"}},
      {"bnb_nf4", none, filled("bitsandbytes__nf4", ' '), invalid, {"bitsandbytes__nf4"}},
      {"bnb_int8", none, cut(".SCB"), invalid, {"q_proj.SCB", "needs F32 [32]"}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(std::string(one.name) + ": " + one.parts.front());
    expect_error(one.code, one.parts, [&] { read_first(with(one.name, one.keys, one.change)); });
  }
}

TEST_F(QuantisedByOthers, AreNotQuantisedTwice) {
  for (const char* name : {"gptq", "awq", "fp8_block", "nvfp4_compressed", "bnb_nf4", "bnb_int8"}) {
    SCOPED_TRACE(name);
    expect_error(ErrorCode::unsupported, {"layer 0 q_proj", "quantised already"},
                 [&] { read_first(with(name, Json::object()), codes(4)); });
  }
}

// Groups whose columns lie apart are none of the kernels'.
TEST_F(QuantisedByOthers, SayWhatTheyBecame) {
  const auto described = [&](const char* name) {
    const auto file = with(name, Json::object());
    const auto all = weights::linears_of(*file, weights::model_of(*file), Readable::quantised);
    return make_linear(LinearSource{file, {all[0], all[1], all[2]}, {}}, stored(), nullptr, 1)
        ->describe();
  };
  EXPECT_EQ(described("gptq"), "4-bit as stored, group 16");
  EXPECT_EQ(described("awq"), "4-bit as stored, group 16, asymmetric");
  EXPECT_EQ(described("gptq_desc_act"), "f32 of codes");
  EXPECT_EQ(described("fp8_block"), "f32 of fp8");
  EXPECT_EQ(described("bnb_nf4_nested"), "f32 of 4 bits of bitsandbytes");
  EXPECT_EQ(described("bnb_int8"), "W8A8 as stored, outliers from 6");
}

}  // namespace
}  // namespace tessera::linear::quantised_by_others_test
