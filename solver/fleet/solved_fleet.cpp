#include "tessera/solver/fleet/solved_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"

namespace tessera::solver {
namespace {

constexpr std::string_view kPlanFormat = "tessera-fleet-plan-1";

std::size_t class_at(const FleetInstance& instance, std::int64_t node) {
  std::size_t c = 0;
  for (std::int64_t first = 0; c + 1 < instance.node_classes.size(); ++c) {
    first += instance.node_classes[c].count;
    if (node < first) break;
  }
  return c;
}

std::int64_t number_of(const DeviceCounts& devices) {
  return std::accumulate(devices.begin(), devices.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& item) { return sum + item.second; });
}

std::string devices_text(const DeviceCounts& devices) {
  std::string text;
  for (const auto& [type, count] : devices) {
    if (count > 0) text += fmt::format("{}{}x{}", text.empty() ? "" : "+", count, type);
  }
  return text;
}

std::int64_t gpus_of(const FleetInstance& instance, const Replica& replica) {
  const Column& column = instance.columns[replica.column];
  if (column.nodes == 1) return number_of(column.devices);
  return column.nodes *
         number_of(instance.node_classes[class_at(instance, replica.nodes[0])].devices);
}

/// With four digits, never as a power of ten where that can be.
std::string digits(double value) {
  return value != 0 && std::abs(value) < 1e4 ? fmt::format("{:.4g}", value)
                                             : fmt::format("{:.0f}", value);
}

std::string_view unit_of(const FleetInstance& instance) {
  switch (instance.objective) {
    case FleetObjective::cost:
      return "USD/h";
    case FleetObjective::gpus:
      return "GPUs";
    case FleetObjective::rate:
      break;
  }
  return "times the demand";
}

}  // namespace

std::string label_of(const Column& column) {
  if (!column.label.empty()) return column.label;
  if (column.nodes > 1) return fmt::format("{} nodes", column.nodes);
  return devices_text(column.devices);
}

double SolvedFleet::scale() const {
  if (instance.objective == FleetObjective::rate) return check.objective;
  double least = std::numeric_limits<double>::infinity();
  for (const FleetServed& served : check.models) {
    if (!served.scale) continue;
    least = std::min(least, served.reserve_scale ? *served.reserve_scale : *served.scale);
  }
  return least;
}

SolvedFleet solved(FleetInstance instance, FleetAnswer answer) {
  SolvedFleet fleet{std::move(instance), std::move(answer), {}, nullptr};
  fleet.check = check_fleet(fleet.instance, fleet.answer.placement);
  if (!fleet.check.violations.empty()) {
    throw Error(ErrorCode::internal,
                "a fleet does not keep to its instance: " + fleet.check.violations.front());
  }
  return fleet;
}

std::vector<ReplicaRow> replica_rows(const SolvedFleet& fleet) {
  std::map<std::pair<std::vector<std::int64_t>, std::size_t>, ReplicaRow> rows;
  for (const Replica& replica : fleet.answer.placement) {
    ReplicaRow& row = rows[{replica.nodes, replica.column}];
    const Column& column = fleet.instance.columns[replica.column];
    if (row.count == 0) {
      row = {replica.column,
             fleet.instance.models[column.model].name,
             label_of(column),
             fleet.instance.node_classes[class_at(fleet.instance, replica.nodes[0])].name,
             replica.nodes,
             0,
             0,
             column.rate};
    }
    ++row.count;
    row.gpus += gpus_of(fleet.instance, replica);
  }
  std::vector<ReplicaRow> list;
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  return list;
}

std::vector<ColumnRow> column_rows(const SolvedFleet& fleet) {
  struct Sum {
    ColumnRow row;
    std::set<std::int64_t> nodes;
  };
  std::map<std::tuple<std::size_t, std::size_t, std::size_t>, Sum> sums;
  for (const Replica& replica : fleet.answer.placement) {
    const Column& column = fleet.instance.columns[replica.column];
    const std::size_t c = class_at(fleet.instance, replica.nodes[0]);
    Sum& sum = sums[{column.model, c, replica.column}];
    if (sum.row.count == 0) {
      sum.row = {replica.column, fleet.instance.models[column.model].name, label_of(column),
                 fleet.instance.node_classes[c].name};
    }
    ++sum.row.count;
    sum.row.gpus += gpus_of(fleet.instance, replica);
    sum.nodes.insert(replica.nodes.begin(), replica.nodes.end());
  }
  std::vector<ColumnRow> list;
  for (auto& [key, sum] : sums) {
    sum.row.nodes = static_cast<std::int64_t>(sum.nodes.size());
    list.push_back(std::move(sum.row));
  }
  return list;
}

std::string objective_text(const FleetInstance& instance, double objective) {
  return fmt::format("{} {}", digits(objective), unit_of(instance));
}

