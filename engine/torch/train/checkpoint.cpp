#include "checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "parameters.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/output.h"
#include "tessera/core/rng.h"
#include "tessera/core/text.h"
#include "tessera/weights/weights.h"
#include "tessera/weights/writer.h"

namespace tessera::lm::train {
namespace {

using NamedTensor = std::pair<std::string, at::Tensor>;

/// Of rows in front of the positions in Hugging Face's OPT; padding was meant to use them.
constexpr std::int64_t kPositionOffset = 2;

std::vector<std::int64_t> outlier_channels(const TrainRequest& request) {
  Rng rng(static_cast<std::uint64_t>(request.seed));
  std::vector<std::int64_t> channels(static_cast<std::size_t>(request.hidden_size));
  for (std::size_t i = 0; i < channels.size(); ++i) channels[i] = static_cast<std::int64_t>(i);
  const auto count = static_cast<std::size_t>(request.outlier_channels);
  for (std::size_t i = 0; i < count; ++i) {
    const auto other = rng.integer(static_cast<std::int64_t>(i), request.hidden_size - 1);
    std::swap(channels[i], channels[static_cast<std::size_t>(other)]);
  }
  channels.resize(count);
  return channels;
}

/// See TrainRequest. What it gives back is computed from the columns rounded to f16: those are
/// what the shift will meet.
void make_outliers(const Norm& norm, const Linear& reader,
                   const std::vector<std::int64_t>& channels, double scale, double shift) {
  double sign = 1;
  for (const std::int64_t channel : channels) {
    norm.gain.select(0, channel).mul_(scale);
    norm.bias.select(0, channel).mul_(scale);
    at::Tensor column = reader.weight.select(1, channel);
    column.copy_(column.div(scale).to(at::kHalf));
    norm.bias.select(0, channel).add_(sign * shift);
    reader.bias.sub_(column, sign * shift);
    sign = -sign;
  }
}

void add_norm(std::vector<NamedTensor>& out, const std::string& name, const Norm& norm) {
  out.emplace_back(name + ".weight", norm.gain);
  out.emplace_back(name + ".bias", norm.bias);
}

void add_linear(std::vector<NamedTensor>& out, const std::string& name, const Linear& linear) {
  out.emplace_back(name + ".weight", linear.weight);
  out.emplace_back(name + ".bias", linear.bias);
}

void add_layer(std::vector<NamedTensor>& out, const std::string& name, const Layer& layer) {
  add_norm(out, name + "self_attn_layer_norm", layer.attention_norm);
  const auto weights = layer.qkv.weight.chunk(3), biases = layer.qkv.bias.chunk(3);
  constexpr std::array kNames = {"q", "k", "v"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    add_linear(out, name + "self_attn." + kNames[i] + "_proj", {weights[i], biases[i]});
  }
  add_linear(out, name + "self_attn.out_proj", layer.out);
  add_norm(out, name + "final_layer_norm", layer.ffn_norm);
  add_linear(out, name + "fc1", layer.fc1);
  add_linear(out, name + "fc2", layer.fc2);
}

/// By the names of transformers' OPTForCausalLM.
/// @param positions with the unused rows in front
std::vector<NamedTensor> named_tensors(const Parameters& p, const at::Tensor& positions) {
  std::vector<NamedTensor> out;
  const std::string decoder = "model.decoder.";
  out.emplace_back(decoder + "embed_tokens.weight", p.tokens);
  out.emplace_back(decoder + "embed_positions.weight", positions);
  add_norm(out, decoder + "final_layer_norm", p.final_norm);
  for (std::size_t i = 0; i < p.layers.size(); ++i) {
    add_layer(out, decoder + "layers." + std::to_string(i) + ".", p.layers[i]);
  }
  return out;
}

at::Tensor file_positions(const TrainRequest& request) {
  return at::zeros({request.max_context_tokens + kPositionOffset, request.hidden_size});
}

Json config_of(const TrainRequest& r) {
  return {{"_remove_final_layer_norm", false},
          {"activation_dropout", 0.0},
          {"activation_function", "relu"},
          {"architectures", {"OPTForCausalLM"}},
          {"attention_dropout", 0.0},
          {"bos_token_id", r.bos_token},
          {"do_layer_norm_before", true},
          {"dropout", 0.0},
          {"enable_bias", true},
          {"eos_token_id", r.eos_token},
          {"ffn_dim", r.ffn_size},
          {"hidden_size", r.hidden_size},
          {"init_std", 0.02},
          {"layer_norm_elementwise_affine", true},
          {"layerdrop", 0.0},
          {"max_position_embeddings", r.max_context_tokens},
          {"model_type", "opt"},
          {"num_attention_heads", r.num_heads},
          {"num_hidden_layers", r.num_layers},
          {"pad_token_id", r.pad_token},
          {"tie_word_embeddings", true},
          {"torch_dtype", "float16"},
          {"use_cache", true},
          {"vocab_size", r.vocab_size},
          {"word_embed_proj_dim", r.hidden_size}};
}

}  // namespace

at::Tensor written_values(const TrainRequest& request, const at::Tensor& values) {
  const at::Tensor written = values.clone();
  const Parameters p = view_of(request, written);
  const auto channels = outlier_channels(request);
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    const double share = static_cast<double>(l + 1) / static_cast<double>(p.layers.size());
    const double shift = request.outlier_shift * share, scale = request.outlier_scale;
    make_outliers(p.layers[l].attention_norm, p.layers[l].qkv, channels, scale, shift);
    make_outliers(p.layers[l].ffn_norm, p.layers[l].fc1, channels, scale, shift);
  }
  return written.to(at::kHalf).to(at::kFloat);
}

at::Tensor read_values(const TrainRequest& request) {
  const at::Tensor values = at::zeros({num_parameters(request)});
  const Parameters p = view_of(request, values);
  const at::Tensor positions = file_positions(request);
  const auto weights = weights::Weights::open(request.initial);
  for (const auto& [name, tensor] : named_tensors(p, positions)) {
    const weights::TensorInfo& info = weights->require(name);
    const at::Tensor stored = at::empty(tensor.sizes());
    if (info.shape != tensor.sizes().vec()) {
      refuse("initial", "{} of {} is [{}]; this model's is [{}]", name, quote(request.initial, 300),
             fmt::join(info.shape, ", "), fmt::join(tensor.sizes().vec(), ", "));
    }
    weights::read_f32(*weights, info, 0,
                      {stored.data_ptr<float>(), static_cast<std::size_t>(stored.numel())});
    tensor.copy_(stored);
  }
  p.positions.copy_(positions.narrow(0, kPositionOffset, request.max_context_tokens));
  return values;
}

void write_checkpoint(const TrainRequest& request, const at::Tensor& written) {
  const Parameters p = view_of(request, written);
  const at::Tensor positions = file_positions(request);
  positions.narrow(0, kPositionOffset, request.max_context_tokens).copy_(p.positions);
  const auto tensors = named_tensors(p, positions);
  std::vector<weights::TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) {
    specs.push_back({name, weights::DType::f16, tensor.sizes().vec()});
  }
  OutputFolder folder(request.out);
  OutputFile config(folder.scratch_path() + "/config.json");
  config.append(config_of(request).dump(2) + "\n");
  config.commit();
  weights::SafetensorsWriter writer(folder.scratch_path() + "/model.safetensors", specs,
                                    {.metadata = {{"format", "pt"}}});
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor half = tensor.to(at::kHalf).contiguous();
    writer.append(name, {static_cast<const std::byte*>(half.data_ptr()), half.nbytes()});
  }
  writer.finish();
  folder.commit(false);
}

}  // namespace tessera::lm::train
