#include "tessera/weights/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_map>
#include <utility>

#include "bounds.h"
#include "convert.h"
#include "folder.h"
#include "gguf.h"
#include "layout.h"
#include "mapping.h"
#include "safetensors.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "torch_file.h"
#include "zip.h"

namespace tessera::weights {
namespace {

// What is no safetensors file, by its first bytes, so that the message can say what to do.
void check_kind(std::span<const std::byte> file, const std::string& path) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()),
                              std::min<std::size_t>(file.size(), 64));
  const auto starts_with = [&](std::string_view start) { return text.rfind(start, 0) == 0; };
  if (starts_with("\x80\x02")) refuse_pickle(path);
  if (starts_with("version https://git-lfs")) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} holds a pointer of Git LFS, not the weights; run 'git lfs pull' in "
                            "its folder",
                            quote(path, 300)),
                path);
  }
}

}  // namespace

struct Weights::Parts {
  std::vector<std::unique_ptr<Mapping>> mappings;
  std::unordered_map<std::string_view, const TensorInfo*> by_name;
  std::unordered_map<std::string_view, const Mapping*> by_file;
  std::uint64_t num_parts = 1, num_tensors = 0;  // that a GGUF file says; 0: nothing
  std::map<std::string, std::uint64_t> arrays;   // of the GGUF file whose metadata config() has

  // The array of the metadata, read by gguf_texts or gguf_numbers.
  template <typename Value>
  std::optional<std::vector<Value>> array(const std::string& key, const std::string& path,
                                          std::vector<Value> (*read)(std::span<const std::byte>,
                                                                     const std::string&,
                                                                     std::uint64_t)) const {
    const auto found = arrays.find(key);
    if (found == arrays.end()) return std::nullopt;
    const Mapping& mapping = *by_file.at(path);
    mapping.check_unchanged();
    return read(mapping.bytes(), path, found->second);
  }

  const Mapping& mapping_of(const TensorInfo& tensor) const {
    const auto found = by_file.find(tensor.file);
    if (found == by_file.end()) {
      throw Error(ErrorCode::internal, "a tensor of other weights: " + quote(tensor.name, 100));
    }
    return *found->second;
  }
};

namespace {

// The part of a GGUF model that comes after `before` others.
void check_part(const GgufPart& part, std::size_t before, const std::string& path) {
  if (part.index == before) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{} says it is part {} of {}, and stands where part {} belongs; parts are "
                  "found by their names, NAME-00001-of-{:05}.gguf",
                  quote(path, 300), part.index + 1, part.count, before + 1, part.count),
      path);
}

}  // namespace

Weights::Weights() : metadata_(Json::object()), parts_(std::make_unique<Parts>()) {}
Weights::~Weights() = default;

void Weights::add_file(const std::string& path) {
  auto mapping = std::make_unique<Mapping>(path);
  const std::span<const std::byte> file = mapping->bytes();
  std::vector<TensorInfo> tensors;
  if (looks_like_gguf(file)) {
    GgufHeader header = parse_gguf(file, path);
    check_part(header.part, files_.size(), path);
    if (files_.empty()) {  // of several parts the first has the metadata
      is_gguf_ = true;
      config_ = std::move(header.metadata);
      config_path_ = path;
      parts_->arrays = std::move(header.arrays);
      parts_->num_tensors = header.part.num_tensors;
      parts_->num_parts = header.part.count;
    }
    tensors = std::move(header.tensors);
  } else if (looks_like_zip(file)) {
    tensors = parse_torch_file(file, path);
  } else {
    check_kind(file, path);
    SafetensorsHeader header = parse_safetensors(file, path);
    if (metadata_.empty()) metadata_ = std::move(header.metadata);
    tensors = std::move(header.tensors);
  }
  std::move(tensors.begin(), tensors.end(), std::back_inserter(tensors_));
  files_.push_back(path);
  parts_->mappings.push_back(std::move(mapping));
}

void Weights::check_parts() const {
  if (parts_->num_parts != files_.size() && is_gguf_) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} is one of {} parts of a model, and its name leads to {}; parts are "
                    "found by their names, NAME-00001-of-{:05}.gguf",
                    quote(config_path_, 300), parts_->num_parts, files_.size(), parts_->num_parts),
        config_path_);
  }
  if (parts_->num_tensors == 0 || parts_->num_tensors == tensors_.size()) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{}: the model has {} tensors, and its {} files hold {}",
                  quote(config_path_, 300), parts_->num_tensors, files_.size(), tensors_.size()),
      config_path_);
}

void Weights::index_names() {
  for (const auto& mapping : parts_->mappings) {
    parts_->by_file.emplace(mapping->path(), mapping.get());
  }
  for (const TensorInfo& tensor : tensors_) {
    const auto [other, fresh] = parts_->by_name.emplace(tensor.name, &tensor);
    if (fresh) continue;
    fail_at(tensor.file, tensor.offset_bytes,
            fmt::format("tensor {} is also in {}, at byte {}", quote(tensor.name, 100),
                        quote(other->second->file, 300), other->second->offset_bytes));
  }
}

