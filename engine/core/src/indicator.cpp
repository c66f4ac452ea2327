#include "tessera/core/indicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

[[noreturn]] void refuse_indicator(const std::string& path, const std::string& problem) {
  throw Error(ErrorCode::invalid_argument, path + ": " + problem, path);
}

// Where a layer and a bitwidth stand in omega.
std::size_t cell_of(const Indicator& indicator, std::size_t layer, std::int32_t bitwidth) {
  if (layer >= indicator.num_layers) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("the indicator has {} layers, layer {} (0-based) was asked for",
                            indicator.num_layers, layer),
                "layer_index");
  }
  const std::vector<std::int32_t>& known = indicator.bitwidths;
  const auto it = std::find(known.begin(), known.end(), bitwidth);
  if (it == known.end()) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("the indicator has no value for {} bits; it has {}{}", bitwidth,
                            fmt::join(known, ", "),
                            indicator.source.empty() ? "" : " (" + indicator.source + ")"),
                "bitwidth");
  }
  return layer * known.size() + static_cast<std::size_t>(it - known.begin());
}

std::int32_t bitwidth_of_key(const std::string& key, const std::string& path) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), value);
  if (error != std::errc() || end != key.data() + key.size() || value < 1 ||
      value > kMaxIndicatorBitwidth) {
    refuse_indicator(path, fmt::format("the key {} is no bitwidth in [1, {}]", quote(key),
                                       kMaxIndicatorBitwidth));
  }
  return value;
}

void check_num_layers(const Json& layers, const std::string& path) {
  if (!layers.is_array() || layers.empty() ||
      layers.size() > static_cast<std::size_t>(kMaxIndicatorLayers)) {
    refuse_indicator(path,
                     fmt::format("an array of 1 to {} layers is needed", kMaxIndicatorLayers));
  }
}

Indicator from_array(const Json& layers, const std::string& path) {
  check_num_layers(layers, path);
  std::vector<std::map<std::int32_t, double>> rows;
  std::set<std::int32_t> bitwidths;
  for (const Json& layer : layers) {
    const std::string where = fmt::format("{}: layer {}", path, rows.size());
    if (!layer.is_object())
      refuse_indicator(where, "an object such as { \"4\": 0.1, \"8\": 0.01 } is needed");
    JsonFields fields(layer, where);
    std::map<std::int32_t, double>& row = rows.emplace_back();
    for (const auto& [key, value] : layer.items()) {
      const std::int32_t bitwidth = bitwidth_of_key(key, where);
      if (!row.emplace(bitwidth, fields.number(key.c_str(), 0, kMaxIndicatorOmega)).second) {
        refuse_indicator(where, fmt::format("{} bits are given twice", bitwidth));
      }
      bitwidths.insert(bitwidth);
    }
  }
  if (bitwidths.empty()) refuse_indicator(path, "no bitwidths");
  Indicator result;
  result.kind = "imported";
  result.num_layers = rows.size();
  result.bitwidths.assign(bitwidths.begin(), bitwidths.end());
  result.source = path;
  for (std::size_t layer = 0; layer < rows.size(); ++layer) {
    for (const std::int32_t bitwidth : result.bitwidths) {
      const auto it = rows[layer].find(bitwidth);
      if (it == rows[layer].end()) {
        refuse_indicator(
            path, fmt::format("layer {} has no value for {} bits, other layers have one", layer,
                              bitwidth));
      }
      result.omega.push_back(it->second);
    }
  }
  return result;
}

std::vector<std::int32_t> ascending_bitwidths(const Json& json, const std::string& path) {
  std::vector<std::int32_t> bitwidths;
  for (const double number : json_numbers(json, path, 1, kMaxIndicatorBitwidth)) {
    if (std::floor(number) != number)
      refuse_indicator(path, fmt::format("{} is not an integer", number));
    if (!bitwidths.empty() && number <= bitwidths.back())
      refuse_indicator(path, "must ascend, each once");
    bitwidths.push_back(static_cast<std::int32_t>(number));
  }
  if (bitwidths.empty()) refuse_indicator(path, "is empty");
  return bitwidths;
}

