// Fleets of named models: the library in Lua makes the object of what comes of it.

#include "plan_fleet_lua.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core_lua.h"
#include "deployment_lua.h"
#include "fleet_lua.h"
#include "fleet_request_lua.h"
#include "named_model_lua.h"
#include "serving_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/record_options.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/fleet/check.h"
#include "tessera/solver/fleet_pricing/fleet_layout.h"
#include "tessera/solver/fleet_pricing/loading.h"
#include "tessera/solver/fleet_pricing/plan_fleet.h"

namespace tessera {
namespace solver_lua {
namespace {

/// A fleet with what was asked.
struct PlannedFleet {
  solver::FleetRequest request;
  solver::PricedFleet fleet;
};

}  // namespace
}  // namespace solver_lua

template <>
const lua_kit::ObjectType<solver_lua::PlannedFleet>&
lua_kit::object_type<solver_lua::PlannedFleet>() {
  using P = solver_lua::PlannedFleet;
  static const ObjectType<P> type{
      .name = "tessera.PricedFleet",
      .doc = "What a fleet can be planned again from, for the library.",
      .fields = {{"gap", "number?", "Objective against bound (ratio)",
                  [](lua_State* L, const P& p) { push_value(L, p.fleet.answer.gap); }}},
      .methods = {},
      .summary = [](const P& p) {
        return std::to_string(p.fleet.answer.placement.size()) + " replicas";
      }};
  return type;
}

namespace solver_lua {
namespace {

using solver::FleetRequest;
using solver::NodeKind;

/// The parts of a pair, each engine with the requests that are under way on it when all are full.
std::vector<solver::DeploymentPart> parts_of_pair(const solver::FleetEngine& engine) {
  std::vector<solver::DeploymentPart> parts = engine.parts();
  const auto& found = engine.pair->found;
  if (!found || !found->served) return parts;
  const auto& summary = found->served->summary;
  const double prompt_s = summary.ttft_s.mean.value_or(0);
  const double decode_s = summary.e2e_s.mean.value_or(prompt_s) - prompt_s;
  for (solver::DeploymentPart& part : parts) {
    const double stays_s = part.role == serving::Role::prefill ? prompt_s : decode_s;
    const double under_way =
        engine.classes.front().rate_per_s * stays_s / static_cast<double>(part.count);
    if (under_way > 0) part.share = under_way;
  }
  return parts;
}

/// The engine as one of a pool, whose share of the requests under way is what it has when it is
/// full of the class that it has most of; of a pair each of the two pools.
std::vector<solver::DeploymentPart> parts_of(const solver::FleetEngine& engine) {
  if (engine.pair) return parts_of_pair(engine);
  std::vector<solver::DeploymentPart> parts = engine.parts();
  solver::DeploymentPart& part = parts.front();
  double most = 0;
  for (const solver::ServedClass& each : engine.classes) {
    if (!engine.is_known || each.rate_per_s <= 0) continue;
    const auto& found = each.priced->found;
    if (!found || !found->served) continue;
    const double stays_s = found->served->summary.e2e_s.mean.value_or(each.priced->residence_s);
    most = std::max(most, each.rate_per_s * stays_s);
  }
  if (most > 0) part.share = most;
  return parts;
}

/// A column with what is known of it, and the engine that a pool is made of.
void push_column(lua_State* L, const lua_kit::Options& model, const solver::PricedFleet& fleet,
                 std::size_t column) {
  const solver::FleetColumn& its = fleet.columns->columns()[column];
  const solver::FleetEngine& engine = fleet.columns->engine_of(its);
  lua_newtable(L);
  lua_kit::set_integer(L, "column_index", static_cast<std::int64_t>(column));
  lua_kit::set_text(L, "model", fleet.instance.models[its.model].name);
  lua_kit::set_text(L, "node_class", fleet.instance.node_classes[its.node_class].name);
  lua_kit::set_text(L, "label", engine.name());
  lua_kit::set_integer(L, "nodes", its.nodes);
  std::vector<double> bounds_per_s;
  std::vector<std::string> limited_by;
  for (const solver::ServedClass& each : engine.classes) {
    bounds_per_s.push_back(each.bound_per_s);
    limited_by.push_back(each.limited_by);
  }
  lua_kit::set_numbers(L, "bounds_per_s", bounds_per_s);
  lua_kit::set_texts(L, "limited_by", limited_by);
  lua_kit::set_boolean(L, "simulated", engine.is_known && !engine.is_given());
  lua_kit::set_boolean(L, "given", engine.is_given());
  if (engine.is_given()) return;
  const std::vector<solver::DeploymentPart> parts = parts_of(engine);
  const bool is_pair = parts.size() > 1;
  lua_kit::set_text(L, "shape", is_pair ? solver::layout_of(parts) : parts.front().engine->shape());
  std::int64_t gpus = 0;
  lua_createtable(L, static_cast<int>(parts.size()), 0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    gpus += parts[i].count * parts[i].engine->gpus();
    push_part(L, model, solver::serving_part(parts[i]));
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_setfield(L, -2, "parts");
  lua_kit::set_integer(L, "gpus", gpus);
}

void push_columns(lua_State* L, const lua_kit::Options& options, const solver::PricedFleet& fleet) {
  lua_newtable(L);
  const int list = lua_gettop(L);
  options.read("models", [&](lua_State* state, int index, const std::string& path) {
    lua_kit::for_each_item(state, index, path, [&](std::size_t m, const std::string& item) {
      const lua_kit::Options model(state, lua_gettop(state), named_model_options(), item);
      for (std::size_t c = 0; c < fleet.instance.columns.size(); ++c) {
        if (fleet.instance.columns[c].model != m - 1) continue;
        push_column(state, model, fleet, c);
        lua_rawseti(state, list, static_cast<int>(c) + 1);
      }
    });
  });
}

void push_placement(lua_State* L, const solver::PricedFleet& fleet) {
  const solver::FleetLayout layout = solver::layout_of(fleet);
  const auto& placement = fleet.answer.placement;
  lua_createtable(L, static_cast<int>(placement.size()), 0);
  for (std::size_t r = 0; r < placement.size(); ++r) {
    lua_newtable(L);
    lua_kit::set_integer(L, "column_index", static_cast<std::int64_t>(placement[r].column));
    lua_kit::push_value(L, placement[r].nodes);
    lua_setfield(L, -2, "node_indices");
    lua_kit::push_value(L, layout.devices[r]);
    lua_setfield(L, -2, "device_indices");
    if (!layout.prefill_devices[r].empty()) {
      lua_kit::push_value(L, layout.prefill_devices[r]);
      lua_setfield(L, -2, "prefill_device_indices");
    }
    lua_rawseti(L, -2, static_cast<int>(r) + 1);
  }
  lua_setfield(L, -2, "placement");
  lua_newtable(L);
  for (std::size_t m = 0; m < fleet.instance.models.size(); ++m) {
    const auto transfer = solver::transfer_of(fleet, layout, m);
    if (!transfer) continue;
    lua_kit::push_value(L, *transfer);
    lua_setfield(L, -2, fleet.instance.models[m].name.c_str());
  }
  lua_setfield(L, -2, "transfers");
  if (!placement.empty()) {
    lua_kit::push_object<Cluster>(L, std::make_shared<const Cluster>(layout.cluster));
    lua_setfield(L, -2, "cluster");
    lua_kit::push_value(L, layout.nodes);
    lua_setfield(L, -2, "cluster_nodes");
  }
}

void push_node_classes(lua_State* L, const solver::PricedFleet& fleet) {
  lua_newtable(L);
  for (std::size_t c = 0; c < fleet.nodes.size(); ++c) {
    const NodeKind& kind = fleet.nodes[c];
    lua_newtable(L);
    lua_kit::set_text(L, "name", fleet.instance.node_classes[c].name);
    lua_kit::set_integer(L, "count", kind.count);
    lua_kit::set_integer(L, "gpus", kind.num_devices());
    lua_kit::set_optional(L, "usd_per_h", kind.usd_per_h);
    lua_kit::set_boolean(L, "rented", kind.is_rented);
    lua_kit::set_boolean(L, "spot", kind.is_spot);
    lua_kit::set_texts(L, "names", kind.names);
    lua_rawseti(L, -2, static_cast<int>(c) + 1);
  }
  lua_setfield(L, -2, "node_classes");
}

}  // namespace

namespace {

/// How long what starts beside a fleet that runs takes to load; nothing where none does.
void push_loading(lua_State* L, const solver::PricedFleet& fleet) {
  const auto& around = fleet.instance.around;
  if (around.empty() || !fleet.answer.objective) return;
  const solver::FleetLoading loading =
      loading_of(fleet, solver::switches(around.front(), fleet.answer.placement).starts);
  lua_newtable(L);
  lua_kit::set_number(L, "seconds", loading.seconds);
  lua_kit::set_texts(L, "assumed_disks", loading.nodes_with_assumed_disk);
  lua_setfield(L, -2, "loading");
}

/// What was found, as one table; `options` are those of price_fleet.
int push_fleet(lua_State* L, const lua_kit::Options& options, PlannedFleet planned) {
  const solver::PricedFleet& fleet = planned.fleet;
  lua_newtable(L);
  lua_kit::set_fields(L, fleet.answer);
  lua_kit::push_value(L, fleet.pricing);
  lua_setfield(L, -2, "pricing");
  if (fleet.answer.lack) {
    lua_kit::push_value(L, *fleet.answer.lack);
    lua_setfield(L, -2, "lack");
  }
  if (!fleet.columns) return 1;
  if (fleet.answer.objective) {
    lua_kit::push_object<solver::SolvedFleet>(L, std::make_shared<const solver::SolvedFleet>(
                                                     solver::solved(fleet.instance, fleet.answer)));
    lua_setfield(L, -2, "solved");
  }
  push_columns(L, options, fleet);
  lua_setfield(L, -2, "columns");
  push_placement(L, fleet);
  push_loading(L, fleet);
  push_node_classes(L, fleet);
  lua_newtable(L);
  for (std::size_t m = 0; m < fleet.instance.models.size(); ++m) {
    lua_kit::set_text(L, fleet.instance.models[m].name.c_str(), fleet.columns->why_none(m));
  }
  lua_setfield(L, -2, "refused");
  lua_kit::push_object<PlannedFleet>(L, std::make_shared<const PlannedFleet>(std::move(planned)));
  lua_setfield(L, -2, "priced");
  return 1;
}

/// Takes lost nodes out of their classes.
void lose(const std::vector<std::int64_t>& lost, std::vector<NodeKind>& nodes,
          const std::string& path) {
  std::vector<std::int64_t> sorted = lost;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    refuse(path, "node {} is there twice", *std::adjacent_find(sorted.begin(), sorted.end()));
  }
  for (const std::int64_t node : sorted) {
    std::int64_t number = node;
    std::size_t at = 0;
    while (at < nodes.size() && number >= nodes[at].count) number -= nodes[at++].count;
    if (at == nodes.size()) refuse(path, "there is no node {}", node);
    NodeKind& kind = nodes[at];
    if (kind.names.empty()) {
      for (std::int64_t i = 0; i < kind.count; ++i) kind.names.push_back(kind.node_name(i));
    }
    kind.names.erase(kind.names.begin() + number);
    --kind.count;
  }
}

}  // namespace

int price_fleet(lua_State* L) {
  const std::string path = "ts.plan_fleet";
  const lua_kit::Options options(L, 1, plan_fleet_options(), path);
  PlannedFleet planned{fleet_request_at(L, options), {}};
  planned.fleet = solver::plan_fleet(planned.request, core_lua::environment(L).folders, path);
  planned.request.on_incumbent = nullptr;
  planned.request.round = nullptr;
  return push_fleet(L, options, std::move(planned));
}

int restore_fleet(lua_State* L) {
  const std::string path = "ts.load_plan";
  const lua_kit::Options options(L, 1, plan_fleet_options(), "ts.plan_fleet");
  const auto solved = lua_kit::check_object<solver::SolvedFleet>(L, 2, path);
  PlannedFleet planned{fleet_request_at(L, options), {}};
  FleetRequest& request = planned.request;
  std::vector<std::size_t> known;
  // Nodes that were lost since are not there any more, and demands may be other ones.
  lua_kit::push_field(L, 3, "node_classes", path);
  lua_kit::for_each_item(
      L, lua_gettop(L), path + ".node_classes", [&](std::size_t i, const std::string& item) {
        const int row = lua_gettop(L);
        if (i > request.nodes.size())
          refuse(item, "the cluster has {} classes", request.nodes.size());
        NodeKind& kind = request.nodes[i - 1];
        lua_kit::push_field(L, row, "count", item);
        kind.count = lua_kit::check_integer(L, -1, item + ".count", 0,
                                            static_cast<double>(solver::kMaxFleetNodes));
        kind.names.clear();
        lua_kit::push_field(L, row, "names", item);
        lua_kit::for_each_item(L, lua_gettop(L), item + ".names",
                               [&](std::size_t, const std::string& at) {
                                 kind.names.push_back(lua_kit::check_text(L, -1, at));
                               });
        lua_settop(L, row);
      });
  lua_pop(L, 1);
  lua_kit::push_field(L, 3, "columns", path);
  lua_kit::for_each_item(L, lua_gettop(L), path + ".columns",
                         [&](std::size_t i, const std::string& item) {
                           const int row = lua_gettop(L);
                           lua_kit::push_field(L, row, "simulated", item);
                           if (lua_kit::check_boolean(L, -1, item + ".simulated"))
                             known.push_back(i - 1);
                           lua_kit::push_field(L, row, "given", item);
                           if (lua_kit::check_boolean(L, -1, item + ".given") &&
                               i <= solved->instance.columns.size()) {
                             const solver::Column& column = solved->instance.columns[i - 1];
                             solver::GivenColumn given{.model = column.model,
                                                       .node_class = column.node_class.value_or(0),
                                                       .devices = {},
                                                       .rate_per_s = column.rate,
                                                       .label = column.label};
                             for (const auto& [name, count] : column.devices) {
                               given.devices[name.substr(0, name.find(" of "))] = count;
                             }
                             request.given_columns.push_back(std::move(given));
                           }
                           lua_settop(L, row);
                         });
  lua_pop(L, 1);
  for (const solver::FleetModel& model : solved->instance.models) {
    request.demand_per_s[model.name] =
        std::accumulate(model.demand.begin(), model.demand.end(), 0.0);
  }
  planned.fleet = solver::restored_fleet(request, solved->instance, solved->answer.placement, known,
                                         core_lua::environment(L).folders, path);
  request.on_incumbent = nullptr;
  lua_kit::push_object<PlannedFleet>(L, std::make_shared<const PlannedFleet>(std::move(planned)));
  return 1;
}

int is_solved_fleet(lua_State* L) {
  lua_pushboolean(L, lua_kit::test_object<solver::SolvedFleet>(L, 1) != nullptr);
  return 1;
}

int cluster_table(lua_State* L) {
  lua_kit::push_json(L, to_json(*lua_kit::check_object<Cluster>(L, 1, "cluster")));
  return 1;
}

int replan_fleet(lua_State* L) {
  const std::string path = "fleet:replan";
  const auto before = lua_kit::check_object<PlannedFleet>(L, 1, "fleet");
  const lua_kit::Options options(L, 2, plan_fleet_options(), "ts.plan_fleet");
  const lua_kit::Options changes(L, 3, replan_fleet_options(), path);
  PlannedFleet planned{before->request, {}};
  FleetRequest& request = planned.request;
  std::vector<std::int64_t> lost;
  if (changes.given("lost_nodes")) lost = changes.integers("lost_nodes");
  lose(lost, request.nodes, path + ".lost_nodes");
  if (changes.given("gap")) request.gap = changes.number("gap");
  if (changes.given("time_limit_s")) request.time_limit_s = changes.number("time_limit_s");
  if (changes.given("switch_usd")) request.switch_usd = changes.number("switch_usd");
  if (changes.given("hours")) request.hours = changes.number("hours");
  request.around.clear();
  for (const char* name : {"before", "after"}) {
    if (!changes.given(name)) continue;
    changes.read(name, [&](lua_State* state, int index, const std::string& where) {
      request.around.push_back(running_at(state, index, where));
    });
  }
  if (changes.given("demand_per_s")) {
    changes.read("demand_per_s", [&](lua_State* state, int index, const std::string& where) {
      lua_kit::for_each_pair(state, index, where, [&] {
        const std::string name = lua_kit::check_text(state, -2, where);
        model_named(request.models, name, where);
        request.demand_per_s[name] =
            lua_kit::check_number(state, -1, where + "." + name, 0, solver::kMaxRatePerS, "1/s");
      });
    });
  }
  planned.fleet = solver::replan_fleet(before->fleet, request, lost);
  return push_fleet(L, options, std::move(planned));
}

void register_plan_fleet(lua_State* L) {
  lua_kit::register_object<PlannedFleet>(L);
  register_fleet_request(L);
}

}  // namespace solver_lua
}  // namespace tessera
