#include "tessera/core/published_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>

#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

/// Files of datasets/quality. What only readers want is kept as it stands.
struct LossLevel {
  std::string method;
  std::int32_t bitwidth = 0;
  double nats = 0;
};

struct Generation {
  std::string name, family;
  std::vector<std::string> model_types;
  std::optional<std::vector<double>> vocabulary, context_tokens;  ///< both ends included
  std::optional<double> ratio;                                    ///< absent: not measured
};

struct ModelRatio {
  std::string name, generation;
  double ratio = 1;
};

struct GradeBand {
  QualityGrade grade = QualityGrade::unknown;
  double spread = 1;
};

struct LossTable {
  double reference_parameters = 1, size_slope = 0;
  std::vector<GradeBand> bands;
  std::vector<LossLevel> levels;
  std::vector<Generation> generations;
  std::vector<ModelRatio> models;
};

struct Tables {
  LossTable weights, int8, fp8;
  std::vector<LossLevel> kv;
  double kv_spread = 1;
  double rise_per_kl = 1, rise_per_kl_spread = 1, recovery_per_rise = 1,
         recovery_per_rise_spread = 1, additivity_spread = 1, mixing_spread = 1, last_layer = 1;
};

double positive(JsonFields& fields, const char* name) { return fields.number(name, 1e-9, 1e9); }

/// Calls read(fields) for each object of the list `name`.
template <class Read>
auto list_of(JsonFields& fields, const char* name, Read read) {
  const Json& list = fields.at(name);
  check_array(list, fields.path_of(name));
  std::vector<decltype(read(fields))> items;
  for (std::size_t i = 0; i < list.size(); ++i) {
    JsonFields item(list[i], fmt::format("{}[{}]", fields.path_of(name), i));
    items.push_back(read(item));
  }
  return items;
}

LossLevel level_from(JsonFields& fields) {
  return {fields.text("method", ""), static_cast<std::int32_t>(fields.integer("bitwidth", 1, 16)),
          positive(fields, "nats")};
}

std::optional<std::vector<double>> range_from(JsonFields& fields, const char* name) {
  if (!fields.has(name)) return std::nullopt;
  std::vector<double> ends = json_numbers(fields.at(name), fields.path_of(name), 0, 1e18);
  if (ends.size() != 2) refuse(fields.path_of(name), "both ends of a range belong here");
  return ends;
}

Generation generation_from(JsonFields& fields) {
  Generation found;
  found.name = fields.text("name");
  found.family = fields.text("family");
  found.model_types =
      read_list<std::string>(fields.at("model_types"), fields.path_of("model_types"), {});
  found.vocabulary = range_from(fields, "vocabulary");
  found.context_tokens = range_from(fields, "context_tokens");
  found.ratio = fields.optional_number("ratio", 1e-6, 1e6);
  return found;
}

GradeBand band_from(JsonFields& fields) {
  const Json& grade = fields.at("grade");
  return {JsonValue<QualityGrade>::read(grade, fields.path_of("grade"), {}),
          fields.number("spread", 1, 1e6)};
}

LossTable loss_table(const std::string& path) {
  const Json json = read_json_file(path);
  JsonFields fields(json, path);
  LossTable table;
  table.reference_parameters = fields.number("reference_parameters", 1, 1e15);
  table.size_slope = fields.number("size_slope", -2, 2);
  table.bands = list_of(fields, "bands", band_from);
  table.levels = list_of(fields, "levels", level_from);
  table.generations = list_of(fields, "generations", generation_from);
  table.models = list_of(fields, "models", [](JsonFields& model) {
    return ModelRatio{model.text("name"), model.text("generation"), positive(model, "ratio")};
  });
  return table;
}

Tables read_tables(const DataFolders& folders) {
  Tables tables;
  tables.weights = loss_table(folders.require("quality", "weights"));
  tables.int8 = loss_table(folders.require("quality", "int8"));
  tables.fp8 = loss_table(folders.require("quality", "fp8"));
  const std::string kv_path = folders.require("quality", "kv_cache");
  const Json kv_json = read_json_file(kv_path);
  JsonFields kv(kv_json, kv_path);
  tables.kv = list_of(kv, "levels", level_from);
  tables.kv_spread = kv.number("spread", 1, 1e6);
  const std::string path = folders.require("quality", "units");
  const Json json = read_json_file(path);
  JsonFields units(json, path);
  const auto pair_of = [&](const char* name, double& ratio, double& spread) {
    JsonFields entry(units.at(name), units.path_of(name));
    ratio = positive(entry, "ratio");
    spread = entry.number("spread", 1, 1e6);
  };
  pair_of("rise_per_kl", tables.rise_per_kl, tables.rise_per_kl_spread);
  pair_of("recovery_per_rise", tables.recovery_per_rise, tables.recovery_per_rise_spread);
  JsonFields additivity(units.at("additivity"), units.path_of("additivity"));
  tables.additivity_spread = additivity.number("spread", 1, 1e6);
  JsonFields mixing(units.at("mixing"), units.path_of("mixing"));
  tables.mixing_spread = mixing.number("spread", 1, 1e6);
  JsonFields last(units.at("last_layer"), units.path_of("last_layer"));
  tables.last_layer = positive(last, "ratio");
  return tables;
}

