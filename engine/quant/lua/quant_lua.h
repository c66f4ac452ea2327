#pragma once

#include <lua.hpp>

#include "tessera/core/option.h"

namespace tessera::quant_lua {

/// Makes `require "tessera.quant"` work. Needs the core's environment.
void register_quant(lua_State* L);

// Parts of it.
const OptionTable& quantise_model_options();
int quantise_model(lua_State* L);
void register_quantised_model(lua_State* L);
int prune_model(lua_State* L);
void register_pruned_model(lua_State* L);

}  // namespace tessera::quant_lua
