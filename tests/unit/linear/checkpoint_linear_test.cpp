// Quantised checkpoints: their codes are multiplied as they stand.

#include <cstring>
#include <filesystem>

#include "expect_error.h"
#include "folder.h"
#include "products.h"
#include "tessera/kernels/pack.h"
#include "tessera/quant/checkpoint.h"
#include "tessera/quant/stored.h"
#include "tiny_llama.h"

namespace tessera::linear::checkpoint_linear_test {
namespace {

using quant::Method;
using test::expect_error;
using test::TinyLlama;
using weights::Readable;

class CheckpointLinearTest : public test::FolderTest {
 protected:
  CheckpointLinearTest() {
    TinyLlama tiny(31);
    tiny.write(path("tiny"));
    tiny.write_statistics(path("statistics"));
  }

  std::shared_ptr<const weights::Weights> quantised(Method method,
                                                    std::vector<std::int32_t> bitwidths,
                                                    const quant::Scheme& scheme) {
    quant::CheckpointRequest request;
    request.model = path("tiny");
    request.out = path("out");
    request.overwrite = true;
    request.bitwidths = std::move(bitwidths);
    request.method = method;
    request.scheme = scheme;
    if (method != Method::rtn) request.statistics = path("statistics");
    quant::quantise_checkpoint(request);
    return weights::Weights::open(path("out"));
  }

  static std::vector<weights::LinearWeight> linears(const weights::Weights& file) {
    return weights::linears_of(file, weights::model_of(file), Readable::quantised);
  }

  // What quantise() makes of the same matrix of the original.
  quant::Quantised made(const weights::LinearWeight& linear, quant::Scheme scheme, int bitwidth) {
    const auto original = weights::Weights::open(path("tiny"));
    for (const auto& other : weights::linears_of(*original, weights::model_of(*original))) {
      if (other.layer_index != linear.layer_index || other.linear != linear.linear) continue;
      RowMatrix values(other.num_rows, other.in_features);
      weights::read_linear_f32(*original, other,
                               {values.data(), static_cast<std::size_t>(values.size())});
      scheme.bitwidth = bitwidth;
      scheme.scale_type = kernels::Real::bf16;
      return quant::quantise(test::view(values), scheme);
    }
    throw std::logic_error("no such linear");
  }

  // Changes one value of config.json.
  void set(const std::string& pointer, const Json& value) {
    Json config = read_json_file(path("out/config.json"));
    config[Json::json_pointer("/quantization_config" + pointer)] = value;
    file("out/config.json", config.dump());
  }

