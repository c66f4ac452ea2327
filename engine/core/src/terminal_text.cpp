#include "tessera/core/terminal_text.h"

#include <unistd.h>

#include <algorithm>

#include "tessera/core/text.h"

namespace tessera {
namespace {

constexpr std::string_view kStyles[] = {"\x1b[0m",  "\x1b[1m",  "\x1b[2m",  "\x1b[31m", "\x1b[32m",
                                        "\x1b[33m", "\x1b[34m", "\x1b[35m", "\x1b[36m", "\x1b[37m"};

bool is_c0(unsigned char byte) {
  return (byte < 0x20 && byte != '\n' && byte != '\t' && byte != '\r') || byte == 0x7F;
}

// The second byte of a control character of C1 in UTF-8. Alone such a byte is no text, and
// terminals that are not in UTF-8 obey it.
bool is_c1(unsigned char byte, unsigned char previous) {
  return byte >= 0x80 && byte < 0xA0 && (previous < 0x80 || previous == 0xC2);
}

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

bool write_all(std::FILE* stream, std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stream) == text.size();
}

}  // namespace

void disarm(std::string& text, unsigned char& previous) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_c0(byte) || is_c1(byte, previous)) c = '?';
    previous = byte;
  }
}

std::string printable_with_styles(std::string_view text) {
  std::string result;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t escape = std::min(text.find('\x1b', start), text.size());
    result += printable(text.substr(start, escape - start));
    if (escape == text.size()) break;
    const auto* const style = std::find_if(
        std::begin(kStyles), std::end(kStyles),
        [&](std::string_view known) { return text.substr(escape).starts_with(known); });
    const bool known = style != std::end(kStyles);
    result += known ? *style : "?";
    start = escape + (known ? style->size() : 1);
  }
  return result;
}

bool write_text(std::FILE* stream, std::string_view text) {
  return is_terminal(stream) ? write_all(stream, printable(text)) : write_all(stream, text);
}

bool write_styled(std::FILE* stream, std::string_view text) {
  return is_terminal(stream) ? write_all(stream, printable_with_styles(text))
                             : write_all(stream, text);
}

bool erase_line(std::FILE* stream) { return write_all(stream, "\r\x1b[K"); }

}  // namespace tessera
