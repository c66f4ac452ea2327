// What of a layer is no matrix with a form: norms, biases, routers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensor_reader_used.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::lm {
namespace {

using weights::LinearWeight;
using weights::Part;
using weights::TensorInfo;
using Names = std::vector<std::string>;

// Tensors of the first layer, or of the second, that this one has not: " (layer 0 has ...)".
std::string lacking(const weights::Weights& weights, std::int64_t layer_index) {
  const int other = layer_index == 0 ? 1 : 0;
  const std::string there = fmt::format(".{}.", other);
  std::vector<std::string> names;
  for (const TensorInfo& tensor : weights.tensors()) {
    const std::size_t at = tensor.name.find(there);
    if (at == std::string::npos) continue;
    std::string name = tensor.name;
    name.replace(at, there.size(), fmt::format(".{}.", layer_index));
    if (weights.find(name) == nullptr) names.push_back(quote(tensor.name, 100));
  }
  if (names.empty()) return "";
  names.resize(std::min<std::size_t>(names.size(), 3));
  return fmt::format(" (layer {} has {})", other, join(names, ", "));
}

}  // namespace

NormWeights TensorReader::norm(Part part, std::int64_t layer_index, std::int64_t width) const {
  NormWeights norm{.weight = nullptr,
                   .bias = nullptr,
                   .epsilon = description_.norm_epsilon,
                   .rms = description_.norm == Norm::rms};
  if (!description_.norm_weight) return norm;
  const auto found = weights::find_part(*weights_, description_.shape, part, layer_index);
  if (!found) {
    const auto names = weights::names_of_part(*weights_, description_.shape, part, layer_index);
    refuse(ErrorCode::not_found, quote(weights_->path(), 300),
           "no tensor {}.weight, a norm of {}; the checkpoint is not whole",
           names.empty() ? "norm" : names.front(), quote(description_.shape.name, 100));
  }
  if (description_.norm_bias && found->bias == nullptr) {
    refuse(ErrorCode::not_found, quote(weights_->path(), 300),
           "no tensor {}.bias beside {}, a norm of {}; the checkpoint is not whole",
           stem_of(found->weight->name), quote(found->weight->name, 100),
           quote(description_.shape.name, 100));
  }
  std::vector<float> numbers = values(*found->weight, width);
  for (float& number : numbers) number += description_.norm_offset;
  norm.weight = backend_->upload(numbers.data(), width * 4);
  norm.bias = bias(found->bias, width);
  return norm;
}

NormWeights TensorReader::norm_of_ones(std::int64_t width) const {
  const std::vector<float> ones(static_cast<std::size_t>(width), 1.0f);
  return {.weight = backend_->upload(ones.data(), width * 4),
          .bias = nullptr,
          .epsilon = description_.norm_epsilon};
}

