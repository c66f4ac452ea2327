#include "folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera::quant {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::io, fmt::format("cannot write {}: {}", quote(path, 300), reason), path);
}

void check_place(const fs::path& path, bool overwrite, bool* replaces) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() != fs::file_type::directory) refuse(path, "it is there and is no folder");
  if (fs::is_empty(path, error) && !error) {
    *replaces = true;
    return;
  }
  if (error) refuse(path, error.message());
  if (!fs::is_regular_file(path / kResultFile, error)) {
    refuse(path, fmt::format("the folder holds other files ({} is not among them); name a new one",
                             kResultFile));
  }
  if (!overwrite) {
    refuse(path, "it holds an earlier result; name a new folder, or set overwrite = true");
  }
  *replaces = true;
}

}  // namespace

OutputFolder::OutputFolder(const std::string& path, bool overwrite) {
  check_may_write(path);
  std::error_code error;
  fs::path place = fs::absolute(path, error).lexically_normal();
  if (place.filename().empty()) place = place.parent_path();  // "out/"
  final_ = place.string();
  check_place(place, overwrite, &replaces_);
  const fs::path parent = place.parent_path();
  if (!fs::is_directory(parent, error)) {
    refuse(path, fmt::format("there is no folder {}", quote(parent.string(), 300)));
  }
  std::string name = final_ + ".partial.XXXXXX";
  check_may_write(name);
  if (mkdtemp(name.data()) == nullptr)
    refuse(path, std::error_code(errno, std::generic_category()).message());
  temporary_ = name;
  fs::permissions(temporary_, fs::status(parent).permissions() & fs::perms::all, error);
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void OutputFolder::require_space(std::uint64_t bytes) const {
  std::error_code error;
  const fs::space_info space = fs::space(temporary_, error);
  if (error || space.available >= bytes) return;
  refuse(final_, fmt::format("the result takes {}, the disk has {} left",
                             format_bytes(static_cast<double>(bytes)),
                             format_bytes(static_cast<double>(space.available))));
}

void OutputFolder::commit() {
  const std::string old = temporary_ + ".old";
  std::error_code error;
  if (replaces_) fs::rename(final_, old, error);
  if (!error) fs::rename(temporary_, final_, error);
  if (error) {
    std::error_code ignored;
    if (replaces_ && !fs::exists(final_, ignored)) fs::rename(old, final_, ignored);
    refuse(final_, error.message());
  }
  committed_ = true;
  if (replaces_) fs::remove_all(old, error);
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

}  // namespace tessera::quant
