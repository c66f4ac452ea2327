#include "fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/kernels/types.h"
#include "tessera/quant/checkpoint.h"

namespace tessera::quant {
namespace {

using weights::DType;

constexpr double kAlpha = 0.5;  // SmoothQuant's migration strength

// q, k, v after the first norm, gate and up after the second: Llama and its relatives.
std::vector<Fold> rms_folds() {
  return {{{"q_proj", "k_proj", "v_proj"}, "input_layernorm"},
          {{"gate_proj", "up_proj"}, "post_attention_layernorm"}};
}

// All experts read what the router reads.
std::vector<Fold> expert_folds(const char* router) {
  std::vector<Fold> folds = rms_folds();
  folds.push_back({{"experts.gate_proj", "experts.up_proj"}, "post_attention_layernorm", router});
  return folds;
}

// Norms after the blocks too, and x * (1 + weight) in each (Gemma2RMSNorm, Gemma3RMSNorm).
std::vector<Fold> gemma_folds() {
  return {{{"q_proj", "k_proj", "v_proj"}, "input_layernorm", "", 1},
          {{"gate_proj", "up_proj"}, "pre_feedforward_layernorm", "", 1}};
}

const std::map<std::string, std::vector<Fold>>& known_folds() {
  static const std::map<std::string, std::vector<Fold>> folds = {
      {"gemma2", gemma_folds()},
      {"gemma3", gemma_folds()},
      {"llama", rms_folds()},
      {"mistral", rms_folds()},
      {"mixtral", expert_folds("block_sparse_moe.gate")},
      {"opt",
       {{{"q_proj", "k_proj", "v_proj"}, "self_attn_layer_norm"},
        {{"up_proj"}, "final_layer_norm"}}},
      {"qwen2", rms_folds()},
      {"qwen3", rms_folds()},
      {"qwen3_moe", expert_folds("mlp.gate")}};
  return folds;
}

float rounded(float value, DType dtype) {
  if (dtype == DType::f16) return kernels::f16_to_f32(kernels::f32_to_f16(value));
  return dtype == DType::bf16 ? kernels::bf16_to_f32(kernels::f32_to_bf16(value)) : value;
}

std::vector<std::byte> encoded(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> out;
  const auto put = [&](const auto& number) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&number);
    out.insert(out.end(), bytes, bytes + sizeof number);
  };
  for (const float value : values) {
    if (dtype == DType::f16) {
      put(kernels::f32_to_f16(value));
    } else if (dtype == DType::bf16) {
      put(kernels::f32_to_bf16(value));
    } else {
      put(value);
    }
  }
  return out;
}

std::vector<float> read_all(const weights::Weights& model, const weights::TensorInfo& tensor,
                            const std::vector<std::int64_t>& shape, const char* what) {
  const bool is_real =
      tensor.dtype == DType::f32 || tensor.dtype == DType::f16 || tensor.dtype == DType::bf16;
  if (!is_real || tensor.shape != shape) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{} is {} {}; {} {} in F32, F16 or BF16 belongs there", tensor.name,
                            weights::to_string(tensor.dtype), weights::describe_shape(tensor.shape),
                            what, weights::describe_shape(shape)),
                tensor.name);
  }
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
  weights::read_f32(model, tensor, 0, values);
  return values;
}

// The router reads x / s: its columns take s in, as those of the experts do.
void scale_router(const weights::Weights& model, const std::string& name,
                  const std::vector<float>& scales, Replaced& replaced) {
  const weights::TensorInfo& router = model.require(name);
  const auto columns = static_cast<std::int64_t>(scales.size());
  const std::int64_t experts = router.shape.empty() ? 0 : router.shape[0];
  std::vector<float> values = read_all(model, router, {experts, columns}, "a router");
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= scales[i % scales.size()];
  replaced[router.name] = encoded(values, router.dtype);
}

}  // namespace

const std::vector<std::string>& foldable_families() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const auto& [family, folds] : known_folds()) found.push_back(family);
    return found;
  }();
  return names;
}

const std::vector<Fold>& folds_of(const std::string& family, const Json& config) {
  const auto it = known_folds().find(family);
  const bool norms_after =
      config.contains("do_layer_norm_before") && config["do_layer_norm_before"] == Json(false);
  if (it != known_folds().end() && !norms_after) return it->second;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("awq and smoothquant rewrite the norm before a linear, which is known for "
                  "{}; this model is of family {}{}: use gptq or rtn",
                  fmt::join(foldable_families(), ", "), family,
                  norms_after ? " with its norms after the blocks" : ""),
      "method");
}

std::vector<float> fold_scales(const weights::Weights& model, const std::string& layer,
                               const Fold& fold, const std::vector<float>& scales,
                               Replaced& replaced) {
  const std::string name = layer + fold.norm;
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(scales.size())};
  const weights::TensorInfo& weight = model.require(name + ".weight");
  std::vector<float> norm = read_all(model, weight, shape, "a norm");
  std::vector<float> given(scales.size(), 1);
  for (std::size_t i = 0; i < norm.size(); ++i) {
    const float factor = fold.norm_offset + norm[i];
    const float stored = rounded(factor / scales[i] - fold.norm_offset, weight.dtype);
    const float folded = fold.norm_offset + stored;
    const float ratio = factor / folded;
    if (folded == 0 || !std::isfinite(folded) || !std::isfinite(ratio) || !(ratio > 0)) continue;
    norm[i] = stored;
    given[i] = ratio;
  }
  replaced[weight.name] = encoded(norm, weight.dtype);
  if (const weights::TensorInfo* bias = model.find(name + ".bias")) {
    std::vector<float> values = read_all(model, *bias, shape, "a norm's bias");
    for (std::size_t i = 0; i < values.size(); ++i) values[i] /= given[i];
    replaced[bias->name] = encoded(values, bias->dtype);
  }
  if (!fold.router.empty()) scale_router(model, layer + fold.router + ".weight", given, replaced);
  return given;
}

std::vector<float> smooth_scales(const std::vector<MatrixView>& weights,
                                 const LinearStatistics& inputs) {
  std::vector<float> scales(static_cast<std::size_t>(inputs.in_features()), 1);
  for (std::int64_t c = 0; c < inputs.in_features(); ++c) {
    float largest = 0;
    for (const MatrixView& weight : weights) {
      for (std::int64_t r = 0; r < weight.rows; ++r)
        largest = std::max(largest, std::abs(weight.row(r)[c]));
    }
    // 1e-5 is the authors' floor; a channel without inputs or weights stays as it is.
    if (inputs.abs_max[c] == 0 || largest == 0) continue;
    const double s = std::pow(static_cast<double>(inputs.abs_max[c]), kAlpha) /
                     std::pow(static_cast<double>(largest), 1 - kAlpha);
    scales[static_cast<std::size_t>(c)] = static_cast<float>(std::max(s, 1e-5));
  }
  return scales;
}

}  // namespace tessera::quant
