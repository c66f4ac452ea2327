// What is asked of ts.plan_fleet with models, read of a script's table.

#include "fleet_request_lua.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core_lua.h"
#include "deployment_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/record_options.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::solver_lua {
namespace {

using solver::FleetRequest;
using solver::NamedModel;
using solver::NodeKind;

// Of ts.plan_serving's options those that say what a model's engines may be.
constexpr std::array<std::string_view, 13> kOfServing = {
    "model",           "traffic",           "slo",
    "quality",         "runtime",           "engine",
    "bitwidths",       "kv_bitwidths",      "tensor_parallel",
    "expert_parallel", "pipeline_parallel", "kernel_set",
    "num_requests"};

}  // namespace

const OptionTable& named_model_options() {
  static const OptionTable table = [] {
    OptionTable its = lua_kit::option_table<NamedModel>(
        {"ts.plan_fleet.models", "A model of a fleet.", "table", {}});
    for (const OptionSpec& option : plan_serving_options().options) {
      const bool wanted =
          std::find(kOfServing.begin(), kOfServing.end(), option.name) != kOfServing.end();
      if (wanted) its.options.push_back(option);
    }
    return its;
  }();
  return table;
}

std::size_t model_named(const std::vector<NamedModel>& models, const std::string& name,
                        const std::string& path) {
  const auto found = std::find_if(models.begin(), models.end(),
                                  [&](const NamedModel& each) { return each.name == name; });
  if (found == models.end()) refuse(path, "no model is called '{}'", name);
  return static_cast<std::size_t>(found - models.begin());
}

namespace {

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

NamedModel named_model_at(lua_State* L, int index, const std::string& path) {
  const lua_kit::Options options(L, index, named_model_options(), path);
  NamedModel model;
  lua_kit::read_options(options, model);
  read_serving(L, options, model.serving);
  return model;
}

/// Whose names are not the same. @throws Error{invalid_argument}
void check_model_names(const std::vector<NamedModel>& models, const std::string& path) {
  for (std::size_t i = 0; i < models.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (models[i].name != models[k].name) continue;
      refuse(lua_kit::item_path(path, i + 1) + ".name", "models[{}] is called '{}' already", k + 1,
             models[i].name);
    }
  }
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
  options.read("models", [&](lua_State* state, int index, const std::string& path) {
    lua_kit::for_each_item(state, index, path, [&](std::size_t, const std::string& item) {
      request.models.push_back(named_model_at(state, lua_gettop(state), item));
    });
    check_model_names(request.models, path);
  });
  if (options.given("constraints")) {
    options.read("constraints", [&](lua_State* state, int index, const std::string& path) {
      lua_kit::for_each_item(state, index, path, [&](std::size_t, const std::string& item) {
        request.constraints.push_back(
            fleet_constraint_at(state, lua_gettop(state), item, request.models));
      });
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
  listen_to_fleet(L, options, request);
  return request;
}

void register_fleet_request(lua_State* L) {
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add(plan_fleet_options());
  reference.add(named_model_options());
  reference.add(rented_options());
  reference.add(fleet_constraint_options());
  reference.add(fleet_reserve_options());
  reference.add(replan_fleet_options());
}

}  // namespace tessera::solver_lua
