#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "models.h"
#include "table_grid.h"
#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/statistics.h"
#include "tessera/core/text.h"

// Interpolation between measured points. A point is worth its utilisation, the roofline's floor
// over what was measured: where the grid of points has holes and beyond its ends utilisation is
// what is carried over. Between its knots the logarithm of time is multilinear in the logarithms of
// the sizes: that never falls where the knots do not, which interpolated utilisation does not
// promise.
namespace tessera::cost::models {
namespace {

constexpr double kLeastSeconds = 1e-9;
constexpr double kEndlessWindow = 1e9;
constexpr double kNodesPerSample = 4;
constexpr int kCorrections = 12;

bool may_be_zero(const std::string& field) {
  return field == "context_tokens" || field == "window";
}

// No window sees everything, so it lies above every window.
double coordinate(const std::string& field, double value) {
  if (field == "window" && value == 0) value = kEndlessWindow;
  return std::log2(may_be_zero(field) ? value + 1 : value);
}

double value_at(const std::string& field, double coordinate) {
  if (!may_be_zero(field)) return std::exp2(coordinate);
  const double value = std::exp2(coordinate) - 1;
  return field == "window" && value > 0.5 * kEndlessWindow ? 0 : std::max(0.0, value);
}

void set_field(OpQuery& query, const std::string& field, double value) {
  query.*find_size(field)->member = value;
}

// A layer's numbers, without the names of its matrices: [in, out, copies, active] of each.
Json layer_json(const LayerShape& layer) {
  Json json{{"num_heads", layer.num_heads},
            {"num_kv_heads", layer.num_kv_heads},
            {"head_dim", layer.head_dim},
            {"window", layer.attention_window.value_or(0)},
            {"linears", Json::array()}};
  for (const LinearShape& l : layer.linears) {
    json["linears"].push_back({l.in_features, l.out_features, l.num_copies, l.num_active});
  }
  return json;
}

std::shared_ptr<const LayerShape> layer_from_json(const Json& json, const std::string& path) {
  constexpr std::int64_t kLargest = 1'000'000'000;
  JsonFields fields(json, path);
  auto layer = std::make_shared<LayerShape>();
  layer->num_heads = fields.integer("num_heads", 1, kLargest);
  layer->num_kv_heads = fields.integer("num_kv_heads", 1, layer->num_heads);
  layer->head_dim = fields.integer("head_dim", 1, kLargest);
  const std::int64_t window = fields.integer("window", 0, kLargest);
  if (window > 0) layer->attention_window = window;
  for (const Json& entry : fields.at("linears")) {
    const std::string where = fmt::format("{}.linears[{}]", path, layer->linears.size());
    const std::vector<double> numbers = json_numbers(entry, where, 1, kLargest);
    if (numbers.size() != 4) {
      refuse(where, "[in, out, copies, active] is needed");
    }
    const auto whole = [&](std::size_t i) { return static_cast<std::int64_t>(numbers[i]); };
    layer->linears.push_back({"", whole(0), whole(1), whole(2), whole(3)});
  }
  fields.finish();
  return layer;
}

class Table final : public OpModel {
 public:
  Table(const Device& device, OpQuery reference, Grid grid)
      : device_(device), reference_(std::move(reference)), grid_(std::move(grid)) {}

  double seconds(const OpQuery& query) const override {
    std::vector<double> at;
    for (const Axis& axis : grid_.axes) {
      at.push_back(coordinate(axis.field, field_value(query, axis.field)));
    }
    double log_s = grid_.value(at);
    for (std::size_t i = 0; i < at.size(); ++i) log_s += beyond(i, at[i]);
    return std::max(kLeastSeconds, std::exp(log_s + other_constants(query)));
  }

  Json coefficients() const override {
    Json json{{"axes", Json::array()}, {"log_s", grid_.values}, {"fixed", Json::object()}};
    for (const Axis& axis : grid_.axes) {
      json["axes"].push_back({{"field", axis.field}, {"log2", axis.knots}});
    }
    for (const std::string& field : fields_of(reference_.op)) {
      json["fixed"][field] = field_value(reference_, field);
    }
    json["op"] = name_of(reference_.op);
    json["dtype"] = reference_.dtype;
    json["kv_dtype"] = reference_.kv_dtype;
    json["phase"] = name_of(reference_.phase);
    json["bitwidth"] = reference_.bitwidth;
    if (reference_.layer != nullptr) json["layer"] = layer_json(*reference_.layer);
    return json;
  }

