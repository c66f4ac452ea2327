#include "attention_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "additive.h"
#include "tessera/core/error.h"
#include "tessera/core/record_json.h"

namespace tessera::cost::models {
namespace {

double prefill_s(const AttentionDevice& device, const AttentionVariant& variant,
                 const OpQuery& query) {
  return prefill_terms(device, variant.tile, query).dot(variant.prefill);
}

// Below the runtime's threshold it takes the other kernel, which may be the slower one; the smaller
// time of both there keeps the prediction from falling when the threshold is crossed.
double decode_s(const AttentionDevice& device, const AttentionVariant& variant,
                const OpQuery& query) {
  const double per_head = per_head_terms(device, query).dot(variant.per_head);
  if (!grouped_fits(query)) return per_head;
  const double by_group = grouped_terms(device, variant.grouped, query).dot(variant.by_group);
  if (grouped_chosen(device, variant.grouped, query)) return by_group;
  return std::min(per_head, by_group);
}

Json to_json(Phase phase, const AttentionVariant& variant) {
  Json json = {{"head_dim", variant.head_dim}, {"windowed", variant.windowed}};
  if (phase == Phase::prefill) {
    json["tile_tokens"] = variant.tile;
    json["prefill"] = models::to_json(prefill_terms(), variant.prefill);
    return json;
  }
  json["tile_tokens"] = variant.grouped.tile_tokens;
  json["occupancy"] = variant.grouped.occupancy;
  json["min_blocks"] = variant.grouped.min_blocks;
  json["per_head"] = models::to_json(per_head_terms(), variant.per_head);
  json["grouped"] = models::to_json(grouped_terms(), variant.by_group);
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
    variant.per_head =
        coefficients_from_json(per_head_terms(), fields.at("per_head"), fields.path_of("per_head"));
    variant.by_group =
        coefficients_from_json(grouped_terms(), fields.at("grouped"), fields.path_of("grouped"));
  }
  fields.finish();
  return variant;
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

double AttentionOperator::seconds(const OpQuery& query) const {
  check_query(query);
  return attention_s(device_, phase_, variant_for(query), query);
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
