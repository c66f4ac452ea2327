#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>

#include "tensor_reader_used.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::lm {
namespace {

using weights::LinearWeight;
using weights::Part;
using weights::TensorInfo;

// Buffers that old checkpoints carry along and nothing reads.
bool means_nothing(const std::string& name) {
  for (const char* ending : {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                             ".attention.bias", ".attention.masked_bias",
                             // Scales of an 8-bit KV cache, which this one does not take.
                             ".k_scale", ".v_scale"}) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

std::int64_t bytes_of(const std::vector<Network>& networks) {
  std::int64_t bytes = 0;
  for (const Network& network : networks) bytes += network.in->bytes() + network.down->bytes();
  return bytes;
}

}  // namespace

std::int64_t Matrices::bytes() const {
  std::int64_t bytes = bytes_of(networks) + bytes_of(shared);
  for (const auto& linear : {qkv, output, query, state.in, state.out, into_experts, from_experts,
                             layer_input.in, layer_input.down, bypass.in, bypass.down})
    if (linear != nullptr) bytes += linear->bytes();
  for (const auto& linear : state.inner) bytes += linear->bytes();
  return latent_heads == nullptr ? bytes : bytes + latent_heads->bytes();
}

std::string Matrices::describe() const {
  return (qkv != nullptr ? qkv : state.in != nullptr ? state.in : networks.front().in)->describe();
}

TensorReader::TensorReader(std::shared_ptr<const weights::Weights> weights,
                           const Description& description, Share share,
                           std::shared_ptr<const Backend> backend)
    : weights_(std::move(weights)),
      description_(description),
      share_(share),
      backend_(std::move(backend)),
      linears_(weights::linears_of(*weights_, description.shape, weights::Readable::quantised)),
      used_(std::make_unique<Used>()) {}

TensorReader::~TensorReader() = default;

void TensorReader::use(const TensorInfo& tensor) const {
  const std::scoped_lock lock(used_->mutex);
  used_->stems.insert(stem_of(tensor.name));
}

std::span<const LinearWeight> TensorReader::linears_of_layer(std::int64_t layer_index) const {
  const auto key = &LinearWeight::layer_index;
  return {std::ranges::lower_bound(linears_, layer_index, {}, key),
          std::ranges::upper_bound(linears_, layer_index, {}, key)};
}

std::vector<LinearWeight> TensorReader::find(std::int64_t layer_index,
                                             std::span<const std::string> names,
                                             std::int64_t copy) const {
  std::vector<LinearWeight> found;
  const std::span<const LinearWeight> layer = linears_of_layer(layer_index);
  for (const std::string& name : names) {
    for (const LinearWeight& linear : layer) {
      if (linear.linear != name || linear.copy != copy) continue;
      use(*linear.tensor);
      found.push_back(linear);
    }
  }
  return found;
}

std::shared_ptr<const Matrices> TensorReader::matrices(std::int64_t layer_index,
                                                       const LinearForm& form,
                                                       const quant::Statistics* statistics) const {
  const bool calibrated = form.bitwidth < 16 &&
                          (form.method == quant::Method::gptq || form.method == quant::Method::awq);
  using Names = std::vector<std::string>;
  const auto make = [&](const Names& names, Cut cut,
                        std::int64_t copy = 0) -> std::shared_ptr<const Linear> {
    LinearSource source{.weights = weights_, .parts = find(layer_index, names, copy)};
    const auto& parts = source.parts;
    if (parts.empty()) return nullptr;
    if (share_.ranks > 1 && cut == Cut::rows) source.row_order = rows_of_share(parts);
    if (share_.ranks > 1 && cut == Cut::columns) {
      source.first_column = share_.first(parts.front().in_features);
      source.num_columns = share_.of(parts.front().in_features);
    }
    std::optional<quant::LinearStatistics> inputs;
    if (calibrated && statistics != nullptr) {
      inputs = statistics->find(layer_index, parts.front().linear);
      if (!inputs) {
        refuse(ErrorCode::not_found, statistics->path(),
               "no statistics of layer {} {}, which {} needs", layer_index, parts.front().linear,
               name_of(form.method));
      }
    }
    return backend_->make_linear(source, form, inputs ? &*inputs : nullptr);
  };
  const auto network = [&](const Names& in, const char* down, std::int64_t copy) {
    return Network{make(in, Cut::rows, copy), make(Names{down}, Cut::columns, copy)};
  };
  auto matrices = std::make_shared<Matrices>();
  const LayerShape& layer = description_.shape.layer(layer_index);
  if (const auto widths = latent_widths(layer)) {
    matrices->qkv = make(kLatentInputs, Cut::rows);
    matrices->query = make({"q_b_proj"}, Cut::rows);
    const auto both = make({"kv_b_proj"}, Cut::rows);
    std::vector<float> numbers(static_cast<std::size_t>(both->out_features() * widths->rank));
    both->dequantise(0, both->out_features(), numbers.data());
    matrices->latent_heads =
        std::make_shared<LatentHeads>(*widths, layer.num_heads, std::move(numbers));
  } else if (layer.attends()) {
    matrices->qkv = make(kAttentionInputs, Cut::rows);
  }
  if (layer.attends()) matrices->output = make({"o_proj"}, Cut::columns);
  if (layer.state) {
    const StateLinears names = state_linears(layer);
    matrices->state = {make(names.in, Cut::rows), make({names.out}, Cut::columns), {}};
    for (const std::string& name : names.inner)
      matrices->state.inner.push_back(make({name}, Cut::rows));
  }
  std::int64_t experts = 0;
  for (const LinearShape& linear : layer.linears) {
    if (linear.name == "experts.down_proj") experts = linear.num_copies;
    if (linear.name == "shared_expert.down_proj") {
      matrices->shared.push_back(network({"shared_expert.gate_proj", "shared_expert.up_proj"},
                                         "shared_expert.down_proj", 0));
    }
  }
  matrices->layer_input = network({"per_layer_input.in_proj"}, "per_layer_input.out_proj", 0);
  matrices->bypass = network({"laurel.in_proj"}, "laurel.out_proj", 0);
  matrices->into_experts = make({"latent.in_proj"}, Cut::rows);
  matrices->from_experts = make({"latent.out_proj"}, Cut::columns);
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    matrices->networks.push_back(
        network({"experts.gate_proj", "experts.up_proj"}, "experts.down_proj", expert));
  }
  if (experts == 0 && feeds_forward(layer))
    matrices->networks.push_back(network({"gate_proj", "up_proj"}, "down_proj", 0));
  return matrices;
}

