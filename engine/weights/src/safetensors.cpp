#include "safetensors.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>

#include "layout.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace {

constexpr std::uint64_t kLengthBytes = 8;

// A tensor, the texts of its fields, and its offsets nest three deep.
constexpr int kMaxHeaderDepth = 4;

// The parts of the header, with the path that errors start with.
class Header {
 public:
  Header(std::span<const std::byte> file, const std::string& path) : file_(file), path_(path) {}

  SafetensorsHeader read() {
    const std::string_view text = header_text();
    const Json json =
        parse_json(text, fmt::format("{}: byte {}: header", quote(path_, 300), kLengthBytes),
                   {.max_bytes = kMaxHeaderBytes, .max_depth = kMaxHeaderDepth});
    if (!json.is_object()) fail_at(path_, kLengthBytes, "the header is no JSON object");
    SafetensorsHeader header;
    for (const auto& [name, entry] : json.items()) {
      if (name == "__metadata__") {
        header.metadata = read_metadata(entry);
      } else {
        header.tensors.push_back(read_tensor(name, entry));
      }
    }
    check_layout(header.tensors, data_begin_, file_.size(), Gaps::refused, path_);
    return header;
  }

 private:
  std::string_view header_text() {
    if (file_.size() < kLengthBytes) {
      fail_at(path_, file_.size(),
              fmt::format("the file ends within the {} bytes that give the header's length",
                          kLengthBytes));
    }
    std::uint64_t length = 0;
    std::memcpy(&length, file_.data(), kLengthBytes);
    if (length > file_.size() - kLengthBytes) {
      fail_at(
          path_, 0,
          fmt::format("a header of {} bytes in a file of {} bytes; it was cut short, or is neither "
                      "safetensors nor GGUF",
                      length, file_.size()));
    }
    if (length > kMaxHeaderBytes) {
      fail_at(path_, 0,
              fmt::format("a header of {} bytes, the limit is {}", length, kMaxHeaderBytes));
    }
    data_begin_ = kLengthBytes + length;
    const char* text = reinterpret_cast<const char*>(file_.data()) + kLengthBytes;
    if (length == 0 || text[0] != '{') {
      fail_at(path_, kLengthBytes, "a header that does not start with '{'");
    }
    return {text, static_cast<std::size_t>(length)};
  }

  Json read_metadata(const Json& entry) const {
    if (!entry.is_object()) fail_at(path_, kLengthBytes, "__metadata__ is no JSON object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) {
        fail_at(path_, kLengthBytes, "__metadata__: " + quote(key) + " is no text");
      }
    }
    return entry;
  }

  [[noreturn]] void refuse(const std::string& name, const std::string& problem,
                           ErrorCode code = ErrorCode::invalid_argument) const {
    fail_at(path_, kLengthBytes, fmt::format("header: tensor {}: {}", quote(name, 100), problem),
            code);
  }

  std::uint64_t whole(const std::string& name, const char* field, const Json& value) const {
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) {
      refuse(name, fmt::format("{} where {} needs whole numbers from 0 to 2^63 - 1",
                               quote(shown_json(value)), field));
    }
    return value.get<std::uint64_t>();
  }

  TensorInfo read_tensor(const std::string& name, const Json& entry) const {
    check_name(name, path_, kLengthBytes);
    if (!entry.is_object()) refuse(name, "no JSON object");
    for (const auto& [key, value] : entry.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        refuse(name, "unknown field " + quote(key));
      }
    }
    TensorInfo tensor;
    tensor.name = name;
    tensor.file = path_;
    tensor.dtype = read_dtype(name, entry);
    tensor.shape = read_shape(name, entry);
    const auto [begin, end] = read_offsets(name, entry);
    const auto size = weights::size_bytes(tensor.dtype, tensor.shape);
    if (!size) {
      refuse(name, fmt::format("{} elements of {} have no size in bytes: too many, or no whole "
                               "bytes",
                               describe_shape(tensor.shape), to_string(tensor.dtype)));
    }
    if (end < begin || end - begin != *size) {
      refuse(name, fmt::format("data_offsets [{}, {}] where {} elements of {} take {} bytes", begin,
                               end, describe_shape(tensor.shape), to_string(tensor.dtype), *size));
    }
    if (end > file_.size() - data_begin_) {
      fail_at(path_, file_.size(),
              fmt::format("the file ends here and tensor {} at byte {}; it was cut short, or its "
                          "header is wrong",
                          quote(name, 100), data_begin_ + end));
    }
    tensor.offset_bytes = data_begin_ + begin;
    tensor.size_bytes = *size;
    return tensor;
  }

  const Json& field(const std::string& name, const Json& entry, const char* key) const {
    const auto found = entry.find(key);
    if (found == entry.end()) refuse(name, fmt::format("no {}", key));
    return *found;
  }

  DType read_dtype(const std::string& name, const Json& entry) const {
    const Json& value = field(name, entry, "dtype");
    if (!value.is_string()) refuse(name, "dtype is no text");
    const auto dtype = dtype_of_safetensors(value.get<std::string>());
    if (!dtype) {
      refuse(name, "the dtype " + quote(value.get<std::string>()) + " is not known",
             ErrorCode::unsupported);
    }
    return *dtype;
  }

  std::vector<std::int64_t> read_shape(const std::string& name, const Json& entry) const {
    const Json& value = field(name, entry, "shape");
    if (!value.is_array() || value.size() > kMaxDimensions) {
      refuse(name, fmt::format("shape is no array of at most {} sizes", kMaxDimensions));
    }
    std::vector<std::int64_t> shape;
    for (const Json& size : value) {
      shape.push_back(static_cast<std::int64_t>(whole(name, "shape", size)));
    }
    return shape;
  }

  std::pair<std::uint64_t, std::uint64_t> read_offsets(const std::string& name,
                                                       const Json& entry) const {
    const Json& value = field(name, entry, "data_offsets");
    if (!value.is_array() || value.size() != 2) refuse(name, "data_offsets is no pair of bytes");
    return {whole(name, "data_offsets", value[0]), whole(name, "data_offsets", value[1])};
  }

  std::span<const std::byte> file_;
  const std::string& path_;
  std::uint64_t data_begin_ = 0;
};

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& path) {
  return Header(file, path).read();
}

}  // namespace tessera::weights