// Of all heads one row of weights, in one tensor (Cohere) or one a head (StableLM).
NormWeights TensorReader::head_norm(Part part, std::int64_t layer_index, std::int64_t num_heads,
                                    std::int64_t head_dim) const {
  if (description_.qk_norm == QkNorm::head_alone) return norm_of_ones(head_dim);
  if (description_.qk_norm == QkNorm::all_heads) {
    if (share_.ranks > 1) {
      refuse(ErrorCode::unsupported, "ranks",
             "{} norms the queries of all heads as one, which {} ranks do not see",
             description_.shape.family, share_.ranks);
    }
    return norm(part, layer_index, num_heads * head_dim);
  }
  if (description_.qk_norm != QkNorm::each_head) return norm(part, layer_index, head_dim);
  std::vector<float> all;
  const auto whole = weights::find_part(*weights_, description_.shape, part, layer_index);
  const auto second = weights::find_part(*weights_, description_.shape, part, layer_index, 1);
  const bool split = num_heads > 1 && whole && !(second && second->weight == whole->weight);
  for (std::int64_t head = 0; head < (split ? num_heads : 1); ++head) {
    const auto own = weights::find_part(*weights_, description_.shape, part, layer_index, head);
    if (!own) {
      const auto names =
          weights::names_of_part(*weights_, description_.shape, part, layer_index, head);
      refuse(ErrorCode::not_found, quote(weights_->path(), 300),
             "no tensor {}.weight, a norm of {}; the checkpoint is not whole", names.back(),
             quote(description_.shape.name, 100));
    }
    const auto numbers = values(*own->weight, split ? head_dim : num_heads * head_dim);
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  const std::int64_t first = share_.first(num_heads) * head_dim;
  return {.weight = backend_->upload(all.data() + first, share_.of(num_heads) * head_dim * 4),
          .bias = nullptr,
          .epsilon = description_.norm_epsilon,
          .rms = description_.norm == Norm::rms};
}

// Of each part its share of the rows, whole heads where it has heads.
std::vector<std::int64_t> TensorReader::rows_of_share(
    const std::vector<LinearWeight>& parts) const {
  std::vector<std::int64_t> rows;
  std::int64_t before = 0;
  for (const LinearWeight& part : parts) {
    const std::int64_t first = before + share_.first(part.num_rows);
    for (std::int64_t row = 0; row < share_.of(part.num_rows); ++row) rows.push_back(first + row);
    before += part.num_rows;
  }
  return rows;
}

// Of a matrix whose columns are shared the first rank adds the bias, so that the sum has it once.
Memory TensorReader::stacked_bias(const std::vector<LinearWeight>& parts, Cut cut) const {
  std::vector<float> stacked;
  bool any = false;
  for (const LinearWeight& part : parts) {
    const TensorInfo* tensor = weights::bias_of(*weights_, part);
    if (tensor == nullptr) {
      stacked.resize(stacked.size() + static_cast<std::size_t>(part.num_rows));
      continue;
    }
    any = true;
    // Of a stack of experts, its own.
    const bool stack = tensor->shape.size() > 1;
    const std::int64_t copies = stack ? tensor->shape.front() : 1;
    const std::vector<float> whole = values(*tensor, stack ? part.copy * part.stored_rows : 0,
                                            part.stored_rows, copies * part.stored_rows);
    used_->numbers += part.num_rows - part.stored_rows;  // of a fused one, what is its own
    for (std::int64_t row = 0; row < part.num_rows; ++row)
      stacked.push_back(whole[static_cast<std::size_t>(part.stored_row(row))]);
  }
  if (!any || (cut == Cut::columns && share_.rank > 0)) return nullptr;
  if (cut == Cut::rows && share_.ranks > 1) {
    std::vector<float> own;
    for (const std::int64_t row : rows_of_share(parts))
      own.push_back(stacked[static_cast<std::size_t>(row)]);
    stacked = std::move(own);
  }
  return backend_->upload(stacked.data(), static_cast<std::int64_t>(stacked.size()) * 4);
}

void TensorReader::read_routing(std::int64_t layer_index, std::int64_t num_experts,
                                LayerParts& parts) const {
  const std::int64_t hidden = description_.shape.hidden_size;
  parts.router = matrix(Part::router, layer_index, num_experts, hidden, {});
  const auto find = [&](Part part) {
    return weights::find_part(*weights_, description_.shape, part, layer_index);
  };
  parts.router_bias = bias(find(Part::router)->bias, num_experts);
  if (description_.routing.corrected) {
    const auto correction = find(Part::router_correction);
    if (!correction) {
      refuse(ErrorCode::not_found, quote(weights_->path(), 300),
             "no tensor {}, by which {} corrects the scores of experts; the checkpoint is not "
             "whole",
             weights::names_of_part(*weights_, description_.shape, Part::router_correction,
                                    layer_index)
                 .front(),
             quote(description_.shape.name, 100));
    }
    parts.correction = values(*correction->weight, num_experts);
  }
  if (description_.routing.shared_gate)
    parts.shared_gate = matrix(Part::shared_expert_gate, layer_index, 1, hidden, {});
}

std::shared_ptr<const StateMixer> TensorReader::mixer(std::int64_t layer_index) const {
  const StateForm& form = *description_.state;
  const StateCounts counts = std::visit([](const auto& one) { return one.counts(); }, form);
  const auto read = [&](Part part) {
    const auto found = weights::find_part(*weights_, description_.shape, part, layer_index);
    if (!found) {
      refuse(ErrorCode::not_found, quote(weights_->path(), 300),
             "no tensor {}, of what layer {} of {} mixes tokens by; the checkpoint is not whole",
             weights::names_of_part(*weights_, description_.shape, part, layer_index).front(),
             layer_index, quote(description_.shape.name, 100));
    }
    return *found;
  };
  const auto numbers = [&](Part part, std::int64_t count) {
    return count == 0 ? std::vector<float>() : values(*read(part).weight, count);
  };
  StateWeights weights;
  constexpr Part kConvolutions[] = {Part::state_convolution, Part::state_key_convolution,
                                    Part::state_value_convolution};
  for (std::int64_t i = 0; i < counts.num_convolutions; ++i) {
    const auto some =
        numbers(kConvolutions[i], counts.channels * counts.kernel / counts.num_convolutions);
    weights.convolution.insert(weights.convolution.end(), some.begin(), some.end());
  }
  if (const TensorInfo* bias = read(Part::state_convolution).bias)
    weights.convolution_bias = values(*bias, counts.channels);
  weights.decay = numbers(Part::state_decay, counts.decay);
  // llama.cpp's converter has taken the exponent, and the sign.
  for (float& decay : weights.decay) decay = weights_->is_gguf() ? -decay : std::exp(decay);
  weights.step_bias = numbers(Part::state_step_bias, counts.step_bias);
  weights.skip = numbers(Part::state_skip, counts.skip);
  weights.norm = numbers(Part::state_norm, counts.norm);
  weights.step_norm = numbers(Part::state_step_norm, counts.step_norm);
  weights.b_norm = numbers(Part::state_b_norm, counts.state_norm);
  weights.c_norm = numbers(Part::state_c_norm, counts.state_norm);
  weights.epsilon = description_.norm_epsilon;
  return std::visit([&](const auto& one) { return make_mixer(one, std::move(weights)); }, form);
}

NormWeights TensorReader::latent_norm(Part part, std::int64_t layer_index,
                                      std::int64_t width) const {
  NormWeights found = norm(part, layer_index, width);
  found.epsilon = description_.latent_epsilon;
  return found;
}

void TensorReader::read_attention(std::int64_t layer_index, LayerParts& parts) const {
  const LayerShape& layer = description_.shape.layer(layer_index);
  if (const auto latent = latent_widths(layer)) {
    for (const LinearShape& linear : layer.linears) {
      if (linear.name == "q_a_proj")
        parts.query_latent_norm =
            latent_norm(Part::query_latent_norm, layer_index, linear.out_features);
    }
    parts.latent_norm = latent_norm(Part::latent_norm, layer_index, latent->rank);
  } else if (description_.qk_norm != QkNorm::none) {
    parts.q_norm = head_norm(Part::q_norm, layer_index, layer.num_heads, layer.head_dim);
    if (!layer.shares_kv)
      parts.k_norm = head_norm(Part::k_norm, layer_index, layer.num_kv_heads, layer.head_dim);
  }
  if (description_.value_norm && !layer.shares_kv) parts.v_norm = norm_of_ones(layer.head_dim);
  parts.qkv_bias = stacked_bias(
      find(layer_index, layer.latent_width ? kLatentInputs : kAttentionInputs), Cut::rows);
  parts.output_bias = stacked_bias(find(layer_index, Names{"o_proj"}), Cut::columns);
  if (!description_.sinks) return;
  const auto sinks = weights::find_part(*weights_, description_.shape, Part::sinks, layer_index);
  if (!sinks) {
    refuse(ErrorCode::not_found, quote(weights_->path(), 300),
           "no attention sinks of layer {} of {}; the checkpoint is not whole", layer_index,
           quote(description_.shape.name, 100));
  }
  const auto numbers = values(*sinks->weight, layer.num_heads);
  parts.sinks = backend_->upload(numbers.data() + share_.first(layer.num_heads),
                                 share_.of(layer.num_heads) * 4);
}

void TensorReader::read_state(std::int64_t layer_index, LayerParts& parts) const {
  const StateLinears state = state_linears(description_.shape.layer(layer_index));
  parts.mixer = mixer(layer_index);
  parts.state_in_bias = stacked_bias(find(layer_index, state.in), Cut::rows);
  parts.state_out_bias = stacked_bias(find(layer_index, Names{state.out}), Cut::columns);
}

StreamWeights TensorReader::streams(std::int64_t layer_index) const {
  const std::int64_t hidden = description_.shape.hidden_size, count = description_.num_streams;
  const auto read = [&](Part part, std::int64_t numbers) {
    const auto found = weights::find_part(*weights_, description_.shape, part, layer_index);
    if (found) return values(*found->weight, numbers);
    refuse(ErrorCode::not_found, quote(weights_->path(), 300),
           "no tensor {}, by which layer {} of {} moves its {} hidden states; the checkpoint is "
           "not whole",
           weights::names_of_part(*weights_, description_.shape, part, layer_index).front(),
           layer_index, quote(description_.shape.name, 100), count);
  };
  return {.router_norm = read(Part::stream_router_norm, hidden),
          .router = read(Part::stream_router, count * hidden),
          .prediction = read(Part::stream_prediction, count * count * count),
          .correction = read(Part::stream_correction, count * count),
          .scale = read(Part::stream_scale, hidden),
          .epsilon = description_.norm_epsilon};
}

// Some files hold keys and values of layers that attend to those of others.
void TensorReader::leave_unused_keys(std::int64_t layer_index) const {
  leave({Part::k_norm}, layer_index);
  for (const LinearWeight& query : find(layer_index, Names{"q_proj"})) {
    for (const char letter : {'k', 'v'}) {
      std::string stem = stem_of(query.tensor->name);
      const std::size_t at = stem.find_last_of('q');
      if (at == std::string::npos) continue;
      stem[at] = letter;
      const std::scoped_lock lock(used_->mutex);
      used_->stems.insert(stem);
    }
  }
}

// A router that norms the hidden state by a scale of its own, and a scale of each expert.
void TensorReader::read_router_of_its_own(std::int64_t layer_index, std::int64_t num_experts,
                                          LayerParts& parts) const {
  const std::int64_t hidden = description_.shape.hidden_size;
  const auto read = [&](Part part, std::int64_t count) {
    const auto found = weights::find_part(*weights_, description_.shape, part, layer_index);
    if (found) return values(*found->weight, count);
    refuse(ErrorCode::not_found, quote(weights_->path(), 300),
           "no tensor {}, of the router of layer {} of {}; the checkpoint is not whole",
           weights::names_of_part(*weights_, description_.shape, part, layer_index).front(),
           layer_index, quote(description_.shape.name, 100));
  };
  std::vector<float> scale = read(Part::router_scale, hidden);
  for (float& number : scale) number /= std::sqrt(static_cast<float>(hidden));
  parts.router_norm = {.weight = backend_->upload(scale.data(), hidden * 4),
                       .bias = nullptr,
                       .epsilon = description_.norm_epsilon,
                       .rms = true};
  parts.expert_scale = read(Part::expert_scale, num_experts);
}

std::shared_ptr<const LayerParts> TensorReader::parts(std::int64_t layer_index) const {
  const ModelShape& shape = description_.shape;
  const LayerShape& layer = shape.layer(layer_index);
  auto parts = std::make_shared<LayerParts>();
  used_->numbers = 0;
  const bool mixes = layer.attends() || layer.state, feeds = feeds_forward(layer);
  const auto own_norm = [&](Part part) { return norm(part, layer_index, shape.hidden_size); };
  if (description_.places != NormPlaces::after) {
    if (mixes) parts->attention_norm = own_norm(Part::attention_norm);
    if (feeds && !description_.shared_norm) parts->ffn_norm = own_norm(Part::ffn_norm);
  }
  if (description_.places == NormPlaces::after || description_.places == NormPlaces::both) {
    if (mixes) parts->attention_post_norm = own_norm(Part::attention_post_norm);
    if (feeds) parts->ffn_post_norm = own_norm(Part::ffn_post_norm);
  }
  if (layer.attends()) read_attention(layer_index, *parts);
  if (layer.state) read_state(layer_index, *parts);
  const auto network_bias = [&](const Names& in, const char* down, std::int64_t copy = 0) {
    return NetworkBias{stacked_bias(find(layer_index, in, copy), Cut::rows),
                       stacked_bias(find(layer_index, Names{down}, copy), Cut::columns)};
  };
  std::int64_t num_experts = 0;
  for (const LinearShape& linear : layer.linears) {
    if (linear.name == "experts.down_proj") num_experts = linear.num_copies;
    if (linear.name == "shared_expert.down_proj") {
      parts->shared_bias = network_bias({"shared_expert.gate_proj", "shared_expert.up_proj"},
                                        "shared_expert.down_proj");
    }
  }
  parts->into_experts_bias = stacked_bias(find(layer_index, Names{"latent.in_proj"}), Cut::rows);
  parts->from_experts_bias =
      stacked_bias(find(layer_index, Names{"latent.out_proj"}), Cut::columns);
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    parts->biases.push_back(
        network_bias({"experts.gate_proj", "experts.up_proj"}, "experts.down_proj", expert));
  }
  if (num_experts == 0 && feeds)
    parts->biases.push_back(network_bias({"gate_proj", "up_proj"}, "down_proj"));
  if (num_experts > 0) read_routing(layer_index, num_experts, *parts);
  if (layer_input_width(layer) > 0) parts->layer_input_norm = own_norm(Part::layer_input_norm);
  if (description_.num_streams > 1) {
    parts->bypass_norm = own_norm(Part::bypass_norm);
    parts->streams = streams(layer_index);
  }
  if (num_experts > 0 && description_.experts_beside_network) {
    parts->network_post_norm = own_norm(Part::network_post_norm);
    parts->experts_norm = own_norm(Part::experts_norm);
    parts->experts_post_norm = own_norm(Part::experts_post_norm);
    read_router_of_its_own(layer_index, num_experts, *parts);
  }
  if (layer.shares_kv) leave_unused_keys(layer_index);
  if (description_.layer_scale) {
    // A buffer, which nobody counts with the parameters; 1 where the file has none.
    const auto scale = weights::find_part(*weights_, shape, Part::layer_scale, layer_index);
    if (scale) parts->layer_scale = values(*scale->weight, 1).front();
    if (scale) --used_->numbers;
  }
  if (used_->numbers != layer.other_parameters) {
    refuse(quote(weights_->path(), 300),
           "layer {} has {} numbers in norms, biases and routers, and the layer that {} describes "
           "has {}; tensors are missing{}, or this variant is not understood",
           layer_index, used_->numbers, quote(description_.path, 300), layer.other_parameters,
           lacking(*weights_, layer_index));
  }
  return parts;
}

}  // namespace tessera::lm
