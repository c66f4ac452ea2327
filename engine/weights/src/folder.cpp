#include "folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <regex>
#include <set>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace fs = std::filesystem;
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";
constexpr const char *kTorchIndexName = "pytorch_model.bin.index.json",
                     *kTorchName = "pytorch_model.bin";
constexpr const char* kConfigName = "config.json";
constexpr std::size_t kMaxFiles = 10'000;

[[noreturn]] void refuse_index(const std::string& path, const std::string& problem) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", quote(path, 300), problem), path);
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// Names of the entries, sorted.
std::vector<std::string> entries(const std::string& folder) {
  check_may_read(folder);
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
    if (names.size() > kMaxFiles) {
      throw Error(ErrorCode::io,
                  fmt::format("{}: more than {} files; that is no folder of a model",
                              quote(folder, 300), kMaxFiles),
                  folder);
    }
  }
  if (error) {
    throw Error(ErrorCode::io,
                fmt::format("cannot read the folder {}: {}", quote(folder, 300), error.message()),
                folder);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> ending_in(const std::vector<std::string>& names,
                                   std::initializer_list<const char*> endings) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    const std::string extension = fs::path(name).extension().string();
    if (std::any_of(endings.begin(), endings.end(),
                    [&](const char* ending) { return extension == ending; })) {
      found.push_back(name);
    }
  }
  return found;
}

void use_index(Source& source, const fs::path& index) {
  source.index_path = index.string();
  source.weight_map = parse_index(read_file(source.index_path), source.index_path);
  source.files = files_of_index(source.weight_map, source.index_path);
}

// Both in a folder: transformers reads the single file, vLLM the shards of the index.
void refuse_single_beside_index(const Source& source, const fs::path& folder) {
  const std::string single = (folder / kSingleName).string();
  std::error_code error;
  if (!is_there(single) ||
      (source.files.size() == 1 && fs::equivalent(source.files.front(), single, error))) {
    return;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} holds {} and an index of other files; name the one or the other, {} "
                          "or {}, or take one away",
                          quote(folder.string(), 300), kSingleName, quote(single, 300),
                          quote(source.index_path, 300)),
              source.index_path);
}

// "NAME-00002-of-00005.gguf", as llama-gguf-split calls the parts of a model.
struct PartName {
  std::string name;
  std::size_t count;
};

std::optional<PartName> part_name(const std::string& file) {
  static const std::regex kPart(R"((.+)-(\d{5})-of-(\d{5})\.gguf)");
  std::smatch found;
  if (!std::regex_match(file, found, kPart)) return std::nullopt;
  return PartName{found[1], std::stoul(found[3])};
}

// All parts of the model that `file` is one of, in their order.
std::vector<std::string> parts_of(const fs::path& file) {
  const auto part = part_name(file.filename().string());
  if (!part || part->count < 1 || part->count > kMaxFiles) return {file.string()};
  std::vector<std::string> parts;
  for (std::size_t i = 1; i <= part->count; ++i) {
    const fs::path path =
        file.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf", part->name, i, part->count);
    if (!is_there(path)) {
      throw Error(ErrorCode::not_found,
                  fmt::format("{} is one of {} parts of a model, and {} is not there",
                              quote(file.string(), 300), part->count, quote(path.string(), 300)),
                  path.string());
    }
    parts.push_back(path.string());
  }
  return parts;
}

// The encoder of pictures of a model, which llama.cpp has in a file of its own.
bool is_projector(const std::string& name) { return name.rfind("mmproj", 0) == 0; }

void use_gguf(Source& source, const fs::path& folder, std::vector<std::string> names) {
  if (!std::all_of(names.begin(), names.end(), is_projector)) std::erase_if(names, is_projector);
  source.files = parts_of(folder / names.front());
  const bool one_model = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    const std::string path = (folder / name).string();
    return std::find(source.files.begin(), source.files.end(), path) != source.files.end();
  });
  if (!one_model) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} holds {} GGUF files; name one of them: {}", quote(folder.string(), 300),
                    names.size(), quote(join(names, ", "), 300)),
        folder.string());
  }
}

