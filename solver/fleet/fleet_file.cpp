// `tessera-fleet-1`: what a file says, and what an instance has to keep to whoever made it.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"
#include "tessera/solver/fleet/fleet.h"

namespace tessera::solver {
namespace {

constexpr std::string_view kFormat = "tessera-fleet-1";
constexpr std::size_t kMaxTypes = 1000, kMaxClasses = 10'000, kMaxModels = 10'000;
constexpr std::size_t kMaxRequestClasses = 10'000;

/// Names that others refer to.
template <class Item>
std::set<std::string> names_in(const std::vector<Item>& items, const std::string& path,
                               std::size_t most) {
  if (items.size() > most) refuse(path, "{} entries where at most {} belong", items.size(), most);
  std::set<std::string> names;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string where = fmt::format("{}[{}].name", path, i);
    if (items[i].name.empty()) refuse(where, "a name belongs here");
    if (!names.insert(items[i].name).second) refuse(where, quote(items[i].name) + " appears twice");
  }
  return names;
}

void check_name(const std::string& name, const std::set<std::string>& names,
                const std::string& path) {
  if (names.count(name) != 0) return;
  throw_unknown_name(path, name, {names.begin(), names.end()});
}

void check_devices(const DeviceCounts& devices, const std::set<std::string>& types,
                   const std::string& path) {
  std::int64_t total = 0;
  for (const auto& [type, count] : devices) {
    check_name(type, types, path);
    if (count < 0) refuse(ErrorCode::out_of_range, path, "{} devices are less than none", count);
    total += count;
  }
  if (total > kMaxNodeDevices) {
    refuse(ErrorCode::out_of_range, path, "{} devices of a node are more than {}", total,
           kMaxNodeDevices);
  }
}

void check_number(double value, double high, const std::string& path) {
  if (value >= 0 && value <= high) return;
  refuse(ErrorCode::out_of_range, path, "{} is outside [{}, {}]", value, 0, high);
}

void check_index(std::size_t model, const FleetInstance& instance, const std::string& path) {
  if (model < instance.models.size()) return;
  refuse(ErrorCode::out_of_range, path, "there is no model {}: there are {}, the first is 0", model,
         instance.models.size());
}

void check_column(const FleetInstance& instance, const Column& column,
                  const std::set<std::string>& types, const std::string& path) {
  check_index(column.model, instance, path + ".model");
  check_devices(column.devices, types, path + ".devices");
  const std::size_t wanted = instance.models[column.model].demand.size();
  if (column.rate.size() != wanted) {
    refuse(path + ".rate", "{} rates where model {} has {} classes of requests", column.rate.size(),
           quote(instance.models[column.model].name), wanted);
  }
  for (const double rate : column.rate) check_number(rate, kMaxRatePerS, path + ".rate");
  if (column.nodes < 1) refuse(path + ".nodes", "{} is less than a node", column.nodes);
  if (column.node_class && *column.node_class >= instance.node_classes.size()) {
    refuse(ErrorCode::out_of_range, path + ".node_class",
           "there is no class {}: there are {}, the first is 0", *column.node_class,
           instance.node_classes.size());
  }
  const bool takes = std::any_of(column.devices.begin(), column.devices.end(),
                                 [](const auto& item) { return item.second > 0; });
  if (!takes && column.nodes == 1) refuse(path + ".devices", "a replica takes at least one device");
}

void check_constraint(const FleetInstance& instance, const FleetConstraint& constraint,
                      const std::set<std::string>& types, const std::string& path) {
  check_index(constraint.model, instance, path + ".model");
  if (constraint.device_type) {
    check_name(*constraint.device_type, types, path + ".device_type");
    if (!constraint.max_gpus) refuse(path + ".device_type", "goes with max_gpus");
  }
  if (!constraint.not_beside) return;
  check_index(*constraint.not_beside, instance, path + ".not_beside");
  if (*constraint.not_beside == constraint.model) {
    refuse(path + ".not_beside", "a model is always beside itself");
  }
}

void check_around(const FleetInstance& instance, const std::string& path) {
  constexpr std::size_t kMost = 2;
  if (instance.around.size() > kMost) {
    refuse(path + ": around", "{} placements where what runs before and what runs after belong",
           instance.around.size());
  }
  if (instance.around.empty()) return;
  if (instance.switch_usd > 0 && instance.objective != FleetObjective::cost) {
    refuse(path + ": switch_usd", "money counts in objective cost, this one is {}",
           name_of(instance.objective));
  }
  const std::int64_t nodes = instance.num_nodes();
  for (std::size_t i = 0; i < instance.around.size(); ++i) {
    for (std::size_t r = 0; r < instance.around[i].size(); ++r) {
      const Replica& replica = instance.around[i][r];
      const std::string where = fmt::format("{}: around[{}][{}]", path, i, r);
      if (replica.column >= instance.columns.size()) {
        refuse(ErrorCode::out_of_range, where + ".column",
               "there is no column {}: there are {}, the first is 0", replica.column,
               instance.columns.size());
      }
      const std::int64_t wanted = instance.columns[replica.column].nodes;
      if (static_cast<std::int64_t>(replica.nodes.size()) != wanted) {
        refuse(where + ".nodes", "{} nodes where its column takes {}", replica.nodes.size(),
               wanted);
      }
      for (const std::int64_t node : replica.nodes) {
        if (node >= 0 && node < nodes) continue;
        refuse(ErrorCode::out_of_range, where + ".nodes",
               "there is no node {}: there are {}, the first is 0", node, nodes);
      }
    }
  }
}

}  // namespace

