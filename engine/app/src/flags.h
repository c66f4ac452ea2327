#pragma once

#include <lua.hpp>
#include <map>
#include <string>
#include <vector>

#include "tessera/core/option.h"

namespace tessera::app {

/// Flags as typed: option name -> its texts, in order. Absent: not given.
using FlagValues = std::map<std::string, std::vector<std::string>>;

/// "--prompt-tokens" for "prompt_tokens".
std::string flag_of(std::string_view option);

/// Pushes the flags as the Lua table that `table` describes, checked by it; lists are split at
/// commas. What is not given is left out.
/// @throws UsageError naming the flag
void push_flags(lua_State* L, const OptionTable& table, const FlagValues& flags);

}  // namespace tessera::app
