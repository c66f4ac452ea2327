#include "folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::quant {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void cannot_write(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::io, fmt::format("cannot write {}: {}", quote(path, 300), reason), path);
}

}  // namespace

bool check_place(const std::string& path, bool overwrite) {
  check_may_write(path);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return false;
  if (status.type() != fs::file_type::directory) cannot_write(path, "it is there and is no folder");
  const bool is_empty = fs::is_empty(path, error);
  if (error) cannot_write(path, error.message());
  if (is_empty) return true;
  if (!fs::is_regular_file(fs::path(path) / kResultFile, error)) {
    cannot_write(path,
                 fmt::format("the folder holds other files ({} is not among them); name a new one",
                             kResultFile));
  }
  if (!overwrite) {
    cannot_write(path, "it holds an earlier result; name a new folder, or set overwrite = true");
  }
  return true;
}

std::vector<std::string> files_to_copy(const std::string& model) {
  static const std::vector<std::string> weights = {".safetensors", ".bin",  ".pt", ".pth", ".gguf",
                                                   ".msgpack",     ".onnx", ".h5", ".ot"};
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(model)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name.front() == '.') continue;
    if (name == "config.json" || name == kResultFile || name.ends_with(".index.json")) continue;
    const std::string extension = lower(entry.path().extension().string());
    if (std::find(weights.begin(), weights.end(), extension) != weights.end()) continue;
    check_may_read(entry.path().string());
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool holds_tokenizer(const std::vector<std::string>& files) {
  return std::any_of(files.begin(), files.end(), [](const std::string& name) {
    return name == "tokenizer.json" || name == "tokenizer.model" || name == "vocab.json";
  });
}

}  // namespace tessera::quant
