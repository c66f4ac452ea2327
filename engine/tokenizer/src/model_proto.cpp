#include "model_proto.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::tokenizer {
namespace {

// Fields of sentencepiece_model.proto.
constexpr std::uint32_t kPieces = 1, kNormalizerSpec = 3, kDenormalizerSpec = 5;  // of ModelProto
constexpr std::uint32_t kPieceText = 1;                                           // of a piece
constexpr std::uint32_t kCharsMap = 2;                                            // of a spec

[[noreturn]] void refuse_file(const std::string& where, std::size_t size) {
  refuse(where, "no SentencePiece model in {} bytes; it was cut short, or is something else", size);
}

/// A message of protocol buffers, a field at a time (protobuf.dev, "Encoding").
class Message {
 public:
  Message(std::string_view bytes, const std::string& where) : rest_(bytes), where_(where) {}

  struct Field {
    std::uint32_t number;
    std::string_view bytes;  ///< of a text or message; empty for numbers
  };

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    field = {static_cast<std::uint32_t>(tag >> 3), {}};
    if (tag > 0xFFFF'FFFF || field.number == 0) refuse_file(where_, size_);
    switch (tag & 7) {
      case 0:
        varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        take(4);
        break;
      default:  // groups, which nothing writes any more
        refuse_file(where_, size_);
    }
    return true;
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    refuse_file(where_, size_);
  }
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) refuse_file(where_, size_);
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest_;
  const std::string& where_;
  const std::size_t size_ = rest_.size();
};

/// The trie that a normalizer looks characters up in: a double array of 32-bit units, and behind it
/// the texts that its leaves point at. Source: darts-clone, Darts::Details::DoubleArrayUnit and
/// DoubleArrayImpl::commonPrefixSearch; SentencePiece, Normalizer::DecodePrecompiledCharsMap.
class CharsMap {
 public:
  CharsMap(std::string_view bytes, const std::string& where) : where_(where) {
    std::uint32_t size = 0;
    if (bytes.size() < sizeof size) refuse_table("it is cut short");
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes.remove_prefix(sizeof size);
    if (size >= bytes.size() || size % sizeof(std::uint32_t) != 0 || size == 0) {
      refuse_table(fmt::format("{} bytes of units in {}", size, bytes.size()));
    }
    units_.resize(size / sizeof(std::uint32_t));
    std::memcpy(units_.data(), bytes.data(), size);
    texts_ = bytes.substr(size);
  }

  /// Whatever a text is, looking it up stays inside.
  void check() const {
    if (texts_.back() != '\0') refuse_table("its last text has no end");
    std::vector<bool> seen(units_.size());
    std::vector<std::size_t> next = {0};
    seen[0] = true;
    while (!next.empty()) {
      const std::size_t at = next.back();
      next.pop_back();
      const std::size_t base = at ^ offset_of(units_[at]);
      // A child for every byte: the 256 units around `base`.
      if ((base | 0xFF) >= units_.size()) {
        refuse_table(fmt::format("unit {} leads to unit {} of {}", at, base, units_.size()));
      }
      if (has_leaf(units_[at]) && value_of(units_[base]) >= texts_.size()) {
        refuse_table(fmt::format("unit {} points at byte {} of {} of its texts", base,
                                 value_of(units_[base]), texts_.size()));
      }
      for (std::size_t byte = 0; byte < 256; ++byte) {
        const std::size_t child = base ^ byte;
        if (seen[child] || label_of(units_[child]) != byte) continue;
        seen[child] = true;
        next.push_back(child);
      }
    }
  }

 private:
  static bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) == 1; }
  static std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFF'FFFF; }
  static std::uint32_t label_of(std::uint32_t unit) { return unit & 0x8000'00FF; }
  static std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit >> 9 & 1) * 8); }

  [[noreturn]] void refuse_table(const std::string& why) const {
    refuse(where_, "the table of its normalizer is damaged: {}; fetch the file again", why);
  }

  const std::string& where_;
  std::vector<std::uint32_t> units_;
  std::string_view texts_;
};

}  // namespace

// A field that is there several times is checked each time, whichever counts in the end.
void check_model_proto(std::string_view bytes, const std::string& where) {
  Message model(bytes, where);
  std::size_t num_pieces = 0;
  for (Message::Field field; model.next(field);) {
    const bool piece = field.number == kPieces;
    if (!piece && field.number != kNormalizerSpec && field.number != kDenormalizerSpec) continue;
    Message inner(field.bytes, where);
    for (Message::Field part; inner.next(part);) {
      if (piece && part.number == kPieceText && part.bytes.find('\0') != std::string_view::npos) {
        refuse(where, "piece {}, {}, holds a zero byte, which no piece may", num_pieces,
               quote(part.bytes));
      }
      if (!piece && part.number == kCharsMap && !part.bytes.empty()) {
        CharsMap(part.bytes, where).check();
      }
    }
    num_pieces += piece ? 1 : 0;
  }
}

}  // namespace tessera::tokenizer