// [layer][bitwidth], as omega is.
std::vector<double> cells_of(const Json& layers, const std::string& path,
                             const Indicator& indicator) {
  if (!layers.is_array() || layers.size() != indicator.num_layers) {
    refuse_indicator(path, fmt::format("an array of {} layers is needed", indicator.num_layers));
  }
  std::vector<double> cells;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::string where = fmt::format("{}[{}]", path, layer);
    const std::vector<double> values = json_numbers(layers[layer], where, 0, kMaxIndicatorOmega);
    if (values.size() != indicator.bitwidths.size()) {
      refuse_indicator(where, fmt::format("{} values for {} bitwidths", values.size(),
                                          indicator.bitwidths.size()));
    }
    cells.insert(cells.end(), values.begin(), values.end());
  }
  return cells;
}

Indicator from_object(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  Indicator result;
  result.kind = fields.text("kind", "imported");
  result.variant = fields.text("variant", "");
  result.overhead_s = fields.number("overhead_s", 0, 1e12, 0);
  result.weights_s = fields.number("weights_s", 0, 1e12, 0);
  result.statistics_s = fields.number("statistics_s", 0, 1e12, 0);
  result.source = fields.text("source", path);
  const std::string provenance =
      fields.text("provenance", std::string(to_string(Provenance::modelled)));
  const std::optional<Provenance> known = provenance_from_string(provenance);
  if (!known) {
    refuse_indicator(
        fields.path_of("provenance"),
        fmt::format("{} is none of measured, fitted, published, modelled", quote(provenance)));
  }
  result.provenance = *known;
  result.bitwidths = ascending_bitwidths(fields.at("bitwidths"), fields.path_of("bitwidths"));
  const Json& omega = fields.at("omega");
  check_num_layers(omega, fields.path_of("omega"));
  result.num_layers = omega.size();
  result.omega = cells_of(omega, fields.path_of("omega"), result);
  if (fields.has("standard_error")) {
    result.standard_error =
        cells_of(fields.at("standard_error"), fields.path_of("standard_error"), result);
  }
  fields.finish();
  return result;
}

Json rows_of(const std::vector<double>& cells, std::size_t width) {
  Json rows = Json::array();
  for (std::size_t first = 0; first < cells.size(); first += width) {
    Json row = Json::array();
    for (std::size_t b = 0; b < width; ++b) row.push_back(cells[first + b]);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

double Indicator::at(std::size_t layer, std::int32_t bitwidth) const {
  return omega[cell_of(*this, layer, bitwidth)];
}

std::optional<double> Indicator::standard_error_at(std::size_t layer, std::int32_t bitwidth) const {
  const std::size_t cell = cell_of(*this, layer, bitwidth);
  if (standard_error.empty()) return std::nullopt;
  return standard_error[cell];
}

bool Indicator::has(std::int32_t bitwidth) const {
  return std::find(bitwidths.begin(), bitwidths.end(), bitwidth) != bitwidths.end();
}

Indicator indicator_from_json(const Json& json, const std::string& path) {
  return json.is_array() ? from_array(json, path) : from_object(json, path);
}

Json to_json(const Indicator& indicator) {
  Json json;
  json["kind"] = indicator.kind;
  json["variant"] = indicator.variant;
  json["provenance"] = std::string(to_string(indicator.provenance));
  json["overhead_s"] = indicator.overhead_s;
  json["weights_s"] = indicator.weights_s;
  json["statistics_s"] = indicator.statistics_s;
  json["source"] = indicator.source;
  json["bitwidths"] = indicator.bitwidths;
  json["omega"] = rows_of(indicator.omega, indicator.bitwidths.size());
  if (!indicator.standard_error.empty()) {
    json["standard_error"] = rows_of(indicator.standard_error, indicator.bitwidths.size());
  }
  return json;
}

}  // namespace tessera
