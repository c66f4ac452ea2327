#pragma once

#include <lua.hpp>
#include <string>
#include <vector>

namespace tessera::app {

/// From now on it is recorded which Lua files a script loads, by `require`, `dofile` or `loadfile`.
/// Those below `library_folder` are the program's own and do not count.
void record_loads(lua_State* L, std::string library_folder);

/// A file that was loaded without Lua's help: the script itself.
void record_load(lua_State* L, const std::string& path);

/// Paths of what was loaded since the last `start_loads`, each once, in order.
const std::vector<std::string>& loaded_files(lua_State* L);
void start_loads(lua_State* L);

}  // namespace tessera::app
