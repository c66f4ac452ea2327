#include "tessera/lua_kit/object.h"

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/value.h"

namespace tessera::lua_kit::detail {
namespace {

constexpr int kMaxDepth = 64;

// Upvalues: the type's name, its members.
int refuse_assignment(lua_State* L) {
  const std::string type = check_text(L, lua_upvalueindex(1), "type");
  lua_getfield(L, lua_upvalueindex(2), "with");
  const bool has_with = lua_isfunction(L, -1);
  const std::string key =
      lua_type(L, 2) == LUA_TSTRING ? quote(check_text(L, 2, "key")) : describe_value(L, 2);
  throw Error(ErrorCode::invalid_argument,
              type + " is read-only: cannot set " + key +
                  (has_with ? "; copy it with the change by :with { ... }" : ""),
              type);
}

}  // namespace

void register_class(lua_State* L, const ObjectClass& object_class) {
  const StackGuard guard(L);
  luaL_checkstack(L, 8, "object type");
  if (!luaL_newmetatable(L, object_class.name)) return;
  const int metatable = lua_gettop(L);
  const auto set = [&](const char* field, lua_CFunction function) {
    lua_pushcfunction(L, function);
    lua_setfield(L, metatable, field);
  };
  set("__tostring", object_class.text);
  set("__full", object_class.full);
  set("__eq", object_class.equal);
  set("__gc", object_class.collect);
  push_text(L, object_class.name);
  lua_setfield(L, metatable, "__metatable");

  // name -> field number (from 0) or method
  lua_newtable(L);
  const int members = lua_gettop(L);
  for (std::size_t i = 0; i < object_class.fields.size(); ++i) {
    push_text(L, object_class.fields[i]);
    lua_pushnumber(L, static_cast<double>(i));
    lua_rawset(L, members);
  }
  lua_pushcfunction(L, object_class.to_table);
  lua_setfield(L, members, "to_table");
  for (const ObjectMethod& method : *object_class.methods) {
    lua_pushcfunction(L, method.function);
    lua_setfield(L, members, method.name);
  }
  lua_getfield(L, members, "to_table");
  lua_setfield(L, metatable, "__to_table");
  lua_pushvalue(L, members);
  lua_setfield(L, metatable, "__members");  // for completion at the prompt

  lua_pushvalue(L, members);
  lua_pushcclosure(L, object_class.index, 1);
  lua_setfield(L, metatable, "__index");
  push_text(L, object_class.name);
  lua_pushvalue(L, members);
  lua_pushcclosure(L, guarded<refuse_assignment>, 2);
  lua_setfield(L, metatable, "__newindex");
}

int find_member(lua_State* L, const char* type_name) {
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  if (lua_type(L, -1) == LUA_TNUMBER) return static_cast<int>(lua_tonumber(L, -1));
  if (lua_isfunction(L, -1)) return -1;
  if (lua_type(L, 2) != LUA_TSTRING) {
    throw Error(ErrorCode::invalid_argument,
                std::string(type_name) + ": a field has a name, got " + describe_value(L, 2),
                type_name);
  }
  const std::string key = check_text(L, 2, "key");
  std::vector<std::string> names;
  for (lua_pushnil(L); lua_next(L, lua_upvalueindex(1)) != 0; lua_pop(L, 1)) {
    names.push_back(check_text(L, -2, "member"));
  }
  std::sort(names.begin(), names.end());
  throw Error(ErrorCode::invalid_argument,
              std::string(type_name) + " has no field " + quote(key) + did_you_mean(key, names),
              type_name);
}

void* test_userdata(lua_State* L, int index, const char* type_name) {
  void* memory = lua_touserdata(L, index);
  if (memory == nullptr || lua_type(L, index) != LUA_TUSERDATA) return nullptr;
  luaL_checkstack(L, 2, "object");
  if (!lua_getmetatable(L, index)) return nullptr;
  luaL_getmetatable(L, type_name);
  const bool same = lua_istable(L, -1) && lua_rawequal(L, -1, -2) != 0;
  lua_pop(L, 2);
  return same ? memory : nullptr;
}

void throw_wrong_type(lua_State* L, int index, const char* type_name, const std::string& path) {
  const bool collected = test_userdata(L, index, type_name) != nullptr;
  std::string problem = describe_value(L, index) + " where a " + type_name + " belongs";
  if (collected) problem = std::string("this ") + type_name + " has been released";
  if (path == "self" && !collected) problem += "; call methods with ':', as in object:method()";
  refuse(path, problem);
}

void plain_value(lua_State* L, int depth) {
  luaL_checkstack(L, 6, "table");
  if (depth > kMaxDepth) throw Error(ErrorCode::invalid_argument, "to_table: nested too deeply");
  if (lua_type(L, -1) == LUA_TUSERDATA) {
    if (!luaL_getmetafield(L, -1, "__to_table")) return;
    lua_insert(L, -2);
    if (protected_call(L, 1, 1) != 0) throw_script_error(L);
  } else if (lua_istable(L, -1)) {
    // The getter has just made this table, so it is ours to change; assigning to existing keys is
    // allowed while traversing.
    const int table = lua_gettop(L);
    lua_pushnil(L);  // a record that can be called is none here
    lua_setmetatable(L, table);
    for (lua_pushnil(L); lua_next(L, table) != 0;) {
      plain_value(L, depth + 1);
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, table);
    }
  }
}

void attach_metatable(lua_State* L, const char* type_name) {
  luaL_getmetatable(L, type_name);
  if (!lua_istable(L, -1)) {
    throw Error(ErrorCode::internal, std::string(type_name) + " is not registered");
  }
  lua_setmetatable(L, -2);
}

}  // namespace tessera::lua_kit::detail
