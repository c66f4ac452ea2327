#pragma once

#include <lua.hpp>
#include <string>
#include <vector>

#include "tessera/core/option.h"
#include "tessera/solver/fleet_pricing/named_model.h"

/// Models of fleets.
namespace tessera::solver_lua {

const OptionTable& named_model_options();
/// A list of them, each with a name of its own.
std::vector<solver::NamedModel> named_models_at(lua_State* L, int index, const std::string& path);
/// @throws Error{invalid_argument} where there is none of the name
std::size_t model_named(const std::vector<solver::NamedModel>& models, const std::string& name,
                        const std::string& path);
void register_named_model(lua_State* L);

}  // namespace tessera::solver_lua
