#include "neighbours.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "host.h"
#include "loads.h"
#include "script.h"
#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::app {
namespace fs = std::filesystem;
namespace {

int depth_of(lua_State* L) {
  lua_Debug frame{};
  int depth = 0;
  while (lua_getstack(L, depth, &frame) != 0) ++depth;
  return depth;
}

// The file of the innermost Lua function that has one, or "" where that is no script's. A module or
// script that ends in `return require "x"` has left the stack by then, and is known all the same.
std::string calling_script(lua_State* L) {
  const std::vector<RunningModule>& running = running_modules(L);
  const int depth = depth_of(L);
  const int begun = running.empty() || running.back().stack != L ? 0 : running.back().depth;
  lua_Debug frame{};
  for (int level = 0; level < depth - begun && lua_getstack(L, level, &frame) != 0; ++level) {
    lua_getinfo(L, "S", &frame);
    if (*frame.source != '@') continue;  // C, or a text that load() was given
    const std::string file = frame.source + 1;
    return is_loaded_by_scripts(L, file) ? file : started_script(L, file);
  }
  return begun > 0 ? running.back().file : started_script(L, "");
}

// Where `file` is by its name and by its links, each with all folders above.
std::vector<fs::path> folders_around(const std::string& file) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::path& path : {fs::absolute(file, error), fs::weakly_canonical(file, error)}) {
    for (fs::path folder = path.parent_path(); folder.has_relative_path();
         folder = folder.parent_path()) {
      if (std::find(folders.begin(), folders.end(), folder) == folders.end()) {
        folders.push_back(folder);
      }
    }
  }
  return folders;
}

bool is_readable_file(const std::string& path) {
  std::error_code ignored;
  if (!access_is_restricted()) return fs::is_regular_file(path, ignored);
  try {
    check_may_read(path);
  } catch (const Error&) {
    return false;
  }
  return fs::is_regular_file(path, ignored);
}

std::string true_name(const std::string& file) {
  std::error_code error;
  const fs::path found = fs::canonical(file, error);
  return error ? file : found.string();
}

bool is_below(const std::string& file, const std::string& folder) {
  return !folder.empty() && file.rfind(folder + "/", 0) == 0;
}

// That a file's code runs right now, so that one which asks for itself is told.
class Running {
 public:
  Running(lua_State* L, const std::string& name, const std::string& file)
      : modules_(running_modules(L)) {
    const auto is_same = [&](const RunningModule& module) { return module.file == file; };
    if (std::any_of(modules_.begin(), modules_.end(), is_same)) {
      throw Error(ErrorCode::script,
                  fmt::format("require {}: {} asks for itself", quote(name), quote(file, 300)),
                  name);
    }
    modules_.push_back({file, L, depth_of(L)});
  }
  ~Running() { modules_.pop_back(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::vector<RunningModule>& modules_;
};

}  // namespace

std::string neighbour(lua_State* L, const std::string& name) {
  if (name.empty() || is_known_to_lua(L, name) || name.rfind("tessera.", 0) == 0) return "";
  const std::string script = calling_script(L);
  if (script.empty()) return "";
  std::string relative = name;
  std::replace(relative.begin(), relative.end(), '.', '/');
  std::vector<fs::path> folders = folders_around(script);
  folders.emplace_back(Host::of(L).installation().experiments_dir);
  for (const fs::path& folder : folders) {
    for (const char* ending : {".lua", "/init.lua"}) {
      std::string file = folder.string() + "/" + relative + ending;
      if (is_readable_file(file)) return file;
    }
  }
  return "";
}

bool ships_as_module(lua_State* L, const std::string& file) {
  const std::string found = true_name(file);
  return is_below(found, true_name(Host::of(L).installation().experiments_dir) + "/lib") &&
         !is_below(found, write_root());
}

void require_neighbour(lua_State* L, int loaded, const std::string& name, const std::string& file,
                       Globals globals) {
  const std::string key = true_name(file);
  record_load(L, file);
  if (lua_kit::push_field(L, loaded, key, "package.loaded")) return;
  lua_pop(L, 1);
  {
    const Running running(L, name, key);
    compile(L, read_script(file), "@" + file);
    if (globals == Globals::script) use_script_globals(L);
    lua_kit::push_text(L, name);
    if (lua_kit::protected_call(L, 1, 1) != 0) lua_kit::throw_script_error(L);
  }
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_pushboolean(L, 1);
  }
  lua_kit::push_text(L, key);
  lua_pushvalue(L, -2);
  lua_rawset(L, loaded);
}

}  // namespace tessera::app
