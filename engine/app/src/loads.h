#pragma once

#include <lua.hpp>
#include <string>
#include <vector>

namespace tessera::app {

/// From now on it is recorded which Lua files a script loads, by `require`, `dofile` or `loadfile`,
/// and `require` looks beside scripts (neighbours.h). Files below `library_folder` are the
/// program's own and do not count.
void record_loads(lua_State* L, std::string library_folder);

/// A file that was loaded without Lua's help: the script itself.
void record_load(lua_State* L, const std::string& path);

/// Whether `path` is a script, or was loaded by one from a path or from beside itself.
bool is_loaded_by_scripts(lua_State* L, const std::string& path);

/// Whether Lua and the program brought module `name` with them.
bool is_known_to_lua(lua_State* L, const std::string& name);

/// A module whose code runs right now: its file, and how many calls deep on which stack it began.
struct RunningModule {
  std::string file;
  lua_State* stack = nullptr;
  int depth = 0;
};
std::vector<RunningModule>& running_modules(lua_State* L);  ///< the innermost last

/// The script that was started, where the program's own code runs it.
std::string started_script(lua_State* L, const std::string& running_file);

/// Paths of what was loaded since the last `start_loads`, each once, in order.
const std::vector<std::string>& loaded_files(lua_State* L);
void start_loads(lua_State* L);

}  // namespace tessera::app
