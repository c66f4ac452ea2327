#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "tessera/core/csv.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"
#include "tessera/indicator/indicator.h"

namespace tessera::indicator {
namespace {

constexpr std::int64_t kMaxLayers = 10'000;
constexpr double kMaxOmega = 1e300;

[[noreturn]] void fail(const std::string& path, const std::string& problem,
                       ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, path + ": " + problem, path);
}

// ---- CSV ----

struct Columns {
  std::size_t layer, bitwidth, omega, model, op;
  bool published_errors = false;  ///< the value column is LLM-PQ's logged GPTQ error
};

std::size_t one_of(const CsvTable& table, const char* a, const char* b) {
  const std::size_t first = table.column(a), second = table.column(b);
  if (first != CsvTable::none && second != CsvTable::none) {
    fail(table.path, fmt::format("has both a column '{}' and a column '{}'; keep one", a, b));
  }
  if (first == CsvTable::none && second == CsvTable::none) {
    fail(table.path, fmt::format("no column '{}' or '{}'; the header has: {}", a, b,
                                 quote(join(table.header.fields, ", "), 200)));
  }
  return std::min(first, second);
}

Columns find_columns(const CsvTable& table) {
  Columns columns{};
  columns.layer = table.column("layer");
  if (columns.layer == CsvTable::none) {
    fail(table.path, fmt::format("no column 'layer'; the header has: {}",
                                 quote(join(table.header.fields, ", "), 200)));
  }
  columns.bitwidth = one_of(table, "bit", "bitwidth");
  columns.omega = one_of(table, "omega", "gptq_error_mean");
  columns.model = table.column("model");
  columns.op = table.column("operator");
  columns.published_errors = table.header.fields[columns.omega] == "gptq_error_mean";
  return columns;
}

std::int64_t whole_number(const CsvTable& table, const CsvRow& row, std::size_t column,
                          std::int64_t low, std::int64_t high) {
  const std::string& text = row.fields[column];
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    fail(fmt::format("{}, line {}", table.path, row.line),
         fmt::format("{} is {}, an integer in [{}, {}] is needed", table.header.fields[column],
                     quote(text), low, high));
  }
  return value;
}

double omega_value(const CsvTable& table, const CsvRow& row, std::size_t column) {
  const std::string& text = row.fields[column];
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < 0 || value > kMaxOmega) {
    fail(fmt::format("{}, line {}", table.path, row.line),
         fmt::format("{} is {}, a finite number of at least 0 is needed",
                     table.header.fields[column], quote(text)));
  }
  return value;
}

// The rows of one model: value and line by (layer, bitwidth), by operator.
struct Cell {
  double value = 0;
  std::size_t line = 0;
};
using Operators = std::map<std::string, Cell>;
using Cells = std::map<std::pair<std::int64_t, std::int32_t>, Operators>;

void check_model_name(const CsvTable& table, const Columns& columns, const std::string& model) {
  std::set<std::string> names;
  for (const CsvRow& row : table.rows) names.insert(row.fields[columns.model]);
  const std::vector<std::string> known(names.begin(), names.end());
  if (model.empty() && known.size() > 1) {
    fail(table.path, fmt::format("holds several models; name one of: {}", join(known, ", ")));
  }
  if (!model.empty() && names.count(model) == 0) {
    fail(table.path, fmt::format("no rows of model {}{}", quote(model), did_you_mean(model, known)),
         ErrorCode::not_found);
  }
}

