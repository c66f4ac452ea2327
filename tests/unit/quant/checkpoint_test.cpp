// Quantised copies of a model: what is in them, that they appear whole or not at all, and that the
// package compressed-tensors reads the same numbers.

#include "tessera/quant/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "expect_error.h"
#include "folder.h"
#include "process.h"
#include "tessera/kernels/pack.h"
#include "tiny_llama.h"

namespace tessera::quant::checkpoint_test {
namespace {

using test::expect_error;
using test::RowMatrix;
using test::TinyLlama;
using testing::HasSubstr;

class CheckpointTest : public test::FolderTest {
 protected:
  CheckpointTest() {
    TinyLlama tiny(11);
    tiny.write(path("tiny"));
    tiny.write_statistics(path("statistics"));
  }

  CheckpointRequest request(Method method, std::vector<std::int32_t> bitwidths = {4, 8, 3}) const {
    CheckpointRequest made;
    made.model = path("tiny");
    made.out = path("out");
    made.bitwidths = std::move(bitwidths);
    made.method = method;
    made.scheme.group_size = 32;
    if (method != Method::rtn) made.statistics = path("statistics");
    return made;
  }

  static RowMatrix read(const weights::Weights& file, const std::string& name) {
    const weights::TensorInfo& tensor = file.require(name);
    RowMatrix out(tensor.shape[0], tensor.shape.size() > 1 ? tensor.shape[1] : 1);
    weights::read_f32(file, tensor, 0, {out.data(), static_cast<std::size_t>(out.size())});
    return out;
  }

