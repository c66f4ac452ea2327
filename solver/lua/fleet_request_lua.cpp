// What is asked of ts.plan_fleet with models, read of a script's table.

#include "fleet_request_lua.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core_lua.h"
#include "fleet_lua.h"
#include "named_model_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/record_options.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::solver_lua {
namespace {

constexpr double kMaxRunning = 1e7;  // replicas of a kind on a node

using solver::FleetRequest;
using solver::NamedModel;
using solver::NodeKind;

const OptionTable& rented_options() {
  static const OptionTable table{"ts.plan_fleet.rent",
                                 "Alike nodes that may be rented.",
                                 "table",
                                 {{.name = "limit",
                                   .type = OptionType::integer,
                                   .doc = "How many there are",
                                   .min = 0,
                                   .max = static_cast<double>(solver::kMaxFleetNodes),
                                   .required = true},
                                  {.name = "usd_per_h",
                                   .type = OptionType::number,
                                   .doc = "Of a node; left out: the list price of its devices",
                                   .unit = "USD/h",
                                   .min = 0,
                                   .max = solver::kMaxUsdPerH},
                                  {.name = "spot",
                                   .type = OptionType::boolean,
                                   .doc = "Whether somebody may take it back",
                                   .default_text = "false"}}};
  return table;
}

/// { "8xH100-80G", limit = 40, usd_per_h = 44 }
NodeKind rented_at(lua_State* L, int index, const std::string& path) {
  const lua_kit::Options options(L, index, rented_options(), path,
                                 lua_kit::Options::Keys::named_and_positional);
  lua_kit::push_item(L, index, 1, path);
  const std::string where = lua_kit::item_path(path, 1);
  if (lua_type(L, -1) == LUA_TNIL) refuse(where, "name what a node has: \"8xH100-80G\"");
  const auto cluster = core_lua::cluster_argument(L, lua_gettop(L), where);
  lua_pop(L, 1);
  NodeKind kind = solver::node_kind_of(*cluster, options.integer("limit"), where);
  if (options.given("usd_per_h")) kind.usd_per_h = options.number("usd_per_h");
  kind.is_rented = true;
  kind.is_spot = options.given("spot") && options.boolean("spot");
  if (kind.is_spot) kind.name += " spot";
  return kind;
}

const OptionTable& fleet_constraint_options() {
  static const OptionTable table = [] {
    OptionTable its{"ts.plan_fleet.constraints",
                    "What a fleet has to keep to besides, for one model.",
                    "table",
                    {{.name = "model",
                      .type = OptionType::text,
                      .doc = "Of which it speaks",
                      .required = true}}};
    for (const OptionSpec& option : options_of<solver::FleetConstraint>()) {
      if (option.name != "model" && option.name != "not_beside") its.options.push_back(option);
    }
    its.options.push_back({.name = "not_beside",
                           .type = OptionType::text,
                           .doc = "A model that has no part on the same node"});
    return its;
  }();
  return table;
}

const OptionTable& fleet_reserve_options() {
  static const OptionTable table{"ts.plan_fleet.reserve",
                                 "What may be lost.",
                                 "table",
                                 {{.name = "nodes",
                                   .type = OptionType::integer,
                                   .doc = "Nodes, all replicas with a part on them too",
                                   .min = 0,
                                   .max = 1000,
                                   .required = true}}};
  return table;
}

solver::FleetConstraint fleet_constraint_at(lua_State* L, int index, const std::string& path,
                                            const std::vector<NamedModel>& models) {
  const lua_kit::Options options(L, index, fleet_constraint_options(), path);
  solver::FleetConstraint its;
  its.model = model_named(models, options.text("model"), path + ".model");
  const auto read = [&](const char* name, std::optional<std::int64_t>& into) {
    if (options.given(name)) into = options.integer(name);
  };
  read("min_nodes", its.min_nodes);
  read("min_replicas", its.min_replicas);
  read("max_replicas", its.max_replicas);
  read("max_gpus", its.max_gpus);
  if (options.given("device_type")) its.device_type = options.text("device_type");
  if (options.given("not_beside")) {
    its.not_beside = model_named(models, options.text("not_beside"), path + ".not_beside");
  }
  return its;
}

}  // namespace

