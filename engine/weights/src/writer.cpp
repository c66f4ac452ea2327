#include "tessera/weights/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "layout.h"
#include "safetensors.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/output.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace fs = std::filesystem;
namespace detail {

// A tensor and where its bytes go.
struct Placed {
  const TensorSpec* spec = nullptr;
  std::uint64_t size = 0;
  OutputFile* file = nullptr;
  std::uint64_t offset = 0;  ///< of the file
  std::uint64_t written = 0;
};

}  // namespace detail

namespace {

using detail::Placed;

constexpr std::uint64_t kAlignment = 64;  // of the data, for vector loads from a mapped file

[[noreturn]] void refuse_tensor(const TensorSpec& tensor, const std::string& problem) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("tensor {}: {}", quote(tensor.name, 100), problem), tensor.name);
}

std::uint64_t checked_size(const TensorSpec& tensor) {
  // Whatever the reader refuses is not written.
  if (const std::string problem = problem_of_name(tensor.name); !problem.empty())
    refuse_tensor(tensor, problem);
  if (tensor.name == "__metadata__")
    refuse_tensor(tensor, "no tensor can have the name __metadata__");
  if (tensor.shape.size() > kMaxDimensions) {
    refuse_tensor(
        tensor, fmt::format("{} dimensions, the limit is {}", tensor.shape.size(), kMaxDimensions));
  }
  if (!dtype_of_safetensors(to_string(tensor.dtype))) {
    refuse_tensor(tensor, fmt::format("safetensors has no type {}", to_string(tensor.dtype)));
  }
  const auto size = size_bytes(tensor.dtype, tensor.shape);
  if (!size) {
    refuse_tensor(tensor, fmt::format("{} elements of {} have no size in bytes",
                                      describe_shape(tensor.shape), to_string(tensor.dtype)));
  }
  return *size;
}

// Each starts at a multiple of its element where wider elements come first: no byte is lost between
// them, which readers refuse.
void place(std::vector<Placed*>& shard) {
  std::stable_sort(shard.begin(), shard.end(), [](const Placed* a, const Placed* b) {
    return info_of(a->spec->dtype).block_bytes > info_of(b->spec->dtype).block_bytes;
  });
  std::uint64_t offset = 0;
  for (Placed* tensor : shard) {
    tensor->offset = offset;
    offset += tensor->size;
  }
}

// Length and text, padded to kAlignment.
std::string header_of(const std::vector<Placed*>& shard,
                      const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + json_text(metadata) + ",";
  for (const Placed* tensor : shard) {
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},",
                        json_text(tensor->spec->name), to_string(tensor->spec->dtype),
                        fmt::join(tensor->spec->shape, ","), tensor->offset,
                        tensor->offset + tensor->size);
  }
  if (text.size() > 1) text.pop_back();
  text += '}';
  const std::uint64_t unpadded = sizeof(std::uint64_t) + text.size();
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  const std::uint64_t length = text.size();
  if (length > kMaxHeaderBytes) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} tensors and their metadata make a header of {} bytes, the limit is "
                            "{}; set max_shard_bytes to split them",
                            shard.size(), length, kMaxHeaderBytes));
  }
  std::string header(sizeof length, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + text;
}

}  // namespace

struct SafetensorsWriter::Parts {
  std::vector<TensorSpec> specs;
  std::vector<Placed> tensors;  ///< as declared
  std::unordered_map<std::string_view, Placed*> by_name;
  std::vector<std::unique_ptr<OutputFile>> open_files;  ///< the index last: it leads to the others
  std::vector<std::string> paths;                       ///< of the shards
  std::string index_path;                               ///< "" for one file
  bool finished = false;

  void declare();
  std::vector<std::vector<Placed*>> shards(std::uint64_t max_shard_bytes);
  void name_files(const fs::path& path, std::size_t count);
  void write_index(const std::vector<std::vector<Placed*>>& shards);
};

void SafetensorsWriter::Parts::declare() {
  for (const TensorSpec& spec : specs)
    tensors.push_back({.spec = &spec, .size = checked_size(spec)});
  for (Placed& tensor : tensors) {
    if (!by_name.emplace(tensor.spec->name, &tensor).second) {
      refuse_tensor(*tensor.spec, "is declared twice");
    }
  }
}

