#include "gguf.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "layout.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kMaxMetadataKeys = 4096;  // files have some dozens
constexpr std::uint64_t kLongArray = 4096;    // vocabularies are longer, lists of layers are not
constexpr std::uint32_t kGgmlDimensions = 4;  // of ggml
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr int kMaxArrayDepth = 4;  // of arrays in arrays

enum class Type : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  array,
  u64,
  i64,
  f64
};
constexpr std::array<const char*, 13> kTypeNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "text", "array", "u64", "i64", "f64"};
// Bytes that a value takes at least.
constexpr std::array<std::uint64_t, 13> kLeastBytes = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

// Walks through the file; every step is checked against its end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> file, const std::string& path) : file_(file), path_(path) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return file_.size() - at_; }

  [[noreturn]] void fail(std::uint64_t byte, const std::string& problem,
                         ErrorCode code = ErrorCode::invalid_argument) const {
    fail_at(path_, byte, problem, code);
  }

  std::string_view take(std::uint64_t size, const char* what) {
    if (size > left()) {
      fail(at_, fmt::format("{} of {} bytes, and the file ends after {}", what, size, left()));
    }
    const char* text = reinterpret_cast<const char*>(file_.data()) + at_;
    at_ += size;
    return {text, static_cast<std::size_t>(size)};
  }

  template <typename Number>
  Number number(const char* what) {
    Number value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

  std::string_view text(const char* what) {
    const auto size = number<std::uint64_t>(what);
    return take(size, what);
  }

  /// A count of things of which each takes `least_bytes` or more.
  std::uint64_t count(const char* what, std::uint64_t least_bytes) {
    const std::uint64_t begin = at_;
    const auto value = number<std::uint64_t>(what);
    if (value > left() / least_bytes) {
      fail(begin,
           fmt::format("{} {}, which do not fit the {} bytes that follow", value, what, left()));
    }
    return value;
  }

  Type type(const char* what) {
    const std::uint64_t begin = at_;
    const auto value = number<std::uint32_t>(what);
    if (value >= kTypeNames.size()) {
      fail(begin, fmt::format("{} {} is none of the {} of GGUF", what, value, kTypeNames.size()));
    }
    return static_cast<Type>(value);
  }

 private:
  std::span<const std::byte> file_;
  const std::string& path_;
  std::uint64_t at_ = 0;
};

const char* name_of(Type type) { return kTypeNames[static_cast<std::size_t>(type)]; }

Json real_value(Cursor& file, std::uint64_t begin, double value) {
  if (!std::isfinite(value)) file.fail(begin, fmt::format("the metadata hold {}", value));
  return value;
}

Json text_value(Cursor& file) {
  const std::uint64_t begin = file.at();
  const std::string_view text = file.text("a text");
  if (!is_utf8(text)) file.fail(begin, "a text that is not UTF-8: " + quote(text));
  return std::string(text);
}

Json array_value(Cursor& file, int depth);

Json value_of(Cursor& file, Type type, int depth) {
  const std::uint64_t begin = file.at();
  switch (type) {
    case Type::u8:
      return file.number<std::uint8_t>("a number");
    case Type::i8:
      return file.number<std::int8_t>("a number");
    case Type::u16:
      return file.number<std::uint16_t>("a number");
    case Type::i16:
      return file.number<std::int16_t>("a number");
    case Type::u32:
      return file.number<std::uint32_t>("a number");
    case Type::i32:
      return file.number<std::int32_t>("a number");
    case Type::u64:
      return file.number<std::uint64_t>("a number");
    case Type::i64:
      return file.number<std::int64_t>("a number");
    case Type::f32:
      return real_value(file, begin, file.number<float>("a number"));
    case Type::f64:
      return real_value(file, begin, file.number<double>("a number"));
    case Type::boolean: {
      const auto value = file.number<std::uint8_t>("a truth value");
      if (value > 1)
        file.fail(begin, fmt::format("the truth value {}; 0 or 1 belongs there", value));
      return value == 1;
    }
    case Type::text:
      return text_value(file);
    case Type::array:
      return array_value(file, depth + 1);
  }
  file.fail(begin, "a value of no type", ErrorCode::internal);
}

void skip(Cursor& file, Type type, std::uint64_t length, int depth) {
  if (type != Type::text && type != Type::array) {
    file.take(length * kLeastBytes[static_cast<std::size_t>(type)], "an array");
    return;
  }
  for (std::uint64_t i = 0; i < length; ++i) {
    if (type == Type::text) {
      file.text("a text");
    } else {
      array_value(file, depth + 1);
    }
  }
}