std::vector<float> TensorReader::values(const TensorInfo& tensor, std::int64_t count) const {
  return values(tensor, 0, count, count);
}

std::vector<float> TensorReader::values(const TensorInfo& tensor, std::int64_t first,
                                        std::int64_t count, std::int64_t total) const {
  if (tensor.num_elements() != total) {
    refuse(quote(tensor.file, 300), "tensor {} has the shape {}, and {} needs {} numbers",
           quote(tensor.name, 100), weights::describe_shape(tensor.shape),
           quote(description_.shape.name, 100), total);
  }
  std::vector<float> values(static_cast<std::size_t>(count));
  weights::read_f32(*weights_, tensor, first, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      refuse(quote(tensor.file, 300),
             "tensor {} holds {} at element {}; the file is damaged, fetch it again",
             quote(tensor.name, 100), values[i], first + static_cast<std::int64_t>(i));
    }
  }
  use(tensor);
  used_->numbers += count;
  return values;
}

Memory TensorReader::bias(const TensorInfo* tensor, std::int64_t count) const {
  if (tensor == nullptr) return nullptr;
  const std::vector<float> numbers = values(*tensor, count);
  return backend_->upload(numbers.data(), count * 4);
}

std::shared_ptr<const Linear> TensorReader::matrix(Part part, std::int64_t layer_index,
                                                   std::int64_t rows, std::int64_t columns,
                                                   const LinearForm& form) const {
  const auto found = weights::find_part(*weights_, description_.shape, part, layer_index);
  if (!found) {
    refuse(ErrorCode::not_found, quote(weights_->path(), 300),
           "no tensor {}.weight of shape [{}, {}]; the checkpoint is not whole",
           weights::names_of_part(*weights_, description_.shape, part, layer_index).front(), rows,
           columns);
  }
  const TensorInfo& tensor = *found->weight;
  // A gate of one output may be stored as a vector.
  if (tensor.num_elements() != rows * columns || tensor.shape.back() != columns) {
    refuse(quote(tensor.file, 300), "tensor {} has the shape {}, and {} needs [{}, {}]",
           quote(tensor.name, 100), weights::describe_shape(tensor.shape),
           quote(description_.shape.name, 100), rows, columns);
  }
  use(tensor);
  weights_->prefetch(tensor);
  used_->numbers += rows * columns;
  LinearWeight whole{.layer_index = -1,  // none of a layer's linears: known by its tensor
                     .linear = tensor.name,
                     .copy = 0,
                     .tensor = &tensor,
                     .offset = 0,
                     .first_row = 0,
                     .num_rows = rows,
                     .in_features = columns,
                     .stored_rows = rows,
                     .block_rows = rows,
                     .block_stride = rows,
                     .transposed = false};
  return backend_->make_linear({.weights = weights_, .parts = {whole}}, form, nullptr);
}

