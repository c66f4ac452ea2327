#pragma once

#include <string>
#include <vector>

namespace tessera::app {

struct Listed {
  std::string name;  ///< what `tessera <name>` runs: relative to the experiments, without ".lua"
  std::string path;
  std::string doc;  ///< first comment line
};

/// The Lua files below `folder`, sorted by name. Unreadable folders count as empty.
std::vector<Listed> list_scripts(const std::string& folder, bool names_are_paths);

/// The scripts that ship, by their names; not the modules that they share, in `lib`.
std::vector<Listed> list_experiments(const std::string& experiments_dir);

/// The first `--` comment line of a script without its dashes, or "".
std::string first_comment(const std::string& code);

}  // namespace tessera::app