std::int64_t FleetInstance::num_nodes() const {
  std::int64_t total = 0;
  for (const NodeClass& c : node_classes) total += c.count;
  return total;
}

Json DeviceCountsJson::write(const DeviceCounts& devices) {
  Json json = Json::object();
  for (const auto& [type, count] : devices) json[type] = count;
  return json;
}

DeviceCounts DeviceCountsJson::read(const Json& json, const std::string& path, const FieldSpec&) {
  if (!json.is_object()) refuse(path, "an object of numbers of devices by type belongs here");
  DeviceCounts devices;
  for (const auto& [type, count] : json.items()) {
    devices[type] =
        static_cast<std::int32_t>(json_integer(count, path + "." + type, 0, kMaxNodeDevices));
  }
  return devices;
}

void check_instance(const FleetInstance& instance, const std::string& path) {
  const auto types = names_in(instance.device_types, path + ": device_types", kMaxTypes);
  names_in(instance.node_classes, path + ": node_classes", kMaxClasses);
  names_in(instance.models, path + ": models", kMaxModels);
  const auto at = [&](const char* list, std::size_t i) {
    return fmt::format("{}: {}[{}]", path, list, i);
  };
  for (std::size_t i = 0; i < instance.device_types.size(); ++i) {
    check_number(instance.device_types[i].usd_per_h, kMaxUsdPerH,
                 at("device_types", i) + ".usd_per_h");
  }
  for (std::size_t i = 0; i < instance.node_classes.size(); ++i) {
    const NodeClass& c = instance.node_classes[i];
    check_devices(c.devices, types, at("node_classes", i) + ".devices");
    check_number(c.usd_per_h, kMaxUsdPerH, at("node_classes", i) + ".usd_per_h");
    check_number(static_cast<double>(c.count), kMaxFleetNodes, at("node_classes", i) + ".count");
  }
  if (instance.num_nodes() > kMaxFleetNodes) {
    refuse(ErrorCode::out_of_range, path + ": node_classes", "{} nodes are more than {}",
           instance.num_nodes(), kMaxFleetNodes);
  }
  for (std::size_t i = 0; i < instance.models.size(); ++i) {
    const FleetModel& model = instance.models[i];
    const std::string where = at("models", i) + ".demand";
    if (model.demand.empty() || model.demand.size() > kMaxRequestClasses) {
      refuse(where, "1 to {} classes of requests belong here", kMaxRequestClasses);
    }
    for (const double demand : model.demand) check_number(demand, kMaxRatePerS, where);
    if (!(model.weight > 0)) refuse(at("models", i) + ".weight", "has to be above 0");
  }
  if (instance.columns.size() > kMaxFleetColumns) {
    refuse(path + ": columns", "{} are more than {}", instance.columns.size(), kMaxFleetColumns);
  }
  for (std::size_t i = 0; i < instance.columns.size(); ++i) {
    check_column(instance, instance.columns[i], types, at("columns", i));
  }
  for (std::size_t i = 0; i < instance.constraints.size(); ++i) {
    check_constraint(instance, instance.constraints[i], types, at("constraints", i));
  }
  check_around(instance, path);
}

Json fleet_json(const FleetInstance& instance) {
  Json json = json_of(instance);
  json["format"] = kFormat;
  return json;
}

FleetInstance fleet_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  const std::string format = fields.text("format");
  if (format != kFormat) {
    refuse(ErrorCode::unsupported, fields.path_of("format"),
           "{} is not {}, which this version reads", quote(format), quote(std::string(kFormat)));
  }
  FleetInstance instance;
  read_fields(fields, instance);
  fields.finish();
  check_instance(instance, path);
  return instance;
}

FleetInstance read_fleet(const std::string& path) {
  return fleet_from_json(read_json_file(path), path);
}

Json placement_json(const FleetPlacement& placement) {
  Json rows = Json::array();
  for (const Replica& replica : placement) rows.push_back(json_of(replica));
  return rows;
}

FleetPlacement placement_from_json(const Json& json, const std::string& path) {
  return read_list<Replica>(json, path, {});
}

}  // namespace tessera::solver
