#include "tessera/core/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera {
namespace fs = std::filesystem;
Installation find_installation(const std::string& executable_path) {
  std::error_code ignored;
  const fs::path executable = fs::weakly_canonical(executable_path, ignored);
  const fs::path installed = executable.parent_path().parent_path() / "share" / "tessera";
  if (fs::exists(installed / "scripts" / "tessera" / "init.lua", ignored)) {
    return {installed / "scripts", installed / "datasets", installed / "experiments"};
  }
  for (fs::path folder = executable.parent_path(); folder != folder.parent_path();
       folder = folder.parent_path()) {
    if (fs::exists(folder / "scripts" / "tessera" / "init.lua", ignored)) {
      return {folder / "scripts", folder / "datasets", folder / "experiments"};
    }
  }
  throw Error(
      ErrorCode::not_found,
      fmt::format("the Lua library 'scripts/tessera' was found neither in {} nor above {}; "
                  "reinstall, or run the program from its build tree",
                  quote(installed.string(), 300), quote(executable.parent_path().string(), 300)));
}

DataFolders DataFolders::from_environment(const std::string& own) {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("TESSERA_PATH")) {
    std::string_view rest(path);
    while (!rest.empty()) {
      const std::size_t end = rest.find(':');
      const std::string folder(rest.substr(0, end));
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
      if (folder.empty()) continue;
      folders.push_back(folder);
      std::error_code ignored;
      if (fs::is_directory(fs::path(folder) / "datasets", ignored)) {
        folders.push_back((fs::path(folder) / "datasets").string());
      }
    }
  }
  folders.push_back(own);
  return DataFolders(std::move(folders));
}

namespace {

// "RTX 2080 super" as "rtx-2080-super".
std::string normalised(std::string_view name) {
  std::string result(name);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) {
    return c == ' ' || c == '_' ? '-' : static_cast<char>(std::tolower(c));
  });
  return result;
}

}  // namespace

std::string DataFolders::find(const std::string& kind, const std::string& name) const {
  // A name is a name, not a path out of the folder.
  if (name.empty() || name.size() > 128 || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    return "";
  }
  const auto exact = [&](const std::string& file_name) -> std::string {
    for (const std::string& folder : folders_) {
      const fs::path path = fs::path(folder) / kind / (file_name + ".json");
      std::error_code ignored;
      if (fs::is_regular_file(path, ignored)) return path.string();
    }
    return "";
  };
  if (std::string path = exact(name); !path.empty()) return path;
  const std::string wanted = normalised(name);
  for (const std::string& known : list(kind)) {
    if (normalised(known) == wanted) return exact(known);
  }
  return "";
}

std::string DataFolders::require(const std::string& kind, const std::string& name,
                                 const std::string& where) const {
  std::string path = find(kind, name);
  if (!path.empty()) return path;
  std::string noun = kind;  // "kernel_sets" has a kernel set, "quality" is one
  if (noun.ends_with('s')) noun.pop_back();
  std::replace(noun.begin(), noun.end(), '_', ' ');
  throw Error(ErrorCode::not_found,
              fmt::format("{}{}unknown {} {}{}", where, where.empty() ? "" : ": ", noun,
                          quote(name), did_you_mean(name, list(kind))),
              where);
}

std::vector<std::string> DataFolders::list(const std::string& kind) const {
  std::vector<std::string> names;
  for (const std::string& folder : folders_) {
    std::error_code error;
    for (fs::directory_iterator it(fs::path(folder) / kind, error), end; !error && it != end;
         it.increment(error)) {
      if (it->path().extension() == ".json") names.push_back(it->path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace tessera
