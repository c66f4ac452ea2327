// Code that a sandboxed script loads, and what it sees of its own frames.

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "host.h"
#include "neighbours.h"
#include "sandbox/checked.h"
#include "sandbox/lent.h"
#include "script.h"
#include "tessera/core/files.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::app::checked {
namespace {

constexpr std::size_t kMaxChunkBytes = 16u << 20;

std::string piece_by_piece(lua_State* L) {
  std::string code;
  for (;;) {
    lua_pushvalue(L, 1);
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1)) return code;
    const std::string piece = lua_kit::check_text(L, -1, "load: what the function returns");
    lua_pop(L, 1);
    if (piece.empty()) return code;
    code += piece;
    if (code.size() > kMaxChunkBytes) {
      throw Error(ErrorCode::script, "load: the code is longer than 16 MiB");
    }
  }
}

// Pushes the script whose file `require` finds along the script's package.path; false where there
// is none.
bool load_module(lua_State* L, const std::string& name) {
  lua_kit::push_field(L, lua_upvalueindex(1), "path", "package");
  const std::string path = lua_kit::check_text(L, -1, "package.path");
  lua_pop(L, 1);
  for (const std::string& file : module_files(path, name)) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(file, ignored)) continue;
    load_text(L, read_file(file, kMaxChunkBytes), "@" + file);
    return true;
  }
  return false;
}

}  // namespace

int load_chunk(lua_State* L) {
  lua_settop(L, 4);
  try {
    const std::string code =
        lua_isfunction(L, 1) ? piece_by_piece(L) : lua_kit::check_text(L, 1, "load.chunk");
    std::string name = lua_isnil(L, 2) ? "=(load)" : lua_kit::check_text(L, 2, "load.name");
    if (name.empty()) name = "=(load)";
    const std::string mode = lua_isnil(L, 3) ? "t" : lua_kit::check_text(L, 3, "load.mode");
    if (mode.find('t') == std::string::npos) {
      throw Error(ErrorCode::script, "load: the sandbox loads no bytecode, give the Lua source");
    }
    load_text(L, code, name);
  } catch (const Error& error) {
    return decline(L, error);
  }
  if (lua_istable(L, 4)) {
    lua_pushvalue(L, 4);
    lua_setfenv(L, -2);
  }
  return 1;
}

int load_file(lua_State* L) {
  try {
    load_script(L, lua_kit::check_text(L, 1, "loadfile.path"));
  } catch (const Error& error) {
    return decline(L, error);
  }
  return 1;
}

int do_file(lua_State* L) {
  load_script(L, lua_kit::check_text(L, 1, "dofile.path"));
  lua_replace(L, 1);
  lua_settop(L, 1);
  lua_call(L, 0, LUA_MULTRET);
  return lua_gettop(L);
}

int frame_info(lua_State* L) {
  lua_Debug frame{};
  if (lua_isfunction(L, 1)) {
    lua_pushvalue(L, 1);
    lua_getinfo(L, ">Slnu", &frame);
  } else {
    const auto level = lua_kit::check_integer(L, 1, "debug.getinfo.level", 0, 1e6);
    if (lua_getstack(L, static_cast<int>(level), &frame) == 0) return 0;
    lua_getinfo(L, "Slnu", &frame);
  }
  lua_createtable(L, 0, 8);
  const auto text = [&](const char* field, const char* value) {
    if (value == nullptr) return;
    lua_kit::set_text(L, field, value);
  };
  const auto number = [&](const char* field, int value) { lua_kit::set_number(L, field, value); };
  text("source", frame.source);
  text("short_src", frame.short_src);
  text("what", frame.what);
  text("name", frame.name);
  text("namewhat", frame.namewhat);
  number("currentline", frame.currentline);
  number("linedefined", frame.linedefined);
  number("lastlinedefined", frame.lastlinedefined);
  return 1;
}

int require_module(lua_State* L) {
  const std::string name = lua_kit::check_text(L, 1, "require.name");
  lua_settop(L, 1);
  lua_kit::push_field(L, lua_upvalueindex(1), "loaded", "package");
  if (!lua_istable(L, 2)) throw Error(ErrorCode::script, "package.loaded is no table any more");
  if (lua_kit::push_field(L, 2, name, "package.loaded")) return 1;
  lua_pop(L, 1);
  if (is_lent(Host::of(L).installation(), name)) {
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
  } else if (name.rfind("tessera", 0) == 0) {
    throw Error(ErrorCode::unsupported,
                fmt::format("the sandbox does not lend the module '{}'; the library is there as "
                            "require \"tessera\"",
                            name),
                name);
  } else if (const std::string file = neighbour(L, name); !file.empty()) {
    const bool ships = ships_as_module(L, file);
    if (ships) lua_kit::push_field(L, LUA_REGISTRYINDEX, "_LOADED", "registry");
    require_neighbour(L, lua_gettop(L), name, file, ships ? Globals::library : Globals::script);
    return 1;
  } else if (load_module(L, name)) {
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_pushboolean(L, 1);
    }
  } else {
    throw Error(ErrorCode::not_found,
                fmt::format("the sandbox has no module '{}'; it looks along package.path: folders "
                            "of the script, of TESSERA_PATH and the working folder",
                            name),
                name);
  }
  lua_pushvalue(L, 1);
  lua_pushvalue(L, -2);
  lua_rawset(L, 2);
  return 1;
}

}  // namespace tessera::app::checked