const TensorInfo& TensorReader::table(Part part, std::int64_t rows, std::int64_t columns) const {
  const auto found = weights::find_part(*weights_, description_.shape, part, 0);
  if (!found) {
    refuse(ErrorCode::not_found, quote(weights_->path(), 300),
           "no tensor {}.weight of shape [{}, {}]; the checkpoint is not whole",
           weights::names_of_part(*weights_, description_.shape, part, 0).front(), rows, columns);
  }
  const TensorInfo& tensor = *found->weight;
  if (tensor.shape != std::vector<std::int64_t>{rows, columns}) {
    refuse(quote(tensor.file, 300), "tensor {} has the shape {}, and {} needs [{}, {}]",
           quote(tensor.name, 100), weights::describe_shape(tensor.shape),
           quote(description_.shape.name, 100), rows, columns);
  }
  use(tensor);
  return tensor;
}

void TensorReader::leave(std::initializer_list<Part> parts, std::int64_t layer_index) const {
  for (const Part part : parts) {
    const auto found = weights::find_part(*weights_, description_.shape, part, layer_index);
    if (!found) continue;
    use(*found->weight);
    if (found->bias != nullptr) use(*found->bias);
  }
}

void TensorReader::leave_layer(std::int64_t layer_index) const {
  leave({Part::attention_norm,
         Part::ffn_norm,
         Part::attention_post_norm,
         Part::ffn_post_norm,
         Part::q_norm,
         Part::k_norm,
         Part::router,
         Part::router_correction,
         Part::shared_expert_gate,
         Part::sinks,
         Part::query_latent_norm,
         Part::latent_norm,
         Part::state_convolution,
         Part::state_key_convolution,
         Part::state_value_convolution,
         Part::state_decay,
         Part::state_step_bias,
         Part::state_skip,
         Part::state_norm,
         Part::state_step_norm,
         Part::state_b_norm,
         Part::state_c_norm,
         Part::layer_input_norm,
         Part::layer_scale,
         Part::bypass_norm,
         Part::stream_prediction,
         Part::stream_correction,
         Part::stream_router,
         Part::stream_router_norm,
         Part::stream_scale,
         Part::network_post_norm,
         Part::experts_norm,
         Part::experts_post_norm,
         Part::router_scale,
         Part::expert_scale},
        layer_index);
  if (description_.qk_norm == QkNorm::each_head) {
    const LayerShape& layer = description_.shape.layer(layer_index);
    for (const Part part : {Part::q_norm, Part::k_norm}) {
      for (std::int64_t head = 0; head < layer.num_heads; ++head) {
        if (const auto own =
                weights::find_part(*weights_, description_.shape, part, layer_index, head))
          use(*own->weight);
      }
    }
  }
  for (const LinearWeight& linear : linears_of_layer(layer_index)) {
    use(*linear.tensor);
    if (const TensorInfo* bias = weights::bias_of(*weights_, linear)) use(*bias);
  }
}

void TensorReader::expect_layer(std::int64_t layer_index) const {
  for (const LinearWeight& linear : linears_of_layer(layer_index))
    weights_->prefetch(*linear.tensor);
}

void TensorReader::refuse_others() const {
  std::vector<std::string> others;
  for (const TensorInfo& tensor : weights_->tensors()) {
    if (means_nothing(tensor.name) || used_->stems.contains(stem_of(tensor.name))) continue;
    // A copy of the embedding; factors that `describe` has read.
    const auto is = [&](Part part) {
      const auto found = weights::find_part(*weights_, description_.shape, part);
      return found && found->weight == &tensor;
    };
    if (is(Part::lm_head) || is(Part::rope_factors)) continue;
    others.push_back(quote(tensor.name, 100));
  }
  if (others.empty()) return;
  const std::size_t count = others.size();
  if (count > 4) others.resize(4);
  refuse(quote(weights_->path(), 300),
         "{} tensor{} that no {} has: {}{}; config.json is of another model, or this variant is "
         "not understood",
         count, count == 1 ? "" : "s", description_.shape.family, join(others, ", "),
         count > others.size() ? ", ..." : "");
}

}  // namespace tessera::lm
