#include "tessera/lua_kit/table.h"

#include <fmt/format.h>

#include <cmath>

#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/value.h"

namespace tessera::lua_kit {
namespace {

[[noreturn]] void fail(std::string_view path, const std::string& problem, std::string_view advice) {
  refuse(path, "{}{}{}", problem, advice.empty() ? "" : "; ", advice);
}

bool is_kit_object(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TUSERDATA || !luaL_getmetafield(L, index, "__to_table")) {
    return false;
  }
  lua_pop(L, 1);
  return true;
}

}  // namespace

std::string item_path(std::string_view path, std::size_t i) {
  return fmt::format("{}[{}]", path, i);
}

std::string field_path(std::string_view path, std::string_view name) {
  return fmt::format("{}.{}", path, name);
}

void check_table(lua_State* L, int index, std::string_view path, std::string_view wanted) {
  if (lua_istable(L, index)) return;
  fail(path, fmt::format("{} where {} belongs", describe_value(L, index), wanted), {});
}

std::vector<double> any_numbers(lua_State* L, int index, const std::string& path) {
  std::vector<double> values;
  for_each_item(L, index, path, [&](std::size_t, const std::string& item) {
    values.push_back(any_number(L, -1, item));
  });
  return values;
}

void check_plain(lua_State* L, int index, std::string_view path, std::string_view what) {
  const StackGuard guard(L);
  if (!lua_istable(L, index))
    refuse(path, "{} belongs here, not a {}", what, luaL_typename(L, index));
  if (lua_getmetatable(L, index) == 0) return;
  lua_pushliteral(L, "__index");
  lua_rawget(L, -2);
  if (!lua_isnil(L, -1))
    refuse(path, "{} belongs here, not a table that answers by a metatable", what);
}

std::size_t list_length(lua_State* L, int index, std::string_view path, std::string_view advice,
                        std::size_t max_items) {
  if (!lua_istable(L, index)) fail(path, describe_value(L, index) + " is not a list", advice);
  luaL_checkstack(L, 3, "list");
  const std::size_t length = lua_objlen(L, index);
  if (length > max_items) {
    fail(path, fmt::format("a list of {} items is too long, {} are allowed", length, max_items),
         advice);
  }
  std::size_t num_keys = 0;
  for_each_pair(L, index, path, [&] {
    ++num_keys;
    if (lua_type(L, -2) != LUA_TNUMBER) {
      fail(path, "the key " + describe_value(L, -2) + " in a list", advice);
    }
    const double key = lua_tonumber(L, -2);
    const bool is_item = std::floor(key) == key && key >= 1 && key <= static_cast<double>(length);
    if (!is_item) fail(path, "the list has gaps", advice);
  });
  if (num_keys != length) fail(path, "the list has gaps", advice);
  return length;
}

void push_item(lua_State* L, int index, std::size_t i, std::string_view path) {
  check_table(L, index, path, "a list");
  luaL_checkstack(L, 1, "item");
  lua_rawgeti(L, index, static_cast<int>(i));
}

bool push_field(lua_State* L, int index, std::string_view name, std::string_view path) {
  luaL_checkstack(L, 3, "field");
  if (index < 0 && index > LUA_REGISTRYINDEX) index = lua_gettop(L) + 1 + index;
  push_text(L, name);
  if (is_kit_object(L, index)) {
    lua_gettable(L, index);
  } else {
    check_table(L, index, path);
    lua_rawget(L, index);
  }
  return !lua_isnil(L, -1);
}

bool next_pair(lua_State* L, int index, std::string_view path) {
  check_table(L, index, path);
  return lua_next(L, index) != 0;
}

std::size_t border(lua_State* L, int index) {
  return lua_istable(L, index) ? lua_objlen(L, index) : 0;
}

void set_registry_value(lua_State* L, const void* key) {
  lua_pushlightuserdata(L, const_cast<void*>(key));
  lua_insert(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

void push_registry_value(lua_State* L, const void* key) {
  luaL_checkstack(L, 1, "registry");
  lua_pushlightuserdata(L, const_cast<void*>(key));
  lua_rawget(L, LUA_REGISTRYINDEX);
}

void* registry_pointer(lua_State* L, const void* key) {
  push_registry_value(L, key);
  void* value = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return value;
}

void set_registry_pointer(lua_State* L, const void* key, void* value) {
  lua_pushlightuserdata(L, value);
  set_registry_value(L, key);
}

}  // namespace tessera::lua_kit