Json array_value(Cursor& file, int depth) {
  const std::uint64_t begin = file.at();
  if (depth > kMaxArrayDepth)
    file.fail(begin, fmt::format("arrays nest deeper than {}", kMaxArrayDepth));
  const Type type = file.type("the type of an array");
  const std::uint64_t length =
      file.count("entries of an array", kLeastBytes[static_cast<std::size_t>(type)]);
  if (length > kLongArray) {
    skip(file, type, length, depth);
    return Json{{"type", name_of(type)}, {"length", length}};
  }
  Json array = Json::array();
  for (std::uint64_t i = 0; i < length; ++i) array.push_back(value_of(file, type, depth));
  return array;
}

Json read_metadata(Cursor& file, std::uint64_t num_keys,
                   std::map<std::string, std::uint64_t>& arrays) {
  Json metadata = Json::object();
  for (std::uint64_t i = 0; i < num_keys; ++i) {
    const std::uint64_t begin = file.at();
    const std::string key(file.text("a key"));
    // The name of a key is also cut to size: what is too long is no name.
    if (key.empty() || key.size() > 1024 || !is_utf8(key)) {
      file.fail(begin, "the key " + quote(key) + " is empty, too long or not UTF-8");
    }
    if (metadata.contains(key)) file.fail(begin, "the key " + quote(key) + " is there twice");
    const Type type = file.type("the type of a value");
    if (type == Type::array) arrays[key] = file.at();
    metadata[key] = value_of(file, type, 0);
  }
  return metadata;
}

std::uint64_t alignment_of(const Cursor& file, const Json& metadata) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return kDefaultAlignment;
  const bool fits = found->is_number_unsigned() && found->get<std::uint64_t>() <= 1u << 20 &&
                    std::has_single_bit(found->get<std::uint64_t>());
  if (!fits) {
    file.fail(file.at(), "general.alignment is no power of two up to 2^20");
  }
  return found->get<std::uint64_t>();
}

// Offsets count from the data, whose start is known once all tensors are read.
TensorInfo read_tensor(Cursor& file, const std::string& path) {
  const std::uint64_t begin = file.at();
  TensorInfo tensor;
  tensor.file = path;
  tensor.name = std::string(file.text("the name of a tensor"));
  check_name(tensor.name, path, begin);
  const std::string shown = "tensor " + quote(tensor.name, 100);
  const auto num_dimensions = file.number<std::uint32_t>("the number of dimensions");
  if (num_dimensions > kGgmlDimensions) {
    file.fail(begin, fmt::format("{} has {} dimensions, ggml has {}", shown, num_dimensions,
                                 kGgmlDimensions));
  }
  tensor.shape.resize(num_dimensions);
  for (std::uint32_t i = 0; i < num_dimensions; ++i) {  // fastest first
    tensor.shape[num_dimensions - 1 - i] = file.number<std::int64_t>("a dimension");
  }
  const auto type = file.number<std::uint32_t>("the type of a tensor");
  const auto dtype = dtype_of_ggml(type);
  if (!dtype) {
    file.fail(begin, fmt::format("{} has the type {}, which ggml does not have", shown, type),
              ErrorCode::unsupported);
  }
  tensor.dtype = *dtype;
  tensor.offset_bytes = file.number<std::uint64_t>("the offset of a tensor");
  const auto size = weights::size_bytes(tensor.dtype, tensor.shape);
  if (!size) {
    file.fail(
        begin,
        fmt::format(
            "{}: {} elements of {} have no size in bytes: too many, negative, or rows that are "
            "no whole blocks of {}",
            shown, describe_shape(tensor.shape), to_string(tensor.dtype),
            info_of(tensor.dtype).block_elements));
  }
  tensor.size_bytes = *size;
  return tensor;
}

void place(std::vector<TensorInfo>& tensors, const Cursor& file, std::uint64_t alignment,
           std::uint64_t end, const std::string& path) {
  const std::uint64_t data_begin = (file.at() + alignment - 1) / alignment * alignment;
  for (TensorInfo& tensor : tensors) {
    const std::string shown = "tensor " + quote(tensor.name, 100);
    if (tensor.offset_bytes % alignment != 0) {
      file.fail(file.at(),
                fmt::format("{} starts {} bytes into the data, which is no multiple of {}", shown,
                            tensor.offset_bytes, alignment));
    }
    if (data_begin > end || tensor.offset_bytes > end - data_begin) {
      file.fail(
          end,
          fmt::format(
              "the file ends here and {} starts {} bytes into the data, at byte {}; it was cut "
              "short, or its header is wrong",
              shown, tensor.offset_bytes, data_begin));
    }
    tensor.offset_bytes += data_begin;
  }
  check_layout(tensors, data_begin, end, Gaps::allowed, path);
}

