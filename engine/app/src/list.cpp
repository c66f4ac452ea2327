#include "list.h"

#include <algorithm>
#include <filesystem>

#include "tessera/core/error.h"
#include "tessera/core/files.h"

namespace tessera::app {
namespace fs = std::filesystem;

std::string first_comment(const std::string& code) {
  for (std::size_t start = 0; start < code.size();) {
    std::size_t end = std::min(code.find('\n', start), code.size());
    const std::string line = code.substr(start, end - start);
    start = end + 1;
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line.rfind("#!", 0) == 0) continue;
    if (line.compare(first, 2, "--") != 0) return "";
    const std::size_t text = line.find_first_not_of("- \t[=", first);
    if (text == std::string::npos) continue;  // an empty comment line
    end = line.find_last_not_of(" \t\r");
    return line.substr(text, end - text + 1);
  }
  return "";
}

std::vector<Listed> list_scripts(const std::string& folder, bool names_are_paths) {
  std::vector<Listed> found;
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator it(folder, options, error), end; !error && it != end;
       it.increment(error)) {
    const fs::path& path = it->path();
    if (path.filename().string().front() == '.') {
      it.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    if (path.extension() != ".lua" || !it->is_regular_file(ignored)) continue;
    Listed entry;
    entry.path = path.string();
    entry.name = entry.path;
    if (!names_are_paths) {
      entry.name = path.lexically_relative(folder).replace_extension().string();
    }
    try {
      entry.doc = first_comment(read_file(entry.path, 16u << 20));
    } catch (const Error& failure) {
      entry.doc = failure.what();
    }
    found.push_back(std::move(entry));
  }
  std::sort(found.begin(), found.end(),
            [](const Listed& a, const Listed& b) { return a.name < b.name; });
  return found;
}

std::vector<Listed> list_experiments(const std::string& experiments_dir) {
  std::vector<Listed> found = list_scripts(experiments_dir, false);
  found.erase(
      std::remove_if(found.begin(), found.end(),
                     [](const Listed& script) { return script.name.rfind("lib/", 0) == 0; }),
      found.end());
  return found;
}

}  // namespace tessera::app
