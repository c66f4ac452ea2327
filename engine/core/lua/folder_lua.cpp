// Folders that the library writes as one.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core_lua.h"
#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/output.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::core_lua {
namespace {

namespace fs = std::filesystem;

std::string text_field(lua_State* L, const char* field, const std::string& path) {
  lua_kit::push_field(L, -1, field, path);
  std::string text = lua_kit::check_text(L, -1, path + "." + field);
  lua_pop(L, 1);
  return text;
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

void make_executable(const std::string& path) {
  std::error_code error;
  fs::permissions(path, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                  fs::perm_options::add, error);
  if (error) {
    throw Error(ErrorCode::io, "cannot make " + path + " executable: " + error.message(), path);
  }
}

}  // namespace

/// write_folder(path, { { name =, text =, executable = }, ... }, replaces): the folder appears with
/// all of these files or not at all; `replaces`: one that is there goes.
int write_folder(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "path");
  const bool replaces = lua_kit::check_boolean(L, 3, "replaces");
  OutputFolder folder(path);
  lua_kit::for_each_item(L, 2, "files", [&](std::size_t, const std::string& where) {
    const std::string name = text_field(L, "name", where);
    if (!is_plain_name(name)) refuse(where + ".name", "'{}' is no name of a file", name);
    const std::string target = folder.scratch_path() + "/" + name;
    write_file(target, text_field(L, "text", where));
    lua_kit::push_field(L, -1, "executable", where);
    if (lua_toboolean(L, -1) != 0) make_executable(target);
    lua_pop(L, 1);
  });
  folder.commit(replaces);
  return 0;
}

/// folder_files(path): names of what is in a folder, sorted; nil where there is no folder.
int folder_files(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "path");
  check_may_read(path);
  if (file_kind(path) != FileKind::folder) return 0;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) throw Error(ErrorCode::io, "cannot list " + path + ": " + error.message(), path);
  std::sort(names.begin(), names.end());
  lua_kit::push_texts(L, names);
  return 1;
}

}  // namespace tessera::core_lua
