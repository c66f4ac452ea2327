#pragma once

#include <lua.hpp>
#include <memory>
#include <string>

#include "tessera/core/option.h"
#include "tessera/serving/deployment.h"
#include "tessera/serving/engine_options.h"
#include "tessera/serving/step_cost.h"

/// Serving engines, their costs without a model, and routers as scripts see them.
namespace tessera::serving_lua {

const OptionTable& engine_options();
const OptionTable& speculation_options();
const OptionTable& router_options();
const OptionTable& step_cost_options();

int new_engine(lua_State* L);
int scheduler_list(lua_State* L);
int router_list(lua_State* L);
void register_engine(lua_State* L);

/// An engine, or a table of its options.
serving::EngineOptions engine_argument(lua_State* L, int index, const std::string& path);
/// A router's name, or a table of its options, with `choose` where a script decides. Sets both
/// fields of the deployment.
void read_router(lua_State* L, int index, const std::string& path, serving::Deployment& deployment);
/// { base_s =, per_token_s =, per_sequence_s =, per_context_token_s = }, or a function of a step.
std::shared_ptr<const serving::StepCost> step_cost_argument(lua_State* L, int index,
                                                            const std::string& path);

}  // namespace tessera::serving_lua