std::vector<solver::RunningReplicas> running_at(lua_State* L, int index, const std::string& path) {
  if (lua_type(L, index) != LUA_TTABLE) refuse(path, "a fleet of ts.plan_fleet belongs here");
  std::vector<solver::RunningReplicas> running;
  lua_kit::push_field(L, index, "replicas", path);
  lua_kit::for_each_item(
      L, lua_gettop(L), path + ".replicas", [&](std::size_t, const std::string& item) {
        const int row = lua_gettop(L);
        solver::RunningReplicas& its = running.emplace_back();
        lua_kit::push_field(L, row, "model", item);
        its.model = lua_kit::check_text(L, -1, item + ".model");
        lua_kit::push_field(L, row, "label", item);
        its.label = lua_kit::check_text(L, -1, item + ".label");
        lua_kit::push_field(L, row, "count", item);
        its.count = lua_kit::check_integer(L, -1, item + ".count", 1, kMaxRunning);
        lua_kit::push_field(L, row, "node_names", item);
        lua_kit::for_each_item(L, lua_gettop(L), item + ".node_names",
                               [&](std::size_t, const std::string& at) {
                                 its.node_names.push_back(lua_kit::check_text(L, -1, at));
                               });
        lua_settop(L, row);
      });
  lua_pop(L, 1);
  return running;
}

namespace {

/// Tells the script of what is found; returns the rule of rounding, where there is one.
void listen_to_fleet(lua_State* L, const lua_kit::Options& options, FleetRequest& request) {
  if (options.push("on_incumbent")) {
    const auto callback =
        std::make_shared<lua_kit::LuaFunction>(L, -1, options.path_of("on_incumbent"));
    request.on_incumbent = [callback](const solver::FleetIncumbent& news) {
      lua_State* state = callback->state();
      lua_createtable(state, 0, 4);
      lua_kit::set_number(state, "objective", news.objective);
      lua_kit::set_optional(state, "bound", news.bound);
      lua_kit::set_number(state, "elapsed_s", news.elapsed_s);
      callback->call(1, 0);
    };
  }
  lua_pop(L, 1);
}

}  // namespace

const OptionTable& plan_fleet_options() {
  static const OptionTable table = [] {
    OptionTable its = lua_kit::option_table<FleetRequest>(
        {"ts.plan_fleet.by_models",
         "Which models run on which nodes, in how many replicas of which shape.",
         "tessera.Fleet?, tessera.Error?",
         {{.name = "cluster",
           .type = OptionType::table,
           .doc = "Nodes that there are: a cluster, or its name",
           .lua_type = "tessera.Cluster|string|table"},
          {.name = "rent",
           .type = OptionType::table,
           .doc = "Nodes that may be rented: a list of { \"8xH100-80G\", limit = 40, usd_per_h = "
                  "44, spot = false }"},
          {.name = "models",
           .type = OptionType::table,
           .doc = "A list of models, each with name, model, traffic and slo",
           .lua_type = "table[]",
           .required = true},
          {.name = "reserve",
           .type = OptionType::table,
           .doc = "{ nodes = 1 }: the demand is served when any one node is lost",
           .lua_type = "{ nodes: integer }"},
          {.name = "constraints",
           .type = OptionType::table,
           .doc = "What it has to keep to besides",
           .lua_type = "table[]"},
          {.name = "periods",
           .type = OptionType::table,
           .doc = "A list of { hours =, scale = } or { hours =, demand_per_s = { chat = 30 } }, "
                  "one after the "
                  "other: a fleet for each comes, a tessera.FleetPeriods; hours and scale are 1 by "
                  "default",
           .lua_type = "table[]"},
          {.name = "current",
           .type = OptionType::table,
           .doc =
               "A fleet that runs, of the same nodes by their names: replicas that start or stop "
               "cost switch_usd, and fleet.moves says in which order they do",
           .lua_type = "tessera.Fleet|table"},
          {.name = "columns",
           .type = OptionType::callback,
           .doc = "Kinds of replicas of your own, beside the engine's: see ts.plan_fleet.columns",
           .lua_type = "fun(model: table, node: table): table[]?"},
          {.name = "round",
           .type = OptionType::callback,
           .doc = "Called with the copies of each column in a linear programme, and the columns "
                  "(model, label, rates_per_s); returns how many of each to have",
           .lua_type = "fun(copies: number[], columns: table[]): number[]"},
          {.name = "on_incumbent",
           .type = OptionType::callback,
           .doc = "Called with { objective =, bound =, elapsed_s = } for each better fleet",
           .lua_type = "fun(news: table)"}}});
    return its;
  }();
  return table;
}

