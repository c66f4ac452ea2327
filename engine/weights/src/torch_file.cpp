#include "torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "layout.h"
#include "pickle.h"
#include "safetensors.h"
#include "tessera/core/text.h"
#include "zip.h"

namespace tessera::weights {
namespace {

using Kind = Pickled::Kind;
constexpr std::string_view kPickleName = "/data.pkl";
constexpr std::uint64_t kLongestPickle = 64 << 20;  // some hundred KB are usual

std::optional<DType> dtype_of(const std::string& storage) {
  constexpr std::pair<const char*, DType> kStorages[] = {
      {"torch.DoubleStorage", DType::f64}, {"torch.FloatStorage", DType::f32},
      {"torch.HalfStorage", DType::f16},   {"torch.BFloat16Storage", DType::bf16},
      {"torch.LongStorage", DType::i64},   {"torch.IntStorage", DType::i32},
      {"torch.ShortStorage", DType::i16},  {"torch.CharStorage", DType::i8},
      {"torch.ByteStorage", DType::u8},    {"torch.BoolStorage", DType::boolean}};
  for (const auto& [name, dtype] : kStorages) {
    if (storage == name) return dtype;
  }
  return std::nullopt;
}

class TorchFile {
 public:
  TorchFile(std::span<const std::byte> file, const std::string& path)
      : file_(file), path_(path), entries_(parse_zip(file, path)) {}

  std::vector<TensorInfo> tensors() const {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [](const auto& entry) {
      return entry.first.ends_with(kPickleName);
    });
    if (found == entries_.end())
      fail_at(path_, 0, "the archive holds no data.pkl, so torch.save did not write it");
    const auto [offset, size] = found->second;
    if (size > kLongestPickle)
      fail_at(path_, offset, fmt::format("a pickle of {} bytes, which no model has", size));
    const Pickle pickle({reinterpret_cast<const char*>(file_.data()) + offset, size}, path_,
                        offset);
    const std::string folder = found->first.substr(0, found->first.size() - kPickleName.size());
    std::vector<TensorInfo> tensors;
    const Pickled& dict = state_of(pickle.root());
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const Pickled &key = *dict.items[i], &value = *dict.items[i + 1];
      if (key.kind != Kind::text || value.kind != Kind::tensor) continue;  // epochs and the like
      check_name(key.text, path_, offset);
      tensors.push_back(tensor_of(key.text, value, folder));
    }
    if (tensors.empty()) fail_at(path_, offset, "the pickle holds no dictionary of tensors");
    std::set<std::string> names;
    for (const TensorInfo& tensor : tensors) {
      if (!names.insert(tensor.name).second) fail(tensor.name, "is there twice");
    }
    std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
      return a.offset_bytes < b.offset_bytes;
    });
    return tensors;
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& problem,
                         ErrorCode code = ErrorCode::invalid_argument) const {
    refuse(code, quote(path_, 300), "tensor {} {}", quote(name, 100), problem);
  }

  // Trainers put the dictionary beside what else they save.
  static const Pickled& state_of(const Pickled& root) {
    for (std::size_t i = 0; root.kind == Kind::dict && i + 1 < root.items.size(); i += 2) {
      const Pickled &key = *root.items[i], &value = *root.items[i + 1];
      const bool names_it = key.text == "state_dict" || key.text == "model" || key.text == "module";
      if (key.kind == Kind::text && names_it && value.kind == Kind::dict) return value;
    }
    return root;
  }

  std::vector<std::int64_t> numbers(const std::string& name, const Pickled& list) const {
    std::vector<std::int64_t> values;
    if (list.kind != Kind::list || list.items.size() > kMaxDimensions)
      fail(name, "has no sizes or strides");
    for (const Pickled* item : list.items) {
      if (item->kind != Kind::number || item->integer < 0)
        fail(name, "has sizes or strides that are no whole numbers");
      values.push_back(item->integer);
    }
    return values;
  }

  // Strides of rows one after another; of a size of 1 any will do.
  void check_rows(const std::string& name, const std::vector<std::int64_t>& shape,
                  const std::vector<std::int64_t>& strides) const {
    std::int64_t expected = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
      if (shape[i] != 1 && strides[i] != expected) {
        fail(name,
             fmt::format("of {} has strides {}: it is a view of another; save it contiguous",
                         describe_shape(shape), describe_shape(strides)),
             ErrorCode::unsupported);
      }
      expected *= shape[i];
    }
  }

  // _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks);
  // a storage is ("storage", type, key, location, elements).
  TensorInfo tensor_of(const std::string& name, const Pickled& value,
                       const std::string& folder) const {
    if (value.items.size() < 4 || value.items[0]->kind != Kind::storage ||
        value.items[0]->items.size() < 3 || value.items[1]->kind != Kind::number ||
        value.items[1]->integer < 0) {
      fail(name, "is no view of a storage");
    }
    const std::vector<const Pickled*>& storage = value.items[0]->items;
    const auto dtype = dtype_of(storage[1]->text);
    if (!dtype)
      fail(name, "has a storage of the type " + quote(storage[1]->text), ErrorCode::unsupported);
    const auto found = entries_.find(folder + "/data/" + storage[2]->text);
    if (found == entries_.end())
      fail(name,
           fmt::format("has the storage {}, which the archive lacks", quote(storage[2]->text)));
    TensorInfo tensor{
        .name = name, .dtype = *dtype, .shape = numbers(name, *value.items[2]), .file = path_};
    const std::vector<std::int64_t> strides = numbers(name, *value.items[3]);
    const auto size = weights::size_bytes(*dtype, tensor.shape);
    if (!size || strides.size() != tensor.shape.size())
      fail(name, fmt::format("of {} has no size in bytes", describe_shape(tensor.shape)));
    check_rows(name, tensor.shape, strides);
    const auto width = static_cast<std::uint64_t>(info_of(*dtype).block_bytes);
    const auto first = static_cast<std::uint64_t>(value.items[1]->integer);
    const ZipEntry& entry = found->second;
    if (first > entry.size_bytes / width || *size > entry.size_bytes - first * width) {
      fail(name, fmt::format("of {} bytes from element {} on leaves its storage of {} bytes", *size,
                             first, entry.size_bytes));
    }
    tensor.offset_bytes = entry.offset_bytes + first * width;
    tensor.size_bytes = *size;
    return tensor;
  }

  std::span<const std::byte> file_;
  const std::string& path_;
  std::map<std::string, ZipEntry> entries_;
};

}  // namespace

std::vector<TensorInfo> parse_torch_file(std::span<const std::byte> file, const std::string& path) {
  return TorchFile(file, path).tensors();
}

}  // namespace tessera::weights
