#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "target.h"

namespace tessera::fuzz {

/// A folder of this process, for readers that go by the names of files.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "tessera_fuzz.XXXXXX").string()) {
    require(::mkdtemp(path_.data()) != nullptr, "no folder for inputs");
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  /// Writes a file and returns its path.
  std::string file(const std::string& name, std::string_view content) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  std::string path_;
};

}  // namespace tessera::fuzz
