#pragma once

#include <lua.hpp>
#include <vector>

#include "tessera/core/option.h"
#include "tessera/lua_kit/args.h"
#include "tessera/quant/scheme.h"

namespace tessera::quant_lua {

/// Makes `require "tessera.quant"` work. Needs the core's environment.
void register_quant(lua_State* L);

// Parts of it.
const OptionTable& quantise_model_options();
int quantise_model(lua_State* L);
void register_quantised_model(lua_State* L);

/// Options that say how codes are made, which both calls take.
std::vector<OptionSpec> scheme_options();
/// All but the bitwidth.
quant::Scheme scheme_of(const lua_kit::Options& options);
quant::Method method_of(const lua_kit::Options& options);

}  // namespace tessera::quant_lua