std::shared_ptr<const Weights> Weights::open(const std::string& path) {
  const Source source = find_source(path);
  std::shared_ptr<Weights> weights(new Weights);
  weights->path_ = path;
  if (!source.config_path.empty()) {
    weights->config_ = read_config_file(source.config_path);
    weights->config_path_ = source.config_path;
  }
  for (const std::string& file : source.files) weights->add_file(file);
  weights->check_parts();
  weights->index_names();
  // What the index promises is there; its folder may hold more.
  const std::string folder = std::filesystem::path(source.index_path).parent_path().string();
  for (const auto& [name, file] : source.weight_map.items()) {
    const TensorInfo* tensor = weights->find(name);
    const std::filesystem::path promised(file.get<std::string>());
    const std::string full = (std::filesystem::path(folder) / promised.lexically_normal()).string();
    if (tensor != nullptr && tensor->file == full) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: tensor {} is not in {}, where the index has it{}",
                            quote(source.index_path, 300), quote(name, 100), quote(full, 300),
                            tensor == nullptr ? "" : ", but in " + quote(tensor->file, 300)),
                source.index_path);
  }
  return weights;
}

const TensorInfo* Weights::find(std::string_view name) const {
  const auto found = parts_->by_name.find(name);
  return found == parts_->by_name.end() ? nullptr : found->second;
}

const TensorInfo& Weights::require(std::string_view name) const {
  if (const TensorInfo* found = find(name)) return *found;
  throw Error(ErrorCode::not_found, fmt::format("{} has no tensor {}{}", quote(path_, 300),
                                                quote(name, 100), did_you_mean(name, names())));
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors_) names.push_back(tensor.name);
  return names;
}

std::optional<std::vector<std::string_view>> Weights::metadata_texts(const std::string& key) const {
  return parts_->array(key, config_path_, gguf_texts);
}

std::optional<std::vector<double>> Weights::metadata_numbers(const std::string& key) const {
  return parts_->array(key, config_path_, gguf_numbers);
}

std::span<const std::byte> Weights::bytes(const TensorInfo& tensor) const {
  const Mapping& mapping = parts_->mapping_of(tensor);
  mapping.check_unchanged();
  return mapping.bytes().subspan(static_cast<std::size_t>(tensor.offset_bytes),
                                 static_cast<std::size_t>(tensor.size_bytes));
}

void Weights::release(const TensorInfo& tensor) const {
  parts_->mapping_of(tensor).release(tensor.offset_bytes, tensor.size_bytes);
}

void Weights::prefetch(const TensorInfo& tensor) const {
  parts_->mapping_of(tensor).prefetch(tensor.offset_bytes, tensor.size_bytes);
}

std::uint64_t Weights::size_bytes() const {
  std::uint64_t total = 0;
  for (const TensorInfo& tensor : tensors_) total += tensor.size_bytes;
  return total;
}

namespace {

// Elements [first, first + out.size()) where `first` may lie within a block.
void read_blocks(const DTypeInfo& info, const std::byte* data, std::int64_t first,
                 std::span<float> out) {
  constexpr std::int64_t kLargestBlock = 256;
  const std::int64_t size = info.block_elements;
  while (!out.empty()) {
    const std::byte* block = data + first / size * info.block_bytes;
    const std::int64_t skipped = first % size;
    const auto wanted = static_cast<std::int64_t>(out.size());
    std::int64_t taken = wanted / size * size;
    if (skipped == 0 && taken > 0) {
      convert_blocks(info.dtype, block, taken / size, out.data());
    } else {
      float whole[kLargestBlock];
      convert_blocks(info.dtype, block, 1, whole);
      taken = std::min(size - skipped, wanted);
      std::copy_n(whole + skipped, taken, out.data());
    }
    first += taken;
    out = out.subspan(static_cast<std::size_t>(taken));
  }
}

}  // namespace

void read_f32(const Weights& weights, const TensorInfo& tensor, std::int64_t first,
              std::span<float> out) {
  const DTypeInfo& info = info_of(tensor.dtype);
  const auto wanted = static_cast<std::int64_t>(out.size());
  if (!info.readable) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: tensor {} is stored as {}, which is not read",
                            quote(tensor.file, 300), quote(tensor.name, 100), info.name),
                tensor.name);
  }
  check_elements(tensor.name, first, wanted, tensor.num_elements());
  const std::byte* data = weights.bytes(tensor).data();
  if (info.block_elements == 1) {
    convert_elements(tensor.dtype, data + first * info.block_bytes, wanted, out.data());
  } else {
    read_blocks(info, data, first, out);
  }
}

}  // namespace tessera::weights