std::string fleet_text(const SolvedFleet& fleet) {
  const FleetInstance& instance = fleet.instance;
  const FleetAnswer& answer = fleet.answer;
  std::string text = objective_text(instance, fleet.check.objective);
  if (answer.bound) {
    text += fmt::format("; no placement of these columns is {} than {} (gap {:.2g} %)",
                        instance.objective == FleetObjective::rate ? "better" : "less",
                        digits(*answer.bound), 100 * answer.gap.value_or(0));
  } else {
    text += "; no bound is known";
  }
  std::int64_t devices = 0;
  for (const NodeClass& c : instance.node_classes) devices += c.count * number_of(c.devices);
  text += fmt::format("\n{} of {} GPUs on {} of {} nodes, {:.2f} USD/h\n", fleet.check.gpus,
                      devices, fleet.check.nodes, instance.num_nodes(), fleet.check.usd_per_h);
  if (instance.reserve_nodes > 0) {
    text += fmt::format("served when any {} lost\n",
                        instance.reserve_nodes == 1
                            ? std::string("node is")
                            : fmt::format("{} nodes are", instance.reserve_nodes));
  }
  if (fleet.instance.switch_usd_per_h() > 0) {
    text += fmt::format(
        "of which {:.4g} USD/h are for {} replicas that start or stop ({} USD each "
        "over {} h)\n",
        fleet.check.objective - fleet.check.usd_per_h, fleet.check.switched, instance.switch_usd,
        instance.hours);
  }
  const std::vector<ColumnRow> columns = column_rows(fleet);
  for (const FleetServed& served : fleet.check.models) {
    text += fmt::format("{}: {} requests/s", served.name, digits(served.demand_per_s));
    if (served.scale) text += fmt::format(", {} times that served", digits(*served.scale));
    if (served.reserve_scale) {
      text += fmt::format(" ({} with the worst loss)", digits(*served.reserve_scale));
    }
    text += fmt::format("; {} GPUs, {:.2f} USD/h\n", served.gpus, served.usd_per_h);
    for (const ColumnRow& row : columns) {
      if (row.model != served.name) continue;
      text += fmt::format("  {} x {} on {} {} of {}\n", row.count, row.label, row.nodes,
                          row.nodes == 1 ? "node" : "nodes", row.node_class);
    }
  }
  for (const DualPrice& price : answer.device_prices) {
    if (price.value < 1e-9) continue;
    text += fmt::format("one more {} is worth {} {} here ({})\n", price.name, digits(price.value),
                        unit_of(instance), price.node_class);
  }
  for (const DualPrice& price : answer.model_prices) {
    if (std::abs(price.value) < 1e-12) continue;
    text += fmt::format("one request/s more of {} costs {} {}\n", price.name,
                        digits(std::abs(price.value)), unit_of(instance));
  }
  for (const std::string& note : answer.notes) text += "note: " + note + "\n";
  text.pop_back();
  return text;
}

Json solved_fleet_json(const SolvedFleet& fleet) {
  Json json = Json::object();
  json["format"] = kPlanFormat;
  json["instance"] = fleet_json(fleet.instance);
  json["placement"] = placement_json(fleet.answer.placement);
  json["status"] = name_of(fleet.answer.status);
  json["bound"] = JsonValue<std::optional<double>>::write(fleet.answer.bound);
  json["solve_s"] = fleet.answer.solve_s;
  const auto prices = [](const std::vector<DualPrice>& list) {
    return JsonValue<std::vector<DualPrice>>::write(list);
  };
  json["device_prices"] = prices(fleet.answer.device_prices);
  json["model_prices"] = prices(fleet.answer.model_prices);
  json["notes"] = fleet.answer.notes;
  if (!fleet.named.is_null()) json["named"] = fleet.named;
  return json;
}

bool is_solved_fleet(const Json& json) {
  // Of any version: the reader says which it knows.
  return json.is_object() && json.contains("format") && json["format"].is_string() &&
         json["format"].get_ref<const std::string&>().starts_with("tessera-fleet-plan-");
}

SolvedFleet solved_fleet_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  const std::string format = fields.text("format");
  if (format != kPlanFormat) {
    refuse(ErrorCode::unsupported, fields.path_of("format"),
           "{} is not {}, which this version reads", quote(format),
           quote(std::string(kPlanFormat)));
  }
  FleetInstance instance = fleet_from_json(fields.at("instance"), fields.path_of("instance"));
  FleetAnswer answer;
  answer.placement = placement_from_json(fields.at("placement"), fields.path_of("placement"));
  answer.status = read_field<FleetStatus>(fields, "status");
  answer.bound = fields.optional_number("bound", -kHuge, kHuge);
  answer.solve_s = fields.number("solve_s", 0, 1e9);
  answer.device_prices = read_field<std::vector<DualPrice>>(fields, "device_prices");
  answer.model_prices = read_field<std::vector<DualPrice>>(fields, "model_prices");
  answer.notes = read_field<std::vector<std::string>>(fields, "notes");
  Json named = nullptr;
  if (fields.has("named")) named = fields.at("named");
  fields.finish();
  FleetCheck check = check_fleet(instance, answer.placement);
  if (!check.violations.empty()) {
    refuse(fields.path_of("placement"), check.violations.front());
  }
  answer.objective = check.objective;
  answer.usd_per_h = check.usd_per_h;
  answer.gpus = check.gpus;
  if (answer.bound) {
    answer.gap =
        std::abs(check.objective - *answer.bound) / std::max(std::abs(check.objective), 1e-12);
  }
  return {std::move(instance), std::move(answer), std::move(check), std::move(named)};
}

}  // namespace tessera::solver