Cells collect(const CsvTable& table, const Columns& columns, const std::string& model) {
  const bool by_model = columns.model != CsvTable::none;
  if (by_model) check_model_name(table, columns, model);
  Cells cells;
  for (const CsvRow& row : table.rows) {
    // Every row is checked, also those of other models: a broken file is broken.
    const std::int64_t layer = whole_number(table, row, columns.layer, 0, kMaxLayers - 1);
    const auto bitwidth =
        static_cast<std::int32_t>(whole_number(table, row, columns.bitwidth, 1, kMaxBitwidth));
    const Cell cell{omega_value(table, row, columns.omega), row.line};
    if (by_model && !model.empty() && row.fields[columns.model] != model) continue;
    const std::string op = columns.op == CsvTable::none ? "" : row.fields[columns.op];
    const auto [it, fresh] = cells[{layer, bitwidth}].emplace(op, cell);
    if (!fresh) {
      fail(fmt::format("{}, line {}", table.path, row.line),
           fmt::format("layer {}, {} bits{} was given before, on line {}", layer, bitwidth,
                       op.empty() ? "" : ", operator " + quote(op), it->second.line));
    }
  }
  if (cells.empty()) fail(table.path, "no rows");
  return cells;
}

// Which layers lack a bitwidth, wholly or in some operator.
struct Gaps {
  std::vector<std::int64_t> layers;
  std::string first;  ///< "layer 3 lacks operator fc1"
};

Gaps gaps_of(const Cells& cells, std::int64_t num_layers, std::int32_t bitwidth,
             const std::set<std::string>& operators) {
  Gaps gaps;
  for (std::int64_t layer = 0; layer < num_layers; ++layer) {
    const auto it = cells.find({layer, bitwidth});
    if (it != cells.end() && it->second.size() == operators.size()) continue;
    if (gaps.layers.empty()) {
      gaps.first = fmt::format("layer {} has no row", layer);
      if (it != cells.end()) {
        for (const std::string& op : operators) {
          if (it->second.count(op) == 0) {
            gaps.first = fmt::format("layer {} lacks the operator {}", layer, quote(op));
          }
        }
      }
    }
    gaps.layers.push_back(layer);
  }
  return gaps;
}

double sum_of(const Operators& operators) {
  double sum = 0;
  for (const auto& [name, cell] : operators) sum += cell.value;
  return sum;
}

// A file with operators is a log: a bitwidth that some layer was never run at is left out, and
// `source` says so. Without operators the file was written as a table, and a hole in it is a
// mistake.
Indicator assemble(const CsvTable& table, const Columns& columns, const Cells& cells) {
  std::set<std::int32_t> bitwidths;
  std::set<std::string> operators;
  std::int64_t num_layers = 0;
  for (const auto& [key, by_operator] : cells) {
    num_layers = std::max(num_layers, key.first + 1);
    bitwidths.insert(key.second);
    for (const auto& [name, cell] : by_operator) operators.insert(name);
  }
  Indicator result;
  result.kind = "imported";
  result.num_layers = static_cast<std::size_t>(num_layers);
  result.provenance = columns.published_errors ? Provenance::published : Provenance::modelled;
  std::vector<std::string> left_out;
  for (const std::int32_t bitwidth : bitwidths) {
    const Gaps gaps = gaps_of(cells, num_layers, bitwidth, operators);
    if (gaps.layers.empty()) {
      result.bitwidths.push_back(bitwidth);
      continue;
    }
    const std::string hole = fmt::format("{} bits: {} of {} layers incomplete, {}", bitwidth,
                                         gaps.layers.size(), num_layers, gaps.first);
    if (columns.op == CsvTable::none) fail(table.path, hole);
    left_out.push_back(hole);
  }
  if (result.bitwidths.empty()) {
    fail(table.path, "no bitwidth that every layer has: " + join(left_out, "; "));
  }
  for (std::int64_t layer = 0; layer < num_layers; ++layer) {
    for (const std::int32_t bitwidth : result.bitwidths) {
      result.omega.push_back(sum_of(cells.at({layer, bitwidth})));
    }
  }
  result.source = table.path;
  if (columns.op != CsvTable::none) {
    result.source += fmt::format(", sum of {} over {} operators",
                                 table.header.fields[columns.omega], operators.size());
  }
  if (!left_out.empty()) result.source += "; left out: " + join(left_out, "; ");
  return result;
}