  /// The same table, `factor` times as slow.
  std::unique_ptr<Table> scaled(const Device& device, double factor) const {
    Grid grid = grid_;
    for (double& value : grid.values) value += std::log(factor);
    return std::make_unique<Table>(device, reference_, std::move(grid));
  }

 private:
  double log_floor(OpQuery query) const {
    query.num_heads = std::max(query.num_heads, query.num_kv_heads);  // not all corners exist
    return std::log(work_of(device_, query).floor_s());
  }

  // The end of the grid that is left is compared with the point straight beyond it. Its other sizes
  // are those of the corner, whatever the query's, lest a larger one cost less.
  double beyond(std::size_t i, double at) const {
    const Axis& axis = grid_.axes[i];
    const bool above = at > axis.knots.back();
    if (!above && at >= axis.knots.front()) return 0;
    OpQuery corner = reference_;
    for (const Axis& other : grid_.axes) {
      set_field(corner, other.field,
                value_at(other.field, above ? other.knots.back() : other.knots.front()));
    }
    const double from = log_floor(corner);
    set_field(corner, axis.field, value_at(axis.field, at));
    return log_floor(corner) - from;
  }

  // Sizes that all points have in common, and the shape of the layer.
  double other_constants(const OpQuery& query) const {
    const double from = log_floor(reference_);
    OpQuery of_shape = reference_;
    of_shape.layer = query.layer;
    double sum = query.layer == reference_.layer ? 0 : log_floor(of_shape) - from;
    for (const std::string& field : fields_of(reference_.op)) {
      const bool on_axis = std::any_of(grid_.axes.begin(), grid_.axes.end(),
                                       [&](const Axis& axis) { return axis.field == field; });
      if (on_axis || field_value(query, field) == field_value(reference_, field)) continue;
      OpQuery moved = reference_;
      set_field(moved, field, field_value(query, field));
      sum += log_floor(moved) - from;
    }
    return sum;
  }

