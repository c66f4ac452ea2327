// Lua's wall of the sandbox. Scripts get globals of their own, filled from the lists below; the
// library keeps the real ones, so that nothing a script assigns is ever called by it with more
// rights. What could reach a file, a process or machine code is checked, or is not there at all, in
// the real ones too.

#include <fmt/format.h>

#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "sandbox/checked.h"
#include "sandbox/sandbox.h"
#include "script.h"
#include "strict.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::app {
namespace {

using lua_kit::guarded;
using Names = std::initializer_list<const char*>;

// They use the FFI, which goes away.
constexpr const char* kNeedFfi[] = {"tessera", "tessera.planning.search",
                                    "tessera.plugins.schedulers"};

// Of the environment, which may hold keys and passwords.
constexpr const char* kKeptVariables[] = {"TESSERA_PATH", "LANG", "LC_ALL",   "LC_CTYPE",
                                          "TZ",           "TERM", "NO_COLOR", "COLUMNS"};

void clean_environment() {
  std::vector<std::pair<const char*, std::string>> kept;
  for (const char* name : kKeptVariables) {
    if (const char* value = std::getenv(name)) kept.emplace_back(name, value);
  }
  ::clearenv();
  for (const auto& [name, value] : kept) ::setenv(name, value.c_str(), 1);
}

// Upvalue 1 is the name of what is not there.
int refuse_name(lua_State* L) {
  const std::string name = lua_kit::check_text(L, lua_upvalueindex(1), "name");
  throw Error(ErrorCode::unsupported, "the sandbox has no " + name, name);
}

// Replaces field `name` of the table on top by `Check`, which may call the original.
template <lua_CFunction Check>
void check_before(lua_State* L, const char* name) {
  lua_kit::push_field(L, -1, name, "library");
  lua_pushcclosure(L, guarded<Check>, 1);
  lua_setfield(L, -2, name);
}

void put_refusal(lua_State* L, const char* field, const char* shown) {
  lua_kit::push_text(L, shown);
  lua_pushcclosure(L, guarded<refuse_name>, 1);
  lua_setfield(L, -2, field);
}

void clear_fields(lua_State* L, Names names) {
  for (const char* name : names) {
    lua_pushnil(L);
    lua_setfield(L, -2, name);
  }
}

void check_files(lua_State* L) {
  lua_getglobal(L, "io");
  check_before<checked::open_file>(L, "open");
  check_before<checked::read_lines>(L, "lines");
  check_before<checked::choose_input>(L, "input");
  check_before<checked::choose_output>(L, "output");
  put_refusal(L, "popen", "io.popen: it starts no processes");
  put_refusal(L, "tmpfile", "io.tmpfile: open a file in the output folder");
  lua_getglobal(L, "os");
  check_before<checked::remove_file>(L, "remove");
  check_before<checked::rename_file>(L, "rename");
  lua_kit::set_functions(L, {{"tmpname", guarded<checked::temporary_name>}});
  put_refusal(L, "execute", "os.execute: it starts no processes");
  clear_fields(L, {"setlocale"});
  lua_pop(L, 2);
}

void drop_machine_code(lua_State* L) {
  lua_getglobal(L, "package");
  lua_kit::set_text(L, "cpath", "");
  clear_fields(L, {"loadlib", "seeall"});
  lua_kit::push_field(L, -1, "loaders", "package");
  for (const int c_searcher : {4, 3}) {
    lua_pushnil(L);
    lua_rawseti(L, -2, c_searcher);
  }
  lua_pop(L, 1);
  for (const char* table : {"loaded", "preload"}) {
    lua_kit::push_field(L, -1, table, "package");
    clear_fields(L, {"ffi", "jit.util", "jit.opt", "jit.profile"});
    lua_pop(L, 1);
  }
  lua_getglobal(L, "jit");
  clear_fields(L, {"util", "opt", "attach", "profile", "security", "prngstate"});
  lua_getglobal(L, "string");
  clear_fields(L, {"dump"});
  lua_pop(L, 3);
  lua_pushvalue(L, LUA_GLOBALSINDEX);
  clear_fields(L, {"newproxy", "getfenv", "setfenv", "module", "gcinfo"});
  lua_kit::set_functions(L, {{"load", guarded<checked::load_chunk>},
                             {"loadstring", guarded<checked::load_chunk>},
                             {"loadfile", guarded<checked::load_file>},
                             {"dofile", guarded<checked::do_file>}});
  lua_pop(L, 1);
}

void reduce_debug(lua_State* L) {
  lua_getglobal(L, "debug");
  lua_createtable(L, 0, 2);
  lua_kit::push_field(L, -2, "traceback", "debug");
  lua_setfield(L, -2, "traceback");
  lua_kit::set_functions(L, {{"getinfo", guarded<checked::frame_info>}});
  lua_pushvalue(L, -1);
  lua_setglobal(L, "debug");
  lua_kit::push_field(L, LUA_REGISTRYINDEX, "_LOADED", "registry");
  lua_insert(L, -2);
  lua_setfield(L, -2, "debug");
  lua_pop(L, 2);
}

// What getmetatable shows of texts and files, so that their methods stay those of the library.
void protect_metatables(lua_State* L) {
  lua_pushliteral(L, "");
  lua_getmetatable(L, -1);
  lua_kit::set_text(L, "__metatable", "string");
  lua_pop(L, 2);
  luaL_getmetatable(L, LUA_FILEHANDLE);
  lua_kit::set_text(L, "__metatable", LUA_FILEHANDLE);
  lua_pop(L, 1);
}

// Copies the named fields of a global table, or all of it, into a new table: a field of that name
// of the table on top.
void lend_table(lua_State* L, const char* name, Names fields) {
  lua_getglobal(L, name);
  lua_newtable(L);
  for (const char* field : fields) {
    lua_kit::push_field(L, -2, field, name);
    lua_setfield(L, -2, field);
  }
  if (fields.size() == 0) {
    const int copy = lua_gettop(L);
    lua_kit::for_each_pair(L, -2, name, [&] {
      lua_pushvalue(L, -2);
      lua_pushvalue(L, -2);
      lua_rawset(L, copy);
    });
  }
  lua_remove(L, -2);
  lua_setfield(L, -2, name);
}

void lend_functions(lua_State* L, Names names) {
  for (const char* name : names) {
    lua_getglobal(L, name);
    lua_setfield(L, -2, name);
  }
}

// Sets `package` and `require` of the globals on top.
void lend_require(lua_State* L, const std::vector<std::string>& folders) {
  std::string path;
  for (const std::string& folder : folders)
    path += fmt::format("{0}/?.lua;{0}/?/init.lua;", folder);
  lua_createtable(L, 0, 2);
  lua_kit::set_text(L, "path", path);
  lua_newtable(L);
  for (const char* name :
       {"bit", "coroutine", "debug", "io", "jit", "math", "os", "string", "table"}) {
    lua_kit::push_field(L, -3, name, "globals");
    lua_setfield(L, -2, name);
  }
  lua_setfield(L, -2, "loaded");
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "package");
  lua_getglobal(L, "require");
  lua_pushcclosure(L, guarded<checked::require_module>, 2);
  lua_setfield(L, -2, "require");
}

