#include "strict.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/table.h"

namespace tessera::app {
namespace {

constexpr std::string_view kSystemFolders[] = {
    "@/usr/share/lua/", "@/usr/share/luajit", "@/usr/local/share/lua/", "@/usr/local/share/luajit"};

enum class Access { read, assign };

// Whether the code that touches the global is exempt; `L` is inside the metamethod.
bool is_exempt(lua_State* L, Access access) {
  lua_Debug caller;
  if (!lua_getstack(L, 1, &caller) || !lua_getinfo(L, "S", &caller)) return true;
  if (*caller.what == 'C') return true;
  const std::string_view source = caller.source;
  if (access == Access::assign && source == kPromptChunk) return true;
  return std::any_of(std::begin(kSystemFolders), std::end(kSystemFolders),
                     [&](std::string_view folder) { return source.rfind(folder, 0) == 0; });
}

// Of the table at index 1: inside the metamethod, that of the globals.
std::vector<std::string> global_names(lua_State* L) {
  std::vector<std::string> names;
  lua_kit::for_each_pair(L, 1, "globals", [&] {
    if (lua_type(L, -2) == LUA_TSTRING) names.push_back(lua_kit::check_text(L, -2, "global"));
  });
  std::sort(names.begin(), names.end());
  return names;
}

std::string name_of_key(lua_State* L) {
  return lua_type(L, 2) == LUA_TSTRING ? quote(lua_kit::check_text(L, 2, "global"))
                                       : lua_kit::describe_value(L, 2);
}

int read_global(lua_State* L) {
  if (is_exempt(L, Access::read)) {
    lua_pushnil(L);
    return 1;
  }
  std::string message = "undeclared global " + name_of_key(L);
  if (lua_type(L, 2) == LUA_TSTRING) {
    const std::string name = lua_kit::check_text(L, 2, "global");
    // The whole list of globals helps nobody; only near names do.
    if (!nearest_names(name, global_names(L)).empty()) {
      message += did_you_mean(name, global_names(L));
    } else {
      message += "; declare it with 'local'";
    }
  }
  throw Error(ErrorCode::script, message);
}

int assign_global(lua_State* L) {
  if (!is_exempt(L, Access::assign)) {
    throw Error(ErrorCode::script,
                "assignment to undeclared global " + name_of_key(L) + "; use 'local'");
  }
  lua_settop(L, 3);
  lua_rawset(L, 1);
  return 0;
}

}  // namespace

void set_strict(lua_State* L, int globals, bool strict) {
  lua_pushvalue(L, globals);
  if (strict) {
    lua_createtable(L, 0, 3);
    lua_pushcfunction(L, lua_kit::guarded<read_global>);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, lua_kit::guarded<assign_global>);
    lua_setfield(L, -2, "__newindex");
  } else {
    lua_pushnil(L);
  }
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

}  // namespace tessera::app
