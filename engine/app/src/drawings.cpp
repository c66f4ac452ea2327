#include "drawings.h"

#include <cstdint>
#include <map>

namespace tessera::app {
namespace {

constexpr std::string_view kMiddleDot = "\xC2\xB7";  // the faintest shade of a heat map

// Three bytes of UTF-8, which all other drawing characters have: the code point, or 0.
std::uint32_t three_byte_code(std::string_view text) {
  if (text.size() < 3) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if ((byte(0) & 0xF0) != 0xE0 || (byte(1) & 0xC0) != 0x80 || (byte(2) & 0xC0) != 0x80) return 0;
  return (byte(0) & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
}

char line_of(std::uint32_t code) {
  if (code == 0x2500 || code == 0x2501 || code == 0x2504 || code == 0x2550) return '-';
  if (code == 0x2502 || code == 0x2503 || code == 0x2506 || code == 0x2551) return '|';
  if (code == 0x2571) return '/';
  if (code == 0x2572) return '\\';
  return '+';  // corners and crossings
}

// Of a character that draws, 0 for all others. Ranges are those of the Unicode blocks.
char ascii_of(std::uint32_t code) {
  static const std::map<std::uint32_t, char> kOthers{
      {0x2591, '.'}, {0x2592, ':'}, {0x2593, '%'},                                // shades
      {0x25CF, 'o'}, {0x25A0, 's'}, {0x25B2, '^'}, {0x25C6, 'd'}, {0x25BC, 'v'},  // marks of series
      {0x2715, 'x'}, {0x271A, '+'}, {0x25CB, '0'}, {0x2026, '~'}, {0x2192, '>'}, {0x2190, '<'},
      {0x2713, 'y'}, {0x2717, 'n'}, {0x2264, '<'}, {0x2265, '>'}, {0x2013, '-'}, {0x2014, '-'}};
  if (code >= 0x2500 && code <= 0x257F) return line_of(code);
  if (code >= 0x2581 && code <= 0x2588) return '#';
  if (code >= 0x2589 && code <= 0x258F) return code <= 0x258C ? '#' : '|';  // from 7/8 to 1/8
  if (code > 0x2800 && code <= 0x28FF) return '.';                          // Braille
  const auto other = kOthers.find(code);
  return other == kOthers.end() ? '\0' : other->second;
}

}  // namespace

std::string ascii_drawings(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i, 2) == kMiddleDot) {
      result += '.';
      i += 2;
      continue;
    }
    const std::uint32_t code = three_byte_code(text.substr(i));
    const char replacement = code == 0x2800 ? ' ' : code != 0 ? ascii_of(code) : '\0';
    if (replacement != '\0') {
      result += replacement;
      i += 3;
    } else {
      result += text[i++];
    }
  }
  return result;
}

}  // namespace tessera::app