std::vector<std::vector<Placed*>> SafetensorsWriter::Parts::shards(std::uint64_t max_shard_bytes) {
  std::vector<std::vector<Placed*>> result(1);
  std::uint64_t size = 0;
  for (Placed& tensor : tensors) {
    const bool full = max_shard_bytes > 0 && !result.back().empty() &&
                      (size > max_shard_bytes || tensor.size > max_shard_bytes - size);
    if (full) {
      result.emplace_back();
      size = 0;
    }
    result.back().push_back(&tensor);
    size += tensor.size;
  }
  return result;
}

void SafetensorsWriter::Parts::name_files(const fs::path& path, std::size_t count) {
  const fs::path index_file = path.string() + ".index.json";
  if (count == 1) {
    paths = {path.string()};
    std::error_code ignored;
    if (fs::exists(index_file, ignored)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} exists and would still lead readers to older shards; remove it, "
                              "or write to another folder",
                              quote(index_file.string(), 300)),
                  index_file.string());
    }
    return;
  }
  index_path = index_file.string();
  for (std::size_t i = 1; i <= count; ++i) {
    const std::string name = fmt::format("{}-{:05}-of-{:05}{}", path.stem().string(), i, count,
                                         path.extension().string());
    paths.push_back((path.parent_path() / name).string());
  }
}

void SafetensorsWriter::Parts::write_index(const std::vector<std::vector<Placed*>>& all) {
  std::map<std::string, std::string> map;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const Placed* tensor : all[i]) {
      map[tensor->spec->name] = fs::path(paths[i]).filename().string();
      total += tensor->size;
    }
  }
  auto file = std::make_unique<OutputFile>(index_path);
  file->append(json_text({{"metadata", {{"total_size", total}}}, {"weight_map", map}}, 2) + "\n");
  open_files.push_back(std::move(file));
}

SafetensorsWriter::SafetensorsWriter(const std::string& path,
                                     const std::vector<TensorSpec>& tensors,
                                     const WriterOptions& options)
    : parts_(std::make_unique<Parts>()) {
  for (const auto& [key, value] : options.metadata) {
    if (!is_utf8(key) || !is_utf8(value)) {
      throw Error(ErrorCode::invalid_argument, "metadata " + quote(key) + " is not UTF-8");
    }
  }
  parts_->specs = tensors;
  parts_->declare();
  auto shards = parts_->shards(options.max_shard_bytes);
  parts_->name_files(path, shards.size());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    place(shards[i]);
    const std::string header = header_of(shards[i], options.metadata);
    auto file = std::make_unique<OutputFile>(parts_->paths[i]);
    file->append(header);
    for (Placed* tensor : shards[i]) {
      tensor->file = file.get();
      tensor->offset += header.size();
    }
    parts_->open_files.push_back(std::move(file));
  }
  if (!parts_->index_path.empty()) parts_->write_index(shards);
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::append(std::string_view name, std::span<const std::byte> data) {
  const auto found = parts_->by_name.find(name);
  if (found == parts_->by_name.end() || parts_->finished) {
    throw Error(ErrorCode::internal, "the tensor " + quote(name, 100) + " was not declared");
  }
  Placed& tensor = *found->second;
  if (data.size() > tensor.size - tensor.written) {
    throw Error(ErrorCode::internal,
                fmt::format("tensor {}: {} bytes after {} of {}", quote(name, 100), data.size(),
                            tensor.written, tensor.size));
  }
  tensor.file->write(tensor.offset + tensor.written, data.data(), data.size());
  tensor.written += data.size();
}

void SafetensorsWriter::finish() {
  for (const Placed& tensor : parts_->tensors) {
    if (tensor.written == tensor.size) continue;
    throw Error(ErrorCode::internal,
                fmt::format("tensor {}: {} of {} bytes were written", quote(tensor.spec->name, 100),
                            tensor.written, tensor.size));
  }
  for (const auto& file : parts_->open_files) file->flush();
  for (const auto& file : parts_->open_files) file->commit();
  parts_->open_files.clear();
  parts_->finished = true;
}

std::vector<std::string> SafetensorsWriter::files() const {
  std::vector<std::string> files = parts_->paths;
  if (!parts_->index_path.empty()) files.push_back(parts_->index_path);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace tessera::weights
