#pragma once

#include <lua.hpp>
#include <string_view>
#include <vector>

namespace tessera::lua_kit {

/// The alternatives of a LuaCATS type: "tessera.Plan|table<string, number|boolean>|fun(): number?"
/// has three. Parentheses around a whole alternative and a final '?' are taken away.
std::vector<std::string_view> alternatives(std::string_view lua_type);

/// Whether the value at `index` is of one of them: a number for "number" and "integer", a table for
/// "table", "number[]" and "{ a: number }", an object for its own name, anything but nil for "any".
/// What a table holds is for its reader to check.
bool fits_type(lua_State* L, int index, std::string_view lua_type);

}  // namespace tessera::lua_kit
