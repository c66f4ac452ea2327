// Fleets of given columns: ts.plan_fleet { instance = ... } and what it returns.

#include "fleet_lua.h"

#include <cmath>
#include <memory>

#include "core_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/output.h"
#include "tessera/core/record_options.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/fleet/master.h"
#include "tessera/solver/fleet/shares.h"
#include "tessera/solver/fleet/transition.h"

namespace tessera {

using solver::FleetAnswer;
using solver::FleetInstance;
using solver::FleetOptions;
using solver::FleetStatus;
using solver::SolvedFleet;

namespace solver_lua {
namespace {

const SolvedFleet& fleet_at(lua_State* L, int index, const char* path) {
  return *lua_kit::check_object<SolvedFleet>(L, index, path);
}

/// The name of a file, or what such a file holds.
FleetInstance instance_at(lua_State* L, int index, const std::string& path) {
  if (lua_type(L, index) == LUA_TSTRING) {
    return solver::read_fleet(lua_kit::check_text(L, index, path));
  }
  return solver::fleet_from_json(lua_kit::json_from_lua(L, index, path), path);
}

/// A fleet of the library, by what lies below it.
std::shared_ptr<const SolvedFleet> solved_at(lua_State* L, int index, const std::string& path) {
  lua_kit::check_table(L, index, path, "a fleet of ts.plan_fleet");
  lua_kit::push_field(L, index, "solved", path);
  auto solved = lua_kit::check_object<SolvedFleet>(L, -1, path);
  lua_pop(L, 1);
  return solved;
}

void listen(lua_State* L, const lua_kit::Options& options, const FleetInstance& instance,
            FleetOptions& fleet) {
  std::shared_ptr<lua_kit::LuaFunction> callback;
  if (options.push("on_incumbent")) {
    callback = std::make_shared<lua_kit::LuaFunction>(L, -1, options.path_of("on_incumbent"));
  }
  lua_pop(L, 1);
  fleet.on_incumbent = [callback, &instance](const solver::FleetIncumbent& news,
                                             const solver::FleetPlacement&) {
    lua_kit::interrupt::set_incumbent_text(
        "best so far: " + solver::objective_text(instance, news.objective) + "\n");
    if (!callback) return;
    lua_State* state = callback->state();
    lua_createtable(state, 0, 3);
    lua_kit::set_number(state, "objective", news.objective);
    lua_kit::set_optional(state, "bound", news.bound);
    lua_kit::set_number(state, "elapsed_s", news.elapsed_s);
    callback->call(1, 0);
  };
}

int push_outcome(lua_State* L, FleetInstance instance, FleetAnswer answer) {
  const FleetStatus status = answer.status;
  std::shared_ptr<const SolvedFleet> best;
  const std::optional<solver::FleetLack> lack = answer.lack;
  const std::optional<double> bound = answer.bound;
  const bool found = answer.objective.has_value();
  if (found) {
    best =
        std::make_shared<const SolvedFleet>(solver::solved(std::move(instance), std::move(answer)));
  }
  if (found && status != FleetStatus::interrupted) {
    lua_kit::push_object<SolvedFleet>(L, best);
    return 1;
  }
  std::string message = "the search ended before a fleet was found";
  if (lack) message = lack->message;
  if (status == FleetStatus::interrupted) message = "interrupted";
  // What was stopped without a proof is neither a fleet nor the proof that there is none.
  const std::string code(
      name_of(status == FleetStatus::stopped ? FleetStatus::time_limit : status));
  push_why(L, code, message, lack ? std::string(name_of(lack->kind)) : "", bound);
  if (lack) {
    lua_kit::set_texts(L, "models", lack->models);
    lua_kit::set_optional(L, "have", lack->have);
    lua_kit::set_optional(L, "least", lack->least);
  }
  if (best) {
    lua_kit::push_object<SolvedFleet>(L, best);
    lua_setfield(L, -2, "best");
  }
  return 2;
}

/// save(path, what of named models its file keeps)
int save(lua_State* L) {
  SolvedFleet fleet = fleet_at(L, 1, "self");
  const std::string path = lua_kit::check_text(L, 2, "fleet:save path");
  fleet.named = lua_kit::json_from_lua(L, 3, "fleet:save");
  write_file(path, json_text(solver::solved_fleet_json(fleet), 1) + "\n");
  return 0;
}

/// The way from what ran before; nil where nothing did.
void push_moves(lua_State* L, const SolvedFleet& fleet) {
  const FleetInstance& instance = fleet.instance;
  if (instance.around.empty()) return lua_pushnil(L);
  const solver::FleetPlacement& before = instance.around.front();
  const solver::FleetTransition way = transition(instance, before, fleet.answer.placement);
  std::int64_t starts = 0;
  lua_newtable(L);
  lua_createtable(L, static_cast<int>(way.steps.size()), 0);
  for (std::size_t s = 0; s < way.steps.size(); ++s) {
    const auto& [is_start, replica] = way.steps[s];
    const solver::Column& column = instance.columns[replica.column];
    starts += is_start ? 1 : 0;
    lua_newtable(L);
    lua_kit::set_boolean(L, "starts", is_start);
    lua_kit::set_text(L, "model", instance.models[column.model].name);
    lua_kit::set_text(L, "label", label_of(column));
    lua_kit::push_value(L, replica.nodes);
    lua_setfield(L, -2, "node_indices");
    lua_rawseti(L, -2, static_cast<int>(s) + 1);
  }
  lua_setfield(L, -2, "steps");
  const auto steps = static_cast<std::int64_t>(way.steps.size());
  lua_kit::set_integer(L, "starts", starts);
  lua_kit::set_integer(L, "stops", steps - starts);
  lua_kit::set_integer(L, "kept", static_cast<std::int64_t>(before.size()) - (steps - starts));
  lua_kit::set_number(L, "usd", instance.switch_usd * static_cast<double>(steps));
  lua_kit::push_value(L, way.full_nodes);
  lua_setfield(L, -2, "full_node_indices");
  lua_newtable(L);
  for (std::size_t m = 0; m < way.least_scale.size(); ++m) {
    if (!std::isfinite(way.least_scale[m])) continue;
    lua_kit::set_number(L, instance.models[m].name.c_str(), way.least_scale[m]);
  }
  lua_setfield(L, -2, "least_scale");
}

/// shares(lost_node?)
int shares(lua_State* L) {
  const SolvedFleet& fleet = fleet_at(L, 1, "self");
  std::optional<std::int64_t> lost_node;
  if (!lua_isnoneornil(L, 2)) {
    lost_node =
        lua_kit::check_integer(L, 2, "lost_node", 0, static_cast<double>(solver::kMaxFleetNodes));
  }
  lua_newtable(L);
  int row = 0;
  for (const solver::ReplicaShares& each : solver::shares_of(fleet, lost_node)) {
    lua_newtable(L);
    lua_kit::set_integer(L, "row", static_cast<std::int64_t>(each.row) + 1);
    lua_kit::set_integer(L, "count", each.count);
    lua_kit::set_numbers(L, "share", each.share);
    lua_rawseti(L, -2, ++row);
  }
  return 1;
}

int explain(lua_State* L) {
  lua_kit::push_text(L, solver::fleet_text(fleet_at(L, 1, "self")));
  return 1;
}

}  // namespace

std::function<std::vector<double>(const std::vector<double>&, const FleetInstance&)> round_of(
    lua_State* L, const lua_kit::Options& options) {
  if (!options.push("round")) {
    lua_pop(L, 1);
    return {};
  }
  const std::string path = options.path_of("round");
  const auto callback = std::make_shared<lua_kit::LuaFunction>(L, -1, path);
  lua_pop(L, 1);
  return [callback, path](const std::vector<double>& copies, const FleetInstance& instance) {
    lua_State* state = callback->state();
    lua_kit::push_numbers(state, copies);
    lua_createtable(state, static_cast<int>(instance.columns.size()), 0);
    for (std::size_t c = 0; c < instance.columns.size(); ++c) {
      const solver::Column& column = instance.columns[c];
      lua_newtable(state);
      lua_kit::set_text(state, "model", instance.models[column.model].name);
      lua_kit::set_text(state, "label", label_of(column));
      lua_kit::set_numbers(state, "rates_per_s", column.rate);
      lua_rawseti(state, -2, static_cast<int>(c) + 1);
    }
    callback->call(2, 1);
    std::vector<double> wanted;
    lua_kit::for_each_item(state, lua_gettop(state), path, [&](std::size_t, const std::string& at) {
      wanted.push_back(lua_kit::any_number(state, -1, at));
    });
    lua_pop(state, 1);
    return wanted;
  };
}

const OptionTable& solve_fleet_options() {
  static const OptionTable table = lua_kit::option_table<FleetOptions>(
      {"ts.plan_fleet",
       "Which replicas of which models run on which nodes: the cheapest fleet for a demand, the "
       "one "
       "of fewest devices, or the one that serves most, with a bound. `instance` is a file of "
       "format "
       "tessera-fleet-1, or a table of what such a file holds. Or nil and why: infeasible, with "
       "what lacks in why.constraint (column, devices, reserve, budget, constraint), why.models, "
       "why.have and why.least; time_limit; interrupted, with why.best.",
       "tessera.Fleet?, tessera.Error?",
       {{.name = "instance",
         .type = OptionType::table,
         .doc = "Nodes, models and columns: a file, or what it holds",
         .lua_type = "string|table",
         .required = true},
        {.name = "start",
         .type = OptionType::table,
         .doc = "A fleet to start from, of the same columns",
         .lua_type = "tessera.Fleet|table"},
        {.name = "current",
         .type = OptionType::table,
         .doc =
             "A fleet that runs, of the same columns and nodes: replicas that start or stop cost "
             "switch_usd, and fleet.moves says in which order they do",
         .lua_type = "tessera.Fleet|table"},
        {.name = "switch_usd",
         .type = OptionType::number,
         .doc = "Of each replica that starts or stops",
         .unit = "USD",
         .default_text = "0",
         .min = 0,
         .max = solver::kMaxUsdPerH},
        {.name = "hours",
         .type = OptionType::number,
         .doc = "For which it stands: what switching is paid in",
         .unit = "h",
         .default_text = "1",
         .min = 1e-3,
         .max = 1e6},
        {.name = "on_incumbent",
         .type = OptionType::callback,
         .doc = "Called with { objective =, bound =, elapsed_s = } for each better fleet",
         .lua_type = "fun(news: table)"},
        {.name = "round",
         .type = OptionType::callback,
         .doc =
             "Called with the copies of each column in a linear programme, and the columns (model, "
             "label, rates_per_s); returns how many of each to have",
         .lua_type = "fun(copies: number[], columns: table[]): number[]"}}});
  return table;
}

int solve_fleet(lua_State* L) {
  const lua_kit::Options options(L, 1, solve_fleet_options(), "ts.plan_fleet");
  FleetInstance instance;
  options.read("instance", instance_at, instance);
  FleetOptions fleet;
  lua_kit::read_options(options, fleet);
  std::shared_ptr<const SolvedFleet> start;
  if (options.given("start")) {
    options.read("start", solved_at, start);
    fleet.start = start->answer.placement;
  }
  if (options.given("current")) {
    std::shared_ptr<const SolvedFleet> current;
    options.read("current", solved_at, current);
    instance.around = {current->answer.placement};
    if (fleet.start.empty()) fleet.start = current->answer.placement;
    instance.switch_usd = options.number("switch_usd");
    instance.hours = options.number("hours");
  }
  listen(L, options, instance, fleet);
  if (const auto rule = round_of(L, options)) {
    fleet.round = [rule, &instance](const std::vector<double>& copies) {
      return rule(copies, instance);
    };
  }
  fleet.should_stop = [] {
    return lua_kit::interrupt::flag()->load() || lua_kit::interrupt::left_s() <= 0;
  };
  FleetAnswer answer = solver::FleetMaster(instance).solve(fleet);
  if (answer.status != FleetStatus::interrupted) lua_kit::interrupt::set_incumbent_text("");
  return push_outcome(L, std::move(instance), std::move(answer));
}

int check_solved_fleet(lua_State* L) {
  const SolvedFleet& fleet = fleet_at(L, 1, "ts.check fleet");
  const solver::FleetCheck check = solver::check_fleet(fleet.instance, fleet.answer.placement);
  if (!check.violations.empty()) {
    return push_why(L, "infeasible", check.violations.front(), "placement", {});
  }
  lua_pushboolean(L, 1);
  return 1;
}

void register_fleet(lua_State* L) {
  lua_kit::register_object<SolvedFleet>(L);
  core_lua::environment(L).reference.add(solve_fleet_options());
}

}  // namespace solver_lua

template <>
const lua_kit::ObjectType<SolvedFleet>& lua_kit::object_type<SolvedFleet>() {
  using F = SolvedFleet;
  static const ObjectType<F> type{
      .name = "tessera.SolvedFleet",
      .doc = "Columns on nodes, with what is proven of them, for the library: see tessera.Fleet.",
      .fields = joined<F>(
          {fields_shown<F, FleetAnswer, [](const F& fleet, auto&& read) { read(fleet.answer); }>(),
           {{"scale", "number", "Multiple of the demand that is served, the reserve kept",
             [](lua_State* L, const F& f) { lua_pushnumber(L, f.scale()); }},
            {"models", "table[]",
             "name, demand_per_s, scale, reserve_scale, replicas, nodes, gpus, "
             "usd_per_h",
             [](lua_State* L, const F& f) { push_value(L, f.check.models); }},
            {"replicas", "table[]",
             "Alike ones on the same nodes: model, column_index, label, node_class, node_indices, "
             "count, gpus, rate_per_s of each",
             [](lua_State* L, const F& f) { push_value(L, solver::replica_rows(f)); }},
            {"placement", "table[]", "{ column =, nodes = } of each replica, as files have it",
             [](lua_State* L, const F& f) {
               push_json(L, solver::placement_json(f.answer.placement));
             }},
            {"num_nodes", "integer", "That run anything",
             [](lua_State* L, const F& f) { push_integer(L, f.check.nodes); }},
            {"instance", "table", "What was asked, as its file has it",
             [](lua_State* L, const F& f) { push_json(L, solver::fleet_json(f.instance)); }},
            {"moves", "table?", "The way from what ran before",
             [](lua_State* L, const F& f) { solver_lua::push_moves(L, f); }},
            {"named", "table?", "What its file keeps of named models",
             [](lua_State* L, const F& f) { push_json(L, f.named); }}}}),
      .methods = {{"explain", guarded<solver_lua::explain>, "(): string",
                   "The answer in words: money, models, what one more of anything is worth"},
                  {"shares", guarded<solver_lua::shares>, "(lost_node: integer?): table[]",
                   "Replicas that get the same of each class of requests: row (in replicas), "
                   "count, share of all requests of each class that each of them gets"},
                  {"save", guarded<solver_lua::save>, "(path: string, named: table?)",
                   "Writes it with its instance, for load_plan"}},
      .summary =
          [](const F& f) {
            return "fleet of " + std::to_string(f.answer.placement.size()) + " replicas";
          },
      .describe = [](const F& f) { return solver::fleet_text(f); }};
  return type;
}

}  // namespace tessera
