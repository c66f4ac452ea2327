// Lua's wall of the sandbox. Scripts get globals of their own, filled from the lists below; the
// library keeps the real ones, so that nothing a script assigns is ever called by it with more
// rights. What could reach a file, a process or machine code is checked, or is not there at all, in
// the real ones too.

#include <fmt/format.h>

#include <initializer_list>

#include "sandbox.h"
#include "script.h"
#include "strict.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/value.h"

namespace tessera::app {
namespace {

using lua_kit::guarded;
using Names = std::initializer_list<const char*>;

constexpr std::size_t kMaxChunkBytes = 16u << 20;

// Modules of the library that hold nothing but what any script may do.
constexpr std::string_view kLentModules[] = {
    "tessera",          "tessera.core",   "tessera.options",         "tessera.rows",
    "tessera.budget",   "tessera.timer",  "tessera.splits",          "tessera.text_table",
    "tessera.variants", "tessera.prices", "tessera.baselines.search"};

// They use the FFI, which goes away.
constexpr const char* kNeedFfi[] = {"tessera", "tessera.search"};

// Calls upvalue 1 with the arguments.
int forward(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

// nil and a message, as Lua's own functions decline.
int decline(lua_State* L, const Error& error) {
  lua_settop(L, 0);
  lua_pushnil(L);
  lua_kit::push_text(L, error.what());
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

/// os.tmpname(): a path in the output folder.
int temporary_name(lua_State* L) {
  static int number = 0;
  lua_kit::push_text(L, fmt::format("{}/tmp_{}", write_root(), ++number));
  return 1;
}

// Upvalue 1 is the name of what is not there.
int refuse(lua_State* L) {
  const std::string name = lua_kit::check_text(L, lua_upvalueindex(1), "name");
  throw Error(ErrorCode::unsupported, "the sandbox has no " + name, name);
}

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

/// load(text or function, name, mode, globals): source only.
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

/// debug.getinfo(level or function): texts and numbers only.
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
    lua_kit::push_text(L, value);
    lua_setfield(L, -2, field);
  };
  const auto number = [&](const char* field, int value) {
    lua_pushnumber(L, value);
    lua_setfield(L, -2, field);
  };
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

// Pushes the script whose file `require` finds; false where there is none.
bool load_module(lua_State* L, const std::string& name, std::string& tried) {
  lua_getfield(L, lua_upvalueindex(1), "path");
  const std::string path = lua_kit::check_text(L, -1, "package.path");
  lua_pop(L, 1);
  std::string file_name = name;
  std::replace(file_name.begin(), file_name.end(), '.', '/');
  for (std::size_t start = 0; start < path.size();) {
    const std::size_t end = std::min(path.find(';', start), path.size());
    std::string file = path.substr(start, end - start);
    start = end + 1;
    for (std::size_t mark; (mark = file.find('?')) != std::string::npos;) {
      file.replace(mark, 1, file_name);
    }
    try {
      const std::string code = read_file(file, kMaxChunkBytes);
      load_text(L, code, "@" + file);
      return true;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::script) throw;
      tried += fmt::format("\n  {}", error.what());
    }
  }
  return false;
}

bool is_lent(std::string_view name) {
  return std::find(std::begin(kLentModules), std::end(kLentModules), name) !=
         std::end(kLentModules);
}

/// require(name). Upvalues: the script's `package`, the library's `require`.
int require_module(lua_State* L) {
  const std::string name = lua_kit::check_text(L, 1, "require.name");
  lua_settop(L, 1);
  lua_getfield(L, lua_upvalueindex(1), "loaded");
  if (!lua_istable(L, 2)) throw Error(ErrorCode::script, "package.loaded is no table any more");
  lua_pushvalue(L, 1);
  lua_rawget(L, 2);
  if (!lua_isnil(L, -1)) return 1;
  lua_pop(L, 1);
  std::string tried;
  if (is_lent(name)) {
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
  } else if (name.rfind("tessera", 0) == 0) {
    throw Error(ErrorCode::unsupported,
                fmt::format("the sandbox does not lend the module '{}'; the library is there as "
                            "require \"tessera\"",
                            name),
                name);
  } else if (load_module(L, name, tried)) {
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_pushboolean(L, 1);
    }
  } else {
    throw Error(
        ErrorCode::not_found,
        fmt::format("the sandbox has no module '{}'; it was looked for here:{}", name, tried),
        name);
  }
  lua_pushvalue(L, 1);
  lua_pushvalue(L, -2);
  lua_rawset(L, 2);
  return 1;
}

// Replaces field `name` of the table on top by `check`, which may call the original.
void check_before(lua_State* L, const char* name, lua_CFunction check) {
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, check, 1);
  lua_setfield(L, -2, name);
}

