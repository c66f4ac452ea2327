// Files from a sandboxed script: the path is checked, then Lua's own function does the work.

#include <fmt/format.h>

#include <string>

#include "sandbox/checked.h"
#include "tessera/core/access.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/value.h"

namespace tessera::app::checked {
namespace {

// Calls upvalue 1 with the arguments.
int forward(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

}  // namespace

int decline(lua_State* L, const Error& error) {
  lua_settop(L, 0);
  lua_pushnil(L);
  lua_kit::push_text(L, error.message());
  return 2;
}

int open_file(lua_State* L) {
  try {
    const std::string path = lua_kit::check_text(L, 1, "io.open.path");
    const std::string mode =
        lua_isnoneornil(L, 2) ? "r" : lua_kit::check_text(L, 2, "io.open.mode");
    if (mode.find_first_of("wa+") != std::string::npos) check_may_write(path);
    if (mode.find_first_of("r+") != std::string::npos) check_may_read(path);
  } catch (const Error& error) {
    return decline(L, error);
  }
  return forward(L);
}

int read_lines(lua_State* L) {
  if (lua_isnoneornil(L, 1)) return forward(L);
  check_may_read(lua_kit::check_text(L, 1, "io.lines.path"));
  return forward(L);
}

int choose_input(lua_State* L) {
  if (lua_type(L, 1) == LUA_TSTRING) check_may_read(lua_kit::check_text(L, 1, "io.input.path"));
  return forward(L);
}

int choose_output(lua_State* L) {
  if (lua_type(L, 1) == LUA_TSTRING) check_may_write(lua_kit::check_text(L, 1, "io.output.path"));
  return forward(L);
}

int remove_file(lua_State* L) {
  try {
    check_may_replace(lua_kit::check_text(L, 1, "os.remove.path"));
  } catch (const Error& error) {
    return decline(L, error);
  }
  return forward(L);
}

int rename_file(lua_State* L) {
  try {
    check_may_replace(lua_kit::check_text(L, 1, "os.rename.from"));
    check_may_replace(lua_kit::check_text(L, 2, "os.rename.to"));
  } catch (const Error& error) {
    return decline(L, error);
  }
  return forward(L);
}

int temporary_name(lua_State* L) {
  static int number = 0;
  lua_kit::push_text(L, fmt::format("{}/tmp_{}", write_root(), ++number));
  return 1;
}

}  // namespace tessera::app::checked
