#pragma once

#include <cstdint>
#include <lua.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/core/registry.h"

namespace tessera::lua_kit {

void push_text(lua_State* L, std::string_view text);
/// Sequences are 1-based tables.
void push_texts(lua_State* L, const std::vector<std::string>& texts);
void push_numbers(lua_State* L, const std::vector<double>& numbers);
/// A number, or a string for integers beyond 2^53, which a Lua number cannot hold exactly.
void push_integer(lua_State* L, std::int64_t value);
/// nil where there is none.
void push_optional(lua_State* L, const std::optional<double>& value);

/// A list of { name =, doc =, source = }.
void push_cards(lua_State* L, const std::vector<Card>& cards);

/// Objects become tables, arrays become sequences, null becomes nil.
void push_json(lua_State* L, const Json& value);

/// Set a field of the table on top of the stack to what the push function of that name pushes.
void set_text(lua_State* L, const char* name, std::string_view text);
void set_texts(lua_State* L, const char* name, const std::vector<std::string>& texts);
void set_number(lua_State* L, const char* name, double value);
void set_numbers(lua_State* L, const char* name, const std::vector<double>& numbers);
void set_integer(lua_State* L, const char* name, std::int64_t value);
void set_boolean(lua_State* L, const char* name, bool value);
void set_json(lua_State* L, const char* name, const Json& value);
/// Leaves the field alone where there is none.
void set_optional(lua_State* L, const char* name, const std::optional<double>& value);

/// The JSON of a Lua value. A table with keys 1..n is an array (so is an empty one), one with
/// string keys an object, written in the order of its sorted keys; the kit's objects go through
/// their `to_table`.
/// @throws Error{invalid_argument} naming the path for functions, foreign userdata, cycles, mixed
/// keys, NaN, infinity, text that is not UTF-8, and nesting beyond 64 levels.
Json json_from_lua(lua_State* L, int index, const std::string& path);

}  // namespace tessera::lua_kit