// ---- JSON ----

std::int32_t bitwidth_of_key(const std::string& key, const std::string& path) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), value);
  if (error != std::errc() || end != key.data() + key.size() || value < 1 || value > kMaxBitwidth) {
    fail(path, fmt::format("the key {} is no bitwidth in [1, {}]", quote(key), kMaxBitwidth));
  }
  return value;
}

void check_num_layers(const Json& layers, const std::string& path) {
  if (!layers.is_array() || layers.empty() ||
      layers.size() > static_cast<std::size_t>(kMaxLayers)) {
    fail(path, fmt::format("an array of 1 to {} layers is needed", kMaxLayers));
  }
}

Indicator from_array(const Json& layers, const std::string& path) {
  check_num_layers(layers, path);
  std::vector<std::map<std::int32_t, double>> rows;
  std::set<std::int32_t> bitwidths;
  for (const Json& layer : layers) {
    const std::string where = fmt::format("{}: layer {}", path, rows.size());
    if (!layer.is_object()) fail(where, "an object such as { \"4\": 0.1, \"8\": 0.01 } is needed");
    JsonFields fields(layer, where);
    std::map<std::int32_t, double>& row = rows.emplace_back();
    for (const auto& [key, value] : layer.items()) {
      const std::int32_t bitwidth = bitwidth_of_key(key, where);
      if (!row.emplace(bitwidth, fields.number(key.c_str(), 0, kMaxOmega)).second) {
        fail(where, fmt::format("{} bits are given twice", bitwidth));
      }
      bitwidths.insert(bitwidth);
    }
  }
  if (bitwidths.empty()) fail(path, "no bitwidths");
  Indicator result;
  result.kind = "imported";
  result.num_layers = rows.size();
  result.bitwidths.assign(bitwidths.begin(), bitwidths.end());
  result.source = path;
  for (std::size_t layer = 0; layer < rows.size(); ++layer) {
    for (const std::int32_t bitwidth : result.bitwidths) {
      const auto it = rows[layer].find(bitwidth);
      if (it == rows[layer].end()) {
        fail(path, fmt::format("layer {} has no value for {} bits, other layers have one", layer,
                               bitwidth));
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
    fail(path, fmt::format("an array of {} layers is needed", indicator.num_layers));
  }
  std::vector<double> cells;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::string where = fmt::format("{}[{}]", path, layer);
    const std::vector<double> values = json_numbers(layers[layer], where, 0, kMaxOmega);
    if (values.size() != indicator.bitwidths.size()) {
      fail(where,
           fmt::format("{} values for {} bitwidths", values.size(), indicator.bitwidths.size()));
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

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

Json AscendingBitwidths::write(const std::vector<std::int32_t>& bitwidths) { return bitwidths; }

std::vector<std::int32_t> AscendingBitwidths::read(const Json& json, const std::string& path,
                                                   const FieldSpec& spec) {
  std::vector<std::int32_t> bitwidths = json_integers(
      json, path, static_cast<std::int32_t>(spec.min), static_cast<std::int32_t>(spec.max));
  if (bitwidths.empty()) fail(path, "is empty");
  const auto falls = std::adjacent_find(bitwidths.begin(), bitwidths.end(), std::greater_equal<>());
  if (falls != bitwidths.end()) fail(path, "must ascend, each once");
  return bitwidths;
}

Indicator read_indicator(const std::string& path, const std::string& model) {
  const std::string content = read_file(path);
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  const bool looks_like_json =
      first != std::string::npos && (content[first] == '{' || content[first] == '[');
  if (ends_with(path, ".json") || (looks_like_json && !ends_with(path, ".csv"))) {
    return indicator_from_json(parse_json(content, path), path);
  }
  const CsvTable table = parse_csv(content, path);
  const Columns columns = find_columns(table);
  return assemble(table, columns, collect(table, columns, model));
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

}  // namespace tessera::indicator
