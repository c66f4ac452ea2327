#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>

#include "layer.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::lm {
namespace {

using weights::LinearWeight;
using weights::Part;
using weights::TensorInfo;

std::string stem_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

// Buffers that old checkpoints carry along and nothing reads.
bool means_nothing(const std::string& name) {
  for (const char* ending : {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                             ".attention.bias", ".attention.masked_bias"}) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

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

std::int64_t bytes_of(const std::vector<Network>& networks) {
  std::int64_t bytes = 0;
  for (const Network& network : networks) bytes += network.in->bytes() + network.down->bytes();
  return bytes;
}

}  // namespace

std::int64_t Matrices::bytes() const {
  return qkv->bytes() + output->bytes() + bytes_of(networks) + bytes_of(shared);
}

struct TensorReader::Used {
  std::mutex mutex;
  std::set<std::string> stems;  ///< names without ".weight", ".bias", ".weight_packed"
  std::int64_t numbers = 0;     ///< read that are not of a matrix with a form
};

TensorReader::TensorReader(std::shared_ptr<const weights::Weights> weights,
                           const Description& description, Share share,
                           std::shared_ptr<const Backend> backend)
    : weights_(std::move(weights)),
      description_(description),
      share_(share),
      backend_(std::move(backend)),
      linears_(weights::linears_of(*weights_, description.shape, weights::Readable::codes)),
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
                                             std::initializer_list<const char*> names,
                                             std::int64_t copy) const {
  std::vector<LinearWeight> found;
  const std::span<const LinearWeight> layer = linears_of_layer(layer_index);
  for (const char* name : names) {
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
  const auto make = [&](std::initializer_list<const char*> names, Cut cut,
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
  const auto network = [&](std::initializer_list<const char*> in, const char* down,
                           std::int64_t copy) {
    return Network{make(in, Cut::rows, copy), make({down}, Cut::columns, copy)};
  };
  auto matrices = std::make_shared<Matrices>();
  matrices->qkv = make({"q_proj", "k_proj", "v_proj"}, Cut::rows);
  matrices->output = make({"o_proj"}, Cut::columns);
  std::int64_t experts = 0;
  for (const LinearShape& linear : description_.shape.layer(layer_index).linears) {
    if (linear.name == "experts.down_proj") experts = linear.num_copies;
    if (linear.name == "shared_expert.down_proj") {
      matrices->shared.push_back(network({"shared_expert.gate_proj", "shared_expert.up_proj"},
                                         "shared_expert.down_proj", 0));
    }
  }
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    matrices->networks.push_back(
        network({"experts.gate_proj", "experts.up_proj"}, "experts.down_proj", expert));
  }
  if (experts == 0) matrices->networks.push_back(network({"gate_proj", "up_proj"}, "down_proj", 0));
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

// Of all heads one row of weights, in one tensor (Cohere) or one a head (StableLM).
NormWeights TensorReader::head_norm(Part part, std::int64_t layer_index, std::int64_t num_heads,
                                    std::int64_t head_dim) const {
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

std::shared_ptr<const LayerParts> TensorReader::parts(std::int64_t layer_index) const {
  const ModelShape& shape = description_.shape;
  const LayerShape& layer = shape.layer(layer_index);
  auto parts = std::make_shared<LayerParts>();
  used_->numbers = 0;
  const auto own_norm = [&](Part part) { return norm(part, layer_index, shape.hidden_size); };
  if (description_.places != NormPlaces::after) {
    parts->attention_norm = own_norm(Part::attention_norm);
    if (!description_.shared_norm) parts->ffn_norm = own_norm(Part::ffn_norm);
  }
  if (description_.places == NormPlaces::after || description_.places == NormPlaces::both) {
    parts->attention_post_norm = own_norm(Part::attention_post_norm);
    parts->ffn_post_norm = own_norm(Part::ffn_post_norm);
  }
  if (description_.qk_norm != QkNorm::none) {
    parts->q_norm = head_norm(Part::q_norm, layer_index, layer.num_heads, layer.head_dim);
    parts->k_norm = head_norm(Part::k_norm, layer_index, layer.num_kv_heads, layer.head_dim);
  }
  parts->qkv_bias = stacked_bias(find(layer_index, {"q_proj", "k_proj", "v_proj"}), Cut::rows);
  parts->output_bias = stacked_bias(find(layer_index, {"o_proj"}), Cut::columns);
  const auto network_bias = [&](std::initializer_list<const char*> in, const char* down,
                                std::int64_t copy = 0) {
    return NetworkBias{stacked_bias(find(layer_index, in, copy), Cut::rows),
                       stacked_bias(find(layer_index, {down}, copy), Cut::columns)};
  };
  std::int64_t num_experts = 0;
  for (const LinearShape& linear : layer.linears) {
    if (linear.name == "experts.down_proj") num_experts = linear.num_copies;
    if (linear.name == "shared_expert.down_proj") {
      parts->shared_bias = network_bias({"shared_expert.gate_proj", "shared_expert.up_proj"},
                                        "shared_expert.down_proj");
    }
  }
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    parts->biases.push_back(
        network_bias({"experts.gate_proj", "experts.up_proj"}, "experts.down_proj", expert));
  }
  if (num_experts == 0)
    parts->biases.push_back(network_bias({"gate_proj", "up_proj"}, "down_proj"));
  if (num_experts > 0) read_routing(layer_index, num_experts, *parts);
  if (description_.sinks) {
    const auto sinks = weights::find_part(*weights_, shape, Part::sinks, layer_index);
    if (!sinks) {
      refuse(ErrorCode::not_found, quote(weights_->path(), 300),
             "no attention sinks of layer {} of {}; the checkpoint is not whole", layer_index,
             quote(shape.name, 100));
    }
    const auto numbers = values(*sinks->weight, layer.num_heads);
    parts->sinks = backend_->upload(numbers.data() + share_.first(layer.num_heads),
                                    share_.of(layer.num_heads) * 4);
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

void TensorReader::leave(std::initializer_list<Part> parts, std::int64_t layer_index) const {
  for (const Part part : parts) {
    const auto found = weights::find_part(*weights_, description_.shape, part, layer_index);
    if (!found) continue;
    use(*found->weight);
    if (found->bias != nullptr) use(*found->bias);
  }
}

void TensorReader::leave_layer(std::int64_t layer_index) const {
  leave({Part::attention_norm, Part::ffn_norm, Part::attention_post_norm, Part::ffn_post_norm,
         Part::q_norm, Part::k_norm, Part::router, Part::router_correction,
         Part::shared_expert_gate, Part::sinks},
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
