// What launches ask of plans: where their layers lie, what runs them, and what a runtime cannot do.

#include <set>
#include <string>
#include <vector>

#include "problem_lua.h"
#include "script_planners.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/plan/launch_rules.h"
#include "tessera/solver/plan/place_plan.h"

namespace tessera::solver_lua {
namespace {

using solver::PipelinePlan;
using solver::Plan;

const Plan& plan_at(lua_State* L) { return *lua_kit::check_object<Plan>(L, 1, "plan"); }

template <class Item>
std::vector<Item> list_at(lua_State* L, int index, const char* name) {
  return read_list<Item>(lua_kit::json_from_lua(L, index, name), name, {});
}

/// Of the plan, or where device k of its cluster is at places[k] = { node_index =, gpu = }, on a
/// node of `nodes`: arguments `index` and the next.
Placement placement_argument(lua_State* L, const Plan& plan, int index) {
  if (lua_isnoneornil(L, index)) return solver::placement_of(plan);
  return solver::placement_at(plan, list_at<std::string>(L, index, "nodes"),
                              list_at<DevicePlace>(L, index + 1, "places"));
}

solver::Runtime runtime_at(lua_State* L, int index) {
  const std::string name = lua_kit::check_text(L, index, "runtime");
  if (const auto runtime = named<solver::Runtime>(name)) return *runtime;
  throw_unknown_name("runtime", name, names_of<solver::Runtime>());
}

solver::TransferEnd transfer_end_at(lua_State* L, int index) {
  const auto number = [&](const char* field) {
    lua_kit::push_field(L, index, field, "transfer");
    const std::int64_t value = lua_kit::check_integer(L, -1, field, 1, 1e6);
    lua_pop(L, 1);
    return value;
  };
  lua_kit::push_field(L, index, "checkpoint", "transfer");
  solver::TransferEnd end;
  end.checkpoint = lua_kit::check_text(L, -1, "checkpoint");
  lua_pop(L, 1);
  end.kv_bitwidth = static_cast<std::int32_t>(number("kv_bitwidth"));
  end.degree = number("degree");
  end.num_stages = number("stages");
  return end;
}

std::vector<std::string> device_types_of(const PipelinePlan& pipeline) {
  std::set<std::string> types;
  for (const auto& members : solver::stage_devices(pipeline)) {
    for (const std::size_t member : members) {
      types.insert(pipeline.problem.batch()->device(member).name);
    }
  }
  return {types.begin(), types.end()};
}

}  // namespace

/// placement_at(plan, nodes, places)
int placement_at(lua_State* L) {
  lua_kit::push_value(L, placement_argument(L, plan_at(L), 2));
  return 1;
}

/// engine_kernels(plan): of each of its engines { name =, definition = (of the kernel set, JSON),
/// runtime = (its), devices = names of types, eight_bit = "int" | "fp8" | "w8a8", checkpoint = what
/// tells it from others }.
int engine_kernels(lua_State* L) {
  const Plan& plan = plan_at(L);
  const Placement placement = solver::placement_of(plan);
  lua_newtable(L);
  for (std::size_t i = 0; i < placement.engines.size(); ++i) {
    const auto* several = std::get_if<solver::ReplicatedPlan>(&plan);
    const PipelinePlan& pipeline =
        several != nullptr ? several->replicas[i] : std::get<PipelinePlan>(plan);
    const solver::BatchProblem& batch = *pipeline.problem.batch();
    lua_createtable(L, 0, 6);
    lua_kit::set_text(L, "name", batch.kernel_set.name);
    lua_kit::set_text(L, "definition", json_text(cost::to_json(batch.kernel_set)));
    lua_kit::set_text(L, "runtime", batch.kernel_set.runtime);
    lua_kit::push_texts(L, device_types_of(pipeline));
    lua_setfield(L, -2, "devices");
    lua_kit::set_text(L, "eight_bit", solver::eight_bit_kind(batch, placement.engines[i]));
    lua_kit::set_text(L, "checkpoint", solver::checkpoint_of(batch, placement.engines[i]));
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 1;
}

/// launch_obstacles(plan, runtime, nodes, places): sentences; the last two as in placement_at, nil
/// for the plan's own.
int launch_obstacles(lua_State* L) {
  const Plan& plan = plan_at(L);
  lua_kit::push_texts(
      L, solver::launch_obstacles(runtime_at(L, 2), plan, placement_argument(L, plan, 3)));
  return 1;
}

/// transfer_obstacle(runtime, from, to), each { checkpoint, kv_bitwidth, degree, stages }: a
/// sentence, nil where there is none.
int transfer_obstacle(lua_State* L) {
  const std::string why =
      solver::transfer_obstacle(runtime_at(L, 1), transfer_end_at(L, 2), transfer_end_at(L, 3));
  if (why.empty()) {
    lua_pushnil(L);
  } else {
    lua_kit::push_text(L, why);
  }
  return 1;
}

/// launched_by(plan, runtime): the plan as one for the runtime, or nil and why it cannot launch it.
int launched_by(lua_State* L) {
  return push_outcome(L, solver::launched_by(runtime_at(L, 2), plan_at(L)));
}

}  // namespace tessera::solver_lua
