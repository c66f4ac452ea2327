#include "tessera/core/model_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

constexpr double kFp16Bytes = 2;
constexpr std::size_t kMaxLinears = 64;

[[noreturn]] void refuse_shape(const std::string& path, const std::string& problem,
                               ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, path + ": " + problem, path);
}

// In doubles, because this decides whether the integer counts may be formed at all.
double approximate_parameters(const LayerShape& layer) {
  double total = static_cast<double>(layer.other_parameters);
  for (const LinearShape& linear : layer.linears) {
    total += static_cast<double>(linear.in_features) * static_cast<double>(linear.out_features) *
             static_cast<double>(linear.num_copies);
  }
  return total;
}

void check_most(std::int64_t value, std::int64_t low, std::int64_t high, const std::string& path) {
  if (value <= high) return;
  refuse(ErrorCode::out_of_range, path, "{} is outside [{}, {}]", value, low, high);
}

void check_layer_classes(const ModelShape& model, const FieldPath& path) {
  const auto num_layers = static_cast<std::size_t>(model.num_layers);
  const std::size_t num_classes = model.layer_classes.size();
  if (num_classes == 0 || num_classes > num_layers) {
    refuse_shape(path("layer_classes"),
                 fmt::format("an array of 1 to num_layers = {} shapes belongs here", num_layers));
  }
  for (std::size_t i = 0; i < model.layer_class.size(); ++i) {
    check_most(model.layer_class[i], 0, static_cast<std::int64_t>(num_classes) - 1,
               fmt::format("{}[{}]", path("layer_class"), i));
  }
}

}  // namespace

void Fields<LinearShape>::check(const LinearShape& linear, const FieldPath& path) {
  check_most(linear.num_active, kExpertsRange.low, linear.num_copies, path("num_active"));
}

void Fields<LayerShape>::check(const LayerShape& layer, const FieldPath& path) {
  if (layer.linears.empty() || layer.linears.size() > kMaxLinears) {
    refuse_shape(path("linears"),
                 fmt::format("an array of 1 to {} matrices belongs here", kMaxLinears));
  }
  check_most(layer.num_kv_heads, 0, layer.num_heads, path("num_kv_heads"));
  if ((layer.num_heads > 0) != (layer.num_kv_heads > 0) ||
      (layer.num_heads > 0) != (layer.head_dim > 0)) {
    refuse_shape(path("num_kv_heads"),
                 "attention has query heads, key and value heads, and a width of them; a layer "
                 "without attention has 0 of each");
  }
  if ((layer.index_width && !layer.index_tokens) || (layer.index_tokens && !layer.attends())) {
    refuse_shape(path("index_width"),
                 "an indexer has an index_width and index_tokens, for attention to choose by");
  }
  if (layer.latent_width.has_value() != layer.rope_width.has_value()) {
    refuse_shape(path("latent_width"), "latent attention has a latent_width and a rope_width");
  }
  if (layer.idle_parameters.value_or(0) > layer.other_parameters) {
    refuse_shape(
        path("idle_parameters"),
        fmt::format("{} of {} other_parameters", *layer.idle_parameters, layer.other_parameters));
  }
  if (layer.tokens_per_entry && !layer.latent_width)
    refuse_shape(path("tokens_per_entry"), "entries are latents: a latent_width is missing");
  if (layer.rope_width) check_most(*layer.rope_width, 1, layer.head_dim - 1, path("rope_width"));
}

void Fields<ModelShape>::check(const ModelShape& model, const FieldPath& at) {
  const std::string& path = at.record;
  check_layer_classes(model, at);
  if (model.layer_class.size() != static_cast<std::size_t>(model.num_layers)) {
    refuse_shape(path, fmt::format("layer_class has {} entries for num_layers = {}",
                                   model.layer_class.size(), model.num_layers));
  }
  if (model.tied_embeddings && model.lm_head_parameters < model.token_embedding_parameters) {
    refuse_shape(path,
                 fmt::format("an LM head of {} parameters cannot share the token embedding's {}",
                             model.lm_head_parameters, model.token_embedding_parameters));
  }
  double total = static_cast<double>(model.token_embedding_parameters) +
                 static_cast<double>(model.position_embedding_parameters) +
                 static_cast<double>(model.layer_embedding_parameters) +
                 static_cast<double>(model.embedding_other_parameters) +
                 static_cast<double>(model.lm_head_parameters) +
                 static_cast<double>(model.final_other_parameters);
  for (const LayerShape& layer : model.layer_classes) {
    // A class that no layer uses must not overflow either.
    total = std::max(total, approximate_parameters(layer));
  }
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    total += approximate_parameters(model.layer(i));
  }
  if (total > static_cast<double>(kMaxParameters)) {
    refuse_shape(path,
                 fmt::format("the sizes multiply to {:.3g} parameters, at most {} are allowed",
                             total, kMaxParameters),
                 ErrorCode::out_of_range);
  }
}

std::int64_t LayerShape::linear_parameters() const {
  std::int64_t total = 0;
  for (const LinearShape& linear : linears) total += linear.parameters();
  return total;
}

std::int64_t LayerShape::active_linear_parameters() const {
  std::int64_t total = 0;
  for (const LinearShape& linear : linears) total += linear.active_parameters();
  return total;
}

std::int64_t kv_heads_elsewhere(const LayerShape& layer, double ratio) {
  return std::llround(ratio * static_cast<double>(layer.num_kv_heads));
}

