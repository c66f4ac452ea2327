#pragma once

#include <lua.hpp>

#include "solver_lua.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"

/// How scripts describe a problem and what they may ask of it. Inside this module only.
namespace tessera::solver_lua {

/// The problem that is argument `index`.
inline const solver::OpenProblem& problem_argument(lua_State* L, int index) {
  return *lua_kit::check_object<solver::OpenProblem>(L, index, "problem");
}

/// The problem that ts.problem's options describe.
solver::OpenProblem problem_from(lua_State* L, const lua_kit::Options& options);
/// The problem with what the options of problem:with name changed, and nothing else.
solver::OpenProblem changed(lua_State* L, const lua_kit::Options& options,
                            const solver::OpenProblem& before);

/// Reads kv_bitwidth and tensor_parallel where they are there, and kv_omega, which must be.
void read_choices(const lua_kit::Options& options, solver::BatchProblem& batch,
                  std::vector<cost::KernelSet>& kernel_sets, solver::Choices& choices);
void read_kv_omega(lua_State* L, const lua_kit::Options& options, solver::BatchProblem& batch);

/// Side constraints: problem:add_constraint, a term of one, and a list of them.
const OptionTable& constraint_options();
const OptionTable& constraint_term_options();
std::vector<solver::Constraint> constraints_argument(lua_State* L, int index,
                                                     const std::string& path);

// Methods; argument 1 is the problem.
int add_constraint(lua_State* L);  ///< takes constraint_options()
int write_model(lua_State* L);     ///< takes a path and model_options()
const OptionTable& model_options();
int evaluate(lua_State* L);
int micro_batch_sizes(lua_State* L);
int balanced_partition(lua_State* L);  ///< takes partition_options()
int device_orders(lua_State* L);
int offload(lua_State* L);
int device_facts(lua_State* L);  ///< takes facts_options()
int variants(lua_State* L);
const OptionTable& partition_options();
const OptionTable& facts_options();

}  // namespace tessera::solver_lua
