#pragma once

#include <lua.hpp>

#include "engine_lua.h"
#include "tessera/core/option.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/solver/deploy/assemble.h"
#include "tessera/solver/deploy/plan_serving.h"

/// Deployments as scripts see them: plans, or costs without a model, with engines and a router.
namespace tessera::solver_lua {

const OptionTable& deployment_options();
const OptionTable& one_pool_options();
const OptionTable& transfer_options();
const OptionTable& step_options();  ///< of deployment:step_s
int new_deployment(lua_State* L);
/// Of several models: { models =, devices =, window_s =, router =, api_s =, source =, start = }, as
/// scripts/tessera/strategies makes it.
int new_models_deployment(lua_State* L);
void register_deployment(lua_State* L);

/// A pool from a table of its options, by itself.
solver::PoolOptions pool_argument(lua_State* L, int index, const std::string& path);

/// The option `router` of whatever has one.
template <class Routed>
void read_router(const lua_kit::Options& options, Routed& into) {
  options.read("router", [&](lua_State* L, int index, const std::string& path) {
    serving::Deployment routed;
    serving_lua::read_router(L, index, path, routed);
    into.router = routed.router;
    into.make_router = routed.make_router;
  });
}

// ts.serve(deployment, traffic, options).
const OptionTable& serve_options();
int serve(lua_State* L);
// ts.max_rate(deployment, traffic, options).
int max_rate(lua_State* L);
void register_capacity(lua_State* L);

// ts.plan_serving(options): rows, and what was found.
const OptionTable& plan_serving_options();
int plan_serving(lua_State* L);
/// Options of ts.plan_serving that say what engines may be: all but the traffic and its SLO.
void read_engines(lua_State* L, const lua_kit::Options& options, solver::ServingRequest& request);
/// A tessera.Traffic, or a table of the options of ts.traffic.
solver::TrafficSource traffic_at(lua_State* L, int index, const std::string& path);
/// Pushes a part with `engine`: the one that was given, or the options with its limits.
void push_part(lua_State* L, const lua_kit::Options& options, const solver::ServingPart& part);
/// What may be lost where nothing is said of quality, as `quality` of ts.plan_serving.
int default_quality(lua_State* L);
/// server_request(model): { tokens =, cache_share = }, what a server has to take
/// (server_request.h).
int server_request(lua_State* L);
/// gain_words(ratio): a rate beside another, in words.
int gain_words(lua_State* L);
/// latency_limits(): what limits of a stream are called by flags, in their order.
int latency_limits(lua_State* L);
void register_plan_serving(lua_State* L);

/// Ends a run after Ctrl-C, or where what the script may take has been taken: a run is one call, in
/// which Lua cannot be stopped. @throws Error{interrupted}
void check_time(const char* who);

}  // namespace tessera::solver_lua

namespace tessera::lua_kit {

template <>
const ObjectType<solver::AssembledDeployment>& object_type<solver::AssembledDeployment>();

}  // namespace tessera::lua_kit
