#include "attention_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "additive.h"
#include "attention_correction.h"
#include "correction.h"
#include "tessera/core/error.h"
#include "tessera/core/record_json.h"

namespace tessera::cost::models {
namespace {

constexpr double kMostCorrection = 2.5;  // logarithm: a factor of 12
constexpr std::size_t kMostSurfaces = 1024;

double prefill_s(const AttentionDevice& device, const AttentionVariant& variant,
                 const OpQuery& query) {
  return prefill_terms(device, variant.tile, query).dot(variant.prefill);
}

// Below the runtime's threshold it takes the other kernel, which may be the slower one; the smaller
// time of both there keeps the prediction from falling when the threshold is crossed.
double decode_s(const AttentionDevice& device, const AttentionVariant& variant,
                const OpQuery& query) {
  const double per_head = per_head_terms(device, query).dot(variant.per_head);
  if (!grouped_fits(variant.grouped, query)) return per_head;
  const double by_group = grouped_terms(device, variant.grouped, query).dot(variant.by_group);
  if (grouped_chosen(device, variant.grouped, query)) return by_group;
  return std::min(per_head, by_group);
}

void add_correction(const AttentionVariant& variant, Json& json) {
  if (variant.correction.size() > 0) {
    json["correction_permille"] = write_correction(variant.correction);
  }
}

Json to_json(Phase phase, const AttentionVariant& variant) {
  Json json = {{"head_dim", variant.head_dim}, {"windowed", variant.windowed}};
  if (phase == Phase::prefill) {
    json["tile_tokens"] = variant.tile;
    json["prefill"] = models::to_json(prefill_terms(), variant.prefill);
    add_correction(variant, json);
    return json;
  }
  json["tile_tokens"] = variant.grouped.tile_tokens;
  json["occupancy"] = variant.grouped.occupancy;
  json["min_blocks"] = variant.grouped.min_blocks;
  if (variant.grouped.kernel != GroupedKernel::xqa) {
    json["kernel"] = name_of(variant.grouped.kernel);
  }
  json["per_head"] = models::to_json(per_head_terms(), variant.per_head);
  json["grouped"] = models::to_json(grouped_terms(), variant.by_group);
  add_correction(variant, json);
  return json;
}

AttentionVariant read_variant(const Json& json, const std::string& path, Phase phase) {
  JsonFields fields(json, path);
  AttentionVariant variant;
  variant.head_dim = fields.number("head_dim", 1, 4096);
  variant.windowed = fields.boolean("windowed", false);
  const double tile = fields.number("tile_tokens", 1, 65536);
  if (phase == Phase::prefill) {
    variant.tile = tile;
    variant.prefill =
        coefficients_from_json(prefill_terms(), fields.at("prefill"), fields.path_of("prefill"));
  } else {
    variant.grouped = {tile, fields.number("occupancy", 1, 64),
                       fields.number("min_blocks", 0, 1024)};
    if (fields.has("kernel")) variant.grouped.kernel = read_field<GroupedKernel>(fields, "kernel");
    variant.per_head =
        coefficients_from_json(per_head_terms(), fields.at("per_head"), fields.path_of("per_head"));
    variant.by_group =
        coefficients_from_json(grouped_terms(), fields.at("grouped"), fields.path_of("grouped"));
  }
  if (fields.has("correction_permille")) {
    variant.correction =
        read_correction(fields.text("correction_permille"), num_attention_features(phase),
                        fields.path_of("correction_permille"));
  }
  fields.finish();
  return variant;
}

// The largest surface below and the smallest above that never fall along either axis, and the mean
// of the two.
void make_monotone(std::vector<double>& values, std::size_t rows, std::size_t columns) {
  std::vector<double> above = values, below = values;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      double& value = above[i * columns + j];
      if (i > 0) value = std::max(value, above[(i - 1) * columns + j]);
      if (j > 0) value = std::max(value, above[i * columns + j - 1]);
    }
  }
  for (std::size_t i = rows; i-- > 0;) {
    for (std::size_t j = columns; j-- > 0;) {
      double& value = below[i * columns + j];
      if (i + 1 < rows) value = std::min(value, below[(i + 1) * columns + j]);
      if (j + 1 < columns) value = std::min(value, below[i * columns + j + 1]);
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (above[i] + below[i]) / 2;
}

Knots log2_of(const std::vector<double>& values) {
  Knots result;
  for (const double value : values) result.push_back(std::log2(value));
  return result;
}

}  // namespace

double attention_s(const AttentionDevice& device, Phase phase, const AttentionVariant& variant,
                   const OpQuery& query) {
  return phase == Phase::prefill ? prefill_s(device, variant, query)
                                 : decode_s(device, variant, query);
}

AttentionOperator::AttentionOperator(const Device& device, std::string dtype, Phase phase,
                                     std::vector<AttentionVariant> variants)
    : dtype_(std::move(dtype)),
      phase_(phase),
      device_(attention_device(device, dtype_)),
      variants_(std::move(variants)) {}

AttentionOperator::Surface AttentionOperator::make_surface(const AttentionVariant& variant,
                                                           const OpQuery& query) const {
  Surface result;
  std::vector<Feature> features;
  for (const double batch_size : batch_knots()) {
    for (const double length : length_knots()) {
      const OpQuery at = at_length(query, batch_size, length);
      attention_features(at, features);
      const double factor =
          std::clamp(dot(features, variant.correction), -kMostCorrection, kMostCorrection);
      result.push_back(std::log(attention_s(device_, phase_, variant, at)) + factor);
    }
  }
  make_monotone(result, batch_knots().size(), length_knots().size());
  return result;
}

const AttentionOperator::Surface& AttentionOperator::surface(const AttentionVariant& variant,
                                                             const OpQuery& query) const {
  const std::array<double, 4> key{query.num_heads, query.num_kv_heads, query.head_dim,
                                  query.window};
  const auto it = surfaces_.find(key);
  if (it != surfaces_.end()) return it->second;
  if (surfaces_.size() >= kMostSurfaces) surfaces_.clear();
  return surfaces_.emplace(key, make_surface(variant, query)).first->second;
}

double AttentionOperator::corrected_s(const AttentionVariant& variant, const OpQuery& query) const {
  OpQuery sized = query;  // surfaces are of whole decode steps and of prompts from their start
  sized.phase = phase_;
  if (phase_ == Phase::decode) {
    sized.tokens = 1;
    sized.context_tokens = query.context_tokens + query.tokens - 1;
  }
  const double length = length_of(sized);
  const double batch_size =
      std::clamp(sized.batch_size, batch_knots().front(), batch_knots().back());
  const double inside = std::clamp(length, length_knots().front(), length_knots().back());
  static const Knots batches = log2_of(batch_knots()), lengths = log2_of(length_knots());
  const Hats row = hats(std::log2(batch_size), batches);
  const Hats column = hats(std::log2(inside), lengths);
  double log_s = 0;
  {
    const std::lock_guard lock(mutex_);
    const Surface& at = surface(variant, sized);
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t j = 0; j < 2; ++j) {
        log_s += (i == 0 ? 1 - row.upper : row.upper) * (j == 0 ? 1 - column.upper : column.upper) *
                 at[(static_cast<std::size_t>(row.index) + i) * lengths.size() +
                    static_cast<std::size_t>(column.index) + j];
      }
    }
  }
  double seconds = std::exp(log_s);
  if (batch_size < sized.batch_size || inside < length) {
    const auto terms_s = [&](double sequences, double tokens) {
      return attention_s(device_, phase_, variant, at_length(sized, sequences, tokens));
    };
    seconds *= std::max(1.0, terms_s(sized.batch_size, length) / terms_s(batch_size, inside));
  }
  if (phase_ == Phase::prefill) {
    seconds += prefill_context_terms(device_, variant.tile, sized).dot(variant.prefill);
  }
  return seconds;
}

