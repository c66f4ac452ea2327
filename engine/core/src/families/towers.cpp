#include "towers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

namespace tessera::hf {
namespace {

// Encoders whose feed-forward networks have a gate, so three matrices: transformers, modeling_*.py
// of each.
constexpr std::array<std::string_view, 6> kGated{"gemma4",  "glm4v",        "ovis2",
                                                 "pixtral", "qwen2_5_omni", "qwen2_5_vl"};
// Decoders that take pictures through two matrices: to their hidden size, and there once more.
constexpr std::array<std::string_view, 4> kTwoMatrices{"internvl", "llava", "llava_next",
                                                       "mistral3"};

bool is_among(std::string_view word, const auto& words) {
  return std::ranges::find(words, word) != words.end();
}

// The first of several spellings of a size; nothing where it is no number that one could be.
std::optional<double> size_of(const Json& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto at = config.find(key);
    if (at == config.end() || !at->is_number()) continue;
    const auto value = at->get<double>();
    if (value > 0 && value <= static_cast<double>(kSizeRange.high)) return value;
  }
  return std::nullopt;
}

std::string_view word_of(const Json& config, const char* key) {
  const auto at = config.find(key);
  return at == config.end() || !at->is_string() ? std::string_view()
                                                : at->get_ref<const std::string&>();
}

// "qwen3_5_moe_vision" is "qwen3_5", which "qwen3_5_moe" is, too.
std::string_view kind_of(std::string_view model_type) {
  for (const std::string_view end : {"_vision", "_moe"})
    if (model_type.ends_with(end)) model_type.remove_suffix(end.size());
  return model_type;
}

// Of what joins neighbouring places of a picture into `out` features of the text, once and for each
// of the layers that hand over what they hold: two matrices, and in GLM a gated network.
double merger(const Json& tower, double width, bool is_glm) {
  const auto merge = size_of(tower, {"spatial_merge_size"});
  auto out = size_of(tower, {"out_hidden_size"});
  if (!out && tower.contains("embed_dim")) out = size_of(tower, {"hidden_size"});
  if (!merge || !out) return 0;
  const double joined = width * *merge * *merge;
  if (is_glm)
    return joined * *out + *out * *out +
           3 * *out * size_of(tower, {"intermediate_size"}).value_or(0);
  const auto early = tower.find("deepstack_visual_indexes");
  const bool hands_over = early != tower.end() && early->is_array();
  const double times = hands_over ? 1 + static_cast<double>(early->size()) : 1;
  return times * (joined * joined + joined * *out);
}

// Of what hands the encoder's outputs to the text where the decoder's configuration says how.
double projector(const Json& outer, const Json& tower, double width, double ffn, double hidden) {
  double sum = 0;
  if (is_among(word_of(outer, "model_type"), kTwoMatrices)) sum += width * hidden + hidden * hidden;
  if (const auto scale = size_of(outer, {"scale_factor"})) sum += *scale * *scale * width * hidden;
  const auto aligned = size_of(outer, {"alignment_intermediate_size"});
  if (const auto factor = size_of(outer, {"downsample_factor"}); factor && aligned)
    sum += *factor * *factor * width * *aligned + *aligned / 2 * hidden;
  // MiniMax-M3: to a width between, for each place and once more for neighbours together.
  const auto between = size_of(outer, {"projector_hidden_size"});
  if (const auto merge = size_of(tower, {"spatial_merge_size"}); between && merge)
    sum += *between * (width + *merge * *merge * hidden + 2 * hidden);
  // Step 3.7: two convolutions over 3 x 3 places, each of which doubles the width, and a matrix.
  if (word_of(outer, "model_type") == "step3p7")
    sum += 9 * (width * 2 * width + 2 * width * 4 * width) + 4 * width * hidden;
  const auto in = size_of(tower, {"projector_input_dim"});
  if (const auto out = size_of(tower, {"projector_output_dim"}); in && out)
    sum += ffn * *in + *in * *out + *out * hidden;
  return sum;
}

// Four matrices of attention and the network in each layer, and what hands the outputs to the text;
// 0 where the configuration does not say its sizes.
double parameters_of(const Json& outer, const Json& tower, double hidden) {
  if (!tower.is_object()) return 0;
  // Gemma 3n's Conformer: two networks of four times the width, five matrices of attention, three
  // of a convolution.
  const auto blocks = size_of(tower, {"conf_num_hidden_layers"});
  const auto channels = size_of(tower, {"hidden_size"});
  if (blocks && channels) return *blocks * 24 * *channels * *channels;
  const auto depth =
      size_of(tower, {"num_hidden_layers", "depth", "num_layers", "encoder_layers", "layers"});
  const auto width = size_of(tower, {"embed_dim", "hidden_size", "d_model", "width"});
  auto ffn = size_of(tower, {"intermediate_size", "encoder_ffn_dim"});
  if (const auto ratio = size_of(tower, {"mlp_ratio"}); !ffn && width && ratio)
    ffn = *width * *ratio;
  if (!depth || !width || !ffn) return 0;
  const std::string_view outer_kind = kind_of(word_of(outer, "model_type"));
  const std::string_view own_kind = kind_of(word_of(tower, "model_type"));
  const bool is_glm = outer_kind == "glm4v" || own_kind == "glm4v";
  const bool is_gated = is_among(outer_kind, kGated) || is_among(own_kind, kGated);
  const double network = is_glm ? size_of(tower, {"out_hidden_size"}).value_or(*ffn) : *ffn;
  return *depth * *width * (4 * *width + (is_gated ? 3 : 2) * network) +
         merger(tower, *width, is_glm) + projector(outer, tower, *width, *ffn, hidden);
}

// Classes of text alone leave the encoders of their configuration away.
bool is_of_text_alone(const Json& config) {
  const auto classes = config.find("architectures");
  return classes != config.end() && classes->is_array() && !classes->empty() &&
         std::ranges::all_of(*classes, [](const Json& one) {
           return one.is_string() && one.get_ref<const std::string&>().ends_with("ForCausalLM");
         });
}

}  // namespace

std::vector<Tower> towers_of(const Json& config, std::int64_t hidden_size) {
  if (is_of_text_alone(config)) return {};
  const auto thinker = config.find("thinker_config");
  const Json& outer = thinker != config.end() && thinker->is_object() ? *thinker : config;
  std::vector<Tower> towers;
  for (const auto& [key, name] :
       {std::pair("vision_config", "vision"), {"audio_config", "audio"}}) {
    const auto at = outer.find(key);
    if (at == outer.end() || at->is_null()) continue;
    const double parameters = parameters_of(outer, *at, static_cast<double>(hidden_size));
    towers.push_back({.name = name,
                      .parameters = static_cast<std::int64_t>(std::llround(
                          std::min(parameters, static_cast<double>(kMaxParameters))))});
  }
  return towers;
}

}  // namespace tessera::hf
