#pragma once

#include <functional>
#include <lua.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/option.h"
#include "tessera/lua_kit/args.h"
#include "tessera/solver/instance/planner.h"
#include "tessera/solver/offload/offload_shares.h"
#include "tessera/solver/plan/plan.h"
#include "tessera/solver/problem/open_problem.h"

/// Problems, plans, planners and simulation runs as scripts see them.
namespace tessera::solver_lua {

/// Makes `require "tessera.solver"` work. Needs the core's environment, core and indicator.
void register_solver(lua_State* L);

/// Options of ts.problem and of ts.plan; the command line offers the same.
const OptionTable& problem_options();
const OptionTable& plan_options();

// Parts of register_solver, one file each.
int new_problem(lua_State* L);
int plan(lua_State* L);           ///< plan(problem, options, named): ts.plan
int resolve_floor(lua_State* L);  ///< resolve_floor(problem, named)
int variant_with(lua_State* L);  ///< variant_with(problem, devices): of a problem with open choices
int planner_cards(lua_State* L);
int price(lua_State* L);  ///< price(problem, stages, planner, solve_s) for plans made elsewhere
int load_plan(lua_State* L);
int plan_text(lua_State* L);
int placement_at(lua_State* L);
int check_plan(lua_State* L);
int simulate(lua_State* L);
int heuristic_cards(lua_State* L);
// What the Lua library builds plan:explain, ts.max_batch, ts.size, ts.pareto and ts.replan from.
int bindings(lua_State* L);
int explain_briefly(lua_State* L);
int link_names(lua_State* L);
int upgraded(lua_State* L);
int perturbed(lua_State* L);
int device_groups(lua_State* L);
int with_devices(lua_State* L);
int on_devices(lua_State* L);
int join_plans(lua_State* L);
int with_attention(lua_State* L);
int engine_kernels(lua_State* L);
int launch_obstacles(lua_State* L);
int transfer_obstacle(lua_State* L);
int launched_by(lua_State* L);
int vllm_layer_split(lua_State* L);
int with_one_more(lua_State* L);
int mix_bounds(lua_State* L);
int replan(lua_State* L);
void register_problem(lua_State* L);
void register_plan(lua_State* L);
void register_stage(lua_State* L);
void register_run(lua_State* L);
void register_search(lua_State* L);

/// What a plan does to the model, as a record that can be called to measure it. A problem without a
/// model has no numbers.
void push_quality(lua_State* L, const std::optional<Quality>& quality);

/// The problem as an object. @throws what lowering it throws.
void push_problem(lua_State* L, solver::OpenProblem problem);
/// The plan as an object.
void push_plan(lua_State* L, solver::Plan plan);
/// Refuses a plan with replicas where one pipeline belongs. `where` is named in the message.
const solver::PipelinePlan& pipeline_of(const solver::Plan& plan, const std::string& where);
/// A plan for a candidate that satisfies every constraint.
void push_plan(lua_State* L, const solver::LoweredProblem& problem,
               const solver::PlanResult& result, const std::string& planner);
// What a plan of several pipelines has.
void push_candidates(lua_State* L, const solver::Plan& plan);
void push_replicas(lua_State* L, const solver::Plan& plan);
void push_kv_bitwidth(lua_State* L, const solver::Plan& plan);
void push_kv_omega(lua_State* L, const solver::Plan& plan);

/// The size of one phase's micro-batches, where a table demands it.
OptionSpec micro_batch_option(std::string_view name);

/// A better plan, for whoever ends the program before the search does.
std::string incumbent_text(const solver::LoweredProblem& problem,
                           const solver::Incumbent& incumbent, const std::string& planner);

/// A micro-batch size that was given. @throws Error{out_of_range} beyond the batch.
std::int64_t micro_batch_size(const lua_kit::Options& options, const char* name,
                              const solver::Instance& instance);

/// The candidate described by a table { stages = { { device =, bitwidths = }, ... },
/// prefill_micro_batch_size =, decode_micro_batch_size = }.
solver::Candidate candidate_argument(lua_State* L, int index, const solver::Instance& instance,
                                     const std::string& path);

/// The same with heads of its stages on other devices: the problem that has them there.
struct Decision {
  solver::LoweredProblem problem;
  solver::Candidate candidate;
  std::vector<std::string> notes;
};
Decision decision_argument(lua_State* L, int index, const solver::LoweredProblem& problem,
                           const std::string& path);

/// How a plan made by hand offloads: its own `offload` and that of each stage.
struct OffloadArgument {
  solver::PlanOffload settings;
  std::vector<solver::StageOffload> shares;  ///< [stages]
};

/// Of the table at `index`, whose stages candidate_argument has read; absent where nothing leaves
/// the devices.
std::optional<OffloadArgument> offload_argument(lua_State* L, int index, const std::string& path);

/// Pushes the checked offloading plan of `result.candidate`, or nil and why.
int price_offload(lua_State* L, const solver::LoweredProblem& problem,
                  const OffloadArgument& offload, solver::PlanResult result,
                  const std::string& planner);

/// `nil, why` for an expected outcome; `constraint` names what binds, or is empty, and no plan is
/// below `bound`.
int push_why(lua_State* L, const std::string& code, const std::string& message,
             const std::string& constraint, std::optional<double> bound = std::nullopt);

}  // namespace tessera::solver_lua