void push_script_globals(lua_State* L, const std::vector<std::string>& module_folders) {
  lua_newtable(L);
  lend_functions(L, {"_VERSION",   "arg",          "assert", "collectgarbage", "dofile",
                     "error",      "getmetatable", "ipairs", "load",           "loadfile",
                     "loadstring", "next",         "pairs",  "pcall",          "print",
                     "rawequal",   "rawget",       "rawset", "select",         "setmetatable",
                     "tonumber",   "tostring",     "type",   "unpack",         "xpcall"});
  for (const char* whole : {"bit", "coroutine", "debug", "math", "string", "table"}) {
    lend_table(L, whole, {});
  }
  lend_table(L, "io",
             {"close", "input", "lines", "open", "output", "popen", "read", "stderr", "stdin",
              "stdout", "tmpfile", "type", "write"});
  lend_table(L, "os",
             {"clock", "date", "difftime", "execute", "exit", "getenv", "remove", "rename", "time",
              "tmpname"});
  lend_table(L, "jit", {"arch", "flush", "off", "on", "os", "status", "version", "version_num"});
  lend_require(L, module_folders);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "_G");
}

// Runs in protected mode.
int build(lua_State* L) {
  check_files(L);
  drop_machine_code(L);
  reduce_debug(L);
  protect_metatables(L);
  push_script_globals(
      L, *static_cast<const std::vector<std::string>*>(lua_kit::check_pointer(L, 1, "folders")));
  if (Host::of(L).settings().strict) set_strict(L, lua_gettop(L), true);
  set_script_globals(L);
  return 0;
}

}  // namespace

void build_lua_wall(Host& host, const std::vector<std::string>& module_folders) {
  lua_State* L = host.state();
  const lua_kit::StackGuard guard(L);
  for (const char* module : kNeedFfi) {
    lua_getglobal(L, "require");
    lua_kit::push_text(L, module);
    if (host.call(1, 1) != kDone) throw Error(ErrorCode::internal, "the library does not load");
  }
  clean_environment();
  if (!access_is_restricted()) throw Error(ErrorCode::internal, "files are not restricted");
  lua_pushcfunction(L, guarded<build>);
  lua_pushlightuserdata(L, const_cast<std::vector<std::string>*>(&module_folders));
  if (host.call(1, 0) != kDone) throw Error(ErrorCode::internal, "the sandbox cannot be built");
}

}  // namespace tessera::app
