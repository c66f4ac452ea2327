#pragma once

#include <cstddef>
#include <lua.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/lua_kit/guard.h"

/// Checked reading of tables and of what lies in them. Lua's own calls take the value at an index
/// for what the caller says it is: lua_rawgeti on a number is a crash, on a userdata it reads
/// foreign memory. So bindings read through these, and the lint keeps the raw calls within the kit.
/// All throw Error{invalid_argument} that names `path`, what was given and what belongs there.
namespace tessera::lua_kit {

/// "path[3]": the name of an item, for messages.
std::string item_path(std::string_view path, std::size_t i);
/// "path.name"
std::string field_path(std::string_view path, std::string_view name);

/// @throws unless a table lies at `index`; objects are none. `wanted` is what belongs there: "a
/// list of stages".
void check_table(lua_State* L, int index, std::string_view path,
                 std::string_view wanted = "a table");

/// @throws unless a table with fields of its own lies at `index`: one that answers by a metatable
/// would say another thing each time that it is asked. `what` belongs there: "a list of rows".
void check_plain(lua_State* L, int index, std::string_view path, std::string_view what);

/// Number of items of a list: a table whose keys are exactly 1..n. @throws also where it has gaps
/// or names, or more than `max_items`. `advice` ends the message.
std::size_t list_length(lua_State* L, int index, std::string_view path,
                        std::string_view advice = {}, std::size_t max_items = 1'000'000);

/// Pushes item `i` (from 1) of the table at `index`, nil where there is none.
void push_item(lua_State* L, int index, std::size_t i, std::string_view path);

/// Pushes a field of the table at `index`, or of one of the kit's objects there; a metatable of the
/// script's own is not asked. Whether it is not nil.
/// @throws also where an object has no such field.
bool push_field(lua_State* L, int index, std::string_view name, std::string_view path);

/// Calls `body(i, path of item i)` for the items of a list in order, i from 1, each on top of the
/// stack for as long.
template <class Body>
void for_each_item(lua_State* L, int index, const std::string& path, Body&& body,
                   std::size_t max_items = 1'000'000) {
  const std::size_t length = list_length(L, index, path, {}, max_items);
  for (std::size_t i = 1; i <= length; ++i) {
    const StackGuard guard(L);
    push_item(L, index, i, path);
    body(i, item_path(path, i));
  }
}

/// The list at `index` as numbers, NaN and infinities too.
std::vector<double> any_numbers(lua_State* L, int index, const std::string& path);

/// Moves to the next pair of a traversal: with the last key (nil at first) on top of the stack,
/// replaces it by the next key and its value, and says whether there is one.
bool next_pair(lua_State* L, int index, std::string_view path);

/// Calls `body()` for every pair of the table at `index`, the key at -2 and the value at -1, in the
/// order of the table. The body must neither convert the key nor add fields.
template <class Body>
void for_each_pair(lua_State* L, int index, std::string_view path, Body&& body) {
  if (index < 0 && index > LUA_REGISTRYINDEX) index = lua_gettop(L) + 1 + index;
  for (lua_pushnil(L); next_pair(L, index, path); lua_pop(L, 1)) body();
}

/// A length of the table at `index` as `#` gives it; 0 of anything else.
std::size_t border(lua_State* L, int index);

/// Keeps the value on top of the stack, which is popped, under the address `key`, out of the reach
/// of scripts; pushes it again, or nil.
void set_registry_value(lua_State* L, const void* key);
void push_registry_value(lua_State* L, const void* key);

/// What `set_registry_pointer` stored under the address `key`, or the memory of a userdata, or
/// nullptr.
void* registry_pointer(lua_State* L, const void* key);
void set_registry_pointer(lua_State* L, const void* key, void* value);

}  // namespace tessera::lua_kit