/// Read once: the folders of a process do not change.
const Tables& tables_of(const DataFolders& folders) {
  static std::mutex mutex;
  static std::map<std::vector<std::string>, std::unique_ptr<Tables>> known;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Tables>& tables = known[folders.folders()];
  if (!tables) tables = std::make_unique<Tables>(read_tables(folders));
  return *tables;
}

bool is_within(const std::optional<std::vector<double>>& range, std::int64_t value) {
  const auto number = static_cast<double>(value);
  return !range || (number >= range->front() && number <= range->back());
}

const Generation* generation_of(const LossTable& table, const ModelShape& model) {
  for (const Generation& each : table.generations) {
    const auto& types = each.model_types;
    if (std::find(types.begin(), types.end(), model.family) == types.end()) continue;
    if (!is_within(each.vocabulary, model.vocab_size)) continue;
    if (is_within(each.context_tokens, model.max_context_tokens)) return &each;
  }
  return nullptr;
}

/// What a model loses over what a model of its size loses on average, and how well that is known.
struct Effect {
  QualityGrade grade = QualityGrade::unknown;
  double ratio = 1;
  std::string generation;
};

/// The mean of the family's generations, shrunk by half a generation, as the fit shrinks them.
std::optional<double> family_ratio(const LossTable& table, const std::string& family) {
  double sum = 0, count = 0;
  for (const Generation& each : table.generations) {
    if (each.family != family || !each.ratio) continue;
    sum += std::log(*each.ratio);
    ++count;
  }
  if (count == 0) return std::nullopt;
  return std::exp(sum / (count + 0.5));
}

Effect effect_of(const LossTable& table, const ModelShape& model) {
  const Generation* generation = generation_of(table, model);
  if (generation == nullptr) return {};
  if (!generation->ratio) {
    const auto ratio = family_ratio(table, generation->family);
    if (!ratio) return {QualityGrade::unknown, 1, generation->name};
    return {QualityGrade::family, *ratio, generation->name};
  }
  for (const ModelRatio& own : table.models) {
    if (own.name != model.name || own.generation != generation->name) continue;
    return {QualityGrade::measured, *generation->ratio * own.ratio, generation->name};
  }
  return {QualityGrade::sibling, *generation->ratio, generation->name};
}

double spread_of(const LossTable& table, QualityGrade grade) {
  for (const GradeBand& band : table.bands) {
    if (band.grade == grade) return band.spread;
  }
  refuse("datasets/quality", "no band of grade {}", name_of(grade));
}

/// The logarithm of the loss at a bitwidth, from those of others, ascending, at least two.
double interpolated(const std::vector<LossLevel>& known, std::int32_t bitwidth) {
  std::size_t i = 1;
  while (i + 1 < known.size() && known[i].bitwidth < bitwidth) ++i;
  const LossLevel& below = known[i - 1];
  const LossLevel& above = known[i];
  if (bitwidth > above.bitwidth) {
    return above.nats * std::pow(0.25, bitwidth - above.bitwidth);
  }
  const double slope = std::log(above.nats / below.nats) / (above.bitwidth - below.bitwidth);
  return below.nats * std::exp(slope * (bitwidth - below.bitwidth));
}

std::vector<LossLevel> ascending(std::vector<LossLevel> levels) {
  std::sort(levels.begin(), levels.end(),
            [](const LossLevel& a, const LossLevel& b) { return a.bitwidth < b.bitwidth; });
  return levels;
}

double level_of(const LossTable& table, std::string_view method) {
  for (const LossLevel& level : table.levels) {
    if (level.method == method) return level.nats;
  }
  refuse("datasets/quality", "no level of {}", method);
}

