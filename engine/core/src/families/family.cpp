#include "family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera::hf {
namespace {

// Hugging Face's names of activations that work element by element and so change no shape.
constexpr std::array<std::string_view, 19> kPointwiseActivations = {"gelu",
                                                                    "gelu_10",
                                                                    "gelu_accurate",
                                                                    "gelu_fast",
                                                                    "gelu_new",
                                                                    "gelu_python",
                                                                    "gelu_pytorch_tanh",
                                                                    "laplace",
                                                                    "leaky_relu",
                                                                    "linear",
                                                                    "mish",
                                                                    "quick_gelu",
                                                                    "relu",
                                                                    "relu2",
                                                                    "relu6",
                                                                    "sigmoid",
                                                                    "silu",
                                                                    "swish",
                                                                    "xielu"};

std::string shown(const Json& value) {
  if (value.is_number()) return json_text(value);
  if (value.is_string()) return quote(value.get<std::string>());
  return quote(shown_json(value));
}

}  // namespace

Config::Config(const Json& object, std::string path)
    : object_(object), path_(std::move(path)), fields_(object_, path_) {}

void Config::fail(const char* key, const std::string& problem, ErrorCode code) const {
  const std::string where = path_ + ": " + key;
  refuse(code, where, problem);
}

bool Config::has(const char* key) {
  asked_.insert(key);
  return fields_.has(key);
}

std::vector<std::string> Config::unread() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items()) {
    if (!asked_.contains(key) && !value.is_null() && value != false) keys.push_back(key);
  }
  return keys;
}

std::int64_t Config::checked_integer(const char* key, SizeRange range) {
  const Json& value = fields_.at(key);
  const auto [low, high] = range;
  if (!value.is_number() || std::floor(value.get<double>()) != value.get<double>()) {
    fail(key, fmt::format("{} where an integer in [{}, {}] belongs", shown(value), low, high));
  }
  if (value.get<double>() < static_cast<double>(low) ||
      value.get<double>() > static_cast<double>(high)) {
    fail(key, fmt::format("{} is outside [{}, {}]", shown(value), low, high),
         ErrorCode::out_of_range);
  }
  return fields_.integer(key, low, high);
}

std::optional<std::int64_t> Config::optional_size(Keys keys, SizeRange range) {
  std::optional<std::int64_t> found;
  const char* first = nullptr;
  for (const char* key : keys) {
    if (!has(key)) continue;
    const std::int64_t value = checked_integer(key, range);
    if (found && *found != value) {
      fail(key, fmt::format("{} contradicts {} = {}", value, first, *found));
    }
    if (!found) first = key;
    found = value;
  }
  return found;
}

std::int64_t Config::size(Keys keys, SizeRange range, std::optional<std::int64_t> fallback) {
  if (const auto value = optional_size(keys, range)) return *value;
  if (fallback && *fallback > range.high) {
    fail(*keys.begin(), fmt::format("missing, and the usual {} is outside [{}, {}]; write it",
                                    *fallback, range.low, range.high));
  }
  if (fallback) return *fallback;
  fail(*keys.begin(),
       fmt::format("missing; an integer in [{}, {}] belongs here", range.low, range.high));
}

bool Config::flag(const char* key, bool fallback) {
  return has(key) ? fields_.boolean(key, fallback) : fallback;
}

double Config::number(const char* key, double low, double high, double fallback) {
  return has(key) ? fields_.number(key, low, high) : fallback;
}

void Config::check_activation(Keys keys, std::string_view gated) {
  for (const char* key : keys) {
    if (!has(key)) continue;
    const std::string name = fields_.text(key);
    const auto& known = kPointwiseActivations;
    if (!gated.empty() && name == gated) continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail(key,
           fmt::format("the activation {} is not understood (it may bring its own gate); known: {}",
                       quote(name), fmt::join(known, ", ")),
           ErrorCode::unsupported);
    }
  }
}

std::optional<std::vector<std::string>> Config::layer_names(const char* key,
                                                            std::int64_t num_layers, Names known) {
  const Json* list = find(key);
  if (list == nullptr) return std::nullopt;
  if (!list->is_array() || list->size() != static_cast<std::size_t>(num_layers)) {
    fail(key, fmt::format("an array of {} names belongs here, one per layer", num_layers));
  }
  std::vector<std::string> names;
  for (const Json& entry : *list) {
    const std::string name = entry.is_string() ? entry.get<std::string>() : "";
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail(key,
           fmt::format("{} is not understood; known: {}", shown(entry), fmt::join(known, ", ")),
           ErrorCode::unsupported);
    }
    names.push_back(name);
  }
  return names;
}