// Written by llama-gguf-split; a model in one file may say that it is one of one.
GgufPart part_of(const Cursor& file, const Json& metadata) {
  const auto number = [&](const char* key, std::uint64_t otherwise) {
    const auto found = metadata.find(key);
    if (found == metadata.end()) return otherwise;
    if (!found->is_number_unsigned() && !(found->is_number_integer() && *found >= 0))
      file.fail(file.at(), fmt::format("{} is no whole number from 0 on", key));
    return found->get<std::uint64_t>();
  };
  GgufPart part;
  part.index = number("split.no", 0);
  part.count = number("split.count", 1);
  part.num_tensors = number("split.tensors.count", 0);
  if (part.count == 0) part.count = 1;
  return part;
}

// The entries of an array, each read by `read(cursor, type)`.
template <typename Value, typename Read>
std::vector<Value> entries_of(std::span<const std::byte> bytes, const std::string& path,
                              std::uint64_t begin, const Read& read) {
  Cursor file(bytes, path);
  file.take(begin, "what comes before an array");
  const Type type = file.type("the type of an array");
  const std::uint64_t length =
      file.count("entries of an array", kLeastBytes[static_cast<std::size_t>(type)]);
  std::vector<Value> entries;
  entries.reserve(static_cast<std::size_t>(length));
  for (std::uint64_t i = 0; i < length; ++i) entries.push_back(read(file, type));
  return entries;
}

}  // namespace

std::vector<std::string_view> gguf_texts(std::span<const std::byte> file, const std::string& path,
                                         std::uint64_t begin) {
  return entries_of<std::string_view>(file, path, begin, [](Cursor& at, Type type) {
    const std::uint64_t start = at.at();
    if (type != Type::text) {
      at.fail(start, fmt::format("an array of {} where texts belong", name_of(type)));
    }
    const std::string_view text = at.text("a text");
    if (!is_utf8(text)) at.fail(start, "a text that is not UTF-8: " + quote(text));
    return text;
  });
}

std::vector<double> gguf_numbers(std::span<const std::byte> file, const std::string& path,
                                 std::uint64_t begin) {
  return entries_of<double>(file, path, begin, [](Cursor& at, Type type) {
    const std::uint64_t start = at.at();
    if (type == Type::text || type == Type::array || type == Type::boolean) {
      at.fail(start, fmt::format("an array of {} where numbers belong", name_of(type)));
    }
    return value_of(at, type, 0).get<double>();
  });
}

bool looks_like_gguf(std::span<const std::byte> file) {
  return file.size() >= kMagic.size() &&
         std::memcmp(file.data(), kMagic.data(), kMagic.size()) == 0;
}

GgufHeader parse_gguf(std::span<const std::byte> bytes, const std::string& path) {
  Cursor file(bytes, path);
  if (file.take(kMagic.size(), "the word GGUF") != kMagic)
    file.fail(0, "no GGUF file: it does not start with GGUF");
  const auto version = file.number<std::uint32_t>("the version");
  if (version != 2 && version != 3) {
    const bool swapped = version == 0x02000000u || version == 0x03000000u;
    file.fail(kMagic.size(),
              swapped ? std::string("a big-endian GGUF file; only little-endian ones are read")
                      : fmt::format("version {} of GGUF; 2 and 3 are read", version),
              ErrorCode::unsupported);
  }
  const std::uint64_t num_tensors = file.count("tensors", 24);  // lengths, type and offset alone
  const std::uint64_t begin = file.at();
  const std::uint64_t num_keys = file.count("keys", 13);
  if (num_keys > kMaxMetadataKeys)
    file.fail(begin, fmt::format("{} keys, the limit is {}", num_keys, kMaxMetadataKeys));
  GgufHeader header;
  header.metadata = read_metadata(file, num_keys, header.arrays);
  header.part = part_of(file, header.metadata);
  const std::uint64_t alignment = alignment_of(file, header.metadata);
  for (std::uint64_t i = 0; i < num_tensors; ++i) header.tensors.push_back(read_tensor(file, path));
  place(header.tensors, file, alignment, bytes.size(), path);
  return header;
}

}  // namespace tessera::weights
