#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/core/json.h"

namespace tessera::test {

/// The bytes of a number, as little-endian files hold them.
template <typename Number>
std::string raw(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <typename Number>
std::string raw(const std::vector<Number>& values) {
  std::string bytes;
  for (const Number value : values) bytes += raw(value);
  return bytes;
}

/// A safetensors file of this header, whatever it says.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  return raw<std::uint64_t>(header.size()) + std::string(header) + std::string(data);
}

struct StoredTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};

/// A safetensors file of these tensors, in their order.
inline std::string safetensors_file(const std::vector<StoredTensor>& tensors,
                                    const Json& metadata = nullptr) {
  Json header = Json::object();
  if (!metadata.is_null()) header["__metadata__"] = metadata;
  std::string data;
  for (const StoredTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // as the reference implementation does
  return safetensors_file(text, data);
}

/// A GGUF file, piece by piece. Sizes are given fastest first, as the format has them.
class GgufFile {
 public:
  struct Entry {
    std::string name;
    std::vector<std::int64_t> sizes;
    std::uint32_t type;
    std::uint64_t offset;
  };

  static std::string text(std::string_view value) {
    return raw<std::uint64_t>(value.size()) + std::string(value);
  }

  GgufFile& key(std::string_view name, std::uint32_t type, const std::string& value) {
    keys_ += text(name) + raw(type) + value;
    ++num_keys_;
    return *this;
  }
  GgufFile& number(std::string_view name, std::uint32_t value) { return key(name, 4, raw(value)); }
  GgufFile& word(std::string_view name, std::string_view value) {
    return key(name, 8, text(value));
  }

  /// With its data, at the next multiple of 32.
  GgufFile& tensor(const std::string& name, const std::vector<std::int64_t>& sizes,
                   std::uint32_t type, const std::string& data) {
    data_.resize((data_.size() + 31) / 32 * 32);
    entry({name, sizes, type, data_.size()});
    data_ += data;
    return *this;
  }
  /// Without: whatever it says.
  GgufFile& entry(const Entry& entry) {
    entries_ += text(entry.name) + raw(static_cast<std::uint32_t>(entry.sizes.size())) +
                raw(entry.sizes) + raw(entry.type) + raw(entry.offset);
    ++num_tensors_;
    return *this;
  }

  std::string bytes(std::uint32_t version = 3) const {
    std::string file =
        "GGUF" + raw(version) + raw(num_tensors_) + raw(num_keys_) + keys_ + entries_;
    file.resize((file.size() + 31) / 32 * 32);
    return file + data_;
  }

 private:
  std::uint64_t num_keys_ = 0, num_tensors_ = 0;
  std::string keys_, entries_, data_;
};

}  // namespace tessera::test