  // What `out` holds of a matrix, by our own reading of the layout: symmetric, packed, in groups.
  static RowMatrix unpacked(const weights::Weights& file, const std::string& module, int bitwidth) {
    const RowMatrix scales = read(file, module + ".weight_scale");
    const weights::TensorInfo& packed = file.require(module + ".weight_packed");
    std::int64_t shape[2];
    std::memcpy(shape, file.bytes(file.require(module + ".weight_shape")).data(), sizeof shape);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(shape[0] * shape[1]));
    kernels::unpack(reinterpret_cast<const std::uint8_t*>(file.bytes(packed).data()), {0, shape[0]},
                    shape[1], bitwidth, codes.data());
    RowMatrix out(shape[0], shape[1]);
    for (std::int64_t i = 0; i < out.size(); ++i) {
      const std::int64_t group = i % shape[1] * scales.cols() / shape[1];
      const int code = codes[static_cast<std::size_t>(i)] - (1 << (bitwidth - 1));
      out.data()[i] = scales(i / shape[1], group) * static_cast<float>(code);
    }
    return out;
  }
};

TEST_F(CheckpointTest, HoldsTheCodesAndEverythingElseUnchanged) {
  const CheckpointSummary summary = quantise_checkpoint(request(Method::rtn, {4, 16, 3}));
  EXPECT_EQ(summary.matrices.size(), 14u);
  EXPECT_LT(summary.bytes_after, summary.bytes_before);
  const auto before = weights::Weights::open(path("tiny"));
  const auto after = weights::Weights::open(path("out"));
  EXPECT_EQ(after->size_bytes(), summary.bytes_after);
  Scheme scheme{.bitwidth = 3, .group_size = 32, .scale_type = kernels::Real::bf16};
  const std::string module = "model.layers.2.mlp.down_proj";
  const RowMatrix weight = read(*before, module + ".weight");
  EXPECT_EQ(unpacked(*after, module, 3), test::values_of(quantise(test::view(weight), scheme)));
  EXPECT_EQ(after->find(module + ".weight"), nullptr);
  for (const weights::TensorInfo& tensor : before->tensors()) {
    const weights::TensorInfo* same = after->find(tensor.name);
    if (same == nullptr) continue;
    const auto a = before->bytes(tensor), b = after->bytes(*same);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << tensor.name;
  }
  EXPECT_NE(after->find("model.layers.1.mlp.down_proj.weight"), nullptr);
  EXPECT_EQ(FolderTest::read(path("out/tokenizer.json")), "{\"version\": \"1.0\"}");
  EXPECT_FALSE(std::filesystem::exists(path("out/.secret")));
}

TEST_F(CheckpointTest, SaysInItsConfigurationWhatIsStoredHow) {
  quantise_checkpoint(request(Method::rtn, {4, 16, 3}));
  const Json config = read_json_file(path("out/config.json"));
  EXPECT_EQ(config["hidden_size"], 64);
  const Json& quantised = config["quantization_config"];
  EXPECT_EQ(quantised["quant_method"], "compressed-tensors");
  EXPECT_EQ(quantised["format"], "pack-quantized");
  ASSERT_EQ(quantised["config_groups"].size(), 2u);
  const Json& group = quantised["config_groups"]["group_0"];
  EXPECT_EQ(group["weights"], (Json{{"num_bits", 3},
                                    {"type", "int"},
                                    {"symmetric", true},
                                    {"strategy", "group"},
                                    {"dynamic", false},
                                    {"group_size", 32}}));
  EXPECT_EQ(group["targets"][0], "re:^model\\.layers\\.(2)\\.mlp\\.down_proj$");
  EXPECT_EQ(quantised["ignore"][0], "lm_head");
  EXPECT_EQ(quantised["ignore"].size(), 1u + 1u + 7u);  // the embedding, layer 1
  CheckpointRequest uniform = request(Method::rtn, {4, 4, 4});
  uniform.overwrite = true;
  quantise_checkpoint(uniform);
  EXPECT_EQ(read_json_file(path(
                "out/config.json"))["quantization_config"]["config_groups"]["group_0"]["targets"],
            Json{"Linear"});
}

TEST_F(CheckpointTest, GptqIsNeverWorseThanRoundToNearest) {
  const CheckpointSummary summary = quantise_checkpoint(request(Method::gptq));
  ASSERT_EQ(summary.matrices.size(), 21u);
  for (const MatrixReport& r : summary.matrices) {
    EXPECT_LE(*r.output_error, *r.rtn_output_error) << r.tensor;
    EXPECT_EQ(r.method, Method::gptq) << r.tensor;
  }
}

// (x / s) (W diag(s))^T: the norm is divided by what the columns are multiplied with.
TEST_F(CheckpointTest, AwqFoldsItsScalesIntoTheNorm) {
  const CheckpointSummary awq = quantise_checkpoint(request(Method::awq, {3, 3, 3}));
  const auto before = weights::Weights::open(path("tiny"));
  const auto after = weights::Weights::open(path("out"));
  const std::string norm = "model.layers.0.input_layernorm.weight";
  const RowMatrix scales = read(*before, norm).cwiseQuotient(read(*after, norm));
  EXPECT_GT(scales.maxCoeff() / scales.minCoeff(), 1.5);  // large channels were found
  const std::string module = "model.layers.0.self_attn.q_proj";
  const RowMatrix scaled = read(*before, module + ".weight") * scales.col(0).asDiagonal();
  const RowMatrix expected = test::values_of(quantise(
      test::view(scaled), {.bitwidth = 3, .group_size = 32, .scale_type = kernels::Real::bf16}));
  EXPECT_LE((unpacked(*after, module, 3) - expected).cwiseAbs().maxCoeff(), 1e-6);
  CheckpointRequest plain = request(Method::rtn, {3, 3, 3});
  plain.statistics = path("statistics");
  plain.out = path("plain");
  const CheckpointSummary rtn = quantise_checkpoint(plain);
  double awq_error = 0, rtn_error = 0;
  for (const MatrixReport& r : awq.matrices) awq_error += *r.output_error;
  for (const MatrixReport& r : rtn.matrices) rtn_error += *r.output_error;
  EXPECT_LT(awq_error, 0.9 * rtn_error);
}

TEST_F(CheckpointTest, SmoothQuantLeavesTheProductAsItIs) {
  quantise_checkpoint(request(Method::smoothquant, {8, 8, 16}));
  const auto before = weights::Weights::open(path("tiny"));
  const auto after = weights::Weights::open(path("out"));
  const std::string norm = "model.layers.1.post_attention_layernorm.weight";
  const RowMatrix old_norm = read(*before, norm), new_norm = read(*after, norm);
  EXPECT_NE(old_norm, new_norm);
  for (const char* linear : {"gate_proj", "up_proj"}) {
    const std::string module = std::string("model.layers.1.mlp.") + linear;
    const RowMatrix codes = read(*after, module + ".weight");
    const RowMatrix scales = read(*after, module + ".weight_scale");
    EXPECT_EQ(after->require(module + ".weight").dtype, weights::DType::i8);
    ASSERT_EQ(scales.cols(), 1);
    const RowMatrix stored = scales.col(0).asDiagonal() * codes * new_norm.col(0).asDiagonal();
    const RowMatrix exact = read(*before, module + ".weight") * old_norm.col(0).asDiagonal();
    // Half a step of each row, as the norm carries it.
    for (std::int64_t r = 0; r < exact.rows(); ++r) {
      const float most = scales(r, 0) / 2 * new_norm.cwiseAbs().maxCoeff();
      EXPECT_LE((stored.row(r) - exact.row(r)).cwiseAbs().maxCoeff(), most * 1.001f);
    }
  }
  const Json config = read_json_file(path("out/config.json"))["quantization_config"];
  EXPECT_EQ(config["format"], "int-quantized");
  EXPECT_EQ(config["config_groups"]["group_0"]["input_activations"]["strategy"], "token");
}

TEST_F(CheckpointTest, TheSameModelGivesTheSameBytes) {
  CheckpointRequest one = request(Method::gptq), two = request(Method::gptq);
  one.num_threads = 1;
  two.num_threads = 3;
  two.out = path("again");
  quantise_checkpoint(one);
  quantise_checkpoint(two);
  for (const char* name : {"/model.safetensors", "/config.json", "/tessera_quantisation.json"})
    EXPECT_EQ(FolderTest::read(path("out") + name), FolderTest::read(path("again") + name)) << name;
}

TEST_F(CheckpointTest, WritesOverNothingThatIsNotItsOwn) {
  file("out/notes.txt", "mine");
  const auto run = [&](bool overwrite) {
    CheckpointRequest r = request(Method::rtn);
    r.overwrite = overwrite;
    quantise_checkpoint(r);
  };
  expect_error(ErrorCode::io, {"holds other files"}, [&] { run(true); });
  EXPECT_EQ(FolderTest::read(path("out/notes.txt")), "mine");
  std::filesystem::remove_all(path("out"));
  run(false);
  expect_error(ErrorCode::io, {"earlier result", "overwrite = true"}, [&] { run(false); });
  run(true);
  CheckpointRequest same = request(Method::rtn);
  same.out = path("tiny");
  expect_error(ErrorCode::invalid_argument, {"model's own folder"},
               [&] { quantise_checkpoint(same); });
  same.out = path("absent/out");
  expect_error(ErrorCode::io, {"there is no folder"}, [&] { quantise_checkpoint(same); });
  EXPECT_EQ(num_files(), 3u);  // tiny, statistics, out
}

TEST_F(CheckpointTest, LeavesNothingBehindWhenItFails) {
  TinyLlama(12).write_statistics(path("short"), 2);
  CheckpointRequest r = request(Method::gptq);
  r.statistics = path("short");
  expect_error(ErrorCode::not_found, {"nothing of layer 2 q_proj", "written for tiny"},
               [&] { quantise_checkpoint(r); });
  EXPECT_EQ(num_files(), 3u);  // tiny, statistics, short
}

TEST_F(CheckpointTest, RefusesWhatItCannotDo) {
  const auto refused = [&](ErrorCode code, const std::vector<std::string>& parts, auto change) {
    CheckpointRequest r = request(Method::rtn);
    change(r);
    expect_error(code, parts, [&] { quantise_checkpoint(r); });
  };
  refused(ErrorCode::invalid_argument, {"2 bitwidths for the 3 layers"}, [](auto& r) {
    r.bitwidths = {4, 4};
  });
  refused(ErrorCode::out_of_range, {"bitwidth 5", "3, 4, 8 or 16"}, [](auto& r) {
    r.bitwidths = {4, 5, 4};
  });
  refused(ErrorCode::invalid_argument, {"nothing to quantise"}, [](auto& r) {
    r.bitwidths = {16, 16, 16};
  });
  refused(ErrorCode::invalid_argument, {"group_size 64", "96 input features", "32 does"},
          [](auto& r) { r.scheme.group_size = 64; });
  refused(ErrorCode::unsupported, {"act_order group", "compressed-tensors", "act_order weight"},
          [&](auto& r) {
            r.method = Method::gptq;
            r.statistics = path("statistics");
            r.scheme.act_order = ActOrder::group;
          });
  refused(ErrorCode::invalid_argument, {"needs a statistics file"},
          [](auto& r) { r.method = Method::gptq; });
  refused(ErrorCode::out_of_range, {"smoothquant takes 8 or 16"}, [&](auto& r) {
    r.method = Method::smoothquant;
    r.statistics = path("statistics");
  });
  TinyLlama(13).write(path("gemma"), {{"model_type", "granite"}});
  refused(ErrorCode::unsupported, {"granite"}, [&](auto& r) { r.model = path("gemma"); });
  quantise_checkpoint(request(Method::rtn));
  refused(ErrorCode::unsupported, {"quantised"}, [&](auto& r) {
    r.model = path("out");
    r.out = path("twice");
  });
}

// Round-to-nearest is exact on every processor, so its bytes are the same everywhere.
TEST_F(CheckpointTest, KeepsItsFormat) {
  quantise_checkpoint(request(Method::rtn));
  std::uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (const char c : FolderTest::read(path("out/model.safetensors")))
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  EXPECT_EQ(hash, 41587215871753108ull);
}

// Needs Python with compressed-tensors 0.20 and torch: TESSERA_PYTHON names another interpreter.
class CompressedTensorsTest : public CheckpointTest {
 protected:
  // The values that we say are stored, for the package to compare; folded matrices aside.
  void expect(const CheckpointRequest& r, const CheckpointSummary& summary) {
    const auto model = weights::Weights::open(r.model);
    const auto expected = [](const MatrixReport& m) {
      return m.method == Method::rtn || m.method == Method::gptq;
    };
    std::vector<weights::TensorSpec> specs;
    for (const MatrixReport& m : summary.matrices) {
      if (expected(m))
        specs.push_back({m.tensor, weights::DType::f32, model->require(m.tensor).shape});
    }
    command_.push_back(r.out);
    command_.push_back(r.out + ".expected");
    weights::SafetensorsWriter writer(command_.back(), specs);
    for (const MatrixReport& m : summary.matrices) {
      if (!expected(m)) continue;
      Scheme scheme = r.scheme;
      scheme.bitwidth = m.bitwidth;
      scheme.scale_type = kernels::Real::bf16;
      if (r.method == Method::smoothquant) scheme.granularity = Granularity::channel;
      const RowMatrix weight = read(*model, m.tensor);
      const auto inputs = inputs_of(m);
      const auto values = quantise(test::view(weight), scheme, m.method,
                                   m.method == Method::gptq ? &inputs : nullptr)
                              .dequantised();
      writer.append(m.tensor, std::as_bytes(std::span(values)));
    }
    writer.finish();
    num_matrices_ += specs.size();
  }

