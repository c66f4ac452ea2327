#include "folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera::quant {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void cannot_write(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::io, fmt::format("cannot write {}: {}", quote(path, 300), reason), path);
}

bool is_below(const fs::path& inner, const fs::path& outer) {
  const auto [end, ignored] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

void check_inputs_apart(const std::string& path, const std::vector<std::string>& inputs) {
  std::error_code error;
  const fs::path place = fs::canonical(path, error);
  for (const std::string& input : inputs) {
    if (input.empty() || error || !is_below(fs::weakly_canonical(input), place)) continue;
    refuse("out", "{} lies in {}, which the result would replace; name another folder",
           quote(input, 300), quote(path, 300));
  }
}

// Nothing goes that is not named in the earlier result's own list.
void check_holds_result_alone(const std::string& path) {
  const std::string about = (fs::path(path) / kResultFile).string();
  const Json json = read_json_file(about);
  std::set<std::string> ours{kResultFile};
  if (json.is_object() && json.contains("files") && json["files"].is_array()) {
    for (const Json& name : json["files"])
      if (name.is_string()) ours.insert(name.get<std::string>());
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (ours.contains(name) && fs::is_regular_file(entry.symlink_status())) continue;
    cannot_write(path, fmt::format("the folder holds {}, which is not among the files that {} "
                                   "names; name a new one",
                                   quote(name, 100), kResultFile));
  }
}

// A cache of Hugging Face has links from snapshots/REVISION to blobs.
void check_leads_not_out(const fs::directory_entry& entry, const std::string& model) {
  if (!entry.is_symlink()) return;
  const fs::path folder = fs::canonical(model), target = fs::canonical(entry.path());
  if (is_below(target, folder)) return;
  const fs::path snapshots = folder.parent_path();
  if (snapshots.filename() == "snapshots" && is_below(target, snapshots.parent_path() / "blobs"))
    return;
  refuse(entry.path().string(),
         "it is a link to {}, outside of the model's folder; put the file itself there",
         quote(target.string(), 300));
}

}  // namespace

bool check_place(const std::string& path, bool overwrite, const std::vector<std::string>& inputs) {
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
  check_inputs_apart(path, inputs);
  check_holds_result_alone(path);
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
    check_leads_not_out(entry, model);
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool holds_tokenizer(const std::vector<std::string>& files) {
  return std::any_of(files.begin(), files.end(), [](const std::string& name) {
    return name == "tokenizer.json" || name == "tokenizer.model" || name == "vocab.json";
  });
}

}  // namespace tessera::quant