std::optional<std::vector<std::int64_t>> Config::sizes(const char* key, SizeRange range) {
  const Json* list = find(key);
  if (list == nullptr) return std::nullopt;
  std::vector<std::int64_t> found;
  for (const double value : json_numbers(*list, path_ + ": " + key, static_cast<double>(range.low),
                                         static_cast<double>(range.high))) {
    if (std::floor(value) != value) fail(key, fmt::format("{} is no whole number", value));
    found.push_back(static_cast<std::int64_t>(value));
  }
  return found;
}

std::vector<std::int64_t> Config::layer_sizes(Keys keys, std::int64_t num_layers, SizeRange range,
                                              std::optional<std::int64_t> fallback) {
  for (const char* key : keys) {
    if (const Json* value = find(key); value == nullptr || !value->is_array()) continue;
    auto list = *sizes(key, range);
    if (list.size() != static_cast<std::size_t>(num_layers))
      fail(key, fmt::format("{} numbers for {} layers", list.size(), num_layers));
    return list;
  }
  return std::vector<std::int64_t>(static_cast<std::size_t>(num_layers),
                                   size(keys, range, fallback));
}

std::optional<std::vector<bool>> Config::sliding_layers(std::int64_t num_layers) {
  const auto names =
      layer_names("layer_types", num_layers, {"full_attention", "sliding_attention"});
  if (!names) return std::nullopt;
  std::vector<bool> sliding;
  for (const std::string& name : *names) sliding.push_back(name == "sliding_attention");
  return sliding;
}

void add_attention(const LayerDesign& design, LayerShape& layer) {
  const std::int64_t hidden = design.hidden_size;
  const std::int64_t query = design.num_heads * design.head_dim;
  const std::int64_t key = design.num_kv_heads * design.head_dim;
  const std::int64_t value_dim = design.value_dim.value_or(design.head_dim);
  const std::int64_t value = design.num_kv_heads * value_dim;
  layer.num_heads = design.num_heads;
  layer.num_kv_heads = design.num_kv_heads;
  layer.head_dim = design.head_dim;
  layer.value_dim = design.value_dim;
  layer.attention_window = design.attention_window;
  layer.shares_kv = design.shares_kv;
  const std::int64_t gate = design.output_gate ? design.num_heads * value_dim : 0;
  layer.linears.push_back({"q_proj", hidden, query + gate});
  if (!design.shares_kv) layer.linears.push_back({"k_proj", hidden, key});
  if (!design.shares_kv && !design.keys_are_values)
    layer.linears.push_back({"v_proj", hidden, value});
  layer.linears.push_back({"o_proj", design.num_heads * value_dim, hidden});

  if (design.qkv_bias) {
    for (const LinearShape& linear : layer.linears) {
      if (linear.name != "o_proj") layer.other_parameters += linear.out_features;
    }
    if (design.plain_gate) layer.other_parameters -= gate;
  }
  if (design.output_bias) layer.other_parameters += hidden;
  if (design.head_gate) layer.other_parameters += hidden * design.num_heads;
  if (design.qk_norm) layer.other_parameters += (design.shares_kv ? 1 : 2) * design.head_dim;
}

void add_feed_forward(const LayerDesign& design, LayerShape& layer) {
  const std::int64_t hidden = design.hidden_size, ffn = design.ffn_size;
  const auto add = [&](const std::string& prefix, std::int64_t width, std::int64_t copies,
                       std::int64_t active) {
    if (design.gated_ffn)
      layer.linears.push_back({prefix + "gate_proj", hidden, width, copies, active});
    layer.linears.push_back({prefix + "up_proj", hidden, width, copies, active});
    layer.linears.push_back({prefix + "down_proj", width, hidden, copies, active});
  };
  if (design.num_experts > 0) {
    add("experts.", ffn, design.num_experts, design.num_active_experts);
  } else {
    add("", ffn, 1, 1);
  }
  if (design.shared_ffn_size > 0) add("shared_expert.", design.shared_ffn_size, 1, 1);
  if (design.ffn_bias) layer.other_parameters += (design.gated_ffn ? 2 * ffn : ffn) + hidden;
  layer.other_parameters += hidden * design.num_experts;  // the router
}