const OptionTable& replan_fleet_options() {
  static const OptionTable table{
      "fleet:replan",
      "Plans the same fleet again, for other demands or without nodes that are lost: what is known "
      "of replicas stays known, and the search starts from what runs.",
      "tessera.Fleet?, tessera.Error?",
      {{.name = "lost_nodes",
        .type = OptionType::integer_list,
        .doc = "Nodes that are gone, by their numbers in the fleet (0-based)",
        .min = 0,
        .max = static_cast<double>(solver::kMaxFleetNodes)},
       {.name = "demand_per_s",
        .type = OptionType::table,
        .doc = "Of models by name, in place of what their traffic says",
        .unit = "1/s",
        .lua_type = "table<string, number>"},
       {.name = "switch_usd",
        .type = OptionType::number,
        .doc = "Of each replica that starts or stops, beside what runs; left out: as before",
        .unit = "USD",
        .min = 0,
        .max = solver::kMaxUsdPerH},
       {.name = "hours",
        .type = OptionType::number,
        .doc = "For which it stands; left out: as before",
        .unit = "h",
        .min = 1e-3,
        .max = 1e6},
       {.name = "before",
        .type = OptionType::table,
        .doc = "What runs before it; left out: the fleet itself",
        .lua_type = "tessera.Fleet|table"},
       {.name = "after",
        .type = OptionType::table,
        .doc = "What will run after it, where it is one of a row",
        .lua_type = "tessera.Fleet|table"},
       {.name = "gap",
        .type = OptionType::number,
        .doc = "To stop at (ratio); left out: as before",
        .min = 0,
        .max = 1e3},
       {.name = "time_limit_s",
        .type = OptionType::number,
        .doc = "Of all of it; left out: as before",
        .unit = "s",
        .min = 0,
        .max = 1e7}}};
  return table;
}