double AttentionOperator::seconds(const OpQuery& query) const {
  check_query(query);
  const AttentionVariant& variant = variant_for(query);
  return variant.correction.size() > 0 ? corrected_s(variant, query)
                                       : attention_s(device_, phase_, variant, query);
}

Json AttentionOperator::coefficients() const {
  Json list = Json::array();
  for (const AttentionVariant& variant : variants_) list.push_back(to_json(phase_, variant));
  return {{"dtype", dtype_}, {"phase", name_of(phase_)}, {"variants", list}};
}

const AttentionVariant& AttentionOperator::variant_for(const OpQuery& query) const {
  const auto distance = [&](const AttentionVariant& v) {
    return std::pair(std::abs(std::log(v.head_dim / query.head_dim)),
                     v.windowed != (query.window > 0));
  };
  return *std::min_element(variants_.begin(), variants_.end(),
                           [&](const AttentionVariant& a, const AttentionVariant& b) {
                             return distance(a) < distance(b);
                           });
}

std::unique_ptr<OpModel> read_attention_operator(const Device& device, const Json& coefficients,
                                                 const std::string& path) {
  JsonFields fields(coefficients, path);
  const std::string dtype = fields.text("dtype");
  dtype_traits(dtype);
  const Phase phase = read_field<Phase>(fields, "phase");
  const Json& list = fields.at("variants");
  if (!list.is_array() || list.empty()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: an array of at least one variant is needed", fields.path_of("variants")),
        "variants");
  }
  std::vector<AttentionVariant> variants;
  for (std::size_t i = 0; i < list.size(); ++i) {
    variants.push_back(
        read_variant(list[i], fmt::format("{}[{}]", fields.path_of("variants"), i), phase));
  }
  fields.finish();
  return std::make_unique<AttentionOperator>(device, dtype, phase, std::move(variants));
}

}  // namespace tessera::cost::models