/// Levels of a method, those of 8 bits from weights alone whatever the method.
std::vector<LossLevel> levels_of(const LossTable& table, std::string_view method) {
  std::vector<LossLevel> found;
  for (const LossLevel& level : table.levels) {
    if (level.method == method || (level.bitwidth == 8 && level.method == "w8"))
      found.push_back(level);
  }
  if (found.size() < 2) {
    refuse("datasets/quality/weights.json", "fewer than two bitwidths of {}", method);
  }
  return ascending(std::move(found));
}

/// Sorts out which table and method price a bitwidth of a format.
class Reader {
 public:
  Reader(const Tables& tables, const ModelShape& model, std::string_view method)
      : tables_(tables), model_(model), method_(method) {}

  double nats(std::int32_t bitwidth, WeightFormat format) {
    if (bitwidth >= 16) return 0;
    if (bitwidth == 8 && format == WeightFormat::int8_activations) {
      return scaled(tables_.int8, level_of(tables_.int8, "int8"));
    }
    if (bitwidth == 8 &&
        (format == WeightFormat::fp8_activations || format == WeightFormat::fp8_weights)) {
      return scaled(tables_.fp8, level_of(tables_.fp8, name_of(format)));  // the same names
    }
    const std::string_view method =
        format == WeightFormat::per_channel && method_ == "gptq" ? "channel" : method_;
    return scaled(tables_.weights, interpolated(levels_of(tables_.weights, method), bitwidth));
  }

  /// Of what was read: the weaker grade, and the wider band.
  void finish(QualityLevels& levels) {
    if (used_.empty()) use(tables_.weights);
    levels.grade = QualityGrade::measured;
    for (const auto& [table, effect] : used_) {
      levels.grade = std::max(levels.grade, effect.grade);
      levels.spread = std::max(levels.spread, spread_of(*table, effect.grade));
    }
    const std::string generation = effect_of(tables_.weights, model_).generation;
    const std::string who = levels.grade == QualityGrade::measured  ? "this model"
                            : levels.grade == QualityGrade::sibling ? "other sizes of " + generation
                            : levels.grade == QualityGrade::family
                                ? "other generations of its family"
                                : "models of other families";
    levels.source = "published losses of " + who +
                    (method_ == "rtn" ? ", rounded to nearest" : ", calibrated as GPTQ and AWQ do");
  }

 private:
  const Effect& use(const LossTable& table) {
    return used_.try_emplace(&table, effect_of(table, model_)).first->second;
  }

  double scaled(const LossTable& table, double nats) {
    const double size = static_cast<double>(model_.num_parameters()) / table.reference_parameters;
    return nats * use(table).ratio * std::pow(size, table.size_slope);
  }

  const Tables& tables_;
  const ModelShape& model_;
  std::string_view method_;
  std::map<const LossTable*, Effect> used_;
};

}  // namespace

QualityLevels published_quality(const ModelShape& model,
                                const std::map<std::int32_t, std::vector<WeightFormat>>& formats,
                                std::string_view method, const DataFolders& folders) {
  const Tables& tables = tables_of(folders);
  Reader reader(tables, model, method);
  QualityLevels levels;
  for (const auto& [bitwidth, of_bitwidth] : formats) {
    double most = 0;
    for (const WeightFormat format : of_bitwidth) {
      most = std::max(most, reader.nats(bitwidth, format));
    }
    levels.bitwidths.push_back(bitwidth);
    levels.nats.push_back(most);
  }
  // Never less at fewer bits: INT8 activations can lose more than 4-bit weights.
  for (std::size_t b = levels.nats.size(); b-- > 1;) {
    levels.nats[b - 1] = std::max(levels.nats[b - 1], levels.nats[b]);
  }
  reader.finish(levels);
  // Levels are of models with one bitwidth; plans mix them.
  levels.spread = std::exp(std::hypot(std::log(levels.spread), std::log(tables.mixing_spread)));
  const std::vector<LossLevel> kv = ascending(tables.kv);
  for (std::int32_t bitwidth = kMinKvBitwidth; bitwidth <= kMaxKvBitwidth; ++bitwidth) {
    levels.kv_nats.push_back(bitwidth >= 16 ? 0 : interpolated(kv, bitwidth));
  }
  levels.kv_spread = tables.kv_spread;
  levels.rise_per_kl = tables.rise_per_kl;
  levels.rise_per_kl_spread = tables.rise_per_kl_spread;
  levels.recovery_per_rise = tables.recovery_per_rise;
  levels.recovery_per_rise_spread = tables.recovery_per_rise_spread;
  levels.last_layer = tables.last_layer;
  return levels;
}

double additivity_spread(const DataFolders& folders) {
  return tables_of(folders).additivity_spread;
}

}  // namespace tessera