Source folder_source(const fs::path& folder) {
  const std::vector<std::string> names = entries(folder.string());
  Source source;
  if (is_there(folder / kConfigName)) source.config_path = (folder / kConfigName).string();
  const std::vector<std::string> safetensors = ending_in(names, {".safetensors"});
  const std::vector<std::string> gguf = ending_in(names, {".gguf"});
  const std::vector<std::string> pickles = ending_in(names, {".bin", ".pt", ".pth"});
  if (is_there(folder / kIndexName)) {
    use_index(source, folder / kIndexName);
    refuse_single_beside_index(source, folder);
  } else if (is_there(folder / kSingleName)) {
    source.files = {(folder / kSingleName).string()};
  } else if (!safetensors.empty()) {
    for (const std::string& name : safetensors) source.files.push_back((folder / name).string());
  } else if (!gguf.empty()) {
    use_gguf(source, folder, gguf);
  } else if (is_there(folder / kTorchIndexName)) {
    use_index(source, folder / kTorchIndexName);
  } else if (is_there(folder / kTorchName)) {
    source.files = {(folder / kTorchName).string()};
  } else if (pickles.size() == 1) {
    source.files = {(folder / pickles.front()).string()};
  } else if (!pickles.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} holds {} files of PyTorch and no {}; name one of them: {}",
                            quote(folder.string(), 300), pickles.size(), kTorchName,
                            quote(join(pickles, ", "), 300)),
                folder.string());
  } else {
    throw Error(ErrorCode::not_found,
                fmt::format("{} holds no weights: no *.safetensors, no *.gguf and no {}",
                            quote(folder.string(), 300), kTorchName),
                folder.string());
  }
  return source;
}

}  // namespace

void refuse_pickle(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  throw Error(
      ErrorCode::unsupported,
      fmt::format("{} is a pickle of PyTorch as it was before 1.6, without an archive around "
                  "it, which is not read; turn it into safetensors with python3 "
                  "scripts/convert_checkpoint.py {} OUT",
                  quote(path, 300), quote(folder.empty() ? "." : folder, 300)),
      path);
}

Json parse_index(std::string_view text, const std::string& index_path) {
  Json index = parse_json(text, index_path);
  JsonFields fields(index, index_path);
  Json map = fields.at("weight_map");
  if (!map.is_object() || map.empty()) {
    refuse_index(index_path, "weight_map is no object from tensors to files");
  }
  return map;
}

std::vector<std::string> files_of_index(const Json& weight_map, const std::string& index_path) {
  std::set<std::string> names;
  for (const auto& [tensor, value] : weight_map.items()) {
    const std::string where = "weight_map: tensor " + quote(tensor, 100);
    if (!value.is_string()) refuse_index(index_path, where + ": its file is no text");
    const auto name = value.get<std::string>();
    const fs::path path(name);
    const bool leads_out = std::find(path.begin(), path.end(), "..") != path.end();
    if (name.empty() || name.find('\0') != std::string::npos || path.is_absolute() || leads_out) {
      refuse_index(index_path,
                   fmt::format("{}: the file {} does not lie in the folder of the index", where,
                               quote(name, 200)));
    }
    names.insert(path.lexically_normal().string());
  }
  if (names.size() > kMaxFiles) {
    refuse_index(index_path, fmt::format("{} files, the limit is {}", names.size(), kMaxFiles));
  }
  const fs::path folder = fs::path(index_path).parent_path();
  std::vector<std::string> files;
  for (const std::string& name : names) files.push_back((folder / name).string());
  return files;
}

namespace {

// Names and ids are welcome where an architecture is wanted; weights are never fetched.
[[noreturn]] void refuse_missing(const std::string& path) {
  refuse(ErrorCode::not_found, quote(path, 300),
         "no such file or folder; weights are read from this machine: give the folder with the "
         "model's safetensors files, or a .gguf file (`hf download ID --local-dir DIR` makes the "
         "folder of a Hugging Face id)");
}

}  // namespace

Source find_source(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the path {} contains a NUL byte", quote(path, 300)));
  }
  check_may_read(path);
  std::error_code error;
  if (fs::is_directory(path, error)) return folder_source(path);
  if (file_kind(path) == FileKind::none && !fs::exists(path, error)) refuse_missing(path);
  const fs::path file(path);
  Source source;
  const fs::path config = file.parent_path() / kConfigName;
  if (is_there(config)) source.config_path = config.string();
  if (file.filename() == kIndexName || file.filename() == kTorchIndexName) {
    use_index(source, file);
  } else {
    source.files = parts_of(file);
  }
  return source;
}

}  // namespace tessera::weights
