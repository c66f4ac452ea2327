#include "byte_level.h"

#include <array>

#include "unicode.h"

namespace tessera::tokenizer {
namespace {

constexpr std::size_t kNumCharacters = 0x144;  // one above the last of the alphabet

struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<int, kNumCharacters> bytes;

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                             (byte >= 0xAE && byte <= 0xFF);
      const char32_t character = printable ? byte : next++;
      append_character(characters[byte], character);
      bytes[character] = static_cast<int>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet one;
  return one;
}

}  // namespace

void append_byte_level(std::string& out, std::string_view text) {
  const Alphabet& table = alphabet();
  for (const char byte : text) out += table.characters[static_cast<unsigned char>(byte)];
}

void append_bytes_of(std::string& out, std::string_view token) {
  const Alphabet& table = alphabet();
  const std::size_t before = out.size();
  for (std::size_t at = 0; at < token.size();) {
    const char32_t character = next_character(token, at);
    const int byte = character < kNumCharacters ? table.bytes[character] : -1;
    if (byte < 0) {
      out.resize(before);
      out += token;
      return;
    }
    out += static_cast<char>(byte);
  }
}

}  // namespace tessera::tokenizer
