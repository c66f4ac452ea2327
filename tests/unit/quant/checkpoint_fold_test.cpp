// Scales that AWQ and SmoothQuant fold into norms, family by family: what a layer computes stays
// the same but for rounding.

#include <gtest/gtest.h>

#include <filesystem>

#include "case_name.h"
#include "folder.h"
#include "tessera/quant/checkpoint.h"
#include "tiny_llama.h"

namespace tessera::quant::checkpoint_fold_test {
namespace {

using test::RowMatrix;

/// Two layers of a family. `norms[i]` stands before `folded[i]`, and before `router` the last one.
struct Family {
  const char* name;
  Json config;  ///< beyond the sizes
  float norm_offset;
  std::vector<std::string> norms;
  std::vector<std::vector<std::string>> folded;
  std::string router;
};
void PrintTo(const Family& family, std::ostream* stream) { *stream << family.name; }

const Json kExperts = {{"num_local_experts", 3},
                       {"num_experts", 3},
                       {"num_experts_per_tok", 2},
                       {"intermediate_size", 32},
                       {"moe_intermediate_size", 32}};

std::vector<std::string> experts(const std::string& block, const char* gate, const char* up) {
  std::vector<std::string> names;
  for (int e = 0; e < 3; ++e) {
    for (const char* linear : {gate, up})
      names.push_back(block + ".experts." + std::to_string(e) + "." + linear);
  }
  return names;
}

const std::vector<std::string> kQkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
const std::vector<std::string> kGateUp = {"mlp.gate_proj", "mlp.up_proj"};
const std::vector<std::string> kLlamaNorms = {"input_layernorm", "post_attention_layernorm"};
const std::vector<std::string> kGemmaNorms = {"input_layernorm", "pre_feedforward_layernorm"};

const Family kFamilies[] = {
    {"qwen3", Json::object(), 0, kLlamaNorms, {kQkv, kGateUp}, ""},
    {"gemma2", Json::object(), 1, kGemmaNorms, {kQkv, kGateUp}, ""},
    {"gemma3_text", Json::object(), 1, kGemmaNorms, {kQkv, kGateUp}, ""},
    {"mixtral",
     kExperts,
     0,
     kLlamaNorms,
     {kQkv, experts("block_sparse_moe", "w1", "w3")},
     "block_sparse_moe.gate"},
    {"qwen3_moe",
     kExperts,
     0,
     kLlamaNorms,
     {kQkv, experts("mlp", "gate_proj", "up_proj")},
     "mlp.gate"},
};

class Folds : public test::FolderTest, public testing::WithParamInterface<Family> {
 protected:
  static constexpr std::int64_t kHidden = 64;

  Folds() {
    const Family& family = GetParam();
    Json config{{"model_type", family.name}, {"hidden_size", kHidden},   {"intermediate_size", 96},
                {"num_hidden_layers", 2},    {"num_attention_heads", 4}, {"head_dim", 16},
                {"num_key_value_heads", 2},  {"vocab_size", 50}};
    config.update(family.config);
    file("model/config.json", config.dump());
    const std::int64_t ffn = config["intermediate_size"];
    write_model(ffn);
    const std::string expert = family.router.empty() ? "" : "experts.";
    std::map<std::string, std::int64_t> features;
    for (const char* layer : {"layers.0.", "layers.1."}) {
      for (const std::string& linear :
           {std::string("q_proj"), std::string("o_proj"), expert + "gate_proj"})
        features[layer + linear] = kHidden;
      features[layer + expert + "down_proj"] = ffn;
    }
    test::write_random_statistics(path("statistics"), features, {}, rng_);
  }

  // In F32, so that rounding of norms and routers is out of sight.
  void write_model(std::int64_t ffn) {
    const Family& family = GetParam();
    std::vector<weights::TensorSpec> specs;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
      specs.push_back({name + ".weight", weights::DType::f32, std::move(shape)});
    };
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      for (const std::string& norm : family.norms) add(layer + norm, {kHidden});
      add(layer + "post_feedforward_layernorm", {kHidden});  // nobody's
      add(layer + "self_attn.q_proj", {kHidden, kHidden});
      for (const char* linear : {"k_proj", "v_proj"})
        add(layer + "self_attn." + linear, {kHidden / 2, kHidden});
      add(layer + "self_attn.o_proj", {kHidden, kHidden});
      for (const std::string& linear : family.folded.back()) {
        add(layer + linear, {ffn, kHidden});
        const std::size_t dot = linear.rfind('.');
        const bool up = linear.ends_with("up_proj") || linear.ends_with("w3");
        const char* down = linear.ends_with("w3") ? ".w2" : ".down_proj";
        if (up) add(layer + linear.substr(0, dot) + down, {kHidden, ffn});
      }
      if (!family.router.empty()) add(layer + family.router, {3, kHidden});
    }
    weights::SafetensorsWriter writer(path("model/model.safetensors"), specs);
    for (const auto& spec : specs) {
      const bool is_norm = spec.shape.size() == 1;
      std::vector<float> values(static_cast<std::size_t>(*weights::num_elements(spec.shape)));
      for (float& v : values)
        v = (is_norm ? 1 - GetParam().norm_offset : 0) + 0.1f * test::draw(rng_);
      writer.append(spec.name, std::as_bytes(std::span(values)));
    }
    writer.finish();
  }

