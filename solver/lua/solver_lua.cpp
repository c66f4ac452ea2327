#include "solver_lua.h"

#include <fmt/format.h>

#include "deployment_lua.h"
#include "fleet_lua.h"
#include "plan_fleet_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/value.h"

namespace tessera::solver_lua {

OptionSpec micro_batch_option(std::string_view name) {
  return {.name = name,
          .type = OptionType::integer,
          .doc = name == "prefill_micro_batch_size" ? "Requests per prefill micro-batch"
                                                    : "Requests per decode micro-batch",
          .min = 1,
          .max = 1e6,
          .required = true};
}

std::int64_t micro_batch_size(const lua_kit::Options& options, const char* name,
                              const solver::Instance& instance) {
  const std::int64_t given = options.integer(name);
  if (given <= instance.batch_size) return given;
  refuse(ErrorCode::out_of_range, options.path_of(name), "{} is more than the batch of {} requests",
         given, instance.batch_size);
}

int push_why(lua_State* L, const std::string& code, const std::string& message,
             const std::string& constraint, std::optional<double> bound) {
  lua_pushnil(L);
  lua_kit::push_error(L, code, message);
  if (bound) lua_kit::set_number(L, "bound", *bound);
  if (!constraint.empty()) {
    lua_kit::set_text(L, "constraint", constraint);
  }
  return 2;
}

void register_solver(lua_State* L) {
  register_problem(L);
  register_plan(L);
  register_stage(L);
  register_run(L);
  register_search(L);
  register_deployment(L);
  register_capacity(L);
  register_plan_serving(L);
  register_fleet(L);
  register_plan_fleet(L);
  lua_kit::register_module(L, "tessera.solver",
                           {{"problem", lua_kit::guarded<new_problem>},
                            {"plan", lua_kit::guarded<plan>},
                            {"resolve_floor", lua_kit::guarded<resolve_floor>},
                            {"variant_with", lua_kit::guarded<variant_with>},
                            {"planner_cards", lua_kit::guarded<planner_cards>},
                            {"price", lua_kit::guarded<price>},
                            {"load_plan", lua_kit::guarded<load_plan>},
                            {"plan_text", lua_kit::guarded<plan_text>},
                            {"placement_at", lua_kit::guarded<placement_at>},
                            {"check", lua_kit::guarded<check_plan>},
                            {"solve_fleet", lua_kit::guarded<solve_fleet>},
                            {"simulate", lua_kit::guarded<simulate>},
                            {"heuristic_cards", lua_kit::guarded<heuristic_cards>},
                            {"bindings", lua_kit::guarded<bindings>},
                            {"explain_briefly", lua_kit::guarded<explain_briefly>},
                            {"link_names", lua_kit::guarded<link_names>},
                            {"upgraded", lua_kit::guarded<upgraded>},
                            {"perturbed", lua_kit::guarded<perturbed>},
                            {"device_groups", lua_kit::guarded<device_groups>},
                            {"with_devices", lua_kit::guarded<with_devices>},
                            {"engine_kernels", lua_kit::guarded<engine_kernels>},
                            {"launch_obstacles", lua_kit::guarded<launch_obstacles>},
                            {"transfer_obstacle", lua_kit::guarded<transfer_obstacle>},
                            {"launched_by", lua_kit::guarded<launched_by>},
                            {"vllm_layer_split", lua_kit::guarded<vllm_layer_split>},
                            {"on_devices", lua_kit::guarded<on_devices>},
                            {"join_plans", lua_kit::guarded<join_plans>},
                            {"with_attention", lua_kit::guarded<with_attention>},
                            {"with_one_more", lua_kit::guarded<with_one_more>},
                            {"mix_bounds", lua_kit::guarded<mix_bounds>},
                            {"replan", lua_kit::guarded<replan>},
                            {"deployment", lua_kit::guarded<new_deployment>},
                            {"models_deployment", lua_kit::guarded<new_models_deployment>},
                            {"serve", lua_kit::guarded<serve>},
                            {"max_rate", lua_kit::guarded<max_rate>},
                            {"plan_serving", lua_kit::guarded<plan_serving>},
                            {"price_fleet", lua_kit::guarded<price_fleet>},
                            {"replan_fleet", lua_kit::guarded<replan_fleet>},
                            {"restore_fleet", lua_kit::guarded<restore_fleet>},
                            {"cluster_table", lua_kit::guarded<cluster_table>},
                            {"is_solved_fleet", lua_kit::guarded<is_solved_fleet>},
                            {"default_quality", lua_kit::guarded<default_quality>},
                            {"server_request", lua_kit::guarded<server_request>},
                            {"latency_limits", lua_kit::guarded<latency_limits>},
                            {"gain_words", lua_kit::guarded<gain_words>}});
}

}  // namespace tessera::solver_lua