  LinearStatistics inputs_of(const MatrixReport& m) const {
    std::string linear = m.tensor.substr(0, m.tensor.rfind('.'));
    linear = linear.substr(linear.rfind('.') + 1);
    return *Statistics::open(path("statistics")).find(m.layer_index, linear);
  }

  std::vector<std::string> command_;
  std::size_t num_matrices_ = 0;
};

TEST_F(CompressedTensorsTest, ReadsTheSameNumbers) {
  int number = 0;
  const auto write = [&](CheckpointRequest r) {
    r.out = path("out" + std::to_string(++number));
    expect(r, quantise_checkpoint(r));
  };
  for (const bool symmetric : {true, false}) {
    for (const Granularity g : {Granularity::group, Granularity::channel, Granularity::tensor}) {
      CheckpointRequest r = request(Method::rtn);
      r.scheme.symmetric = symmetric;
      r.scheme.granularity = g;
      write(r);
    }
  }
  write(request(Method::smoothquant, {8, 8, 16}));
  CheckpointRequest ordered = request(Method::gptq);
  ordered.scheme.act_order = ActOrder::weight;
  write(ordered);
  const char* python = std::getenv("TESSERA_PYTHON");
  std::vector<std::string> command{
      "/usr/bin/env", python != nullptr ? python : "python3",
      std::string(TESSERA_SOURCE_DIR) + "/tests/reference/check_compressed_tensors.py",
      "--load=" + command_[0]};
  command.insert(command.end(), command_.begin(), command_.end());
  const test::Process p = test::run_process(command, {.timeout_s = 250});
  if (p.status == 77) GTEST_SKIP() << "compressed-tensors was not asked: " << p.out;
  if (p.status == 127 && python == nullptr)
    GTEST_SKIP() << "compressed-tensors was not asked: " << p.err;
  EXPECT_EQ(p.status, 0) << p.out << p.err;
  EXPECT_THAT(p.out, HasSubstr(std::to_string(num_matrices_) + " matrices are the same"));
}

}  // namespace
}  // namespace tessera::quant::checkpoint_test