  Device device_;
  OpQuery reference_;  ///< the middle of the points
  Grid grid_;          ///< of the logarithm of seconds
};

/// The points' own field values, or their geometric middle where those vary.
OpQuery middle_of(const std::vector<Sample>& samples) {
  OpQuery middle = samples[samples.size() / 2].query;
  for (const std::string& field : fields_of(middle.op)) {
    std::vector<double> all;
    for (const Sample& s : samples) all.push_back(coordinate(field, field_value(s.query, field)));
    std::sort(all.begin(), all.end());
    if (all.front() != all.back()) set_field(middle, field, value_at(field, quantile(all, 0.5)));
  }
  middle.num_heads = std::max(middle.num_heads, middle.num_kv_heads);
  return middle;
}

std::vector<Axis> axes_of(const std::vector<Sample>& samples) {
  std::vector<Axis> axes;
  for (const std::string& field : fields_of(samples.front().query.op)) {
    std::vector<double> values;
    for (const Sample& s : samples) {
      values.push_back(coordinate(field, field_value(s.query, field)));
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    if (values.size() > 1) axes.push_back({field, std::move(values)});
  }
  thin_out(axes, std::max(64.0, kNodesPerSample * static_cast<double>(samples.size())));
  return axes;
}

void check(const std::vector<Sample>& samples) {
  if (samples.empty()) {
    throw Error(ErrorCode::invalid_argument, "table: no samples to fit", "samples");
  }
  for (const Sample& sample : samples) {
    if (sample.query.op == Op::layer && !(*sample.query.layer == *samples.front().query.layer)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("table: points of {} and of {}, whose layers differ; one table is of "
                              "one model",
                              samples.front().query.model, sample.query.model),
                  "samples");
    }
  }
}

/// A node begins with the mean utilisation of the points next to it, holes with that of their
/// neighbours.
std::unique_ptr<OpModel> fit_points(const Device& device, const std::vector<Sample>& samples) {
  const OpQuery reference = middle_of(samples);
  Grid grid(axes_of(samples));
  std::vector<std::vector<double>> at;
  std::vector<double> log_s;
  std::vector<double> utilisation(grid.values.size(), 0), count(grid.values.size(), 0);
  for (const Sample& sample : samples) {
    std::vector<double>& x = at.emplace_back();
    for (const Axis& axis : grid.axes) {
      x.push_back(coordinate(axis.field, field_value(sample.query, axis.field)));
    }
    log_s.push_back(std::log(sample.latency_s));
    const std::size_t node = grid.nearest(x);
    utilisation[node] += std::log(work_of(device, sample.query).floor_s()) - log_s.back();
    ++count[node];
  }
  for (std::size_t i = 0; i < count.size(); ++i) {
    if (count[i] > 0) utilisation[i] /= count[i];
  }
  grid.fill_holes(utilisation, count);
  for (std::size_t i = 0; i < grid.values.size(); ++i) {
    OpQuery node = reference;
    const std::vector<double> x = grid.place(i);
    for (std::size_t k = 0; k < x.size(); ++k) {
      set_field(node, grid.axes[k].field, value_at(grid.axes[k].field, x[k]));
    }
    node.num_heads = std::max(node.num_heads, node.num_kv_heads);
    grid.values[i] = std::log(work_of(device, node).floor_s()) - utilisation[i];
  }
  grid.make_monotone();
  for (int i = 0; i < kCorrections; ++i) {
    grid.correct(at, log_s);
    grid.make_monotone();
  }
  return std::make_unique<Table>(device, reference, std::move(grid));
}

std::unique_ptr<OpModel> fit(const Device& device, const std::vector<Sample>& samples,
                             const OpModel* donor) {
  check(samples);
  const auto* table = dynamic_cast<const Table*>(donor);
  if (table == nullptr) return fit_points(device, samples);
  std::vector<double> ratios;
  for (const Sample& s : samples) ratios.push_back(s.latency_s / table->seconds(s.query));
  return table->scaled(device, median(std::move(ratios)));
}

OpQuery reference_from(JsonFields& fields) {
  OpQuery reference;
  reference.op = read_field<Op>(fields, "op");
  reference.phase = read_field<Phase>(fields, "phase");
  reference.dtype = fields.text("dtype");
  reference.kv_dtype = fields.text("kv_dtype");
  reference.bitwidth = static_cast<std::int32_t>(fields.integer("bitwidth", 1, 32));
  JsonFields fixed(fields.at("fixed"), fields.path_of("fixed"));
  for (const std::string& field : fields_of(reference.op)) {
    set_field(reference, field, fixed.number(field.c_str(), 0, 1e15));
  }
  fixed.finish();
  if (reference.op == Op::layer) {
    reference.layer = layer_from_json(fields.at("layer"), fields.path_of("layer"));
  }
  check_query(reference);
  return reference;
}

std::unique_ptr<OpModel> read(const Device& device, const Json& coefficients,
                              const std::string& path) {
  JsonFields fields(coefficients, path);
  OpQuery reference = reference_from(fields);
  std::vector<Axis> axes;
  const std::vector<std::string>& known = fields_of(reference.op);
  for (const Json& entry : fields.at("axes")) {
    JsonFields axis(entry, fmt::format("{}[{}]", fields.path_of("axes"), axes.size()));
    const std::string field = axis.text("field");
    axes.push_back({field, json_numbers(axis.at("log2"), axis.path_of("log2"), -64, 64)});
    axis.finish();
    const std::vector<double>& knots = axes.back().knots;
    if (std::find(known.begin(), known.end(), field) == known.end() || knots.size() < 2 ||
        std::adjacent_find(knots.begin(), knots.end(), std::greater_equal<>()) != knots.end()) {
      refuse(axis.path_of("log2"),
             "a size of the op with at least two ascending knots is "
             "needed");
    }
  }
  Grid grid(std::move(axes));
  std::vector<double> values = json_numbers(fields.at("log_s"), fields.path_of("log_s"), -100, 100);
  if (values.size() != grid.values.size()) {
    refuse(fields.path_of("log_s"), "{} values for {} nodes", values.size(), grid.values.size());
  }
  fields.finish();
  grid.values = std::move(values);
  return std::make_unique<Table>(device, std::move(reference), std::move(grid));
}

}  // namespace

const FitMethod& table() {
  static const FitMethod method{"table", fit, read};
  return method;
}

}  // namespace tessera::cost::models