  // Writes the checkpoint again with some tensors changed or left out.
  using Change = std::function<bool(weights::TensorSpec&, std::string& bytes)>;
  void rewrite(const Change& change) {
    std::vector<weights::TensorSpec> specs;
    std::vector<std::string> data;
    {
      const auto before = weights::Weights::open(path("out"));
      for (const auto& tensor : before->tensors()) {
        weights::TensorSpec spec{tensor.name, tensor.dtype, tensor.shape};
        const auto bytes = before->bytes(tensor);
        std::string copy(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        if (!change(spec, copy)) continue;
        specs.push_back(spec);
        data.push_back(copy);
      }
    }
    std::filesystem::remove(path("out/model.safetensors"));
    weights::SafetensorsWriter writer(path("out/model.safetensors"), specs);
    for (std::size_t i = 0; i < specs.size(); ++i)
      writer.append(specs[i].name, std::as_bytes(std::span(data[i])));
    writer.finish();
  }

  void expect_refused(ErrorCode code, const std::vector<std::string>& parts) {
    SCOPED_TRACE(parts.front());
    expect_error(code, parts, [&] {
      const auto file = weights::Weights::open(path("out"));
      make_linear(LinearSource{file, {linears(*file).front()}, {}}, stored(), nullptr, 1);
    });
  }

  static inline const std::string kFirst = "model.layers.0.self_attn.q_proj";
};

TEST_F(CheckpointLinearTest, CodesAreThoseOfTheFile) {
  for (const bool symmetric : {true, false}) {
    for (const auto granularity :
         {quant::Granularity::group, quant::Granularity::channel, quant::Granularity::tensor}) {
      const quant::Scheme scheme{
          .symmetric = symmetric, .granularity = granularity, .group_size = 32};
      const auto file = quantised(Method::rtn, {4, 8, 3}, scheme);
      const std::vector<weights::LinearWeight> all = linears(*file);
      ASSERT_EQ(all.size(), 21u);
      for (const weights::LinearWeight& linear : all) {
        ASSERT_TRUE(linear.codes);
        const int bits = linear.layer_index == 0 ? 4 : linear.layer_index == 1 ? 8 : 3;
        const quant::StoredCodes found = quant::read_codes(*file, linear, 2);
        const quant::Quantised expected = made(linear, scheme, bits);
        EXPECT_FALSE(found.int8_activations);
        EXPECT_EQ(found.codes.codes, expected.codes) << weights::describe(linear);
        EXPECT_EQ(found.codes.scales, expected.scales);
        EXPECT_EQ(found.codes.zero_points, expected.zero_points);
        EXPECT_EQ(found.codes.scheme.bitwidth, bits);
        EXPECT_EQ(found.codes.scheme.scale_type, kernels::Real::bf16);
        const auto product_of = make_linear({file, {linear}, {}}, stored(), nullptr, 2);
        EXPECT_EQ(values_of(*product_of), test::values_of(expected));
      }
    }
  }
}

TEST_F(CheckpointLinearTest, BitwidthsAreThoseOfTheLayers) {
  const auto original = weights::Weights::open(path("tiny"));
  const ModelShape model = weights::model_of(*original);
  const auto bits_of = [&](const weights::Weights& file) {
    return weights::stored_bitwidths(file, model);
  };
  std::vector<std::int32_t> wanted(static_cast<std::size_t>(model.num_layers), 16);
  EXPECT_EQ(bits_of(*original), wanted);
  constexpr std::array<std::int32_t, 4> kEach{3, 4, 8, 16};
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = kEach[i % kEach.size()];
  EXPECT_EQ(bits_of(*quantised(Method::rtn, wanted, {.group_size = 32})), wanted);
}

TEST_F(CheckpointLinearTest, StacksAreOneProduct) {
  const auto file = quantised(Method::gptq, {4, 16, 4}, {.group_size = 32});
  const std::vector<weights::LinearWeight> all = linears(*file);
  const LinearSource stack{file, {all[0], all[1], all[2]}, {}};
  const auto linear = make_linear(stack, stored(), nullptr, 2);
  EXPECT_EQ(linear->describe(), "4-bit as stored, group 32");
  Rng rng(3);
  const RowMatrix x = test::random_matrix(5, TinyLlama::kHidden, rng);
  EXPECT_LT(nmse(product(*linear, x), x, values_of(*linear)), kF32Nmse);
  EXPECT_EQ(make_linear(stack, stored(8), nullptr, 2)->describe(),
            "4-bit as stored, group 32, 8-bit activations");
  EXPECT_FALSE(all[7].codes);  // the layer that was left in 16 bits
  const auto mixed = make_linear({file, {all[7], all[14]}, {}}, stored(), nullptr, 2);
  EXPECT_EQ(mixed->describe(), "bf16 + 4-bit as stored, group 32");
}

TEST_F(CheckpointLinearTest, AreNumbersInSixteenBits) {
  const auto file = quantised(Method::rtn, {4, 8, 4}, {.group_size = 32});
  const std::vector<weights::LinearWeight> all = linears(*file);
  LinearSource stack{file, {all[0], all[7]}, {}};
  for (std::int64_t r = 2 * TinyLlama::kHidden; r-- > 0;) stack.row_order.push_back(r);
  const auto dense_one = make_linear(stack, dense(kernels::Real::f32), nullptr, 2);
  EXPECT_EQ(dense_one->describe(), "f32 of codes");
  RowMatrix expected(2 * TinyLlama::kHidden, TinyLlama::kHidden);
  expected << test::values_of(quant::read_codes(*file, all[0]).codes),
      test::values_of(quant::read_codes(*file, all[7]).codes);
  EXPECT_EQ(values_of(*dense_one), RowMatrix(expected.colwise().reverse()));
  stack.row_order.clear();
  EXPECT_EQ(values_of(*make_linear(stack, stored(), nullptr, 2)), expected);
}

TEST_F(CheckpointLinearTest, W8A8IsMultipliedAsW8A8) {
  const auto file = quantised(Method::smoothquant, {8, 8, 16}, {});
  const std::vector<weights::LinearWeight> all = linears(*file);
  const LinearSource stack{file, {all[4], all[5]}, {}};
  const auto linear = make_linear(stack, stored(), nullptr, 2);
  EXPECT_EQ(linear->describe(), "W8A8 as stored, outliers from 6");
  const quant::StoredCodes gate = quant::read_codes(*file, all[4]);
  EXPECT_TRUE(gate.int8_activations);
  EXPECT_EQ(RowMatrix(values_of(*linear).topRows(TinyLlama::kFfn)), test::values_of(gate.codes));
  const weights::TensorInfo& tensor = *all[4].tensor;
  EXPECT_EQ(tensor.dtype, weights::DType::i8);
  const auto bytes = file->bytes(tensor);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    ASSERT_EQ(static_cast<std::int8_t>(bytes[i]), gate.codes.codes[i] - 128);
  Rng rng(3);
  const RowMatrix x = test::random_matrix(5, TinyLlama::kHidden, rng);
  EXPECT_LT(nmse(product(*linear, x), x, values_of(*linear)), 12.0 / 127 / 127 / 12);
}

// llm-compressor rounds to -128 too, which our quantiser never makes.
TEST_F(CheckpointLinearTest, CodesOfMinus128AreMultiplied) {
  quantised(Method::smoothquant, {8, 8, 8}, {});
  rewrite([](weights::TensorSpec& spec, std::string& bytes) {
    if (spec.dtype == weights::DType::i8) std::fill(bytes.begin(), bytes.end(), '\x80');
    return true;
  });
  const auto file = weights::Weights::open(path("out"));
  const auto linear = make_linear({file, {linears(*file).front()}, {}}, stored(), nullptr, 1);
  const RowMatrix values = values_of(*linear);
  EXPECT_LT(values.maxCoeff(), 0);
  for (const std::int64_t tokens : {1, 9}) {  // whole numbers up to 127: rounded to themselves
    RowMatrix x(tokens, TinyLlama::kHidden);
    for (std::int64_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i % 255) - 127;
    x.col(5).setConstant(127);
    const auto whole = make_linear(
        {file, {linears(*file).front()}, {}},
        [] {
          LinearForm form = stored();
          form.outlier_threshold = 0;
          return form;
        }(),
        nullptr, 1);
    EXPECT_LT(nmse(product(*whole, x), x, values), kF32Nmse);
  }
}

TEST_F(CheckpointLinearTest, AreNotReadAsNumbersNorQuantisedTwice) {
  const auto file = quantised(Method::rtn, {4, 4, 4}, {.group_size = 32});
  const weights::LinearWeight linear = linears(*file).front();
  expect_error(ErrorCode::unsupported, {"quantised already", "weight_packed"},
               [&] { weights::linears_of(*file, weights::model_of(*file)); });
  std::vector<float> room(static_cast<std::size_t>(linear.parameters()));
  expect_error(ErrorCode::unsupported, {"weight_packed", "layer 0 q_proj is stored as codes"},
               [&] { weights::read_linear_f32(*file, linear, room); });
  for (const LinearForm& form : {codes(4), codes(8), int8()}) {
    expect_error(ErrorCode::unsupported, {"layer 0 q_proj", "quantised already", "as_stored"}, [&] {
      make_linear({file, {linear}, {}}, form, nullptr, 1);
    });
  }
  const auto plain = weights::Weights::open(path("tiny"));
  const auto numbers = weights::linears_of(*plain, weights::model_of(*plain), Readable::quantised);
  EXPECT_FALSE(numbers.front().codes);
  expect_error(ErrorCode::invalid_argument, {"stored as numbers"},
               [&] { quant::read_codes(*plain, numbers.front()); });
}

TEST_F(CheckpointLinearTest, ConfigurationsThatAreNotUnderstood) {
  struct Case {
    const char* pointer;
    Json value;
    ErrorCode code;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases{
      {"/quant_method",
       "gptq",
       ErrorCode::unsupported,
       {"quantization_config.quant_method: 'gptq' is not read, only compressed-tensors"}},
      {"/format", "marlin-24", ErrorCode::unsupported, {"format: 'marlin-24' is not read"}},
      {"/format", 3, ErrorCode::invalid_argument, {"format: a text is needed"}},
      {"/format", "int-quantized", ErrorCode::unsupported, {"num_bits: 4 is not read, only 8"}},
      {"/config_groups",
       Json::object(),
       ErrorCode::invalid_argument,
       {"config_groups: it is empty"}},
      {"/config_groups", Json::array(), ErrorCode::invalid_argument, {"an object is needed"}},
      {"/config_groups/group_0/weights/num_bits",
       2,
       ErrorCode::unsupported,
       {"num_bits: 2 is not"}},
      {"/config_groups/group_0/weights/num_bits",
       4.5,
       ErrorCode::invalid_argument,
       {"num_bits: a whole number is needed"}},
      {"/config_groups/group_0/weights/num_bits",
       8,
       ErrorCode::invalid_argument,
       {"none of the schemes of config.json: 8-bit group 32 symmetric"}},
      {"/config_groups/group_0/weights/type",
       "float",
       ErrorCode::unsupported,
       {"type: 'float' is not read, only int"}},
      {"/config_groups/group_0/weights/symmetric",
       false,
       ErrorCode::invalid_argument,
       {"none of the schemes of config.json: 4-bit group 32 asymmetric"}},
      {"/config_groups/group_0/weights/symmetric",
       "yes",
       ErrorCode::invalid_argument,
       {"symmetric: true or false"}},
      {"/config_groups/group_0/weights/dynamic", true, ErrorCode::unsupported, {"dynamic: "}},
      {"/config_groups/group_0/weights/strategy",
       "block",
       ErrorCode::unsupported,
       {"strategy: 'block' is not read"}},
      {"/config_groups/group_0/weights/group_size",
       0,
       ErrorCode::out_of_range,
       {"group_size is 0"}},
      {"/config_groups/group_0/weights/group_size",
       16,
       ErrorCode::invalid_argument,
       {"none of the schemes of config.json: 4-bit group 16 symmetric"}},
      {"/config_groups/group_0/input_activations",
       {{"num_bits", 8}},
       ErrorCode::unsupported,
       {"input_activations: packed weights"}}};
  for (const Case& c : cases) {
    quantised(Method::rtn, {4, 4, 4}, {.group_size = 32});
    set(c.pointer, c.value);
    expect_refused(c.code, c.parts);
  }
  quantised(Method::smoothquant, {8, 8, 8}, {});
  set("/config_groups/group_0/input_activations/dynamic", false);
  expect_refused(ErrorCode::unsupported, {"input_activations: only 8 bits"});
  quantised(Method::smoothquant, {8, 8, 8}, {});
  set("/config_groups/group_0/weights/symmetric", false);
  expect_refused(ErrorCode::unsupported, {"weights: int8 weights", "8-bit channel asymmetric"});
  file("out/config.json", FolderTest::read(path("tiny/config.json")));
  expect_refused(ErrorCode::unsupported, {"quantization_config: it is missing"});
}

TEST_F(CheckpointLinearTest, TensorsThatContradictEachOther) {
  using weights::DType;
  struct Case {
    std::string tensor;
    Change change;
    ErrorCode code;
    std::vector<std::string> parts;
  };
  const auto gone = [](weights::TensorSpec&, std::string&) { return false; };
  const auto reshaped = [](std::vector<std::int64_t> shape, std::size_t bytes) {
    return [=](weights::TensorSpec& spec, std::string& data) {
      spec.shape = shape;
      data.resize(bytes);
      return true;
    };
  };
  const auto filled = [](const std::string& with) {
    return [=](weights::TensorSpec&, std::string& data) {
      data.replace(0, with.size(), with);
      return true;
    };
  };
  const std::int64_t h = TinyLlama::kHidden;
  const std::vector<Case> cases{
      {".weight_scale", gone, ErrorCode::not_found, {"has no", kFirst + ".weight_scale"}},
      {".weight_shape", gone, ErrorCode::not_found, {"has no", kFirst + ".weight_shape"}},
      {".weight_packed", gone, ErrorCode::unsupported, {"quantised already", "weight_scale"}},
      {".weight_scale",
       reshaped({h, 1}, 2 * 64),
       ErrorCode::invalid_argument,
       {"scales [64, 1]", "4-bit group 32"}},
      {".weight_packed",
       reshaped({h, 7}, 4 * 64 * 7),
       ErrorCode::invalid_argument,
       {"[64, 7] words"}},
      {".weight_packed",
       reshaped({h - 1, 8}, 4 * 63 * 8),
       ErrorCode::invalid_argument,
       {"shape [63, 8]", "needs [64, 8]"}},
      {".weight_shape", reshaped({3}, 24), ErrorCode::invalid_argument, {"I64 [3]", "I64 [2]"}},
      {".weight_shape",
       filled(std::string(1, 65)),
       ErrorCode::invalid_argument,
       {"says [65, 64]", "layer 0 q_proj is [64, 64]"}},
      {".weight_scale",
       filled("\x80\x7f"),
       ErrorCode::invalid_argument,
       {kFirst + ".weight_scale", "a scale is inf"}},
      {".weight_scale",
       [](weights::TensorSpec& spec, std::string&) {
         spec.dtype = DType::i16;
         return true;
       },
       ErrorCode::invalid_argument,
       {"I16", "scales of F32, F16 or BF16"}},
      {".weight_shape",
       [](weights::TensorSpec& spec, std::string& data) {
         spec = {kFirst + ".weight_g_idx", DType::i32, {4}};
         return data.resize(16), true;
       },
       ErrorCode::unsupported,
       {"weight_g_idx", "not multiplied"}},
  };
  for (const Case& c : cases) {
    quantised(Method::rtn, {4, 4, 4}, {.group_size = 32});
    rewrite([&](weights::TensorSpec& spec, std::string& data) {
      return spec.name != kFirst + c.tensor || c.change(spec, data);
    });
    expect_refused(c.code, c.parts);
  }
}

TEST_F(CheckpointLinearTest, ZeroPointsThatAreNone) {
  quantised(Method::rtn, {4, 4, 4}, {.symmetric = false, .group_size = 32});
  rewrite([](weights::TensorSpec& spec, std::string& data) {
    if (spec.name == kFirst + ".weight_zero_point") {
      spec.shape = {4, 4};
      data.resize(64);
    }
    return true;
  });
  expect_refused(ErrorCode::invalid_argument, {"I32 [4, 4]", "needs I32 [8, 2]"});
  quantised(Method::rtn, {4, 4, 4},
            {.symmetric = false, .granularity = quant::Granularity::tensor});
  rewrite([](weights::TensorSpec& spec, std::string& data) {
    if (spec.name == kFirst + ".weight_zero_point") data[0] = 8;
    return true;
  });
  expect_refused(ErrorCode::invalid_argument, {"weight_zero_point", "8 is no 4-bit zero point"});
}

TEST_F(CheckpointLinearTest, OtherProgramsAreRefusedByName) {
  quantised(Method::rtn, {4, 4, 4}, {.group_size = 32});
  rewrite([](weights::TensorSpec& spec, std::string&) {
    if (spec.name == kFirst + ".weight_packed") spec.name = kFirst + ".W_q";
    return spec.name != kFirst + ".weight_scale";
  });
  expect_refused(ErrorCode::unsupported, {"W_q", "HQQ"});
}

}  // namespace
}  // namespace tessera::linear::checkpoint_linear_test