namespace {

/// { devices = { L4 = 2 }, rate_per_s = 3.2, label = "mine" }, of several classes of requests a
/// list of rates
solver::GivenColumn given_column_at(lua_State* L, int row, const std::string& path) {
  solver::GivenColumn given;
  lua_kit::push_field(L, row, "rate_per_s", path);
  const auto rate_at = [&](const std::string& at) {
    given.rate_per_s.push_back(lua_kit::check_number(L, -1, at, 0, solver::kMaxRatePerS, "1/s"));
  };
  if (lua_type(L, -1) == LUA_TTABLE) {
    lua_kit::for_each_item(L, lua_gettop(L), path + ".rate_per_s",
                           [&](std::size_t, const std::string& at) { rate_at(at); });
  } else {
    rate_at(path + ".rate_per_s");
  }
  lua_kit::push_field(L, row, "devices", path);
  lua_kit::for_each_pair(L, lua_gettop(L), path + ".devices", [&] {
    const std::string name = lua_kit::check_text(L, -2, path + ".devices");
    given.devices[name] = lua_kit::check_integer(L, -1, path + ".devices." + name, 0,
                                                 static_cast<double>(solver::kMaxNodeDevices));
  });
  lua_kit::push_field(L, row, "label", path);
  if (lua_type(L, -1) != LUA_TNIL) given.label = lua_kit::check_text(L, -1, path + ".label");
  if (given.label.empty()) {
    for (const auto& [name, count] : given.devices) {
      if (count > 0)
        given.label += fmt::format("{}{}x{}", given.label.empty() ? "" : "+", count, name);
    }
  }
  lua_settop(L, row);
  return given;
}

/// columns(model, node) of each model and class of nodes.
void ask_for_columns(lua_State* L, const lua_kit::Options& options, FleetRequest& request) {
  if (!options.push("columns")) return lua_pop(L, 1);
  const std::string path = options.path_of("columns");
  const lua_kit::LuaFunction callback(L, -1, path);
  lua_pop(L, 1);
  for (std::size_t m = 0; m < request.models.size(); ++m) {
    for (std::size_t c = 0; c < request.nodes.size(); ++c) {
      const NodeKind& kind = request.nodes[c];
      lua_State* state = callback.state();
      lua_kit::push_text(state, request.models[m].name);
      lua_newtable(state);
      lua_kit::set_text(state, "name", kind.name);
      lua_kit::set_integer(state, "count", kind.count);
      lua_kit::set_integer(state, "gpus", kind.num_devices());
      lua_kit::set_optional(state, "usd_per_h", kind.usd_per_h);
      std::map<std::string, std::int64_t> devices;
      for (const ClusterDevice& slot : kind.node->devices) ++devices[slot.device.name];
      lua_newtable(state);
      for (const auto& [name, count] : devices) lua_kit::set_integer(state, name.c_str(), count);
      lua_setfield(state, -2, "devices");
      callback.call(2, 1);
      lua_kit::for_each_item(
          state, lua_gettop(state), path, [&](std::size_t, const std::string& at) {
            solver::GivenColumn given = given_column_at(state, lua_gettop(state), at);
            given.model = m;
            given.node_class = c;
            request.given_columns.push_back(std::move(given));
          });
      lua_pop(state, 1);
    }
  }
}

}  // namespace

FleetRequest fleet_request_at(lua_State* L, const lua_kit::Options& options) {
  FleetRequest request;
  lua_kit::read_options(options, request);
  if (options.given("cluster")) {
    options.read("cluster", [&](lua_State* state, int index, const std::string& path) {
      request.nodes = solver::node_kinds(*core_lua::cluster_argument(state, index, path));
    });
  }
  if (options.given("rent")) {
    options.read("rent", [&](lua_State* state, int index, const std::string& path) {
      lua_kit::for_each_item(state, index, path, [&](std::size_t, const std::string& item) {
        request.nodes.push_back(rented_at(state, lua_gettop(state), item));
      });
    });
  }
  name_apart(request.nodes);
  options.read("models", named_models_at, request.models);
  ask_for_columns(L, options, request);
  if (options.given("constraints")) {
    options.read("constraints", [&](lua_State* state, int index, const std::string& path) {
      lua_kit::for_each_item(state, index, path, [&](std::size_t, const std::string& item) {
        request.constraints.push_back(
            fleet_constraint_at(state, lua_gettop(state), item, request.models));
      });
    });
  }
  if (options.given("current")) {
    options.read("current", [&](lua_State* state, int index, const std::string& path) {
      request.around.push_back(running_at(state, index, path));
    });
  }
  if (options.given("reserve")) {
    options.read("reserve", [&](lua_State* state, int index, const std::string& path) {
      const lua_kit::Options reserve(state, index, fleet_reserve_options(), path);
      request.reserve_nodes = reserve.integer("nodes");
    });
  }
  request.should_stop = [] {
    return lua_kit::interrupt::flag()->load() || lua_kit::interrupt::left_s() <= 0;
  };
  request.round = round_of(L, options);
  listen_to_fleet(L, options, request);
  return request;
}

void register_fleet_request(lua_State* L) {
  register_named_model(L);
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add(plan_fleet_options());
  reference.add(rented_options());
  reference.add(fleet_constraint_options());
  reference.add(fleet_reserve_options());
  reference.add(replan_fleet_options());
}

}  // namespace tessera::solver_lua
