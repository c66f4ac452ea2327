#include "tessera/core/model_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "model_checks.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera {
namespace {

constexpr double kFp16Bytes = 2;
constexpr std::size_t kMaxLinears = 64;
constexpr SizeRange kWidthRange{1, std::int64_t{1} << 32};  // heads x head_dim
constexpr SizeRange kCountRange{0, kMaxParameters};

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

Json to_json(const LinearShape& linear) {
  Json json;
  json["name"] = linear.name;
  json["in_features"] = linear.in_features;
  json["out_features"] = linear.out_features;
  json["num_copies"] = linear.num_copies;
  json["num_active"] = linear.num_active;
  return json;
}

LinearShape linear_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  LinearShape linear;
  linear.name = fields.text("name");
  linear.in_features = fields.integer("in_features", kWidthRange.low, kWidthRange.high);
  linear.out_features = fields.integer("out_features", kWidthRange.low, kWidthRange.high);
  linear.num_copies = fields.integer("num_copies", kExpertsRange.low, kExpertsRange.high);
  linear.num_active = fields.integer("num_active", kExpertsRange.low, linear.num_copies);
  fields.finish();
  return linear;
}

Json to_json(const LayerShape& layer) {
  Json json;
  json["linears"] = Json::array();
  for (const LinearShape& linear : layer.linears) json["linears"].push_back(to_json(linear));
  json["num_heads"] = layer.num_heads;
  json["num_kv_heads"] = layer.num_kv_heads;
  json["head_dim"] = layer.head_dim;
  json["other_parameters"] = layer.other_parameters;
  if (layer.attention_window) json["attention_window"] = *layer.attention_window;
  return json;
}

LayerShape layer_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  LayerShape layer;
  const Json& linears = fields.at("linears");
  if (!linears.is_array() || linears.empty() || linears.size() > kMaxLinears) {
    refuse_shape(fields.path_of("linears"),
                 fmt::format("an array of 1 to {} matrices belongs here", kMaxLinears));
  }
  for (std::size_t i = 0; i < linears.size(); ++i) {
    layer.linears.push_back(linear_from_json(linears[i], fmt::format("{}: linears[{}]", path, i)));
  }
  layer.num_heads = fields.integer("num_heads", kHeadsRange.low, kHeadsRange.high);
  layer.num_kv_heads = fields.integer("num_kv_heads", kHeadsRange.low, layer.num_heads);
  layer.head_dim = fields.integer("head_dim", kHeadDimRange.low, kHeadDimRange.high);
  layer.other_parameters = fields.integer("other_parameters", kCountRange.low, kCountRange.high);
  if (fields.has("attention_window")) {
    layer.attention_window =
        fields.integer("attention_window", kTokensRange.low, kTokensRange.high);
  }
  fields.finish();
  return layer;
}

void read_layers(JsonFields& fields, const std::string& path, ModelShape& model) {
  const auto num_layers = static_cast<std::size_t>(model.num_layers);
  const Json& classes = fields.at("layer_classes");
  if (!classes.is_array() || classes.empty() || classes.size() > num_layers) {
    refuse_shape(fields.path_of("layer_classes"),
                 fmt::format("an array of 1 to num_layers = {} shapes belongs here", num_layers));
  }
  for (std::size_t i = 0; i < classes.size(); ++i) {
    model.layer_classes.push_back(
        layer_from_json(classes[i], fmt::format("{}: layer_classes[{}]", path, i)));
  }
  const Json& indices = fields.at("layer_class");
  const double last = static_cast<double>(classes.size()) - 1;
  for (const double index : json_numbers(indices, fields.path_of("layer_class"), 0, last)) {
    model.layer_class.push_back(static_cast<std::int32_t>(index));
    if (static_cast<double>(model.layer_class.back()) != index)
      refuse_shape(fields.path_of("layer_class"), fmt::format("{} is not an index", index));
  }
}

