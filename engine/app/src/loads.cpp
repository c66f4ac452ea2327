#include "loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "neighbours.h"
#include "script.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::app {
namespace {

using lua_kit::guarded;

struct Loads {
  std::string library_folder;
  std::vector<std::string> paths;
  std::map<std::string, std::string> of_module;  ///< a module is loaded once and required often
  std::set<std::string> of_scripts;              ///< files that may have neighbours
  std::set<std::string> known_names;             ///< modules that were there at the start
  std::vector<RunningModule> running;

  bool add(const std::string& path) {
    if (path.rfind(library_folder, 0) == 0) return false;
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
    return true;
  }
  void add_script(const std::string& path) {
    if (add(path)) of_scripts.insert(path);
  }
};

const char kLoadsKey = 0;

Loads& loads(lua_State* L) {
  return *static_cast<Loads*>(lua_kit::registry_pointer(L, &kLoadsKey));
}

// The file that the function on top of the stack was compiled from, or "".
std::string source_of(lua_State* L) {
  if (!lua_isfunction(L, -1)) return "";
  lua_Debug info;
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">S", &info);
  return *info.source == '@' ? info.source + 1 : "";
}

constexpr std::uint64_t kMaxBytes = 256u << 20;  // Lua's own loader knows no limit

// Whether it is for read_file to read: Lua's own loader would wait for it without a word.
bool is_waited_for(FileKind kind) {
  return kind != FileKind::none && kind != FileKind::file && kind != FileKind::folder;
}

// Pushes what is read there as a function; false and the message where that is no Lua.
bool load_waited_for(lua_State* L, const std::string& path, const char* mode = nullptr) {
  const std::string code = read_file(path, kMaxBytes);
  return luaL_loadbufferx(L, code.data(), code.size(), ("@" + path).c_str(), mode) == 0;
}