  void quantise(Method method, std::int32_t bitwidth) {
    CheckpointRequest request;
    request.model = path("model");
    request.out = path("out");
    request.bitwidths = {bitwidth, bitwidth};
    request.method = method;
    request.scheme.group_size = 32;
    request.statistics = path("statistics");
    quantise_checkpoint(request);
    before_ = weights::Weights::open(path("model"));
    after_ = weights::Weights::open(path("out"));
  }

  static RowMatrix read(const weights::Weights& file, const std::string& name) {
    const weights::TensorInfo& tensor = file.require(name);
    RowMatrix out(tensor.shape[0], tensor.shape.size() > 1 ? tensor.shape[1] : 1);
    weights::read_f32(file, tensor, 0, {out.data(), static_cast<std::size_t>(out.size())});
    return out;
  }

  // What a norm multiplies its normalised input with.
  static RowMatrix factors(const weights::Weights& file, const std::string& norm) {
    return read(file, norm + ".weight").array() + GetParam().norm_offset;
  }

  Rng rng_{31};
  std::shared_ptr<const weights::Weights> before_, after_;
};

TEST_P(Folds, SmoothQuantLeavesEveryProductAsItIs) {
  const Family& family = GetParam();
  quantise(Method::smoothquant, 8);
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    for (std::size_t i = 0; i < family.norms.size(); ++i) {
      const RowMatrix then = factors(*before_, layer + family.norms[i]);
      const RowMatrix now = factors(*after_, layer + family.norms[i]);
      EXPECT_GT((then.cwiseQuotient(now).array() - 1).abs().maxCoeff(), 0.5) << "nothing is folded";
      for (const std::string& linear : family.folded[i]) {
        const RowMatrix scales = read(*after_, layer + linear + ".weight_scale");
        const RowMatrix codes = read(*after_, layer + linear + ".weight");
        const RowMatrix stored = scales.col(0).asDiagonal() * codes * now.col(0).asDiagonal();
        const RowMatrix exact =
            read(*before_, layer + linear + ".weight") * then.col(0).asDiagonal();
        for (std::int64_t r = 0; r < exact.rows(); ++r) {
          const float most = scales(r, 0) / 2 * now.cwiseAbs().maxCoeff();
          EXPECT_LE((stored.row(r) - exact.row(r)).cwiseAbs().maxCoeff(), most * 1.001f) << linear;
        }
      }
    }
    const std::string other = layer + "post_feedforward_layernorm.weight";
    EXPECT_EQ(read(*before_, other), read(*after_, other));
  }
}

// The router keeps its precision, so it sees what it saw: x / s times its columns times s.
TEST_P(Folds, RoutersChooseTheSameExperts) {
  const Family& family = GetParam();
  quantise(Method::awq, 3);
  const std::string norm = "model.layers.1." + family.norms.back();
  const RowMatrix then = factors(*before_, norm), now = factors(*after_, norm);
  EXPECT_GT((then.cwiseQuotient(now).array() - 1).abs().maxCoeff(), 0.1) << "nothing is folded";
  if (family.router.empty()) return;
  const std::string router = "model.layers.1." + family.router + ".weight";
  const RowMatrix exact = read(*before_, router) * then.col(0).asDiagonal();
  const RowMatrix stored = read(*after_, router) * now.col(0).asDiagonal();
  EXPECT_NE(read(*before_, router), read(*after_, router));
  EXPECT_LE((stored - exact).cwiseAbs().maxCoeff(), 1e-6f * exact.cwiseAbs().maxCoeff());
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, Folds, testing::ValuesIn(kFamilies), test::case_name);

}  // namespace
}  // namespace tessera::quant::checkpoint_fold_test