namespace {

// What latent attention keeps of a token or of an entry, without and with the key of its indexer.
std::int64_t latent_values(const LayerShape& layer) {
  return *layer.latent_width + *layer.rope_width;
}
std::int64_t indexed_values(const LayerShape& layer) {
  return latent_values(layer) + layer.index_width.value_or(0);
}

}  // namespace

std::int64_t kv_values_per_token(const LayerShape& layer) {
  if (layer.shares_kv) return 0;
  if (!layer.latent_width) {
    return layer.num_kv_heads * (layer.head_dim + layer.value_width()) +
           layer.index_width.value_or(0);
  }
  return layer.tokens_per_entry ? latent_values(layer) : indexed_values(layer);
}

double LayerState::bytes() const {
  return static_cast<double>(recurrent_values) * static_cast<double>(recurrent_bits) / 8 +
         static_cast<double>(convolution_values) * kFp16Bytes;
}

std::string kind_of(const LayerShape& layer) {
  std::vector<std::string> mixers;
  if (layer.attends()) {
    std::string attention = "attention";
    if (layer.latent_width) attention = "latent attention";
    const std::string chosen =
        layer.index_tokens ? fmt::format("{} chosen ", *layer.index_tokens) : "";
    if (!chosen.empty() && !layer.tokens_per_entry) attention += " to " + chosen + "tokens";
    if (layer.attention_window) attention += fmt::format(" to {} tokens", *layer.attention_window);
    if (layer.tokens_per_entry)
      attention += fmt::format(" and {}entries of {}", chosen, *layer.tokens_per_entry);
    if (layer.shares_kv) attention += " with shared keys";
    mixers.push_back(attention);
  }
  if (layer.state) {
    std::string name(name_of(layer.state->kind));
    std::replace(name.begin(), name.end(), '_', ' ');
    mixers.push_back(name);
  }
  const auto ends_with = [&](std::string_view end) {
    return std::any_of(layer.linears.begin(), layer.linears.end(),
                       [&](const LinearShape& linear) { return linear.name.ends_with(end); });
  };
  const auto begins_with = [&](std::string_view start) {
    return std::any_of(layer.linears.begin(), layer.linears.end(),
                       [&](const LinearShape& linear) { return linear.name.starts_with(start); });
  };
  std::string kind = join(mixers, " beside ");
  const char* feed_forward = begins_with("experts.")                      ? "experts"
                             : ends_with("down_proj") || ends_with("fc2") ? "dense"
                                                                          : "";
  if (*feed_forward != '\0') kind += (kind.empty() ? "" : ", ") + std::string(feed_forward);
  return kind;
}

double kv_cache_bytes(const LayerShape& layer, double sequences, double tokens,
                      double kv_bitwidth) {
  return sequences * tokens * static_cast<double>(kv_values_per_token(layer)) * kv_bitwidth / 8;
}

double kv_entry_bytes(const LayerShape& layer, double sequences, double tokens,
                      double kv_bitwidth) {
  if (!layer.tokens_per_entry) return 0;
  return sequences * tokens / static_cast<double>(*layer.tokens_per_entry) *
         static_cast<double>(indexed_values(layer)) * kv_bitwidth / 8;
}

std::int64_t ModelShape::num_parameters() const {
  std::int64_t total = token_embedding_parameters + position_embedding_parameters +
                       layer_embedding_parameters + embedding_other_parameters +
                       final_other_parameters;
  // A tied head still owns its bias, where it has one.
  total += lm_head_parameters - (tied_embeddings ? token_embedding_parameters : 0);
  for (std::int64_t i = 0; i < num_layers; ++i) total += layer(i).parameters();
  return total;
}

std::int64_t ModelShape::num_active_parameters() const {
  std::int64_t total = num_parameters();
  for (std::int64_t i = 0; i < num_layers; ++i) {
    const LayerShape& shape = layer(i);
    total -= shape.linear_parameters() - shape.active_linear_parameters();
    total -= shape.idle_parameters.value_or(0);
  }
  return total;
}

std::int64_t ModelShape::layer_parameters() const { return layer(0).parameters(); }

std::int64_t ModelShape::tower_parameters() const {
  std::int64_t total = 0;
  for (const Tower& tower : towers) total += tower.parameters;
  return total;
}

double ModelShape::kv_bytes_per_token(double kv_bitwidth) const {
  double bytes = 0;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    bytes +=
        kv_cache_bytes(layer(i), 1, 1, kv_bitwidth) + kv_entry_bytes(layer(i), 1, 1, kv_bitwidth);
  }
  return bytes;
}

double ModelShape::state_bytes_per_sequence() const {
  double bytes = 0;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    if (layer(i).state) bytes += layer(i).state->bytes();
  }
  return bytes;
}

std::string ModelShape::layer_kinds() const {
  std::vector<std::pair<std::string, std::int64_t>> kinds;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    const std::string kind = kind_of(layer(i));
    const auto known =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == kind; });
    if (known == kinds.end()) {
      kinds.emplace_back(kind, 1);
    } else {
      ++known->second;
    }
  }
  if (kinds.size() < 2) return "";
  std::vector<std::string> words;
  for (const auto& [kind, number] : kinds) words.push_back(fmt::format("{} of {}", number, kind));
  return join(words, "; ");
}

double ModelShape::layer_bytes(double bitwidth) const {
  const LayerShape& first = layer(0);
  return static_cast<double>(first.linear_parameters()) * bitwidth / 8 +
         static_cast<double>(first.other_parameters) * kFp16Bytes;
}

Json to_json(const ModelShape& model) { return json_of(model); }

ModelShape model_shape_from_json(const Json& json, const std::string& path) {
  return from_json<ModelShape>(json, path);
}

}  // namespace tessera