void read_sizes(JsonFields& fields, ModelShape& model) {
  const auto size = [&fields](const char* key, SizeRange range) {
    return fields.integer(key, range.low, range.high);
  };
  model.num_layers = size("num_layers", kLayersRange);
  model.hidden_size = size("hidden_size", kSizeRange);
  model.num_heads = size("num_heads", kHeadsRange);
  model.num_kv_heads = size("num_kv_heads", kHeadsRange);
  model.head_dim = size("head_dim", kHeadDimRange);
  model.ffn_size = size("ffn_size", kSizeRange);
  model.vocab_size = size("vocab_size", kVocabRange);
  model.max_context_tokens = size("max_context_tokens", kTokensRange);
  model.token_embedding_parameters = size("token_embedding_parameters", kCountRange);
  model.position_embedding_parameters = size("position_embedding_parameters", kCountRange);
  model.embedding_other_parameters = size("embedding_other_parameters", kCountRange);
  model.lm_head_parameters = size("lm_head_parameters", kCountRange);
  model.final_other_parameters = size("final_other_parameters", kCountRange);
}

}  // namespace

void check_model_shape(const ModelShape& model, const std::string& path) {
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

double kv_cache_bytes(const LayerShape& layer, double sequences, double tokens,
                      double kv_bitwidth) {
  const auto width = static_cast<double>(layer.num_kv_heads * layer.head_dim);
  return 2 * sequences * tokens * width * kv_bitwidth / 8;
}

std::int64_t ModelShape::num_parameters() const {
  std::int64_t total = token_embedding_parameters + position_embedding_parameters +
                       embedding_other_parameters + final_other_parameters;
  // A tied head still owns its bias, where it has one.
  total += lm_head_parameters - (tied_embeddings ? token_embedding_parameters : 0);
  for (std::int64_t i = 0; i < num_layers; ++i) total += layer(i).parameters();
  return total;
}

std::int64_t ModelShape::num_active_parameters() const {
  std::int64_t total = num_parameters();
  for (std::int64_t i = 0; i < num_layers; ++i) {
    total -= layer(i).linear_parameters() - layer(i).active_linear_parameters();
  }
  return total;
}

std::int64_t ModelShape::layer_parameters() const { return layer(0).parameters(); }

double ModelShape::kv_bytes_per_token(double kv_bitwidth) const {
  double bytes = 0;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    bytes += kv_cache_bytes(layer(i), 1, 1, kv_bitwidth);
  }
  return bytes;
}

double ModelShape::layer_bytes(double bitwidth) const {
  const LayerShape& first = layer(0);
  return static_cast<double>(first.linear_parameters()) * bitwidth / 8 +
         static_cast<double>(first.other_parameters) * kFp16Bytes;
}

Json to_json(const ModelShape& model) {
  Json json;
  json["name"] = model.name;
  json["family"] = model.family;
  json["num_layers"] = model.num_layers;
  json["hidden_size"] = model.hidden_size;
  json["num_heads"] = model.num_heads;
  json["num_kv_heads"] = model.num_kv_heads;
  json["head_dim"] = model.head_dim;
  json["ffn_size"] = model.ffn_size;
  json["vocab_size"] = model.vocab_size;
  json["max_context_tokens"] = model.max_context_tokens;
  json["layer_classes"] = Json::array();
  for (const LayerShape& layer : model.layer_classes) {
    json["layer_classes"].push_back(to_json(layer));
  }
  json["layer_class"] = model.layer_class;
  json["token_embedding_parameters"] = model.token_embedding_parameters;
  json["position_embedding_parameters"] = model.position_embedding_parameters;
  json["embedding_other_parameters"] = model.embedding_other_parameters;
  json["lm_head_parameters"] = model.lm_head_parameters;
  json["tied_embeddings"] = model.tied_embeddings;
  json["final_other_parameters"] = model.final_other_parameters;
  json["source"] = model.source;
  return json;
}

ModelShape model_shape_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  ModelShape model;
  model.name = fields.text("name");
  model.family = fields.text("family");
  read_sizes(fields, model);
  read_layers(fields, path, model);
  if (!fields.at("tied_embeddings").is_boolean())
    refuse_shape(fields.path_of("tied_embeddings"), "true or false belongs here");
  model.tied_embeddings = fields.boolean("tied_embeddings", false);
  model.source = fields.text("source");
  fields.finish();
  check_model_shape(model, path);
  return model;
}

}  // namespace tessera