LayerShape make_layer(const LayerDesign& design) {
  LayerShape layer;
  add_attention(design, layer);
  add_feed_forward(design, layer);
  layer.other_parameters += design.norm_parameters;
  return layer;
}

LayerDesign design_of(const ModelShape& model) {
  LayerDesign design;
  design.hidden_size = model.hidden_size;
  design.num_heads = model.num_heads;
  design.num_kv_heads = model.num_kv_heads;
  design.head_dim = model.head_dim;
  design.ffn_size = model.ffn_size;
  return design;
}

void add_layer(ModelShape& model, const LayerShape& layer) {
  auto& classes = model.layer_classes;
  const auto known = std::find(classes.begin(), classes.end(), layer);
  model.layer_class.push_back(static_cast<std::int32_t>(known - classes.begin()));
  if (known == classes.end()) classes.push_back(layer);
}

void add_layers(ModelShape& model, const LayerShape& layer) {
  for (std::int64_t i = 0; i < model.num_layers; ++i) add_layer(model, layer);
}

// MiniMax's num_mtp_modules are in no file of theirs.
std::int64_t next_token_layers(Config& config) {
  return config
      .optional_size({"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers"},
                     {0, 64})
      .value_or(0);
}

void count_next_token_layers(Config& config, std::int64_t layer_parameters, ModelShape& model) {
  const std::int64_t layers = next_token_layers(config), hidden = model.hidden_size;
  if (layers == 0) return;
  model.next_token_layers = layers;
  model.next_token_parameters =
      std::min(kMaxParameters, layers * (layer_parameters + 2 * hidden * hidden + 3 * hidden));
}

void set_embeddings(ModelShape& model, std::int64_t width, bool tied) {
  model.token_embedding_parameters = model.vocab_size * width;
  model.lm_head_parameters = model.vocab_size * width;
  model.tied_embeddings = tied;
}

void split_hidden_size(Config& config, ModelShape& model) {
  if (model.hidden_size % model.num_heads != 0) {
    refuse(config.path(),
           "hidden_size {} is not a multiple of the {} attention heads, and "
           "head_dim is not given",
           model.hidden_size, model.num_heads);
  }
  model.head_dim = model.hidden_size / model.num_heads;
  if (model.head_dim > kHeadDimRange.high) {
    refuse(ErrorCode::out_of_range, config.path(),
           "hidden_size / num_heads = {} is outside [{}, {}]", model.head_dim, kHeadDimRange.low,
           kHeadDimRange.high);
  }
}

void check_kv_heads(Config& config, const ModelShape& model) {
  if (model.num_heads % model.num_kv_heads != 0) {
    refuse(config.path(), "{} attention heads do not split evenly over {} key-value heads",
           model.num_heads, model.num_kv_heads);
  }
}

std::int64_t stretched_context(Config& config, std::int64_t tokens) {
  const char* key = config.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  const Json* scaling = config.find(key);
  if (scaling == nullptr || !scaling->is_object()) return tokens;
  JsonFields fields(*scaling, config.path() + ": " + key);
  const std::string kind =
      fields.has("rope_type") ? fields.text("rope_type") : fields.text("type", "default");
  const bool stretches = kind == "yarn" || kind == "linear" || kind == "dynamic";
  if (!stretches || !fields.has("factor")) return tokens;
  constexpr double kMostFactor = 1e4;
  const double factor = fields.number("factor", 1, kMostFactor);
  const double before =
      kind == "yarn" && fields.has("original_max_position_embeddings")
          ? static_cast<double>(fields.integer("original_max_position_embeddings", kTokensRange.low,
                                               kTokensRange.high))
          : static_cast<double>(tokens);
  const double stretched = std::floor(before * factor + 0.5);
  if (stretched > static_cast<double>(kTokensRange.high)) {
    config.fail(key,
                fmt::format("{} tokens, {} times as many as before, are outside [{}, {}]",
                            stretched, factor, kTokensRange.low, kTokensRange.high),
                ErrorCode::out_of_range);
  }
  return static_cast<std::int64_t>(stretched);
}

void read_experts(Config& config, Keys total_keys, LayerDesign& design) {
  design.num_experts = config.size(total_keys, kExpertsRange);
  design.num_active_experts = config.size({"num_experts_per_tok"}, {1, design.num_experts});
}

}  // namespace tessera::hf
