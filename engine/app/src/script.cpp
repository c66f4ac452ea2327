#include "script.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "host.h"
#include "list.h"
#include "loads.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/table.h"

namespace tessera::app {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kMaxScriptBytes = 16u << 20;

const char kGlobalsKey = 0;

// "; did you mean 'splitquant/table6'?" of the experiments that ship.
[[noreturn]] void refuse_missing(const Installation& installation, const std::string& path) {
  std::vector<std::string> names;
  for (const Listed& known : list_experiments(installation.experiments_dir)) {
    names.push_back(known.name);
  }
  const bool is_near = !nearest_names(path, names, 1).empty();
  throw Error(ErrorCode::not_found,
              fmt::format("there is no script {}, here or among the experiments that ship{}; "
                          "`tessera list` names those",
                          quote(path), is_near ? did_you_mean(path, names) : ""),
              path);
}

}  // namespace

std::string find_script(const Installation& installation, const std::string& path) {
  std::error_code ignored;
  if (path == "-") return "/dev/stdin";
  if (fs::exists(path, ignored)) return path;
  for (const char* suffix : {"", ".lua"}) {
    const fs::path known = fs::path(installation.experiments_dir) / (path + suffix);
    if (fs::is_regular_file(known, ignored)) return known.string();
  }
  return path;
}

std::vector<std::string> module_files(const std::string& package_path, const std::string& name) {
  std::string file_name = name;
  std::replace(file_name.begin(), file_name.end(), '.', '/');
  std::vector<std::string> files;
  for (std::size_t start = 0; start < package_path.size();) {
    const std::size_t end = std::min(package_path.find(';', start), package_path.size());
    std::string file = package_path.substr(start, end - start);
    start = end + 1;
    for (std::size_t mark = 0; (mark = file.find('?', mark)) != std::string::npos;) {
      file.replace(mark, 1, file_name);
      mark += file_name.size();
    }
    files.push_back(std::move(file));
  }
  return files;
}

void set_script_globals(lua_State* L) { lua_kit::set_registry_value(L, &kGlobalsKey); }

void use_script_globals(lua_State* L) {
  lua_kit::push_registry_value(L, &kGlobalsKey);
  if (lua_isnil(L, -1)) return lua_pop(L, 1);
  lua_setfenv(L, -2);
}

std::string read_script(const std::string& file) {
  std::string code = read_file(file, kMaxScriptBytes);
  // "#!" lines and byte order marks are for others; the line count stays.
  if (code.rfind("\xEF\xBB\xBF", 0) == 0) code.erase(0, 3);
  if (!code.empty() && code.front() == '#') code.insert(0, "--");
  return code;
}

void compile(lua_State* L, const std::string& code, const std::string& chunk_name) {
  const std::string shown = chunk_name.substr(1);
  if (!code.empty() && code.front() == '\x1b') {
    refuse(ErrorCode::script, shown, "bytecode is not loaded; give the Lua source");
  }
  if (const std::size_t nul = code.find('\0'); nul != std::string::npos) {
    refuse(ErrorCode::script, shown, "not a Lua script: NUL byte at offset {}", nul);
  }
  if (luaL_loadbufferx(L, code.data(), code.size(), chunk_name.c_str(), "t") != 0) {
    const std::string message = lua_kit::check_text(L, -1, "message");
    lua_pop(L, 1);
    throw Error(ErrorCode::script, message, shown);
  }
}

void load_text(lua_State* L, const std::string& code, const std::string& chunk_name) {
  compile(L, code, chunk_name);
  use_script_globals(L);
}

void load_script(lua_State* L, const std::string& path) {
  const std::string found = find_script(Host::of(L).installation(), path);
  std::error_code ignored;
  if (fs::is_directory(found, ignored)) {
    refuse(found,
           "a folder, not a script; `tessera list` names the experiments in it, and a script that "
           "returns ts.collection {{ scripts = {{ \"{}\" }} }} runs them all",
           fs::path(found + "/").lexically_normal().parent_path().filename().string());
  }
  // A path says where it should be, and reading it why it is not there.
  const bool is_name = !found.empty() && found.front() != '/';
  if (is_name && fs::symlink_status(found, ignored).type() == fs::file_type::not_found) {
    refuse_missing(Host::of(L).installation(), found);
  }
  const std::string code = read_script(found);
  record_load(L, found);
  load_text(L, code, "@" + (path == "-" ? std::string("stdin") : found));
}

}  // namespace tessera::app
