#pragma once

#include <cstdint>
#include <lua.hpp>
#include <string_view>
#include <vector>

#include "tessera/core/option.h"
#include "tessera/lua_kit/args.h"

/// Guessing tokens, for worked examples and for measurements: the functions that
/// engines call, by themselves. Tokens are ids from 0, so the probability of token t stands at
/// t + 1 of a row.
namespace tessera::serving_lua {

/// Makes `require "tessera.speculative"` work and fills the reference. Needs
/// core_lua::set_environment.
void register_speculation(lua_State* L);

// Parts of it, one file each.
int verify(lua_State* L);
int rule(lua_State* L);
const OptionTable& verify_options();
const OptionTable& rule_options();

inline constexpr double kMostTokenId = 2147483647;
inline constexpr double kMostDraws = 1e8;

/// A list of token ids.
std::vector<std::int32_t> ids_of(const lua_kit::Options& options, std::string_view name);

}  // namespace tessera::serving_lua