// loadfile(path, mode, environment)
int load_waited_for_file(lua_State* L) {
  const std::string mode =
      lua_isnoneornil(L, 2) ? "bt" : lua_kit::check_text(L, 2, "loadfile.mode");
  lua_settop(L, 3);
  if (!load_waited_for(L, lua_kit::check_text(L, 1, "loadfile.path"), mode.c_str())) {
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  if (lua_istable(L, 3)) {
    lua_pushvalue(L, 3);
    lua_setfenv(L, -2);
  }
  return 1;
}

// The loader of a module whose file is a pipe or a device; false where it is none.
bool load_waited_for_module(lua_State* L, const std::string& name) {
  lua_getglobal(L, "package");
  lua_kit::push_field(L, -1, "path", "package");
  const std::string package_path(lua_kit::text_or_empty(L, -1));
  lua_pop(L, 2);
  for (const std::string& file : module_files(package_path, name)) {
    const FileKind kind = file_kind(file);
    if (kind == FileKind::none) continue;
    if (!is_waited_for(kind)) return false;
    if (load_waited_for(L, file)) return true;
    throw Error(ErrorCode::script, fmt::format("error loading module '{}' from file '{}':\n\t{}",
                                               name, file, lua_kit::text_or_empty(L, -1)));
  }
  return false;
}

// Calls what this function stands in for, with the same arguments.
int call_original(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

bool names_what_is_waited_for(lua_State* L) {
  return lua_type(L, 1) == LUA_TSTRING &&
         is_waited_for(file_kind(lua_kit::check_text(L, 1, "path")));
}

int load_file(lua_State* L) {
  const int num_results = names_what_is_waited_for(L) ? load_waited_for_file(L) : call_original(L);
  lua_pushvalue(L, -num_results);
  if (const std::string path = source_of(L); !path.empty()) loads(L).add_script(path);
  lua_pop(L, 1);
  return num_results;
}

int do_file(lua_State* L) {
  if (lua_type(L, 1) == LUA_TSTRING) loads(L).add_script(lua_kit::check_text(L, 1, "dofile"));
  if (!names_what_is_waited_for(L)) return call_original(L);
  lua_settop(L, 1);
  if (!load_waited_for(L, lua_kit::check_text(L, 1, "dofile"))) return lua_error(L);
  lua_replace(L, 1);
  lua_call(L, 0, LUA_MULTRET);
  return lua_gettop(L);
}

int search_module(lua_State* L) {
  const std::string name = lua_kit::check_text(L, 1, "require");
  int num_results = 1;
  if (load_waited_for_module(L, name)) {
    lua_replace(L, 1);
  } else {
    num_results = call_original(L);
  }
  lua_pushvalue(L, 1);
  if (const std::string path = source_of(L); !path.empty()) loads(L).of_module[name] = path;
  lua_pop(L, 1);
  return num_results;
}

int require_module(lua_State* L) {
  const std::string name =
      lua_type(L, 1) == LUA_TSTRING ? lua_kit::check_text(L, 1, "require") : "";
  if (const std::string file = neighbour(L, name); !file.empty()) {
    lua_settop(L, 0);
    lua_kit::push_field(L, LUA_REGISTRYINDEX, "_LOADED", "registry");
    require_neighbour(L, 1, name, file, Globals::library);
    return 1;
  }
  const int num_results = call_original(L);
  const auto& known = loads(L).of_module;
  if (const auto found = known.find(name); found != known.end()) loads(L).add(found->second);
  return num_results;
}

// The names in the registry's or package's table of modules.
void add_names(lua_State* L, int index, std::set<std::string>& names) {
  lua_kit::for_each_pair(L, index, "modules", [&] {
    if (lua_type(L, -2) == LUA_TSTRING) names.insert(lua_kit::check_text(L, -2, "name"));
  });
}

int destroy(lua_State* L) {
  loads(L).~Loads();
  return 0;
}

}  // namespace

void record_loads(lua_State* L, std::string library_folder) {
  lua_pushlightuserdata(L, const_cast<char*>(&kLoadsKey));
  new (lua_newuserdata(L, sizeof(Loads))) Loads{std::move(library_folder), {}, {}, {}, {}, {}};
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, guarded<destroy>);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
  lua_getglobal(L, "package");
  for (const char* table : {"loaded", "preload"}) {
    lua_kit::push_field(L, -1, table, "package");
    add_names(L, -1, loads(L).known_names);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  loads(L).known_names.insert("tessera");
  lua_getglobal(L, "loadfile");
  lua_pushcclosure(L, guarded<load_file>, 1);
  lua_setglobal(L, "loadfile");
  lua_getglobal(L, "dofile");
  lua_pushcclosure(L, guarded<do_file>, 1);
  lua_setglobal(L, "dofile");
  lua_getglobal(L, "require");
  lua_pushcclosure(L, guarded<require_module>, 1);
  lua_setglobal(L, "require");
  lua_getglobal(L, "package");
  lua_kit::push_field(L, -1, "loaders", "package");
  lua_kit::push_item(L, -1, 2, "package.loaders");
  lua_pushcclosure(L, guarded<search_module>, 1);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 2);
}

void record_load(lua_State* L, const std::string& path) { loads(L).add_script(path); }

bool is_loaded_by_scripts(lua_State* L, const std::string& path) {
  return loads(L).of_scripts.count(path) != 0;
}

bool is_known_to_lua(lua_State* L, const std::string& name) {
  return loads(L).known_names.count(name) != 0;
}

std::vector<RunningModule>& running_modules(lua_State* L) { return loads(L).running; }

std::string started_script(lua_State* L, const std::string& running_file) {
  const Loads& known = loads(L);
  const bool is_own = running_file.empty() || running_file.rfind(known.library_folder, 0) == 0;
  return is_own && !known.paths.empty() ? known.paths.front() : "";
}

const std::vector<std::string>& loaded_files(lua_State* L) { return loads(L).paths; }

void start_loads(lua_State* L) { loads(L).paths.clear(); }

}  // namespace tessera::app
