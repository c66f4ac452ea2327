#pragma once

#include <lua.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/option.h"
#include "tessera/serving/deployment.h"
#include "tessera/serving/traffic.h"
#include "tessera/solver/plan/plan.h"

/// Deployments as scripts see them: plans, or costs without a model, with engines and a router.
namespace tessera::solver_lua {

struct DeploymentObject {
  serving::Deployment deployment;
  std::vector<solver::PipelinePlan> plans;  ///< [replicas]; empty without a model
  std::optional<solver::Plan> plan;         ///< of a deployment of one pool, for exports
  std::string source;                       ///< where its step times come from
  std::vector<std::string> notes;
};

const OptionTable& deployment_options();
const OptionTable& one_pool_options();
const OptionTable& transfer_options();
const OptionTable& step_options();  ///< of deployment:step_s
int new_deployment(lua_State* L);
void register_deployment(lua_State* L);

// ts.serve(deployment, traffic, options).
const OptionTable& serve_options();
int serve(lua_State* L);
// ts.max_rate(deployment, traffic, options).
int max_rate(lua_State* L);
void register_capacity(lua_State* L);

/// Ends a run after Ctrl-C, or where what the script may take has been taken: a run is one call, in
/// which Lua cannot be stopped. @throws Error{interrupted}
void check_time(const char* who);

/// What the traffic can use where nobody said how many blocks there are.
void fill_kv_blocks(serving::Deployment& deployment, const serving::Traffic& traffic);

}  // namespace tessera::solver_lua
