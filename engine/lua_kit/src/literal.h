#pragma once

#include <lua.hpp>
#include <string_view>

namespace tessera::lua_kit {

/// Pushes the value of an option's `default_text`: a number, "text", 'text', true, false, or a flat
/// list {..} of these; nil for "".
/// @throws Error{internal} for anything else: the option table is wrong.
void push_literal(lua_State* L, std::string_view text);

}  // namespace tessera::lua_kit