void put_refusal(lua_State* L, const char* field, const char* shown) {
  lua_kit::push_text(L, shown);
  lua_pushcclosure(L, guarded<refuse>, 1);
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
  check_before(L, "open", guarded<open_file>);
  check_before(L, "lines", guarded<read_lines>);
  check_before(L, "input", guarded<choose_input>);
  check_before(L, "output", guarded<choose_output>);
  put_refusal(L, "popen", "io.popen: it starts no processes");
  put_refusal(L, "tmpfile", "io.tmpfile: open a file in the output folder");
  lua_getglobal(L, "os");
  check_before(L, "remove", guarded<remove_file>);
  check_before(L, "rename", guarded<rename_file>);
  lua_kit::set_functions(L, {{"tmpname", guarded<temporary_name>}});
  put_refusal(L, "execute", "os.execute: it starts no processes");
  clear_fields(L, {"setlocale"});
  lua_pop(L, 2);
}

void drop_machine_code(lua_State* L) {
  lua_getglobal(L, "package");
  lua_kit::push_text(L, "");
  lua_setfield(L, -2, "cpath");
  clear_fields(L, {"loadlib", "seeall"});
  lua_getfield(L, -1, "loaders");
  for (const int c_searcher : {4, 3}) {
    lua_pushnil(L);
    lua_rawseti(L, -2, c_searcher);
  }
  lua_pop(L, 1);
  for (const char* table : {"loaded", "preload"}) {
    lua_getfield(L, -1, table);
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
  lua_kit::set_functions(L, {{"load", guarded<load_chunk>},
                             {"loadstring", guarded<load_chunk>},
                             {"loadfile", guarded<load_file>},
                             {"dofile", guarded<do_file>}});
  lua_pop(L, 1);
}

void reduce_debug(lua_State* L) {
  lua_getglobal(L, "debug");
  lua_createtable(L, 0, 2);
  lua_getfield(L, -2, "traceback");
  lua_setfield(L, -2, "traceback");
  lua_kit::set_functions(L, {{"getinfo", guarded<frame_info>}});
  lua_pushvalue(L, -1);
  lua_setglobal(L, "debug");
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_insert(L, -2);
  lua_setfield(L, -2, "debug");
  lua_pop(L, 2);
}

// What getmetatable shows of texts and files, so that their methods stay those of the library.
void protect_metatables(lua_State* L) {
  lua_pushliteral(L, "");
  lua_getmetatable(L, -1);
  lua_kit::push_text(L, "string");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 2);
  luaL_getmetatable(L, LUA_FILEHANDLE);
  lua_kit::push_text(L, LUA_FILEHANDLE);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

// Copies the named fields of a global table, or all of it, into a new table: a field of that name
// of the table on top.
void lend_table(lua_State* L, const char* name, Names fields) {
  lua_getglobal(L, name);
  lua_newtable(L);
  for (const char* field : fields) {
    lua_getfield(L, -2, field);
    lua_setfield(L, -2, field);
  }
  if (fields.size() == 0) {
    for (lua_pushnil(L); lua_next(L, -3) != 0;) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, -4);
    }
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
  lua_kit::push_text(L, path);
  lua_setfield(L, -2, "path");
  lua_newtable(L);
  for (const char* name :
       {"bit", "coroutine", "debug", "io", "jit", "math", "os", "string", "table"}) {
    lua_getfield(L, -3, name);
    lua_setfield(L, -2, name);
  }
  lua_setfield(L, -2, "loaded");
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "package");
  lua_getglobal(L, "require");
  lua_pushcclosure(L, guarded<require_module>, 2);
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
  push_script_globals(L, *static_cast<const std::vector<std::string>*>(lua_touserdata(L, 1)));
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
  if (!access_is_restricted()) throw Error(ErrorCode::internal, "files are not restricted");
  lua_pushcfunction(L, guarded<build>);
  lua_pushlightuserdata(L, const_cast<std::vector<std::string>*>(&module_folders));
  if (host.call(1, 0) != kDone) throw Error(ErrorCode::internal, "the sandbox cannot be built");
}

}  // namespace tessera::app
