#include "tessera/core/indicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <set>

#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

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
    refuse(path, "the key {} is no bitwidth in [1, {}]", quote(key), kMaxIndicatorBitwidth);
  }
  return value;
}

void check_num_layers(const Json& layers, const std::string& path) {
  if (!layers.is_array() || layers.empty() ||
      layers.size() > static_cast<std::size_t>(kMaxIndicatorLayers)) {
    refuse(path, "an array of 1 to {} layers is needed", kMaxIndicatorLayers);
  }
}

Indicator from_array(const Json& layers, const std::string& path) {
  check_num_layers(layers, path);
  std::vector<std::map<std::int32_t, double>> rows;
  std::set<std::int32_t> bitwidths;
  for (const Json& layer : layers) {
    const std::string where = fmt::format("{}: layer {}", path, rows.size());
    if (!layer.is_object())
      refuse(where, "an object such as { \"4\": 0.1, \"8\": 0.01 } is needed");
    JsonFields fields(layer, where);
    std::map<std::int32_t, double>& row = rows.emplace_back();
    for (const auto& [key, value] : layer.items()) {
      const std::int32_t bitwidth = bitwidth_of_key(key, where);
      if (!row.emplace(bitwidth, fields.number(key.c_str(), 0, kMaxIndicatorOmega)).second) {
        refuse(where, "{} bits are given twice", bitwidth);
      }
      bitwidths.insert(bitwidth);
    }
  }
  if (bitwidths.empty()) refuse(path, "no bitwidths");
  Indicator result;
  result.kind = "imported";
  result.num_layers = rows.size();
  result.bitwidths.assign(bitwidths.begin(), bitwidths.end());
  result.source = path;
  for (std::size_t layer = 0; layer < rows.size(); ++layer) {
    for (const std::int32_t bitwidth : result.bitwidths) {
      const auto it = rows[layer].find(bitwidth);
      if (it == rows[layer].end()) {
        refuse(path, "layer {} has no value for {} bits, other layers have one", layer, bitwidth);
      }
      result.omega.push_back(it->second);
    }
  }
  return result;
}

// [layer][bitwidth], as omega is.
std::vector<double> cells_of(const Json& layers, const std::string& path,
                             const Indicator& indicator) {
  if (!layers.is_array() || layers.size() != indicator.num_layers) {
    refuse(path, "an array of {} layers is needed", indicator.num_layers);
  }
  std::vector<double> cells;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::string where = fmt::format("{}[{}]", path, layer);
    const std::vector<double> values = json_numbers(layers[layer], where, 0, kMaxIndicatorOmega);
    if (values.size() != indicator.bitwidths.size()) {
      refuse(where, "{} values for {} bitwidths", values.size(), indicator.bitwidths.size());
    }
    cells.insert(cells.end(), values.begin(), values.end());
  }
  return cells;
}

Indicator from_object(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  Indicator result;
  result.kind = "imported";
  result.source = path;
  read_fields(fields, result);
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

Json AscendingBitwidths::write(const std::vector<std::int32_t>& bitwidths) { return bitwidths; }

std::vector<std::int32_t> AscendingBitwidths::read(const Json& json, const std::string& path,
                                                   const FieldSpec& spec) {
  std::vector<std::int32_t> bitwidths = json_integers(
      json, path, static_cast<std::int32_t>(spec.min), static_cast<std::int32_t>(spec.max));
  if (bitwidths.empty()) refuse(path, "is empty");
  const auto falls = std::adjacent_find(bitwidths.begin(), bitwidths.end(), std::greater_equal<>());
  if (falls != bitwidths.end()) refuse(path, "must ascend, each once");
  return bitwidths;
}

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
  Json json = json_of(indicator);
  json["omega"] = rows_of(indicator.omega, indicator.bitwidths.size());
  if (!indicator.standard_error.empty()) {
    json["standard_error"] = rows_of(indicator.standard_error, indicator.bitwidths.size());
  }
  return json;
}

}  // namespace tessera
